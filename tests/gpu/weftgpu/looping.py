# SPDX-License-Identifier: Apache-2.0
"""Programs that do something over and over until they are told to end, and what was measured
of them."""
import os
import subprocess
import time

from . import build

SETTLE = 6.0  # seconds until slices are what they are to be
END = 30  # seconds until sessions have ended


def said(those):
    """The clock, and what each of the programs says then."""
    for p in those:
        p.say()
    return time.monotonic(), [p.read() for p in those]


def quiet(d, left=0):
    """Waits until so many sessions are left: beside one that ends kernels may take longer."""
    deadline = time.monotonic() + END
    while len(d.workers()) > left:
        if time.monotonic() > deadline:
            raise build.Error("a session does not end")
        time.sleep(0.05)


class Looping:
    """One program of a tenant that does something over and over, which takes so many ms, and
    says how often it did when it is asked."""

    def __init__(self, side, argv, ms=1):
        self.ms = ms
        self.proc = subprocess.Popen([*side.prefix, *argv], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True,
                                     env=dict(os.environ, **side.env))
        if self.proc.stdout.readline() != "ready\n":
            raise build.Error(f"{argv[0]} did not start")
        self.ended = 0

    def say(self):
        self.proc.stdin.write("\n")
        self.proc.stdin.flush()

    def pause(self):
        """Or has it go on, of those that can (compute/rounds.h)."""
        self.proc.stdin.write("p\n")
        self.proc.stdin.flush()

    def read(self):
        """Kernels since the last time, median and 99th percentile in microseconds."""
        ended, p50, p99 = self.proc.stdout.readline().split()
        new = float(ended) - self.ended
        self.ended = float(ended)
        return new, float(p50), float(p99)

    def end(self):
        self.proc.stdin.close()
        self.proc.wait(30)


class Row:
    """more: numbers for the report, which tests/bench/plot.py draws."""

    def __init__(self, name, text, good=None, **more):
        self.name, self.text, self.good = name, text, good
        self.__dict__.update(more)

    def as_dict(self):
        return dict(self.__dict__)
