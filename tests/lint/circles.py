#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Circles of files: whose functions call one another round and round.

Definitions and calls are read from the sources by their shape, within a house (guestlib,
hostd, ...) and down to transport and policies; calls through pointers are no arrows. Each
circle that there is stands below with its reason; another one is an error, and so is a
name that is in no circle any more.
"""
import os
import re
import sys

HOUSES = ("transport", "guestlib", "hostd", "qemu-device", "policies")
# folder -> (files of one circle each, why)
KNOWN = {
    "hostd/simt": [("barrier cluster cta split warp",
                    "a warp that arrives or ends lets others go on, which are warps again")],
    "hostd/device/soft": [("copy engine event exec module soft stream words",
                           "what ends in one stream starts what waits in others, under "
                           "one lock")],
    "hostd/ptx/extent": [("guard loop value",
                          "a value is made of values, which loops count and branches bound, by "
                          "values")],
    "guestlib/graph": [("cond graph params",
                        "a graph has nodes, of which some have graphs: to free or to clone "
                        "one does so to all that are in it")],
}
NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
DEFINITION = re.compile(r"^(?!static|typedef|extern|#|\s|struct \w+ \{|enum|union)"
                        r"[A-Za-z_][\w\s*]*?\b(\w+)\([^;{}]*\)\s*\{", re.M)
CALL = re.compile(r"(?<![\w.>])(\w+)\s*\(")


def read(top):
    code = {}
    for house in HOUSES:
        for root, _, files in os.walk(os.path.join(top, house)):
            for f in files:
                if f.endswith(".c"):
                    path = os.path.join(root, f)
                    with open(path, encoding="utf-8") as fd:
                        code[os.path.relpath(path, top)] = NOISE.sub(" ", fd.read())
    return code


def arrows(code):
    owner = {}
    for f, text in code.items():
        for name in DEFINITION.findall(text):
            owner.setdefault((f.split("/")[0], name), []).append(f)
    out = {}
    for f, text in code.items():
        out[f] = set()
        for name in set(CALL.findall(text)):
            for house in (f.split("/")[0], "transport", "policies"):
                found = owner.get((house, name))
                if found and len(found) == 1 and found[0] != f:
                    out[f].add(found[0])
                    break
    return out


def circles(edges):
    """Strongly connected components of more than one file (Tarjan's algorithm)."""
    index, low, stack, inside, out = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        inside.add(v)
        for w in edges[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in inside:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            at = stack.index(v)
            found = stack[at:]
            del stack[at:]
            inside.difference_update(found)
            if len(found) > 1:
                out.append(set(found))

    sys.setrecursionlimit(10000)
    for v in edges:
        if v not in index:
            visit(v)
    return out


def main(top):
    known = [{f"{folder}/{n}.c" for n in names.split()}
             for folder, rows in KNOWN.items() for names, _ in rows]
    found = circles(arrows(read(top)))
    errors = 0
    for circle in found:
        if not any(circle <= k for k in known):
            print("a circle that is not named here: " + " ".join(sorted(circle)))
            errors += 1
    left = set().union(*found)
    for name in sorted(set().union(*known) - left):
        print(f"{name}: is in no circle any more: remove it from circles.py")
        errors += 1
    print(f"{len(found)} circles, all named, {errors} errors" if not errors else
          f"{len(found)} circles, {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
