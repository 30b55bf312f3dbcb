# SPDX-License-Identifier: Apache-2.0
"""The benchmarks: native and Weft in turn, medians, spread, ratio, and the target."""
import glob
import os
import subprocess
import tempfile
import time

from . import build, execute, programs, table

IDLE_SECONDS = 4
# After a start the pool makes another ready worker.
SETTLE_SECONDS = 4


class Target:
    """How Weft's median is judged against native's; text is for the table."""

    def __init__(self, text, met):
        self.text, self.met = text, met


def ratio(least, higher):
    """Weft is as fast as native times least, whichever way the metric points."""
    return Target(f">= {least} of native",
                  lambda n, w: (w / n if higher else n / w) >= least)


# metric: what it is, unit, whether more is better, target
METRICS = {
    "launch_call": ("cuLaunchKernel back to back, per call", "us", False,
                    Target("<= 0.3 us", lambda n, w: w <= 0.3)),
    "launch_rate": ("launches, throughput", "k/s", True, ratio(1.0, True)),
    "launch_sync": ("launch + synchronise", "us", False,
                    Target("<= native + 0.5 us", lambda n, w: w <= n + 0.5)),
    "pinned_h2d": ("pinned H2D, 1 GiB", "GB/s", True, ratio(0.98, True)),
    "pinned_d2h": ("pinned D2H, 1 GiB", "GB/s", True, ratio(0.98, True)),
    "pinned_both": ("pinned, both ways at once", "GB/s", True, ratio(0.95, True)),
    "beside_4k": ("4 KiB from the device while another process copies", "us", False,
                  ratio(1.0, False)),
    "beside_1m": ("1 MiB, the same", "us", False, ratio(1.0, False)),
    "beside_rate": ("two processes that copy from the device, together", "GB/s", True,
                    ratio(0.95, True)),
    "pageable_h2d": ("pageable H2D, 1 GiB", "GB/s", True, ratio(1.0, True)),
    "pageable_d2h": ("pageable D2H, 1 GiB", "GB/s", True, ratio(1.0, True)),
    "managed_first": ("managed memory, 1 GiB: the program touches it first", "ms", False,
                      ratio(1.0, False)),
    "managed_gpu": ("... then a kernel", "ms", False, ratio(1.0, False)),
    "managed_again": ("... then the program", "ms", False, ratio(1.0, False)),
    "managed_back": ("... then a kernel again", "ms", False, ratio(1.0, False)),
    "managed_one": ("... then the program a word of it", "us", False, ratio(1.0, False)),
    "managed_talk": ("... then tells a kernel that waits there, and is answered", "us", False,
                     ratio(1.0, False)),
    "managed_in": ("prefetching it to the device", "GB/s", True, ratio(0.9, True)),
    "managed_out": ("prefetching it to the host", "GB/s", True, ratio(0.9, True)),
    "managed_there": ("kernels over it there, of the rate of plain memory", "", True,
                      ratio(0.99, True)),
    "resnet50_fp32": ("ResNet-50 training step, batch 64, fp32", "ms", False,
                      ratio(0.99, False)),
    "resnet50_bf16": ("ResNet-50 training step, batch 64, bf16", "ms", False,
                      ratio(0.99, False)),
    "transformer_train": ("transformer 12 x 768, training step", "ms", False,
                          ratio(0.99, False)),
    "transformer_infer": ("transformer 12 x 768, inference", "ms", False, ratio(0.99, False)),
    "decode_eager": ("one-token decode, GPT-2 size, eager", "ms", False, ratio(1.0, False)),
    "decode_graph": ("the same as a CUDA graph", "ms", False, ratio(0.98, False)),
    "decode_growing_first": ("the same with growing keys, nothing compiled before", "ms",
                             False, ratio(0.95, False)),
    "decode_growing_second": ("the same in the next process", "ms", False,
                              ratio(0.95, False)),
    "first_kernel": ("exec to first kernel, pool warm", "ms", False, ratio(1.0, False)),
    # A context's threads of the driver wake up now and then, natively and in a worker.
    "idle": ("CPU of an idle session, of one core", "%", False,
             Target("none but native's", lambda n, w: w < n + 0.05)),
    "idle_pool": ("CPU of each ready worker without a session", "%", False,
                  Target("none but native's", lambda n, w: w < n + 0.05)),
}
for k in (4, 16, 64):
    for kind in ("pinned", "pageable"):
        for way in ("h2d", "d2h"):
            METRICS[f"small_{kind}_{k}k_{way}"] = (
                f"{kind} copies of {k} KiB, {way.upper()}", "GB/s", True, ratio(0.9, True))


