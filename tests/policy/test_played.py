#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs on the software GPU are recorded, and policies are played with them: what `sets` moves
against LRU and the optimum (policies/README.md). WEFT_PLAYED: a folder that keeps the recordings;
the rows are printed then."""
import os
import subprocess
import tempfile
import time
import unittest

import recorded
from fault import BUILD, Daemon, FaultTest, patient, program, wait_for

MIB = 1 << 20
PLAYED = os.path.join(BUILD, "tests", "policy", "policy_played")
PROGRAMS = [("pilot", n) for n in "backprop bfs hs3d partfilter nn gesummv".split()]
PROGRAMS += [("sim", "FDTD3d"), ("slices", "slices")]
SETS = "[daemon]\ntime = sets\n[tenant a]\nmemory.max = 1G\n"


class Recording:
    """weftctl trace --memory of all that happens until it is stopped."""

    def __init__(self, d, name):
        self.path = d.path(name)
        self.process = subprocess.Popen(
            [program("weftctl"), "-c", d.path("control"), "trace", "--memory", "-o", self.path],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: os.path.exists(self.path), 20, "the trace")

    def stop(self):
        self.process.terminate()
        lost = self.process.communicate(timeout=patient(20))[1]
        assert not lost, lost
        return recorded.memory(self.path)


def record(d, where, name):
    """A program's rounds, as text for policy_played."""
    setup = Recording(d, f"{name}-setup.json")
    p = d.run(os.path.join(BUILD, "tests", "gpu", where), name,
              "tiny" if where == "slices" else "small", "loop", tenant="a",
              stdin=subprocess.PIPE)
    if p.stdout.readline() != "ready\n":
        raise AssertionError(f"{name}: {p.communicate()}")
    time.sleep(0.1)
    before = setup.stop()
    rounds = Recording(d, f"{name}.json")
    p.stdin.write("\n")
    p.stdin.flush()
    time.sleep(1)
    after = rounds.stop()
    p.kill()
    p.communicate()
    return recorded.text(before, after, name)


def play(promised, copies, files):
    r = subprocess.run([PLAYED, str(promised), str(copies), *files], check=True, text=True,
                       capture_output=True, timeout=patient(300))
    if os.environ.get("WEFT_PLAYED"):
        print(f"{promised} times promised, {copies} of each\n{r.stdout}")
    return {line[:24].strip(): [float(x) for x in line[24:].split()]
            for line in r.stdout.splitlines()}


class Played(FaultTest):
    def check(self, rows):
        for way in "slices of 2 ms", "turns":
            lru, best = rows[f"lru, {way}"], rows[f"optimum, {way}"]
            self.assertLess(lru[0], best[0])
            self.assertLess(best[1], lru[1])
            self.assertLess(lru[2], best[2])
        hits, moved, device = rows["sets"]
        self.assertGreater(hits, 0.999)
        self.assertGreater(device, 0.98)
        # All that one has, once in a turn.
        self.assertLess(moved, 17)

    def test_recorded_programs(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = os.environ.get("WEFT_PLAYED", temporary)
            files = [os.path.join(folder, name) for _, name in PROGRAMS]
            with Daemon("--memory", "1G", "--swap", "1G", config=SETS) as d:
                for path, program_of in zip(files, PROGRAMS):
                    with open(path, "w", encoding="utf-8") as f:
                        f.write(record(d, *program_of))
            for promised, copies in (1.5, 1), (2, 4), (3, 1):
                self.check(play(promised, copies, files))

    def test_what_is_no_recording(self):
        for text, said in (("", "no recorded program"), ("program a\npages 0\n", "no recorded"),
                           ("program a\npages 2\n", "no launches"),
                           ("program a\npages 2\n0+1\n1+2\n", "pages that there are not"),
                           ("program a\npages 2\n0\n", "no run of pages"),
                           ("program a\npages 4000000000\n0+1\n", "or a larger one")):
            with tempfile.NamedTemporaryFile("w") as f:
                f.write(text)
                f.flush()
                r = subprocess.run([PLAYED, "2", "1", f.name], text=True, capture_output=True,
                                   check=False)
                self.assertEqual(r.returncode, 1, text)
                self.assertIn(said, r.stderr)


if __name__ == "__main__":
    unittest.main()
