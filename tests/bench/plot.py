#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what swap/measure.py has measured, bench_move, and the parts sim, pilot and
sets-turns of tests/gpu/run (--json).

    plot.py RESULT.json... -o FIGURE.svg

Several results are drawn as one if they are of one kind and that is slowdown: runs of
different workloads, or with Weft and natively.
"""
import argparse
import json
import statistics
import sys

import svg

MIB = 1 << 20
WANTED_MS = 5  # for 100 MiB, at most


def size_text(kib):
    return f"{kib:g} KiB" if kib < 1024 else f"{kib / 1024:g} MiB"


# ---- slowdown ----

def allowed_seconds(result, ample, room):
    """Seconds that the wires allow: what does not fit goes over PCIe whenever it is touched."""
    over = max(0.0, 1 - room / ample["bytes"])
    return statistics.mean(ample["seconds"]) + over * ample["traffic"] / result["pcie"]


def slowdown(results):
    points = [p for r in results for p in r["points"] if "seconds" in p]
    first, panels = results[0], []
    for name in sorted({p["workload"] for p in points}):
        mine = sorted((p for p in points if p["workload"] == name),
                      key=lambda p: p["room"], reverse=True)
        weft = [p for p in mine if p["how"] == "weft"]
        native = [p for p in mine if p["how"] == "native"]
        base = (native or weft or mine)[0]
        base_seconds = statistics.mean(base["seconds"])

        def line(ps, base_seconds=base_seconds):
            return [(100 * p["room"] / p["bytes"], statistics.mean(p["seconds"]) / base_seconds)
                    for p in ps]

        panel = svg.Panel(name, svg.Axis("memory there is, % of what two want", backwards=True),
                          svg.Axis("time, 1: natively" if native else "time, 1: enough memory",
                                   10))
        panel.line("Weft", line(weft), 0, marks=True)
        panel.line("CUDA managed memory, natively", line([p for p in mine
                                                         if p["how"] == "managed"]), 1,
                   marks=True)
        if first.get("pcie") and weft:
            panel.line(f"what PCIe allows ({first['pcie'] / 1e9:g} GB/s)",
                       [(100 * p["room"] / p["bytes"],
                         allowed_seconds(first, base, p["room"]) / base_seconds)
                        for p in weft], 2, dashed=True)
        panels.append(panel)
    total = first["total"] / MIB
    return svg.figure(f"Two instances that want {svg.number(total)} MiB together "
                      f"({first['device']})", panels, columns=2, width=820, height=270)


# ---- shares ----

def shares(results):
    r = results[0]
    panel = svg.Panel("", svg.Axis("seconds"), svg.Axis("MiB"))
    own = r.get("context", 0)
    for i, (column, name) in enumerate(((1, "first"), (3, "second"))):
        there = [(s[0], max(0, s[column] - own) / MIB) for s in r["samples"]]
        evicted = [(s[0], s[column + 1] / MIB) for s in r["samples"]]
        panel.line(f"{name} tenant, on the device", there, i, stepped=True)
        panel.line(f"{name} tenant, in host memory", evicted, i, dashed=True, stepped=True)
    panel.note("second comes", x=r["arrive"])
    panel.note("first ends", x=r["leave"])
    panel.note("half of what there is", y=r["room"] / 2 / MIB)
    return svg.figure(f"One tenant fills {svg.number(r['room'] / MIB)} MiB, another wants as "
                      f"much ({r['device']})", [panel], width=720, height=360)


# ---- delay ----

def distribution(values):
    values = sorted(values)
    return [(0, 0)] + [(v, 100 * (i + 1) / len(values)) for i, v in enumerate(values)]


def delay(results):
    r = results[0]
    scale = 100 * MIB / r["block"] / 1e6
    panel = svg.Panel("", svg.Axis("ms per 100 MiB"), svg.Axis("% of allocations, at most so long"))
    panel.line("an allocation that needs room",
               distribution([s[0] * scale for s in r["samples"]]), 0, stepped=True)
    panel.line("how long the tenant stands still that is evicted",
               distribution([s[1] * scale for s in r["samples"]]), 1, stepped=True)
    panel.note("wanted at p99", x=WANTED_MS)
    return svg.figure(f"Delays when {svg.number(r['block'] / MIB)} MiB have to be evicted "
                      f"({r['device']})", [panel], width=640, height=330)


# ---- pieces ----

def pieces(results):
    r = results[0]
    panel = svg.Panel("", svg.Axis("size of a piece", 2, text=size_text),
                      svg.Axis("ms per 100 MiB"))
    for i, (who, what) in enumerate((("needs", "allocation that needs room"),
                                     ("gives", "tenant that is evicted"))):
        for part, dashed in (("p50", False), ("p99", True)):
            panel.line(f"{what}, {part}",
                       [(p["size"] / 1024, p[who][part]) for p in r["points"]], i,
                       dashed=dashed, marks=True)
    return svg.figure(f"In what pieces memory moves ({r['device']})", [panel], width=640,
                      height=330)


# ---- rates ----

def rates(results):
    points = results[0]["points"]
    panel = svg.Panel("", svg.Axis("size of a piece", 2, text=size_text),
                      svg.Axis("share of the rate of pinned copies", high=1))
    for i, move in enumerate(("out", "in", "both")):
        for where, dashed in (("swapped", False), ("mapped", True)):
            panel.line({"both": "both ways"}.get(move, move) + f", {where}",
                       [(p["piece"] / 1024, p["of_pinned"]) for p in points
                        if p["memory"] == "pieces" and p["move"] == f"{move} {where}"], i,
                       dashed=dashed, marks=True)
    panel.note("wanted one way", y=0.9)
    return svg.figure(f"How fast memory moves ({results[0]['device']})", [panel], width=640,
                      height=360)


# ---- kernels together ----

SHORT = {"binomialOptions": "BO", "FDTD3d": "FD", "lavaMD": "LM", "MD5Hash": "MD", "nbody": "NB",
         "particlefilter": "PF", "tpacf": "TP"}


def together(results):
    """As figures 10 and 11 of "Adaptive Simultaneous Multi-tenancy for GPUs"."""
    r = results[0]
    rows = [row for row in r["rows"] if row.get("stp")]
    panels = []
    for size in sorted({len(row["names"]) for row in rows}):
        mine = [row for row in rows if len(row["names"]) == size]
        panel = svg.Bars("", ["+".join(SHORT.get(n, n) for n in row["names"]) for row in mine],
                         svg.Axis("of what each does alone, together"))
        for i, kind in enumerate(mine[0]["stp"]):
            panel.add(kind, [row["stp"].get(kind) for row in mine], i)
        panel.note("one after the other", 1)
        panels.append(panel)
    return svg.figure(f"Kernels at once ({r['device']})", panels, width=1100, height=330)


# ---- beside one that sweeps ----

def beside(results):
    """As figure 4 of PILOT's paper."""
    r = results[0]
    rows = [row for row in r["rows"] if row.get("slower")]
    apps = list(dict.fromkeys(row["app"] for row in rows))
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    got = {(row["app"], row["policy"]): row["slower"] for row in rows}
    panels = []
    for part in sorted({p for row in rows for p in row["slower"]}, key=int):
        panel = svg.Bars(f"{part} % of the device", apps, svg.Axis("slower than alone", 10, low=1))
        for i, policy in enumerate(policies):
            panel.add(policy, [got.get((a, policy), {}).get(part) for a in apps], i)
        panel.note("wanted", 2)
        panels.append(panel)
    return svg.figure(f"Managed memory beside one that sweeps through its own ({r['device']})",
                      panels, width=900, height=260)