class Row:
    def __init__(self, metric):
        self.metric = metric
        self.native, self.weft = [], []

    def judge(self):
        """True, False, or None where one side is missing."""
        if not self.native or not self.weft:
            return None
        return METRICS[self.metric][3].met(table.spread(self.native)[0],
                                           table.spread(self.weft)[0])

    def ratio(self):
        """Above 1: Weft is the faster."""
        if not self.native or not self.weft:
            return None
        n, w = table.spread(self.native)[0], table.spread(self.weft)[0]
        if not n or not w:
            return None
        return w / n if METRICS[self.metric][2] else n / w

    def as_dict(self):
        d = {"metric": self.metric, "what": METRICS[self.metric][0],
             "unit": METRICS[self.metric][1], "target": METRICS[self.metric][3].text,
             "met": self.judge(), "ratio": self.ratio()}
        for side in ("native", "weft"):
            v = getattr(self, side)
            if v:
                m, low, high = table.spread(v)
                d[side] = {"median": m, "min": low, "max": high, "values": v}
        return d


class Bench:
    """Collects the rows; problems are (what, why) of everything that gave no number."""

    def __init__(self, python, tools, sides, work, device, repeats, daemon, seconds=0):
        self.python, self.tools, self.sides = python, tools, sides
        self.work, self.device, self.repeats = work, device, repeats
        self.daemon, self.seconds = daemon, seconds
        self.rows, self.skips, self.problems = {}, [], []

    def add(self, side, metric, value):
        row = self.rows.setdefault(metric, Row(metric))
        getattr(row, side).append(value)

    def program(self, p):
        for turn in range(self.repeats):
            for side in self.sides:
                log = os.path.join(self.work, f"bench-{p.name}.{side.name}.{turn}.log")
                r = side.run(p.argv, env=p.env, log=log,
                             seconds=min(p.seconds, self.seconds or p.seconds))
                if r.status != "ok":
                    self.problems.append((f"{p.name} ({side.name})", r.line))
                    print(f"bench {p.name}: {side.name} {r.status}: {r.line}", flush=True)
                    return
                got = [w for w in map(str.split, r.output.splitlines())
                       if len(w) == 2 and w[0] in METRICS]
                for metric, value in got:
                    self.add(side.name, metric, float(value))
                print(f"bench {p.name} {turn + 1} {side.name} {r.seconds:.1f} s: "
                      + ", ".join(f"{m} {v}" for m, v in got), flush=True)

    def prepare(self, p):
        why = programs.missing(p, self.python)
        if not why and self.device == "soft" and not p.soft:
            why = "needs a GPU"
        if not why:
            if p.suffix == ".py":
                p.argv = [self.python.path, p.path]
                return True
            try:
                self.tools.build(p, os.path.join(self.work, "bin"))
                return True
            except build.Error as e:
                why = str(e)
        self.skips.append((p.name, why))
        return False

    def start(self, directory, names):
        for p in programs.find(directory):
            if p.name in names and self.prepare(p):
                self.program(p)
        if "start" in names:
            self.first_kernel(directory)

    def first_kernel(self, directory):
        """Exec to first kernel, and idle CPU, against a daemon that has been running."""
        p = programs.Program(os.path.join(directory, "first_kernel.c"))
        if not self.prepare(p):
            return
        for turn in range(self.repeats + 1):
            for side in self.sides:
                took = self._until_ready(side, p, [])
                # The first of each loads files from the disk.
                if turn and took is not None:
                    self.add(side.name, "first_kernel", took * 1e3)
                time.sleep(0.5)
        for side in self.sides:
            self._idle(side, p)

    def _until_ready(self, side, p, args, during=None):
        with tempfile.TemporaryDirectory(prefix="wg-") as tmp:
            start = time.monotonic()
            with open(os.path.join(self.work, f"bench-start.{side.name}.log"), "ab") as log:
                proc = side.popen([*p.argv, *args], {}, tmp, stdout=subprocess.PIPE,
                                  stderr=log)
                line = proc.stdout.readline()
                took = time.monotonic() - start
                if line.strip() != b"ready":
                    execute.end_group(proc)
                    self.problems.append((f"first kernel ({side.name})",
                                          line.decode(errors="replace").strip() or "no output"))
                    return None
                if during:
                    during(proc)
                try:
                    proc.wait(30)
                except subprocess.TimeoutExpired:
                    self.problems.append((f"first kernel ({side.name})", "does not end"))
                execute.end_group(proc)
            return took

    def _idle(self, side, p):
        def measure(proc):
            roots = {proc.pid}
            if self.daemon and side.name == "weft":
                roots.add(self.daemon.proc.pid)
            time.sleep(SETTLE_SECONDS)
            before = cpu_ns(roots)
            time.sleep(IDLE_SECONDS)
            after = cpu_ns(roots)
            used = {k: after[k] - before.get(k, 0) for k in after}
            for (pid, name), ns in used.items():
                if ns:
                    print(f"bench idle {side.name}: {name} ({pid}) {ns / 1e6:.3f} ms in "
                          f"{IDLE_SECONDS} s")
            ours = self.daemon.workers() if side.name == "weft" else []
            pool = [ns for (pid, name), ns in used.items()
                    if name == "weft-worker" and pid not in ours]
            percent = 1e7 * IDLE_SECONDS
            self.add(side.name, "idle", (sum(used.values()) - sum(pool)) / percent)
            if side.name == "native":
                self.add(side.name, "idle_pool", sum(used.values()) / percent)
            elif pool:
                self.add(side.name, "idle_pool", sum(pool) / len(pool) / percent)
        self._until_ready(side, p, [str(IDLE_SECONDS + SETTLE_SECONDS + 2)], measure)


