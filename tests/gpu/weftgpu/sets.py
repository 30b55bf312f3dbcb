# SPDX-License-Identifier: Apache-2.0
"""Programs that need more memory together than the device has, by turns and without: what all of
them do, of what as many do as fit."""
import mmap
import multiprocessing
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from . import build, compute, daemon, programs
from .looping import Looping, Row, quiet, said

GIB = 1 << 30
# GiB that each needs; how many there are where two fit, so that memory is promised one and a
# half times, twice and three times.
SIZE, COUNTS = 8, (3, 4, 6)
# Name: what large.py is told, the part that all of them are to do, and what they are.
KINDS = {"sets-decode": ("decode", 0.95, "decoders of 8 GiB, eager"),
         "sets-graph": ("graph", 0.95, "decoders of 8 GiB, a graph each token"),
         "sets-train": ("train", 0.85, "trainings of 8 GiB")}
# A step of training that reads the rest over PCIe takes minutes.
POLICIES = {"sets-decode": ("sets", "fair"), "sets-graph": ("sets",), "sets-train": ("sets",)}
# With decoders that have a graph each token: turns of other lengths, somebody in a hurry, and one
# that needs one and a half times the device.
TURNS, HURRY, ALONE = "sets-turns", "sets-hurry", "sets-alone"
# One allocation of 8 GiB of which kernels read slices, two eighths in all (compute/slices.cu):
# three of them on a device that holds one of these allocations.
SLICES, SLICES_GIB, SLICES_N = "sets-slices", 8, 3
# MSched's combinations A (compute/rodinia.cu) and B (torchvision's), the part of the device that all
# of them are to have, and the part of what the link allows, where what has no room beside the
# largest comes between two turns; together they need so many per cent of it.
MIXED, NETS, PARTS = "sets-mix", "sets-nets", (150, 200, 300)
OF_KINDS = {MIXED: (("dwt2d", "hotspot", "cfd", "nn"), 0.9, 0),
            NETS: (("resnet152", "vgg19", "inception_v3", "densenet201"), 0.85, 0.95)}
NAMES = [*KINDS, TURNS, HURRY, ALONE, SLICES, *OF_KINDS]
# Host memory is made once, a tenth of a second for a GiB.
SETTLE, SECONDS = 15, 10
SWAP, TURN_MS, CONTEXT = "96G", 500, 600 << 20
SHORTER_MS = (50, 100, 250)
# Host memory that is used once beforehand: a virtual machine gets its own on first use only, which
# takes a second for a GiB.
TOUCHED = 72 * GIB
ALONE_GIB, ALONE_HAS, LINK = 12, 9 * GIB, 55e9
# Longest turn in seconds (policies/sets.c), and bytes a second each way while both are used.
LONGEST_S, BOTH_WAYS = 2, 43e9


