# SPDX-License-Identifier: Apache-2.0
"""Programs of papers, written anew, on the software GPU: each has the same results whether its
kernels run as they are, as persistent threads, or over managed memory."""
import os
import subprocess
import sys
import unittest

BUILD = sys.argv.pop(1)
RUN = os.path.join(BUILD, "hostd", "weft-run")
NAMES = {"sim": "binomialOptions FDTD3d lavaMD MD5Hash nbody particlefilter tpacf",
         "rodinia": "dwt2d hotspot cfd nn",
         "pilot": "backprop bfs hs3d partfilter lavamd nn gaussian corr gesummv 2dconvol"}


def result(mode, *argv):
    r = subprocess.run([RUN, "--private", "--kernel.rewrite", mode, "--", *argv], text=True,
                       capture_output=True, timeout=100, check=False)
    if r.returncode:
        raise AssertionError(f"{argv}: {r.returncode}: {r.stderr}")
    return r.stdout.strip()


class Rounds(unittest.TestCase):
    def check(self, program, *argv, managed):
        path = os.path.join(BUILD, "tests", "gpu", program)
        is_ = result("off", path, *argv, "check")
        self.assertRegex(is_, "^[0-9a-f]{16}$")
        for mode in ("always", "always-yield"):
            self.assertEqual(result(mode, path, *argv, "check"), is_, mode)
        if managed:
            self.assertEqual(result("always", path, *argv, "managed", "check"), is_)
        return is_

    def test_sim(self):
        sums = {self.check("sim", n, "tiny", managed=False) for n in NAMES["sim"].split()}
        self.assertEqual(len(sums), 7)

    def test_pilot(self):
        sums = {self.check("pilot", n, "tiny", managed=True) for n in NAMES["pilot"].split()}
        self.assertEqual(len(sums), 10)

    def test_rodinia(self):
        sums = {self.check("rodinia", n, "tiny", managed=True) for n in NAMES["rodinia"].split()}
        self.assertEqual(len(sums), 4)

    def test_slices(self):
        self.check("slices", "slices", "tiny", managed=True)

    def test_page_dos(self):
        self.check("pilot", "pageDoS", "3", managed=True)

    def test_loop(self):
        path = os.path.join(BUILD, "tests", "gpu", "sim")
        with subprocess.Popen([RUN, "--private", "--", path, "nbody", "tiny", "loop"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            self.assertEqual(p.stdout.readline(), "ready\n")
            p.stdin.write("\n\n")
            p.stdin.flush()
            n, median, most = map(int, p.stdout.readline().split())
            self.assertTrue(n >= 0 and most >= median)
            p.stdin.close()
            self.assertEqual(p.wait(60), 0)

    def test_usage(self):
        path = os.path.join(BUILD, "tests", "gpu", "sim")
        r = subprocess.run([path, "nobody", "tiny", "check"], capture_output=True, text=True,
                           check=False)
        self.assertEqual(r.returncode, 64)
        self.assertIn("tpacf", r.stderr)


if __name__ == "__main__":
    unittest.main()
