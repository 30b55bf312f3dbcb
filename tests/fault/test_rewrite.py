# SPDX-License-Identifier: Apache-2.0
"""Kernels as persistent threads: whose programs have them, from when on, and what is told of it."""
import subprocess
import threading
import unittest

from fault import Daemon, FaultTest, Script, program, wait_for

TPCS = 4
ALL = (1 << TPCS) - 1
MANY, FEW = 4096, 4  # blocks: more than fit at once, and not


def daemon(config="", *options):
    return Daemon("--tpcs", str(TPCS), *options, config=config)


class Rewrite(FaultTest):
    def program(self, d, tenant):
        """One that has run a kernel, of more blocks than fit and of few."""
        p = Script(d, "where", tenant)
        for blocks in (FEW, MANY):
            status, tpcs = p.say(f"k {blocks}")
            self.assertEqual(status, 0)
        self.assertEqual(tpcs, ALL)
        return p

    def told(self, d, tenant, key, n):
        """The tenant's latest session says n of key in the end."""
        def says():
            return sorted(d.sessions(tenant), key=lambda s: s["session"])[-1][key] == n
        wait_for(says, 10, f"{key} of {tenant} is {n}")

    def test_by_tenant(self):
        config = "[tenant a]\n[tenant b]\nkernel.rewrite = share\n[tenant c]\nkernel.rewrite = off\n"
        with daemon(config) as d:
            for tenant in "abc":
                self.program(d, tenant)
                self.told(d, tenant, "launches.rewritten", int(tenant == "b"))
            self.assertEqual(d.ctl("get", "a", "kernel.rewrite")["keys"]["kernel.rewrite"], "default")

    def test_default(self):
        with daemon("[tenant a]\n[tenant b]\nkernel.rewrite = off\n",
                    "--kernel.rewrite", "always") as d:
            self.program(d, "a")
            self.told(d, "a", "launches.rewritten", 2)
            self.told(d, "a", "kernels", 2)  # one of them waits for its whole grid
            self.told(d, "a", "kernels.rewritten", 1)
            self.program(d, "b")
            self.told(d, "b", "launches.rewritten", 0)

    def test_changed_live(self):
        """Programs that run keep what they began with."""
        with daemon("[tenant a]\n") as d:
            first = self.program(d, "a")
            d.ctl("set", "a", "kernel.rewrite=share")
            self.assertEqual(first.say(f"k {MANY}"), (0, ALL))
            self.told(d, "a", "launches.rewritten", 0)
            self.program(d, "a")
            self.told(d, "a", "launches.rewritten", 1)
            with self.assertRaises(AssertionError) as e:
                d.ctl("set", "a", "kernel.rewrite=sometimes")
            self.assertIn("is none of off, yield, share, auto, always", str(e.exception))

    def test_graphs_and_others(self):
        """Graphs have it too; clusters and cooperative launches are what they were."""
        with daemon("[tenant a]\nkernel.rewrite = always\n") as d:
            p = Script(d, "where", "a")
            for _ in range(3):
                self.assertEqual(p.say(f"g {MANY}"), (0, ALL))
            self.assertEqual(p.say("c 2")[0], 0)
            self.assertEqual(p.say("o 4")[0], 0)
            self.told(d, "a", "launches.rewritten", 6)


    def limits(self, d):
        return {s["tenant"]: s["kernel.limit"] for s in d.sessions()}

    def test_blocks_side_by_side(self):
        """Kernels of two of class shared leave room for each other, while both have some."""
        config = "".join(f"[tenant {t}]\nkernel.rewrite = share\ncompute.class = {c}\n"
                         for t, c in (("a", "shared"), ("b", "shared"), ("c", "isolated")))
        with daemon("[daemon]\nkernel.policy = sim\n" + config) as d:
            those = {t: self.program(d, t) for t in "abc"}
            for n, running in enumerate(("ab", "abc", "c", "ab")):
                done = threading.Event()
                threads = [threading.Thread(target=self.keep_running, args=(those[t], done))
                           for t in running]
                for t in threads:
                    t.start()
                try:
                    want = {t: t in "ab" and "a" in running for t in "abc"}
                    wait_for(lambda: {t: 0 < v < 1000 for t, v in self.limits(d).items()} == want,
                             10, f"{n}: limits are {self.limits(d)}, not {want}")
                finally:
                    done.set()
                    for t in threads:
                        t.join()
            for t in "abc":
                self.assertEqual(those[t].say(f"k {MANY}"), (0, ALL))
            those["b"].process.stdin.close()
            self.keep_running(those["a"], wanted=lambda: self.limits(d) == {"a": 0, "c": 0})

    def test_blocks_of_a_kernel_that_runs(self):
        """One that began alone leaves room for another's kernels, and takes all of it again."""
        config = "".join(f"[tenant {t}]\nkernel.rewrite = share\ncompute.class = shared\n"
                         for t in "ab")
        alone = 2 * TPCS * 32  # an SM has room for 32
        with daemon("[daemon]\nkernel.policy = sim\n" + config) as d:
            b, p = self.program(d, "b"), Script(d, "resident", "a")
            self.assertEqual(p.say("r 1000000")[0], 0)
            # b has had kernels a moment ago.
            wait_for(lambda: p.say("n 500")[1] == alone, 20, "all are there")
            done = threading.Event()
            t = threading.Thread(target=self.keep_running, args=(b, done))
            t.start()
            try:
                wait_for(lambda: 0 < p.say("n 500")[1] < alone, 20, "there are fewer blocks")
            finally:
                done.set()
                t.join()
            wait_for(lambda: p.say("n 500")[1] == alone, 20, "all are there again")
            self.assertEqual(p.say("e"), (0, 0))

    def keep_running(self, p, done=None, wanted=None):
        for _ in range(2000):
            if (done and done.is_set()) or (wanted and wanted()):
                return
            self.assertEqual(p.say(f"k {MANY}"), (0, ALL))
        self.fail("not so after many kernels")

    def test_auto(self):
        """The first launches are timed, half of them as they are."""
        with daemon("[tenant a]\nkernel.rewrite = auto\n") as d:
            p = Script(d, "where", "a")
            for _ in range(8):
                self.assertEqual(p.say(f"k {MANY}"), (0, ALL))
            self.told(d, "a", "launches.rewritten", 4)

    def test_kernels_are_listed(self):
        with daemon("[tenant a]\nkernel.rewrite = share\n") as d:
            p = self.program(d, "a")
            self.assertEqual(p.say("o 4")[0], 0)

            def listed():
                return {k["name"]: k["why"] for k in d.ctl("info", "a")["kernels"]}
            wait_for(lambda: len(listed()) == 2, 10, "two kernels are listed")
            self.assertEqual(listed(), {"_Z6kernelPj": "", "_Z4gridPj": "waits for the whole grid"})
            r = subprocess.run([program("weftctl"), "--control", d.path("control"), "info", "a"],
                               capture_output=True, text=True, check=True)
            self.assertRegex(r.stdout, r"(?m)^ *1 +_Z4gridPj +waits for the whole grid *$")

    def test_loops_that_do_not_stop_are_listed(self):
        with daemon("[tenant a]\nkernel.rewrite = yield\n[tenant b]\nkernel.rewrite = auto\n") as d:
            for tenant, why in (("a", "may wait for other threads in a loop"), ("b", "")):
                p = Script(d, "resident", tenant)
                self.assertEqual(p.say("r 8")[0], 0)
                self.assertEqual(p.say("e"), (0, 0))

                def listed():
                    return [(k["why"], k["no_yield"]) for k in d.ctl("info", tenant)["kernels"]]
                wait_for(listed, 10, "its kernel is listed")
                self.assertEqual(listed(), [("", why)])

    def test_policy_unknown(self):
        with self.assertRaises(AssertionError) as e:
            with daemon("[daemon]\nkernel.policy = sum\n[tenant a]\n"):
                pass
        self.assertIn("is none of all, sim", str(e.exception))


if __name__ == "__main__":
    unittest.main()
