#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Work of programs on device memory, while it goes out and comes back all the time."""
import unittest

import fault
from test_moving import Mover

# Each goes on until memory has left so often; `long` has kernels in flight for a second, under which
# most of it does.
UNTIL = {"graph": 5, "grid": 5, "long": 10, "vmm": 10, "host": 10, "copies": 10, "unified": 10}


class Pressure(fault.FaultTest):
    def events(self, d):
        return d.ctl("get", "local", "memory.events")["keys"]["memory.events"]

    def part(self, d, name, times=None):
        times = times or UNTIL[name]
        last = self.events(d)["reclaim"] + times
        p = fault.Script(d, "pressed", "local", name).process
        fault.wait_for(lambda: self.events(d)["reclaim"] >= last or p.poll() is not None, 60,
                       f"{name}: memory has left {times} times")
        text, _ = p.communicate(timeout=fault.patient(60))
        self.assertEqual(p.returncode, 0, text)

    def all_with(self, policy):
        with fault.Daemon("--memory", "128M", "--swap", "1G", "--piece", "256K",
                          "--placement", policy) as d:
            mover = Mover(d, "local", fault.SEED, pause=0.02)
            mover.start()
            for name in UNTIL:
                with self.subTest(part=name, policy=policy):
                    self.part(d, name)
            mover.end()
            self.assertGreater(self.events(d)["frozen"], 0)

    def test_random(self):
        self.all_with("random")

    def test_lru(self):
        self.all_with("lru")


if __name__ == "__main__":
    unittest.main()
