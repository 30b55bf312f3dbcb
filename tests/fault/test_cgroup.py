#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cgroup for each tenant: in one of the kernel's where there is one that we may write, and
in a tree of files that stands in for one, which shows what is written."""
import os
import shutil
import tempfile
import unittest

from fault import Daemon, FaultTest, until_running, wait_for

MIB = 1 << 20
WORKER = 256 * MIB  # what child/cgroup.c gives each session besides


def read(*path):
    with open(os.path.join(*path), encoding="ascii") as f:
        return f.read().strip()


def kernels():
    """A directory in which the kernel lets us make cgroups, or None."""
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        for line in f:
            if " - cgroup2 " in line:
                top = os.path.join(line.split()[4], f"weft-test-{os.getpid()}")
                try:
                    os.mkdir(top)
                    return top
                except OSError:
                    continue
    return None


def config(top, more=""):
    return f"[daemon]\ncgroup = {top}\n{more}"


class StandIn(FaultTest):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="weft-cgroup-")
        self.addCleanup(shutil.rmtree, self.top)
        for name in (".", "weftd", "tenant-vm1", "tenant-local"):
            os.makedirs(os.path.join(self.top, name), exist_ok=True)
            for file in ("cgroup.procs", "cgroup.subtree_control", "memory.max", "pids.max"):
                with open(os.path.join(self.top, name, file), "w", encoding="ascii"):
                    pass

    def vm1(self, file):
        return read(self.top, "tenant-vm1", file)

    def test_what_is_written(self):
        with Daemon("--memory", "64M", "--swap", "32M", config=config(
                self.top, "[tenant vm1]\nhost.max = 10M\nworker.memory.max = 20M\n"
                "memory.swap.max = 8M\nmemory.max = 70M\nsessions.max = 2\nlanes.max = 50\n")) as d:
            self.assertEqual(read(self.top, "weftd", "cgroup.procs"), str(d.process.pid))
            self.assertEqual(read(self.top, "cgroup.subtree_control"), "+pids")
            self.assertIn("bounds memory and threads", d.log())
            wait_for(lambda: int(self.vm1("cgroup.procs") or 0) in d.children("weft-listener"), 5,
                     "its listener is there")
            # Limits, the software device's memory, and what each worker takes besides.
            most = (10 + 20 + 8 + 64) * MIB + 2 * WORKER
            wait_for(lambda: self.vm1("memory.max") == str(most), 5, "the device is known")
            wait_for(lambda: self.vm1("pids.max"), 5, "the next file is written, too")
            threads = int(self.vm1("pids.max")) - 50
            self.assertEqual(threads % 2, 0)
            p = d.run("steady", "60", tenant="vm1")
            until_running(p)
            mine = str(d.sessions("vm1")[0]["worker.pid"])
            wait_for(lambda: self.vm1("cgroup.procs") == mine, 5, "the worker is there")
            d.ctl("set", "vm1", "host.max=11M", "lanes.max=51")
            self.assertEqual(self.vm1("memory.max"), str(most + MIB))
            self.assertEqual(self.vm1("pids.max"), str(threads + 51))
            d.ctl("set", "vm1", "sessions.max=3")
            self.assertEqual(self.vm1("memory.max"), str(most + MIB + WORKER))

    def test_without_limits(self):
        """All tenants together are bounded all the same."""
        with Daemon("--memory", "64M", config=config(
                self.top, "host.max = 1G\n[tenant vm1]\nhost.max = max\nsessions.max = 1\n")):
            wait_for(lambda: self.vm1("memory.max") == str(1024 * MIB + WORKER + 64 * MIB), 5,
                     "what all may have")


class Kernels(FaultTest):
    def setUp(self):
        self.top = kernels()
        if not self.top:
            self.skipTest("no cgroup of version 2 that this test may write")
        self.addCleanup(self.remove)

    def remove(self):
        for at, _, _ in os.walk(self.top, topdown=False):
            os.rmdir(at)

    def cgroup_of(self, pid):
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
            path = next(line[3:].strip() for line in f if line.startswith("0::"))
        return path[path.index("weft-test-"):].split("/", 1)[1]

    def test_who_is_where(self):
        os.mkdir(os.path.join(self.top, "tenant-gone"))
        with Daemon("--pool", "2", config=config(self.top, "[tenant vm1]\n")) as d:
            self.assertFalse(os.path.exists(os.path.join(self.top, "tenant-gone")))
            p = d.run("steady", "60", tenant="vm1")
            until_running(p)
            mine = d.sessions("vm1")[0]["worker.pid"]
            wait_for(lambda: self.cgroup_of(mine) == "tenant-vm1", 5, "it is there")
            self.assertEqual(self.cgroup_of(d.process.pid), "weftd")
            for pid in d.children("weft-worker"):
                self.assertEqual(self.cgroup_of(pid), "tenant-vm1" if pid == mine else "weftd")
            wait_for(lambda: sorted(map(self.cgroup_of, d.children("weft-listener"))) ==
                     ["tenant-local", "tenant-vm1"], 5, "the listeners are there")
            d.ctl("remove", "vm1")
            self.assertFalse(os.path.exists(os.path.join(self.top, "tenant-vm1")))
            self.assert_right(d.run("steady", "1"))
        self.assertEqual(os.listdir(self.top).count("tenant-local"), 0)

    def test_limits(self):
        with Daemon(config=config(self.top, "[tenant vm1]\nlanes.max = 50\n")) as d:
            if "bounds memory and threads" not in d.log():
                self.skipTest("the kernel's cgroups here have no memory and pids controllers")
            self.assertGreater(int(read(self.top, "tenant-vm1", "pids.max")), 50)
            self.assert_right(d.run("steady", "1", tenant="vm1"))


class Without(FaultTest):
    def works(self, line, said):
        with Daemon(config=f"[daemon]\n{line}\n") as d:
            self.assert_right(d.run("steady", "1"))
            lines = [line for line in d.log().splitlines() if "cgroup" in line]
            self.assertEqual(len(lines), bool(said), lines)
            self.assertTrue(all(said in line and ": info: " in line for line in lines), lines)

    def test_none_is_ours(self):
        self.works("", "no cgroup of version 2 is ours")

    def test_none_is_wanted(self):
        self.works("cgroup = none", "")

    def test_it_is_none(self):
        with tempfile.TemporaryDirectory() as path:
            self.works(f"cgroup = {path}", "is not used: it is no cgroup of version 2")
            self.works(f"cgroup = {path}/nothing", "is not used: No such file")


if __name__ == "__main__":
    unittest.main(verbosity=2)
