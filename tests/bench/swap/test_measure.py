#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Results of measure.py from samples, and a run of it on a device that is too small.

    WEFT_BUILD=build test_measure.py
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import measure
from host import Failure, Program

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ["WEFT_BUILD"]
MIB = 1 << 20


def run(*args):
    """(result, exit status, what it said)"""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.json")
        r = subprocess.run([sys.executable, "-B", os.path.join(HERE, "measure.py"), *args,
                            "--build", BUILD, "--swap", "256M", "-o", out], text=True,
                           capture_output=True, check=False, timeout=100)
        if not os.path.exists(out):
            return None, r.returncode, r.stderr
        with open(out, encoding="ascii") as f:
            return json.load(f), r.returncode, r.stderr


class Sums(unittest.TestCase):
    def test_stood_still(self):
        took = [(1000, 100), (2000, 50), (3000, 10)]
        gaps = [(900, 150), (1090, 30), (2500, 100), (2990, 500)]
        self.assertEqual(measure.stood_still(took, gaps, 10),
                         [(100, 140 + 20), (50, 0), (10, 490)])

    def test_summary(self):
        """Blocks of 50 MiB count twice."""
        s = measure.summary(50 * MIB, [(i * 1000000, 0) for i in range(1, 101)])
        self.assertEqual(s["needs"], {"p50": 101, "p99": 200, "most": 200})
        self.assertEqual(s["gives"]["most"], 0)


class Programs(unittest.TestCase):
    def test_lines(self):
        with Program(["/bin/sh", "-c", "echo ready 7 x; read l; echo gap 1 2; echo PASS me"]) as p:
            self.assertEqual(p.until("ready"), ["7", "x"])
            self.assertFalse(p.said("PASS"))
            p.go()
            p.until("PASS")
            self.assertEqual(p.all_of("gap"), [(1, 2)])

    def test_failures(self):
        for script, seconds in (("echo FAIL me: why", 10), ("exit 0", 10), ("sleep 60", 0.1)):
            with Program(["/bin/sh", "-c", script], seconds=seconds) as p:
                with self.assertRaises(Failure):
                    p.until("ready")


class Runs(unittest.TestCase):
    def test_slowdown(self):
        """All is right with half of the memory that it takes, and some of it was evicted."""
        r, status, said = run("slowdown", "--kib", "4096", "--workloads", "hotspot,srad",
                              "--piece", "512", "--fractions", "2,0.75", "--floor", "0")
        self.assertEqual(status, 0, said)
        self.assertEqual([p["room"] > r["total"] for p in r["points"]],
                         [True, True, False, False])
        for p in r["points"]:
            if p["room"] > r["total"]:
                self.assertEqual((p["evicted"], p["moved"]), (0, 0))
            else:
                self.assertGreater(p["moved"], MIB)

    def test_shares(self):
        r, status, said = run("shares", "--mib", "32", "--arrive", "0.5", "--together", "0.5",
                              "--alone", "0.2")
        self.assertEqual(status, 0, said)
        self.assertLessEqual(r["apart"], 2 * MIB)

    def test_delay(self):
        r, status, said = run("delay", "--mib", "32", "--times", "2")
        self.assertEqual(status, 0, said)
        self.assertEqual(len(r["samples"]), 8)


if __name__ == "__main__":
    unittest.main()
