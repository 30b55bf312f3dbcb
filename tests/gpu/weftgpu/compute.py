# SPDX-License-Identifier: Apache-2.0
"""Shares of GPU time and sets of TPCs: loops of several tenants, and where kernels run."""
import os
import subprocess
import time

from . import build, daemon, pair, programs, table
from .looping import SETTLE, Looping, Row, quiet, said

NAMES = ["compute-tpcs", "compute-shares", "compute-latency", "compute-caps", "compute-pair",
         "compute-strict"]
HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "compute")
COPY = 16 << 20  # bytes
WINDOW = 1.0  # seconds of a measurement


class Run:
    def __init__(self, d, path):
        self.d, self.path = d, path
        side = d.side("c0")
        out = subprocess.run([*side.prefix, path, "calibrate"], capture_output=True, text=True,
                             env=dict(os.environ, **side.env), check=True)
        self.per_ms = int(out.stdout)

    def program(self, tenant, ms=None, period=None, what="loop"):
        """A loop (ms), perhaps of another kind (what), or one kernel of 1 ms each period."""
        args = [what, str(int(self.per_ms * ms) if ms else COPY)]
        if period:
            args = ["every", str(period), str(self.per_ms)]
        return Looping(self.d.side(tenant), [self.path, *args], ms or 1)

    def set(self, tenant, **keys):
        self.d.ask("tenant-set", name=tenant,
                   set={f"compute.{k}": str(v) for k, v in keys.items()})

    def measured(self, those, windows=1):
        """For each window, of each program, what it says; rates a second by the clock."""
        for p in those:
            p.say()
        time.sleep(SETTLE)
        out, at = [], None
        for _ in range(windows + 1):
            now, each = said(those)
            if at:
                out.append([(n / (now - at), *times) for n, *times in each])
            at = now
            time.sleep(WINDOW)
        for p in those:
            p.end()
        return out

    def loops(self, tenants, windows=1, what="loop"):
        """tenants: (weight, sessions, ms). Milliseconds of work a second that each did."""
        quiet(self.d)
        those, of = [], []
        for i, (weight, sessions, ms) in enumerate(tenants):
            for _ in range(sessions):
                those.append(self.program(f"c{i}", ms, what=what))
                of.append(i)
            self.set(f"c{i}", weight=weight, priority=0)
        out = []
        for said in self.measured(those, windows):
            rates = [0.0] * len(tenants)
            for p, i, (rate, *_) in zip(those, of, said):
                rates[i] += rate * p.ms
            out.append(rates)
        return out

    def weights(self, name, tenants, what="loop"):
        total = sum(w for w, *_ in tenants)
        windows = self.loops(tenants, 4, what)
        worst, shares = 0, []
        for rates in windows:
            shares = [r / sum(rates) for r in rates]
            worst = max(worst, *(abs(s - w / total) for s, (w, *_) in zip(shares, tenants)))
        text = " : ".join(f"{s:.3f}" for s in shares)
        return Row(name, f"{text}; worst of 4 s: off by {worst:.3f} of the GPU", worst <= 0.01)

    def hurry(self, ms, priority):
        """A kernel of 1 ms every 6 ms beside a loop."""
        quiet(self.d)
        those = [self.program("c0", period=6)]
        if ms:
            those.append(self.program("c1", ms))
        self.set("c0", weight=100, priority=priority)
        said = self.measured(those, 3)
        p50 = sorted(s[0][1] for s in said)[1]
        p99 = max(s[0][2] for s in said)
        beside = min(s[1][0] * ms for s in said) if ms else 0
        return p50, p99, beside


    def done(self, those, seconds, windows):
        """How much those together do a second, in each of so many windows."""
        out, at = [], None
        for _ in range(windows + 1):
            now, each = said(those)
            n = sum(e[0] * p.ms for e, p in zip(each, those))
            if at:
                out.append(n / (now - at))
            at = now
            time.sleep(seconds)
        return out

    def capped(self, name, part, sessions=1, beside=False, priority=0, **what):
        """The part of what one does alone without a cap that a tenant does under one: several go
        round, which takes time of nobody's."""
        self.set("c0", weight=100, priority=priority)
        quiet(self.d)
        those = [self.program("c0", **what)]
        those[0].say()
        time.sleep(1)
        free = sum(self.done(those, 1, 2)) / 2
        for _ in range(sessions - 1):
            those.append(self.program("c0", **what))
            those[-1].say()
        if beside:
            those.append(self.program("c1", 1))
            those[-1].say()
        text, good = [], True
        for period, seconds, windows, within in ((100000, 1, 4, 0.02), (20000, 0.1, 30, 0.05)):
            self.set("c0", max=f"{int(part * period)} {period}")
            time.sleep(0.5)
            shares = [n / free for n in self.done(those[:sessions], seconds, windows)]
            worst = max(abs(s - part) for s in shares)
            text.append(f"{sum(shares) / len(shares):.3f}, off by {worst:.3f} in the worst "
                        f"{seconds} s")
            good &= worst <= within
        self.set("c0", max="max")
        for p in those:
            p.end()
        return Row(f"cap of {part}, {name}", "; ".join(text), good)