def cpu_ns(roots):
    """{(pid, name): CPU time} of processes and of all that descend from them."""
    parent, names = {}, {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                head, _, tail = f.read().rpartition(")")
        except OSError:
            continue
        parent[pid] = int(tail.split()[1])
        names[pid] = head.partition("(")[2]
    out = {}
    for pid, name in names.items():
        up = pid
        while up and up not in roots:
            up = parent.get(up, 0)
        if up:
            out[pid, name] = thread_ns(pid)
    return out


def thread_ns(pid):
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path, encoding="ascii") as f:
                total += int(f.read().split()[0])
        except (OSError, IndexError):
            pass
    return total


def render(rows):
    def cell(v):
        if not v:
            return None
        m, low, high = table.spread(v)
        return f"{table.number(m)} ({table.number(low)}-{table.number(high)})"

    out = []
    for metric in METRICS:
        row = rows.get(metric)
        if row:
            what, unit, _, target = METRICS[metric]
            met = row.judge()
            r = row.ratio()
            out.append((what, unit, cell(row.native), cell(row.weft),
                        None if r is None else f"{r:.3f}", target.text,
                        {None: None, True: "met", False: "NOT MET"}[met]))
    return table.render(("benchmark", "unit", "native (min-max)", "Weft (min-max)", "ratio",
                         "target", ""), out, right=(2, 3, 4))
