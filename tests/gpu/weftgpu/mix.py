# SPDX-License-Identifier: Apache-2.0
"""Programs side by side, each a tenant of its own, under each policy of time.

With T the time that a program takes alone and S what it takes beside the others (each starts
again until all have ended once), of n programs:

    STP     system throughput: the sum of T / S, at most n (Eyerman and Eeckhout, IEEE Micro 2008)
    ANTT    average normalised turnaround time: the mean of S / T, 1 at best
    Jain    fairness of the T / S: the square of their sum by n times the sum of squares, 1 at best
    worst   the largest S / T
"""
import threading
import time

from . import compat, daemon, programs, table

POLICIES = ("fair", "best-effort", "exclusive", "priority")
# Programs that are picked if none are named: the longest of those that do not take all memory.
PROGRAMS, LEAST, MOST = 6, 1.5, 25  # seconds


def figures(alone, beside):
    """STP, ANTT, Jain's index and the largest slowdown."""
    speeds = [t / s for t, s in zip(alone, beside)]
    slow = [s / t for t, s in zip(alone, beside)]
    return (sum(speeds), sum(slow) / len(slow),
            sum(speeds) ** 2 / (len(speeds) * sum(x * x for x in speeds)), max(slow))


def groups(names):
    """Neighbours in pairs, and runs of four."""
    pairs = [names[i:i + 2] for i in range(0, len(names) - 1, 2)]
    return pairs + [names[i:i + 4] for i in range(0, len(names) - 3, 2)]


class Beside:
    """One program, over and over until all have ended once."""

    def __init__(self, d, program, tenant, start, stop):
        self.side, self.program, self.first, self.why = d.side(tenant), program, None, None
        self.start, self.stop = start, stop
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        self.start.wait()
        while not self.stop.is_set():
            r = self.side.run(self.program.argv, seconds=self.program.seconds * 4,
                              env=self.program.env)
            if r.status != "ok":
                self.why = f"{self.program.name}: {r.line}"
            self.first = self.first or r.seconds
            self.ended.set()
            if self.why:
                return


def beside(d, members):
    """Seconds that each takes; raises compat's words of the first that fails."""
    start, stop = threading.Event(), threading.Event()
    those = [Beside(d, p, f"m{i}", start, stop) for i, p in enumerate(members)]
    for i in range(len(members)):
        d.ask("tenant-set", name=f"m{i}", set={"compute.priority": str(int(i == 0))})
    start.set()
    for t in those:
        t.ended.wait()
    stop.set()
    for t in those:
        t.thread.join()
    why = next((t.why for t in those if t.why), None)
    if why:
        raise RuntimeError(why)
    return [t.first for t in those]


class Row:
    def __init__(self, policy, members, numbers=None, why=None):
        self.policy, self.members, self.numbers, self.why = policy, members, numbers, why

    def as_dict(self):
        return dict(self.__dict__)


def alone(d, rows):
    """{program: seconds}, the second time: caches are warm for the others as well."""
    out = {}
    for r in rows:
        for _ in range(2):
            got = d.side("m0").run(r.program.argv, seconds=r.program.seconds, env=r.program.env)
        if got.status == "ok":
            out[r.program] = got.seconds
    return out


def pick(times, named):
    if named:
        return list(times)
    fit = [p for p, t in times.items() if LEAST <= t <= MOST and not p.alone]
    return sorted(fit, key=lambda p: -times[p])[:PROGRAMS]


def run(directory, names, where, *, python, tools, work, device, policies=POLICIES):
    """Returns the rows: each group under each policy."""
    rows = [compat.Row(p) for p in programs.find(directory) if not names or p.name in names]
    compat.prepare(rows, python, tools, work, device)
    out, times, chosen = [], None, []
    for policy in policies:
        with daemon.Daemon(where, device, time=policy) as d:
            if times is None:
                times = alone(d, [r for r in rows if not r.skip])
                chosen = pick(times, names)
            for members in groups(chosen):
                called = [p.name for p in members]
                begin = time.monotonic()
                try:
                    numbers = figures([times[p] for p in members], beside(d, members))
                    out.append(Row(policy, called, numbers))
                except RuntimeError as e:
                    out.append(Row(policy, called, why=str(e)))
                print(f"mix {policy} {'+'.join(called)}: {text(out[-1])} "
                      f"({time.monotonic() - begin:.0f} s)", flush=True)
    return out


def text(row):
    return row.why or "STP {:.2f}, ANTT {:.2f}, Jain {:.3f}, worst {:.2f}".format(*row.numbers)


def render(rows):
    return table.render(("policy", "programs", "STP", "ANTT", "Jain", "worst"),
                        [(r.policy, " + ".join(r.members),
                          *(["-"] * 3 + [r.why] if r.why else
                            ["{:.2f}".format(x) for x in r.numbers])) for r in rows],
                        right=(2, 3, 4, 5))
