#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs as `weftctl trace --memory` has recorded them, for policy_played.

    recorded.py SETUP.json ROUNDS.json NAME > FILE

The first trace has the program from its start, the second one is of some time of its work.
"""
import bisect
import json
import sys

PAGE = 2 << 20


def memory(path):
    """Events of memory, in order: kind, when, where, bytes."""
    with open(path, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    return [(e["cat"], e["ts"], e["args"]["from"], e["args"]["bytes"])
            for e in events if e["ph"] == "i" and "from" in e.get("args", {})]


class Pages:
    """Memory that is there in the end; its pages are numbered as their addresses go up."""

    def __init__(self, events):
        self.sizes = {}
        for kind, _, at, size in events:
            if kind == "map":
                self.sizes[at] = size
            elif kind == "unmap":
                self.sizes.pop(at, None)
        self.begins = sorted(self.sizes)
        pages = [p for b in self.begins for p in range(b, b + self.sizes[b], PAGE)]
        self.number = {p: i for i, p in enumerate(pages)}

    def run(self, at, size):
        """Numbers of what is reached, or, where nobody knows how far, of all that it is part of."""
        i = bisect.bisect(self.begins, at) - 1
        if i < 0 or at >= self.begins[i] + self.sizes[self.begins[i]]:
            return set()
        begin, end = self.begins[i], self.begins[i] + self.sizes[self.begins[i]]
        if size:
            begin, end = at, min(end, at + size)
        return {self.number[p] for p in range(begin, end, PAGE)}


def launches(events, pages):
    """Sets of pages, a launch each: all that begin at the same time."""
    found, when = [], None
    for kind, at, first, size in events:
        if kind != "reach":
            continue
        if at != when:
            found.append(set())
        when = at
        found[-1] |= pages.run(first, size)
    return [f for f in found if f]


def runs(numbers):
    """FIRST+N, ascending."""
    out = []
    for n in sorted(numbers):
        if out and out[-1][0] + out[-1][1] == n:
            out[-1][1] += 1
        else:
            out.append([n, 1])
    return " ".join(f"{first}+{n}" for first, n in out)


def text(setup, rounds, name):
    pages = Pages(setup)
    lines = [runs(l) for l in launches(rounds, pages)]
    return f"program {name}\npages {len(pages.number)}\n" + "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(text(memory(sys.argv[1]), memory(sys.argv[2]), sys.argv[3]))