# ---- turns by memory ----

# MSched's paper, where memory is promised so many times.
MSCHED = {1.5: 0.74, 2: 0.58, 3: 0.43}


def turns(results):
    r = results[0]
    panel = svg.Panel("", svg.Axis("ms, a turn", 10), svg.Axis("of what fits, together", high=1))
    panel.line("decoders that need twice what there is",
               sorted((row["turn_ms"], row["part"]) for row in r["rows"] if row.get("turn_ms")),
               0, marks=True)
    for times, part in MSCHED.items():
        panel.note(f"MSched, {times:g} times", y=part)
    return svg.figure(f"Turns by memory ({r['device']})", [panel], width=640, height=330)


def of_run(r):
    """The part sim, pilot or sets of a run of tests/gpu/run."""
    kind, part = next((kind, part) for kind, part in
                      (("together", "sim"), ("beside", "pilot"), ("turns", "sets"))
                      if r.get(part))
    return {"kind": kind, "device": r["machine"]["gpu"], "rows": r[part]}


def read(name):
    """bench_move writes a list of what it has measured."""
    with open(name, encoding="ascii") as f:
        r = json.load(f)
    if isinstance(r, dict) and "machine" in r:
        return of_run(r)
    return {"kind": "rates", "device": r[0]["device"], "points": r} if isinstance(r, list) else r


def draw(results):
    """The SVG of results, all of one kind."""
    kinds = {r["kind"] for r in results}
    if len(kinds) != 1 or (len(results) > 1 and kinds != {"slowdown"}):
        raise ValueError("results of different kinds: " + ", ".join(sorted(kinds)))
    return {"slowdown": slowdown, "shares": shares, "delay": delay,
            "pieces": pieces, "rates": rates, "together": together,
            "beside": beside, "turns": turns}[kinds.pop()](results)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("result", nargs="+")
    p.add_argument("-o", "--output", required=True)
    args = p.parse_args()
    text = draw([read(name) for name in args.result])
    with open(args.output, "w", encoding="ascii") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
