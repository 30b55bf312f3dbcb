#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weftctl info names what a program asked for and was refused, and nothing else."""
import os
import re
import unittest
import unittest.mock

from fault import Daemon, FaultTest, patient, wait_for


LIMITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "hostd", "doc",
                      "limits.md")


def refused(d, *what):
    return {(f["kind"], f["what"]): f["count"] for f in d.ctl("info", *what)["refused"]}


class Refused(FaultTest):
    def test_named_and_counted(self):
        with Daemon(config="[tenant a]\n[tenant b]\n") as d:
            for tenant in ("a", "b"):
                p = d.run("refused", tenant=tenant)
                p.communicate(timeout=patient(20))
                self.assertEqual(p.returncode, 0)
            q = d.run("steady", 0.1, tenant="b")
            q.communicate(timeout=patient(20))
            self.assertEqual(q.returncode, 0)
            wait_for(lambda: not d.sessions(), 2, "all have ended")
            one = refused(d, "a")
            # told of whenever the count has doubled
            self.assertEqual(one.pop(("function", "cuDeviceGetNvSciSyncAttributes")), 512)
            self.assertEqual(one, {
                ("function", "cuCheckpointProcessLock"): 1,
                ("table", "abababab-abab-abab-abab-abababababab"): 1,
                ("feature", "cuCtxCreate_v4: graphics"): 1,
                ("attribute", "cuPointerGetAttribute: attribute 99"): 1,
            })
            both = refused(d)
            self.assertEqual(both[("function", "cuDeviceGetNvSciSyncAttributes")], 1024)
            self.assertEqual(both[("function", "cuCheckpointProcessLock")], 2)
            sessions = {s["tenant"]: s["session"] for s in d.ctl("info")["ended"]}
            self.assertEqual(refused(d, str(sessions["b"])), {}, "steady lacks nothing")

    def test_known_limits(self):
        """hostd/doc/limits.md has each call that is not there, and what it answers."""
        with open(LIMITS, encoding="utf-8") as f:
            want = dict(re.findall(r"^\|[^|]*\| `(\w+)`[^|]*\| (\w+) \|$", f.read(), re.M))
        with Daemon() as d, unittest.mock.patch.dict(os.environ,
                                                     CUDA_INJECTION64_PATH="/nonexistent"):
            p = d.run("limits")
            out, _ = p.communicate(timeout=patient(20))
            self.assertEqual(p.returncode, 0, out)
            got = dict(re.findall(r"^(cu\w+) (\w+)$", out, re.M))
            self.assertEqual(got, want)
            self.assertIn("CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS 0", out)
            self.assertEqual(out.count("CUDA_INJECTION64_PATH is ignored"), 1, out)

    def test_variable_in_managed_memory(self):
        """NVIDIA's runtime goes on without its address: whoever runs it is told why it dies."""
        with Daemon(config="[tenant a]\nhost.max = 0\n[tenant b]\n") as d:
            p = d.run("variable", tenant="a")
            out, _ = p.communicate(timeout=patient(20))
            self.assertNotEqual(p.returncode, 0)
            self.assertNotIn("right", out)
            self.assertIn("counter", out)
            self.assertIn("__managed__", out)
            q = d.run("variable", tenant="b")
            self.assertEqual(q.communicate(timeout=patient(20))[0], "right\n")
            wait_for(lambda: not d.sessions(), 2, "all have ended")
            self.assertEqual(refused(d, "a")[("feature", "cuLibraryGetManaged: __managed__")], 1)

    def test_code_for_another_gpu(self):
        with Daemon() as d:
            p = d.run("no_image-machine")
            out, _ = p.communicate(timeout=patient(60))
            self.assertEqual(p.returncode, 0, out)
            self.assertEqual(out.count("the software GPU runs PTX"), 1, out)
            wait_for(lambda: not d.sessions(), 2, "all have ended")
            self.assertIn(("device", "code of sm_90 only, kernel _Z3addPi"), refused(d))


if __name__ == "__main__":
    unittest.main()
