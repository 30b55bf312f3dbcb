# SPDX-License-Identifier: Apache-2.0
"""Kernels as persistent threads: what that costs each, and what kernels do side by side, in turns,
as MPS has them, and with so many blocks each as a policy says (compute/sim.cu, pilot.cu)."""
import itertools
import os
import shutil
import statistics
import subprocess
import threading
import time

from . import build, compute, daemon, execute, programs
from .looping import Looping, Row, quiet, said
from .shared import CONTROL, Server

# Parts: costs, and those of yield points; stopping; two and three at once.
NAMES = ["sim-cost", "yield-cost", "yield-stop", "sim-pairs", "sim-triples"]
SIM = ("binomialOptions", "FDTD3d", "lavaMD", "MD5Hash", "nbody", "particlefilter", "tpacf")
PILOT = ("backprop", "bfs", "hs3d", "partfilter", "lavamd", "nn", "gaussian", "corr", "gesummv",
         "2dconvol")
# By the paper's figure 3: issue slots used less than half of the time.
LOW = ("FDTD3d", "particlefilter", "tpacf")
SIZE, COST, MOST, YIELD_MOST = "medium", 1.05, 1.02, 1.03
SIZES = ("small", "medium", "large")
ALONE, SETTLE, SECONDS = 1.0, 0.6, 1.2
STOPS, STOP_SECONDS = "250", 400  # of each of 20 kernels; all of them
STP, ANTT = 1.15, 1.2


def one(side, argv, seconds=90):
    """The number that a program prints; None: none."""
    r = subprocess.run([*side.prefix, *argv], env=dict(os.environ, **side.env), capture_output=True,
                       text=True, timeout=seconds, check=False)
    return r.stdout.strip() if not r.returncode else None


def cost_rows(d, native, built):
    """Milliseconds of each program, as it is and by kernel.rewrite = auto; and its results."""
    d.ask("tenant-add", name="auto", set={"kernel.rewrite": "auto"})
    parts = []
    for kind, name in [("sim", n) for n in SIM] + [("pilot", n) for n in PILOT]:
        argv = [built[kind], name, SIZE]
        sums = [one(s, [*argv, "check"]) for s in (native, d.side("auto"))]
        ms = [one(s, [*argv, "time"]) for s in (native, d.side("auto"), d.side("local"))]
        if None in ms or None in sums:
            yield Row(f"auto: {name}", "failed", False)
            continue
        ratio, plain = float(ms[1]) / float(ms[0]), float(ms[2]) / float(ms[0])
        parts.append(ratio)
        yield Row(f"auto: {name}", f"{float(ms[0]):.3f} ms natively, {plain:.3f} x by Weft, "
                  f"{ratio:.3f} x rewritten" + (", another result" if sums[0] != sums[1] else ""),
                  sums[0] == sums[1] and ratio <= COST + max(0, plain - 1))
    mean = statistics.geometric_mean(parts)
    yield Row("auto: geometric mean", f"{mean:.3f}", mean <= MOST)


def yield_rows(d, native, built):
    """Yield points: their cost for PILOT's ten programs (its table I), in three sizes."""
    for name, mode in (("yield", "yield"), ("persistent", "auto"), ("plain", "off")):
        d.ask("tenant-add", name=name, set={"kernel.rewrite": mode})
    sides = [native, d.side("plain"), d.side("persistent"), d.side("yield")]
    parts = []
    for name in PILOT:
        for size in SIZES:
            argv = [built["pilot"], name, size]
            sums = {one(s, [*argv, "check"]) for s in (native, d.side("yield"))}
            ms = [one(s, [*argv, "time"]) for s in sides]
            if None in ms or None in sums:
                yield Row(f"yield: {name}, {size}", "failed", False)
                continue
            plain, persistent, ours = (float(x) / float(ms[0]) for x in ms[1:])
            parts.append(ours)
            yield Row(f"yield: {name}, {size}", f"{float(ms[0]):.3f} ms natively, {plain:.3f} x by "
                      f"Weft, {persistent:.3f} x between blocks, {ours:.3f} x with yield points" +
                      (", another result" if len(sums) > 1 else ""),
                      len(sums) == 1 and ours <= COST + max(0, plain - 1),
                      app=name, size=size, cost=ours)
    mean = statistics.geometric_mean(parts)
    yield Row("yield: geometric mean", f"{mean:.3f}", mean <= YIELD_MOST)


