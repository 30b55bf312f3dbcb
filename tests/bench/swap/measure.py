#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures memory over-commitment without turns, and says as JSON what came out; ../plot.py draws
it.

    measure.py slowdown --kib 262144                two of each workload, less and less memory
    measure.py shares --mib 4096 --block 64         a greedy tenant, and one that comes later
    measure.py delay --mib 4096                     who needs room waits, who is evicted stands still
    measure.py pieces --mib 2048 --sizes 2048,65536 the same for each size of piece

The exit status is 0 only if every result was right.
"""
import argparse
import json
import os
import statistics
import sys
import time

from host import WAIT_SECONDS, Daemon, Failure, Program

MIB = 1 << 20
HERE = os.path.dirname(os.path.abspath(__file__))
# Steps that touch all memory some tens of times; a decomposition does by itself.
STEPS = {"backprop": 10, "bfs": 4, "srad": 10, "hotspot": 40, "lud": 1}
DELAY_BLOCK_MIB = 100  # delays are told for so much
SETTLE_SECONDS = 0.5   # what fits has come back by then


class Bench:
    """How weftd is started, where the programs are, and what a context takes."""

    def __init__(self, args):
        self.args = args
        self.context = 0
        argv = [self.program("hotspot"), "64", "1", "wait"]
        if args.what == "slowdown" and "weft" not in args.how:
            with Program(argv) as p:
                self.device = " ".join(p.until("ready")[1:])
            return
        with Daemon(args.build, **self.keys()) as d, d.run("a", argv) as p:
            self.device = " ".join(p.until("ready")[1:])
            self.context = d.bytes_of("a", "memory.current")

    def program(self, name):
        return os.path.join(self.args.programs, name)

    def workload(self, name, variant=""):
        steps = STEPS[name] * self.args.steps
        return [self.program(name + variant), str(self.args.kib), str(steps), "wait"]

    def keys(self, **more):
        return {"device": self.args.device, "swap": self.args.swap, "time": "fair",
                "piece": self.args.piece * 1024, "placement": self.args.placement,
                "reserve": self.args.reserve, **more}

    def daemon(self, room, **more):
        """One in which two sessions have that much beside their contexts."""
        pool = 1
        memory = room + (2 + pool) * self.context
        return Daemon(self.args.build, **self.keys(memory=memory, pool=pool, **more))

    def result(self, kind, **what):
        return {"kind": kind, "device": self.device, "piece": self.args.piece * 1024,
                "placement": self.args.placement, **what}


# ---- slowdown: two instances with less and less memory ----

def pair(programs, settle=lambda: None):
    """Two programs at the same steps at the same time; (seconds, bytes, traffic) of each."""
    for p in programs:
        p.until("loaded")
    settle()
    for p in programs:
        p.go()
    return [p.until("took") for p in programs]


def finish(programs):
    for p in programs:
        p.go()
    for p in programs:
        p.until("PASS")


def point(workload, how, room, took, **more):
    return {"workload": workload, "how": how, "room": room,
            "seconds": [float(t[0]) for t in took], "bytes": sum(int(t[1]) for t in took),
            "traffic": sum(int(t[2]) for t in took), **more}


def weft_pair(bench, daemon, workload, room):
    argv = bench.workload(workload)
    with daemon.run("a", argv) as a, daemon.run("b", argv) as b:
        for p in (a, b):
            p.until("ready")
        for p in (a, b):
            p.go()
        took = pair((a, b), lambda: time.sleep(SETTLE_SECONDS))
        evicted = sum(daemon.bytes_of(t, "memory.swap.current") for t in "ab")
        moved = sum(daemon.stat(t).get(key, 0) for t in "ab"
                    for key in ("moved_out", "moved_in"))
        finish((a, b))
    return point(workload, "weft", room, took, evicted=evicted, moved=moved)


def native_pair(bench, how, workload, room):
    argv = bench.workload(workload, "-managed" if how == "managed" else "")
    with Program(argv) as a, Program(argv) as b:
        for p in (a, b):
            p.until("ready")
        with Program([bench.program("hog"), str(room >> 10)]) as hog:
            left = int(hog.until("ready")[0])
            for p in (a, b):
                p.go()
            took = pair((a, b))
            finish((a, b))
    return point(workload, how, left, took)


def slowdown(bench):
    args = bench.args
    all_of_it = 2 * args.kib << 10
    floor = min(args.floor * MIB, all_of_it)
    rooms = {max(int(all_of_it * f), floor) for f in args.fractions}
    rooms = sorted(rooms | ({floor} if floor else set()), reverse=True)
    points = []

    def keep(what, measure):
        try:
            p = measure()
        except Failure as e:
            p = {**what, "error": str(e)}
        points.append(p)
        text = p.get("error") or "{:.3f} {:.3f} s".format(*p["seconds"])
        print(f"{what['workload']} {what['how']} {what['room'] // MIB} MiB: {text}",
              file=sys.stderr, flush=True)

    for room in rooms if "weft" in args.how else []:
        with bench.daemon(room) as d:
            for w in args.workloads:
                keep({"workload": w, "how": "weft", "room": room},
                     lambda w=w, d=d, room=room: weft_pair(bench, d, w, room))
    for how in (h for h in args.how if h != "weft"):
        for room in rooms:
            # Managed memory beyond what is free can stop a machine, and cudaMalloc
            # takes a little more than it is asked for.
            if room > all_of_it:
                for w in args.workloads:
                    keep({"workload": w, "how": how, "room": room},
                         lambda w=w, how=how, room=room: native_pair(bench, how, w, room))
    return bench.result("slowdown", total=all_of_it, steps=args.steps, pcie=args.pcie,
                        points=points), not any("error" in p for p in points)


# ---- shares: a greedy tenant, and one that comes later ----

def shares(bench):
    args = bench.args
    room, block = args.mib * MIB, args.block << 10
    argv = [bench.program("greedy"), str(room >> 10), str(args.block)]
    allowed = max(args.piece << 10, block)
    samples = []

    def apart():
        _, first, _, second, _ = samples[-1]
        return abs(first - second)

    with bench.daemon(room) as d:
        start = time.monotonic()

        def sample(seconds=0.0, until=lambda: True):
            """Samples for so long, and until it is so; returns when."""
            end = time.monotonic() + seconds
            while True:
                samples.append([round(time.monotonic() - start, 4)] + [
                    d.bytes_of(t, key) for t in "ab"
                    for key in ("memory.current", "memory.swap.current")])
                if time.monotonic() >= end and until():
                    return samples[-1][0]
                if time.monotonic() > end + WAIT_SECONDS:
                    raise Failure("the shares take too long")
                time.sleep(args.interval)

        with d.run("a", argv) as a:
            arrive = sample(args.arrive, lambda: a.said("full"))
            with d.run("b", argv) as b:
                # Memory that b took last may still be on its way out of a.
                sample(args.together, lambda: b.said("full") and apart() <= allowed)
                _, first, _, second, _ = samples[-1]
                a.end()
                leave = sample(until=lambda: a.process.poll() is not None)
                sample(args.alone)
                b.end()
                for p in (a, b):
                    p.until("PASS")
                refused = len(a.all_of("refused") + b.all_of("refused"))
    out = bench.result("shares", room=room, block=block, context=bench.context, arrive=arrive,
                       leave=leave, apart=abs(first - second), refused=refused,
                       samples=samples)
    return out, out["apart"] <= allowed and second > 0 and not refused


# ---- delay: of who needs room, and of who is evicted ----

def percentile(values, part):
    values = sorted(values)
    return values[min(int(len(values) * part), len(values) - 1)]


def delays(daemon, bench):
    """(an allocation's time, how long the other stood still for it) for each, in ns."""
    args = bench.args
    block = min(DELAY_BLOCK_MIB * MIB, args.mib * MIB // 8)
    kib, block_kib = args.mib << 10, block >> 10
    steps = args.mib * MIB // 2 // block
    took = []
    with daemon.run("a", [bench.program("greedy"), str(kib), str(block_kib), "0", "one"]) as a:
        a.until("full")
        time.sleep(args.arrive)
        for _ in range(args.times):
            with daemon.run("b", [bench.program("greedy"), str(steps * block_kib),
                                  str(block_kib), str(args.pause), "one"]) as b:
                b.end()
                b.until("PASS")
                took += b.all_of("alloc")
            time.sleep(0.2)
        a.end()
        a.until("PASS")
        (_, median), gaps = a.all_of("round")[0], a.all_of("gap")
    return block, stood_still(took, gaps, median)


def stood_still(took, gaps, median):
    """For each allocation (START, TOOK): how long it took, and what rounds of the other
    tenant that overlap with it took longer than usual."""
    return [(ns, sum(gap - median for at, gap in gaps if at < start + ns and at + gap > start))
            for start, ns in took]


def summary(block, samples):
    """Numbers for DELAY_BLOCK_MIB moved, however large the blocks were."""
    scale = DELAY_BLOCK_MIB * MIB / block / 1e6
    out = {"block": block, "samples": [[a, b] for a, b in samples]}
    for i, who in enumerate(("needs", "gives")):
        values = [s[i] * scale for s in samples]
        out[who] = {"p50": statistics.median(values), "p99": percentile(values, 0.99),
                    "most": max(values)}
    return out


def delay(bench):
    with bench.daemon(bench.args.mib * MIB) as d:
        block, samples = delays(d, bench)
    return bench.result("delay", room=bench.args.mib * MIB, **summary(block, samples)), True


# ---- pieces: the same for each size ----

def pieces(bench):
    points = []
    for kib in bench.args.sizes:
        with bench.daemon(bench.args.mib * MIB, piece=kib * 1024) as d:
            block, samples = delays(d, bench)
        points.append({"size": kib * 1024, **summary(block, samples)})
        print(f"piece {kib} KiB: {points[-1]['needs']}", file=sys.stderr, flush=True)
    return bench.result("pieces", room=bench.args.mib * MIB, points=points), True


def numbers(kind):
    return lambda text: [kind(x) for x in text.split(",")]


def arguments():
    top = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("slowdown", "shares", "delay", "pieces"))
    p.add_argument("--build", default=os.path.join(top, "build"))
    p.add_argument("--programs", help="where the workloads are")
    p.add_argument("--device", default="soft", choices=("soft", "cuda"))
    p.add_argument("--swap", default="16G", help="host memory for what is evicted")
    p.add_argument("--reserve", default="max", help="of the device, kept free")
    p.add_argument("--piece", type=int, default=2048, help="KiB")
    p.add_argument("--placement", default="lru")
    p.add_argument("-o", "--output", help="a file instead of standard output")
    g = p.add_argument_group("slowdown")
    g.add_argument("--kib", type=int, default=4096, help="memory of an instance")
    g.add_argument("--steps", type=int, default=1, help="times the usual number")
    g.add_argument("--workloads", type=numbers(str), default=list(STEPS))
    g.add_argument("--fractions", type=numbers(float), default=[1.25, 1, 0.9, 0.75, 0.5, 0.25],
                   help="memory that there is, of what both want together")
    g.add_argument("--floor", type=int, default=20,
                   help="MiB, the least of them; 0: as the fractions say")
    g.add_argument("--how", type=numbers(str), default=["weft"],
                   help="weft; native and managed: without Weft, where all fits")
    g.add_argument("--pcie", type=float, default=0, help="bytes a second, for the plot")
    g = p.add_argument_group("shares, delay, pieces")
    g.add_argument("--mib", type=int, default=64, help="memory that there is")
    g.add_argument("--block", type=int, default=2048, help="KiB, of an allocation")
    g.add_argument("--arrive", type=float, default=2,
                   help="seconds until the second comes, and the first has all")
    g.add_argument("--together", type=float, default=3,
                   help="seconds that both are there, and the second has all")
    g.add_argument("--alone", type=float, default=1, help="seconds the second has afterwards")
    g.add_argument("--interval", type=float, default=0.01, help="seconds between samples")
    g.add_argument("--times", type=int, default=3, help="that the second comes")
    g.add_argument("--pause", type=float, default=20, help="ms between allocations")
    g.add_argument("--sizes", type=numbers(int), help="KiB, of pieces",
                   default=[128, 256, 512, 1024, 2048, 4096, 8192])
    args = p.parse_args()
    args.programs = args.programs or os.path.join(args.build, "tests", "bench", "swap")
    return args


def main():
    args = arguments()
    try:
        result, right = {"slowdown": slowdown, "shares": shares, "delay": delay,
                         "pieces": pieces}[args.what](Bench(args))
    except Failure as e:
        print(f"measure: {e}", file=sys.stderr)
        return 1
    text = json.dumps(result, separators=(",", ":")) + "\n"
    if args.output:
        with open(args.output, "w", encoding="ascii") as f:
            f.write(text)
    else:
        sys.stdout.write(text)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