def cap_rows(d, path):
    run = Run(d, path)
    for beside in (False, True):
        more = ", beside a loop" if beside else ""
        for name, what in (("kernels of 0.1 ms", {"ms": 0.1}), ("of 1 ms", {"ms": 1}),
                           ("of 20 ms", {"ms": 20}), ("graphs", {"ms": 0.1, "what": "graph"}),
                           ("a kernel without an end", {"ms": 0.1, "what": "long"}),
                           ("copies", {"what": "copy"}),
                           ("four processes", {"ms": 1, "sessions": 4})):
            yield run.capped(name + more, 0.25, beside=beside, **what)
    for ms in (1, 20):
        yield run.capped(f"of {ms} ms, beside a loop, by priority", 0.25, beside=True,
                         priority=1, ms=ms)
    yield run.capped("kernels of 1 ms", 0.9, ms=1)


def share_rows(d, path):
    run = Run(d, path)
    alone = run.loops([(100, 1, 1)])[0][0]
    yield Row("alone, 1 ms", f"{alone:.0f} a second")
    for n in (2, 4, 8):
        got = sum(run.loops([(100, 1, 1)] * n)[0]) / alone
        yield Row(f"{n} equal, 1 ms", f"{got:.3f} of one alone", got >= 0.97)
    for ms in (0.1, 1, 20):
        yield run.weights(f"3:1, {ms} ms", [(300, 1, ms), (100, 1, ms)])
    yield run.weights("3:1, 0.1 ms, 64 queued", [(300, 1, 0.1), (100, 1, 0.1)], "deep")
    yield run.weights("9:1, 1 ms", [(900, 1, 1), (100, 1, 1)])
    yield run.weights("6:3:1, 1 ms", [(600, 1, 1), (300, 1, 1), (100, 1, 1)])
    yield run.weights("1 session beside 8, 1 ms", [(100, 1, 1), (100, 8, 1)])


def latency_rows(d, path):
    run = Run(d, path)
    alone = run.loops([(100, 1, 1)])[0][0]
    base50, base99, _ = run.hurry(0, 0)
    yield Row("1 ms every 6 ms, alone", f"p50 {base50:.0f}, p99 {base99:.0f} us")
    left = alone * 5 / 6
    for ms in (1, 10, 100):
        p50, p99, beside = run.hurry(ms, 0)
        yield Row(f"... beside {ms} ms, equal", f"p50 {p50:.0f}, p99 {p99:.0f} us")
        p50, p99, beside = run.hurry(ms, 1)
        yield Row(f"... beside {ms} ms, by priority",
                  f"p50 {p50:.0f}, p99 {p99:.0f} us: {p99 / base99:.2f} x alone; the loop has "
                  f"{beside / left:.2f} of what is left", p99 <= 1.2 * base99 and
                  beside >= 0.9 * left)


class Where:
    """A program of tenant c0's that says which TPCs its kernels run on."""

    def __init__(self, d, path):
        self.d = d
        side = d.side("c0")
        self.proc = subprocess.Popen([*side.prefix, path], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True,
                                     env=dict(os.environ, **side.env))

    def tell(self, what):
        self.proc.stdin.write(what + "\n")
        self.proc.stdin.flush()

    def line(self):
        said = self.proc.stdout.readline()
        if not said:
            raise build.Error("where has ended")
        return said.strip()

    def say(self, what):
        self.tell(what)
        return self.line()

    def set(self, text):
        """Changes the set, and returns which it is as a mask."""
        said = self.d.ask("tenant-set", name="c0", set={"tpc.set": text})
        if not said["ok"]:
            raise build.Error(said["error"])
        mask = 0
        for part in said["keys"]["tpc.current"].split(","):
            first, _, last = part.partition("-")
            for n in range(int(first), int(last or first) + 1):
                mask |= 1 << n
        time.sleep(0.05)  # what was said last has been heard
        return mask

    def end(self):
        self.set("all")
        self.proc.stdin.close()
        self.proc.wait(30)