def stop_rows(where, device):
    """How soon kernels stop, and that they go on right."""
    bench = os.path.join(where, "tests", "bench", "bench_stop")
    text = next((p for p in (os.path.join(where, "tests", "bench", "loops.ptx"),
                             os.path.join(where, "tests", "ptx", "loops-90.ptx"))
                 if os.path.exists(p)), "")
    env = {"LD_LIBRARY_PATH": os.path.join(where, "lib") + ":" +
           os.environ.get("LD_LIBRARY_PATH", "")}
    kind = ""
    with subprocess.Popen([bench, device, text, STOPS], env=dict(os.environ, **env),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
        late = threading.Timer(STOP_SECONDS, p.kill)
        late.start()
        for line in p.stdout:
            if " stops in " not in line:
                print(f"stop: {line.strip()}", flush=True)
                kind = line.split(": loaded")[0].strip()
                continue
            name, said_ = line.strip().split(None, 1)
            yield Row(f"stop {kind}: {name}", said_, said_.endswith("; 0 wrong"))
        late.cancel()
        if p.wait():
            yield Row(f"stop {kind}", f"ended with status {p.returncode}", False)


class Pairs:
    """Rates of programs alone natively, and of several together."""

    def __init__(self, native, built, names=SIM):
        self.native, self.path, self.names = native, built["sim"], names
        self.alone = {}

    def start(self, side, name):
        return Looping(side, [self.path, name, SIZE, "loop"])

    def rate(self, those, seconds=SECONDS):
        at, _ = said(those)
        time.sleep(seconds)
        now, each = said(those)
        return [n / (now - at) for n, *_ in each]

    def natively(self):
        for name in self.names:
            p = self.start(self.native, name)
            p.say()
            time.sleep(0.3)
            self.alone[name], = self.rate([p])
            p.end()

    def together(self, sides, names, alone=ALONE):
        """Each alone first for so many seconds, in which its launches are timed, and then all."""
        those = []
        for side, name in zip(sides, names):
            p = self.start(side, name)
            p.say()
            time.sleep(alone)
            p.pause()
            those.append(p)
        for p in those:
            p.pause()
        time.sleep(SETTLE)
        got = self.rate(those)
        for p in those:
            p.end()
        return [r / self.alone[n] for r, n in zip(got, names)]


def judged(parts):
    """STP, ANTT."""
    return sum(parts), statistics.mean(1 / max(p, 1e-3) for p in parts)


def group_rows(pairs, size, kinds):
    """kinds: name, function that gives a side by number."""
    all_ = {k: [] for k, _ in kinds}
    for names in itertools.combinations(pairs.names, size):
        text, stps = [], {}
        for kind, side in kinds:
            parts = pairs.together([side(i) for i in range(size)], names,
                                   ALONE if kind == "sim" else 0)
            stp, antt = judged(parts)
            all_[kind].append((names, stp, antt))
            stps[kind] = stp
            text.append(f"{kind} {stp:.2f} ({', '.join(f'{p:.2f}' for p in parts)})")
        yield Row(" + ".join(names), "; ".join(text), names=names, stp=stps)
    for kind, got in all_.items():
        low = [s for n, s, _ in got if set(n) & set(LOW)]
        rest = [s for n, s, _ in got if not set(n) & set(LOW)]
        yield Row(f"STP, {kind}", f"{statistics.mean(low):.3f} with a kernel that leaves slots "
                  f"unused, {statistics.mean(rest):.3f} without, best "
                  f"{max(s for _, s, _ in got):.3f}; ANTT "
                  f"{statistics.mean(a for *_, a in got):.2f}",
                  statistics.mean(low) >= STP if kind == "sim" else None)


def run(where, device, tools, work, names):
    if device == "soft" or not shutil.which(CONTROL):
        print("sim skipped: " + ("tests/fault/test_rewrite.py has the software GPU's"
                                 if device == "soft" else f"no {CONTROL} here"))
        return []
    native = execute.Side("native", [], {})
    built = {}
    for program in programs.find(compute.HERE):
        if program.name in ("sim", "pilot"):
            tools.build(program, work)
            built[program.name] = program.argv[0]
    out = []

    def keep(rows):
        for row in rows:
            print(f"sim {row.name}: {row.text}", flush=True)
            out.append(row)

    if "sim-cost" in names:
        with daemon.Daemon(where, device) as d:
            keep(cost_rows(d, native, built))
    if "yield-stop" in names:
        keep(stop_rows(where, device))
    if "yield-cost" in names:
        with daemon.Daemon(where, device) as d:
            keep(yield_rows(d, native, built))
    sizes = [n for n, name in ((2, "sim-pairs"), (3, "sim-triples")) if name in names]
    if not sizes:
        return out
    pairs = Pairs(native, built)
    pairs.natively()
    with Server(where) as server, daemon.Daemon(where, device, mps=server.dir,
                                                blocks="sim") as d:
        for i in range(max(sizes)):
            for name, keys in ((f"i{i}", {}), (f"s{i}", {"compute.class": "shared"}),
                               (f"b{i}", {"compute.class": "shared",
                                          "kernel.rewrite": "auto"})):
                got = d.ask("tenant-add", name=name, set=keys)
                if not got["ok"]:
                    raise build.Error(got["error"])
        for size in sizes:
            keep(group_rows(pairs, size, (("in turns", lambda i: d.side(f"i{i}")),
                                          ("MPS", lambda i: d.side(f"s{i}")),
                                          ("sim", lambda i: d.side(f"b{i}")))))
        quiet(d)
    return out
