#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels in flight for a second, while memory goes out and comes back, stop for that. How soon is
counted, so this runs alone."""
import unittest

import fault
import test_pressure
from test_moving import Mover


class Stops(fault.FaultTest):
    events, part = test_pressure.Pressure.events, test_pressure.Pressure.part

    def test_kernels_that_stop(self):
        """Kernels in flight for a second are in nobody's way: they stop at points of their own."""
        with fault.Daemon("--memory", "128M", "--swap", "1G", "--piece", "256K",
                          "--placement", "random", "--kernel.rewrite", "always-yield") as d:
            mover = Mover(d, "local", fault.SEED, pause=0.02)
            mover.start()
            # A machine that does something else as well stops them late, for a while.
            for _ in range(4):
                before = self.events(d)
                self.part(d, "long", 30)
                told = {k: n - before[k] for k, n in self.events(d).items()}
                late = told["busy"] + told["frozen"]
                if late < told["reclaim"] / 3:
                    break
            mover.end()
            self.assertLess(late, told["reclaim"] / 3, told)


if __name__ == "__main__":
    unittest.main()
