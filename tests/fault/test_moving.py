#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose memory goes out and comes back all the time must not notice.

    test_moving.py [PROGRAM ...]

Runs the programs of tests/path, one after the other, while an operator moves their memory to the
host again and again; weftd brings it back as there is room. Each is run by one of two policies of
placement; those named by both.
"""
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import unittest

import fault

PROGRAMS = []
# Takes all there is, so there is to be little.
GREEDY = "out_of_memory"
# Small pieces, so that programs with little memory have many.
SWAP = ("--swap", "8G", "--piece", "2M")


def path_programs():
    with open(os.path.join(fault.BUILD, "tests/path/programs.txt"), encoding="utf-8") as f:
        programs = [line.strip() for line in f if line.strip()]
    programs = [p for p in programs if os.path.basename(p) != GREEDY]
    # Sanitized, each runs with its memory where it is as well (tests/run).
    return programs[::3] if fault.built_sanitized() else programs


def programs_by(first):
    return PROGRAMS or path_programs()[first::2]


class Mover(threading.Thread):
    """Moves a tenant's memory out, at moments that nobody foresees."""

    def __init__(self, daemon, tenant, seed, pause=0.03):
        super().__init__(daemon=True)
        self.pause = pause
        self.weftd, self.tenant, self.random = daemon, tenant, random.Random(seed)
        self.stop, self.error, self.asked = threading.Event(), None, 0

    def run(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(self.weftd.path("control"))
            try:
                while not self.stop.is_set():
                    self.ask(s, self.random.choice((2, 4, 16, 64, 1024)))
                    self.asked += 1
                    self.stop.wait(self.random.random() * self.pause)
            except (AssertionError, OSError) as e:
                self.error = e

    def ask(self, s, mib):
        s.sendall(json.dumps({"cmd": "reclaim", "name": self.tenant,
                              "bytes": f"{mib}M"}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            data = s.recv(65536)
            assert data, "weftd has closed the control socket"
            answer += data
        assert json.loads(answer)["ok"], answer

    def end(self):
        self.stop.set()
        self.join()
        if self.error:
            raise self.error


def stat_of(daemon, tenant="local"):
    return next(t for t in daemon.ctl("list")["tenants"] if t["name"] == tenant)


class Programs(unittest.TestCase):
    def run_one(self, daemon, program, policy):
        p = daemon.run(program)
        try:
            text, _ = p.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            p.kill()
            self.fail(f"{program} hangs ({policy})")
        self.assertEqual(p.returncode, 0, f"{program} ({policy}): {text}")

    def all_with(self, policy, programs):
        with fault.Daemon(*SWAP, "--placement", policy) as d:
            mover = Mover(d, "local", fault.SEED)
            mover.start()
            for program in programs:
                t = time.monotonic()
                with self.subTest(program=program, policy=policy):
                    self.run_one(d, program, policy)
                print(f"{policy}: {os.path.basename(program)} {time.monotonic() - t:.1f} s",
                      flush=True)
            mover.end()
            print(f"{policy}: asked {mover.asked} times: {d.ctl('get', 'local')}")

    def test_all_of_it(self):
        """All that is not allocated is free, wherever the rest is at the moment."""
        for i, policy in enumerate(("random", "lru")):
            with fault.Daemon("--memory", "128M", *SWAP, "--placement", policy) as d:
                mover = Mover(d, "local", fault.SEED + i)
                mover.start()
                for _ in range(2):
                    self.run_one(d, GREEDY, policy)
                    fault.wait_for(lambda: not d.sessions(), 5, "its session has ended")
                mover.end()

    def test_random(self):
        self.all_with("random", programs_by(0))

    def test_lru(self):
        self.all_with("lru", programs_by(1))


if __name__ == "__main__":
    PROGRAMS = [a for a in sys.argv[1:] if not a.startswith("-")]
    unittest.main(argv=sys.argv[:1])