def sets_of(n):
    """Texts of sets of a device of n TPCs."""
    return ["0", str(n - 1), f"3,{n - 2}", f"0-{n // 13 - 1}", f"10-{10 + n // 4}",
            f"0-{n // 2 - 1}", f"{n // 2}-{n - 1}", f"1,5,9,13,17,{n - 3},{n - 1}",
            f"0-{n - 2}", "all"]


def tpc_rows(d, path):
    w = Where(d, path)
    n = int(w.say("sms")) // 2
    costs = [(float(w.say("launch")), float(w.say("wait")))]
    for what in ("kernel", "thread", "graph", "batch", "fill"):
        wrong = []
        for text in sets_of(n):
            want = w.set(text)
            got = int(w.say(what), 16)
            if got != want:
                wrong.append(f"{text}: {got:x}")
        yield Row(f"TPCs of {what}", "; ".join(wrong) or f"right for {len(sets_of(n))} sets",
                  not wrong)
    rates = []
    for k in (k for k in (1, 2, 5, 17, 33, 66) if k <= n):
        w.set(f"0-{k - 1}")
        rates.append((k, float(w.say("rate"))))
    parts = [rates[0][1] / us / k for k, us in rates]
    yield Row("throughput for each TPC", ", ".join(f"{k}: {p:.3f}" for (k, _), p in
                                                   zip(rates, parts)),
              all(abs(p - 1) <= 0.02 for p in parts))
    w.set(f"0-{n - 2}")
    costs.append((float(w.say("launch")), float(w.say("wait"))))
    w.set("all")
    costs.append((float(w.say("launch")), float(w.say("wait"))))
    yield Row("launch; and wait", "; ".join(f"{a:.2f}, {b:.2f}" for a, b in costs) +
              " us (no set, one, none again)")
    delays = []
    for text in ("0-3", "4-7", "8", "0-20", "all"):
        w.tell("change")
        w.line()
        at = time.monotonic()
        d.ask("tenant-set", name="c0", set={"tpc.set": text})
        delays.append((float(w.line().split()[1]) - at) * 1e3)
    yield Row("a change, until a kernel has run elsewhere",
              f"{min(delays):.2f} to {max(delays):.2f} ms", max(delays) <= 2)
    w.end()


def has_all(python, path):
    why = programs.missing(programs.Program(path), python)
    if why:
        print(f"compute pair skipped: {why}")
    return not why


def pair_rows(d, python, path):
    if has_all(python, path):
        yield from pair.rows(d, python.path, path)


def strict_rows(d, python, path):
    """Decoding without a pause leaves nothing that a switch would not cost more than."""
    if not has_all(python, path):
        return
    with daemon.Daemon(d.build, d.device, time="priority") as strict:
        yield from pair.rows(strict, python.path, path, pair.KINDS[1:], ", time = priority")


def run(d, tools, work, device, python, names):
    if device == "soft":
        print("compute skipped: on the software GPU tests/fault/test_pace.py measures it")
        return []
    built = {}
    for program in programs.find(HERE):
        if program.suffix == ".cu":
            tools.build(program, work)
            built[program.name] = program.argv[0]
    out = []
    looping, both = built["looping"], os.path.join(HERE, "pair.py")
    for name, made in zip(NAMES, (tpc_rows(d, built["where"]), share_rows(d, looping),
                                  latency_rows(d, looping), cap_rows(d, looping),
                                  pair_rows(d, python, both), strict_rows(d, python, both))):
        for row in made if name in names else ():
            print(f"compute {row.name}: {row.text}", flush=True)
            out.append(row)
    return out


def render(results):
    good = {None: "", True: "ok", False: "short"}
    return table.render(["time", "measured", ""],
                        [[r.name, r.text, good[r.good]] for r in results])