def touch(size):
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def touch_host(size=TOUCHED, parts=8):
    with open("/proc/meminfo", encoding="ascii") as f:
        free = next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable"))
    with multiprocessing.Pool(parts) as pool:
        pool.map(touch, [min(size, free * 3 // 4) // parts] * parts)


def moved(d):
    return sum(s["memory.moved_in"] + s["memory.moved_out"] for s in d.ask("list")["sessions"])


class Sets:
    def __init__(self, where, device, python, work, tools):
        self.where, self.device, self.python = where, device, python
        self.work, self.tools = work, tools
        self.path = os.path.join(compute.HERE, "large.py")
        self.known = {}
        self.slices = self.mixed_size = "large"

    def start(self, d, kind, n, gib=SIZE):
        """All of them together."""
        argv = [self.python, self.path, KINDS[kind][0], str(gib)]
        with ThreadPoolExecutor(n) as ex:
            return list(ex.map(lambda i: Looping(d.side(f"t{i}"), argv), range(n)))

    def ended(self, d, those, settle, seconds=None):
        """(a second, median, longest in us) of each, and the bytes that moved a second. They are
        told to end."""
        for p in those:
            p.say()
        time.sleep(settle)
        before, (at, _) = moved(d), said(those)
        time.sleep(seconds or SECONDS)
        now, each = said(those)
        bytes_ = moved(d) - before
        for p in those:
            p.end()
        return [(n / (now - at), *us) for n, *us in each], bytes_ / (now - at)

    def measured(self, d, those, settle=SETTLE, seconds=None):
        out = self.ended(d, those, settle, seconds)
        quiet(d)
        return out

    def fits(self, kind):
        """Steps a second of two that fit, both together; and what one has of the device."""
        if kind not in self.known:
            with daemon.Daemon(self.where, self.device) as d:
                those = self.start(d, kind, 2)
                has = max(s["memory.current"] for s in d.ask("list")["sessions"])
                each, _ = self.measured(d, those)
            self.known[kind] = sum(rate for rate, *_ in each), has
        return self.known[kind]

    def two_fit(self, kind, n, policy="sets"):
        """A device that holds two; contexts stay, also those of workers that wait for somebody."""
        _, has = self.fits(kind)
        memory = 2 * has + (n + 2) * CONTEXT + GIB // 2
        return daemon.Daemon(self.where, self.device, SWAP, policy, memory=memory, pool=2)

    def row(self, name, kind, each, rate, least, most_ms, more=""):
        full, _ = self.fits(kind)
        part, longest = sum(r for r, *_ in each) / full, max(us for *_, us in each) / 1e3
        good = None if least is None else part >= least and longest <= most_ms
        return Row(f"{KINDS[kind][2]}, {name}",
                   f"{part:.3f} of what fits, longest pause {longest:.0f} ms, "
                   f"{rate / GIB:.1f} GiB/s moved; each " +
                   " ".join(f"{r:.1f}" for r, *_ in each) + more, good, part=part)

    def counts(self, kind):
        full, has = self.fits(kind)
        yield Row(f"{KINDS[kind][2]}, two that fit",
                  f"{full:.1f} a second; {has / GIB:.2f} GiB each")
        for policy in POLICIES[kind]:
            for n in COUNTS if policy == "sets" else COUNTS[:1]:
                with self.two_fit(kind, n, policy) as d:
                    each, rate = self.measured(d, self.start(d, kind, n))
                yield self.row(f"{n} of them, {policy}", kind, each, rate,
                               KINDS[kind][1] if policy == "sets" else None,
                               (n - 1) * TURN_MS + 50)

    def turns(self, kind="sets-graph", n=4):
        """Shorter ones, since somebody is to wait no longer than that for its own."""
        for ms in SHORTER_MS:
            with self.two_fit(kind, n) as d:
                those = self.start(d, kind, n)
                d.ask("tenant-set", name="t0",
                      set={"compute.latency": str((n - 1) * ms * 1000)})
                each, rate = self.measured(d, those)
            row = self.row(f"{n} of them, turns of {ms} ms", kind, each, rate, None, 0)
            row.turn_ms = ms
            yield row

    def hurry(self, kind="sets-graph", n=3):
        """1 ms of work every 6 ms, of a higher priority, alone and beside those."""
        program = next(p for p in programs.find(compute.HERE) if p.name == "looping")
        self.tools.build(program, self.work)
        with daemon.Daemon(self.where, self.device) as d:
            run_ = compute.Run(d, program.argv[0])
            alone, _ = self.measured(d, [run_.program("quick", period=6)])
        with self.two_fit(kind, n + 1) as d:
            those = self.start(d, kind, n)
            run_.d = d
            quick = run_.program("quick", period=6)
            run_.set("quick", priority=1)
            (*each, its), rate = self.measured(d, [*those, quick])
        part = its[2] / alone[0][2]
        row = self.row(f"{n} of them, and somebody in a hurry", kind, each, rate, None, 0,
                       f"; its p99 is {its[2]:.0f} us, alone {alone[0][2]:.0f}, {part:.2f} times")
        row.good = part <= 1.2
        yield row

    def alone(self, kind="sets-graph"):
        """One that has to read a part of its memory from the host for each token."""
        with daemon.Daemon(self.where, self.device, SWAP, "sets", memory=ALONE_HAS, pool=2) as d:
            d.ask("tenant-add", name="t0", set={"memory.max": f"{2 * ALONE_GIB}G"})
            those = self.start(d, kind, 1, ALONE_GIB)
            swapped = sum(s["memory.swap.current"] for s in d.ask("list")["sessions"])
            each, rate = self.measured(d, those)
        best = LINK / swapped if swapped else float("inf")
        yield Row(f"one of {ALONE_GIB} GiB on a device of {ALONE_HAS / GIB:.0f}",
                  f"{each[0][0]:.2f} a second; {swapped / GIB:.1f} GiB are in host memory, which "
                  f"takes the link {1 / best:.2f} s: {each[0][0] / best:.3f} of what that allows",
                  each[0][0] >= 0.95 * best)

    def machine_code(self, program):
        """Builds it without the PTX that says what its kernels reach."""
        out = program.argv[0] + "-machine-code"
        cmd = [self.tools.nvcc, "-O2", "-gencode", "arch=compute_90,code=sm_90", "-o", out,
               program.path]
        r = subprocess.run(cmd, capture_output=True, text=True, check=False)
        if r.returncode:
            raise build.Error(f"does not build: {build.first_line(r.stderr)}")
        return out

    def sliced(self, path, n, memory=None):
        """Rounds a second of each of n, and bytes that moved a second."""
        with daemon.Daemon(self.where, self.device, SWAP, "sets", memory=memory, pool=2) as d:
            argv = [path, "slices", self.slices, "loop"]
            with ThreadPoolExecutor(n) as ex:
                those = list(ex.map(lambda i: Looping(d.side(f"t{i}"), argv), range(n)))
            # Eight turns of each, up to a second long, tell what nobody needs.
            return self.measured(d, those, 3 * SETTLE)

    def in_slices(self, n=SLICES_N):
        program = next(p for p in programs.find(compute.HERE) if p.name == "slices")
        self.tools.build(program, self.work)
        (alone, *_), _ = self.sliced(program.argv[0], 1)
        rates, memory = {}, SLICES_GIB * GIB + (n + 2) * CONTEXT + GIB // 2
        for name, path in (("by PTX", program.argv[0]), ("by names", self.machine_code(program))):
            each, rates[name] = self.sliced(path, n, memory)
            part = sum(r for r, *_ in each) / alone[0]
            p99 = max(us for *_, us in each) / 1e3
            yield Row(f"{n} that read slices of {SLICES_GIB} GiB, {name}",
                      f"{part:.3f} of one alone, p99 of a round {p99:.0f} ms, "
                      f"{rates[name] / GIB:.2f} GiB/s moved")
        part = rates["by PTX"] / rates["by names"] if rates["by names"] else float("inf")
        yield Row("moved by PTX, of what moves by names", f"{part:.3f}", part <= 0.1)

    def of_kinds(self, kind, argv):
        """Rates of programs of different kinds, as parts of what each does alone: all have one
        device. argv: of a name."""
        names, least, of_best = OF_KINDS[kind]
        n = len(names)

        def start(d):
            with ThreadPoolExecutor(n) as ex:
                return list(ex.map(lambda name: Looping(d.side(name), argv(name)), names))

        full = []
        with daemon.Daemon(self.where, self.device) as d:
            those = start(d)
            needs = sorted(s["memory.current"] - CONTEXT for s in d.ask("list")["sessions"]
                           if s["launches"])
            for p in those:
                each, _ = self.ended(d, [p], SETTLE / 5)
                full.append(each[0][0])
            quiet(d)
        for part in PARTS:
            room = sum(needs) * 100 // part + GIB // 2
            memory = room + (n + 2) * CONTEXT
            with daemon.Daemon(self.where, self.device, SWAP, "sets", memory=memory, pool=2) as d:
                each, rate = self.measured(d, start(d), seconds=3 * n * LONGEST_S)
            parts = [r / alone for alone, (r, *_) in zip(full, each)]
            best = LONGEST_S / (LONGEST_S + max(0, sum(needs[-2:]) - room) / BOTH_WAYS)
            yield Row(f"{', '.join(names)}, {sum(needs) / GIB:.1f} GiB, {part} %",
                      f"{sum(parts):.3f} of the device, {sum(parts) / best:.3f} of what the link "
                      "allows, each " + " ".join(f"{x:.3f}" for x in parts) +
                      f"; {rate / GIB:.1f} GiB/s moved",
                      sum(parts) >= max(least, of_best * best), parts=parts)

    def mix(self):
        program = next(p for p in programs.find(compute.HERE) if p.name == "rodinia")
        self.tools.build(program, self.work)
        return self.of_kinds(MIXED, lambda name: [program.argv[0], name, self.mixed_size, "loop"])

    def nets(self):
        return self.of_kinds(NETS, lambda name: [self.python, self.path, name, str(SIZE)])


def run(where, device, python, work, tools, wanted):
    touch_host()
    s = Sets(where, device, python, work, tools)
    others = {TURNS: s.turns, HURRY: s.hurry, ALONE: s.alone, SLICES: s.in_slices,
              MIXED: s.mix, NETS: s.nets}
    out = []
    for name in wanted:
        for row in others[name]() if name in others else s.counts(name):
            print(f"sets {row.name}: {row.text}", flush=True)
            out.append(row)
    return out
