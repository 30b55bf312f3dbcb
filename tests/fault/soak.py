#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Five tenants that are promised three times what the device has, and use it.

    soak.py [--seconds N] [--seed N] [--memory MIB] [--placement NAME] [--time NAME]
            [--rewrite MODE] [--no-swap]
    soak.py --device cuda --memory 2048 --context 600

Their programs allocate, half of them managed memory too, free, launch, copy and check at random;
some are killed, some lose their worker, limits and weights change, and memory is moved by hand.
Whoever is not killed must end by itself with right results, and nobody may be refused memory
(without swap: may). At the end every counter is zero, and neither weftd nor the workers of the
programs that were there all the time have more descriptors or memory than at the start. The seed
decides what happens, but not when.
"""
import argparse
import os
import random
import sys
import time

from fault import Daemon, Script, kill, patient, wait_for

MIB = 1 << 20
TENANTS = ["a", "b", "c", "d", "e"]
# Part of the device for each tenant: 300 % together.
SHARE = 0.6
PROGRAMS = 2 # of a tenant at a time, besides the one that stays
PIECE = {"soft": "128K", "cuda": "2M"}
# Memory of programs besides their buffers: pools, slabs, pieces that are not full.
SLACK = 4
END_SECONDS = 60
# More than malloc keeps of what was freed, also where MALLOC_PERTURB_ touches all of it.
LEAK = 32 * MIB


def resident(pid):
    """Bytes of a process that nobody else has."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as f:
        return sum(int(line.split()[1]) << 10 for line in f
                   if line.startswith(("Private_Dirty", "Private_Clean")))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def least_descriptors(pid):
    """Without those of a weftctl that has just ended."""
    def once():
        time.sleep(0.02)
        return descriptors(pid)
    return min(once() for _ in range(10))


class Program:
    def __init__(self, daemon, tenant, args):
        self.tenant, self.args, self.killed = tenant, args, False
        self.process = daemon.run(*args, tenant=tenant)

    def ended(self):
        return self.process.poll() is not None


class Resident:
    """A program that is there all the time, and seldom does anything."""

    def __init__(self, daemon, tenant):
        self.told = Script(daemon, "keeps", tenant)
        self.kept = [(0, 3 * MIB), (1, 70 << 10)]
        self.wrong = [self.told.say(f"a {slot} {size}") for slot, size in self.kept]
        self.worker = daemon.sessions(tenant)[0]["worker.pid"]
        self.step(8 * MIB) # what it takes once
        self.before = self.has()

    def has(self):
        return {"descriptors": descriptors(self.worker), "bytes": resident(self.worker)}

    def step(self, size):
        self.wrong += [self.told.say(line) for line in (f"a 2 {size}", "l 2 3", "c 2", "f 2")]

    def end(self):
        """List of what the worker has more than at the beginning, and of what was wrong."""
        self.wrong += [self.told.say(f"c {slot}") for slot, _ in self.kept]
        now = self.has()
        print(f"worker {self.worker} before and after: {self.before} {now}")
        left = [f"a worker's {k}: {self.before} before, {now} after"
                for k, more in (("descriptors", 0), ("bytes", LEAK))
                if now[k] > self.before[k] + more]
        self.told.process.stdin.close()
        self.told.process.wait(patient(20))
        return left + [f"a resident program: {a}" for a in self.wrong if a != (0, 0)]


class Soak:
    def __init__(self, daemon, options):
        self.d, self.options = daemon, options
        self.rng = random.Random(options.seed)
        self.running, self.errors = [], []
        self.counts = {"programs": 0, "steps": 0, "refused": 0, "killed": 0, "limits": 0,
                       "moved by hand": 0, "most evicted, MiB": 0, "steps of residents": 0}
        self.residents = []
        if not options.no_swap:
            self.residents = [Resident(daemon, t) for t in TENANTS]

    def start(self):
        """One more program for the tenant that has fewest."""
        tenants = sorted(TENANTS, key=lambda t: sum(p.tenant == t for p in self.running))
        tenant = tenants[0]
        budget = int(self.options.memory * SHARE / 2)
        seconds = self.rng.choice([0.2, 1, 3, 8])
        args = ("mixed", seconds, budget, self.rng.randrange(1 << 30))
        args += (1 << 60, "managed") if self.rng.randrange(2) else ()
        self.running.append(Program(self.d, tenant, args))
        self.counts["programs"] += 1

    def kill_one(self):
        p = self.rng.choice(self.running)
        p.killed = True
        how = self.rng.randrange(3)
        session = self.session_of(p)
        try:
            if how == 0 or not session:
                p.process.kill()
            elif how == 1:
                kill(session["worker.pid"])
            else:
                self.d.ctl("kill", str(session["session"]))
        except (ProcessLookupError, AssertionError):
            if self.session_of(p): # or it has ended by itself meanwhile
                raise
        self.counts["killed"] += 1

    def session_of(self, p):
        return next((s for s in self.d.sessions(p.tenant) if s["pid"] == p.process.pid), None)

    def limit(self):
        tenant, all_bytes = self.rng.choice(TENANTS), self.options.memory * MIB
        contexts = (PROGRAMS + 1) * self.options.context * MIB
        key, value = self.rng.choice([
            ("memory.weight", self.rng.choice([50, 100, 100, 400])),
            ("memory.high", self.rng.choice(["max", contexts + all_bytes // 10,
                                             contexts + all_bytes // 4])),
            ("memory.low", self.rng.choice([0, all_bytes // 10])),
            ("memory.min", self.rng.choice([0, all_bytes // 20])),
        ])
        self.d.ctl("set", tenant, f"{key}={value}")
        self.counts["limits"] += 1

    def manual(self):
        if not self.options.no_swap:
            self.d.ctl("reclaim", self.rng.choice(TENANTS), f"{self.rng.randrange(1, 16)}M")
            self.counts["moved by hand"] += 1

    def use(self):
        self.rng.choice(self.residents).step(self.rng.randrange(1, 8 * MIB))
        self.counts["steps of residents"] += 1

    def collect(self):
        for p in [p for p in self.running if p.ended()]:
            self.running.remove(p)
            self.d.started.remove(p.process)
            out = p.process.stdout.read()
            p.process.stdout.close()
            last = out.splitlines()[-1].split() if out else []
            right = p.process.returncode == 0 and last[:1] == ["right"]
            if right:
                self.counts["steps"] += int(last[1])
                self.counts["refused"] += int(last[3])
            if p.process.returncode == 3 and self.options.no_swap:
                self.counts["refused"] += 1
            elif p.process.returncode == 2 or not (right or p.killed):
                self.errors.append(f"{p.args} of {p.tenant}: {p.process.returncode}: {out}")
            elif right and int(last[3]) and not self.options.no_swap:
                self.errors.append(f"{p.args} of {p.tenant} was refused memory: {out}")

    def run(self):
        end = time.monotonic() + self.options.seconds
        while time.monotonic() < end and not self.errors:
            if len(self.running) < PROGRAMS * len(TENANTS):
                self.start()
            self.rng.choices([lambda: None, self.kill_one, self.limit, self.manual, self.use],
                             [70, 5, 5, 5, 5 if self.residents else 0])[0]()
            evicted = self.d.ctl("list")["device"].get("memory.swap.current", 0)
            self.counts["most evicted, MiB"] = max(self.counts["most evicted, MiB"], evicted // MIB)
            self.collect()
            time.sleep(0.05)
        end = time.monotonic() + END_SECONDS
        while self.running and time.monotonic() < end:
            self.collect()
            time.sleep(0.05)
        self.errors += [f"{p.args} of {p.tenant} does not end" for p in self.running]
        if self.residents:
            self.wait_until_back()
            time.sleep(3) # what is kept for a moment
        for r in self.residents:
            self.errors += r.end()


    def wait_until_back(self):
        """Memory that was moved by hand comes when it is used."""
        for r in self.residents:
            r.step(1 * MIB)
        try:
            wait_for(lambda: not self.d.ctl("list")["device"]["memory.swap.current"], 10,
                     "all is back")
        except AssertionError as e:
            self.errors.append(f"{e}: {self.d.ctl('list')}")
            self.errors += [self.d.ctl("get", t, "memory.stat") for t in TENANTS]


def check_nothing_left(d, before):
    wait_for(lambda: not d.sessions(), 5, "all sessions are gone")
    wait_for(lambda: len(d.children("weft-worker")) == before["workers"], 10, "the pool")
    state = d.ctl("list")
    device = {"memory.swap.current": 0, **state["device"]}
    left = [f"device {k}: {device[k]}" for k in ("memory.current", "memory.swap.current")
            if device[k] != before[k]]
    for t in state["tenants"]:
        left += [f"tenant {t['name']} {k}: {t[k]}" for k in
                 ("memory.current", "memory.swap.current", "host.current", "sessions.current",
                  "sessions.waiting") if t.get(k)]
    try:
        wait_for(lambda: descriptors(d.process.pid) <= before["descriptors"], 5,
                 "weftd has as many descriptors as before")
    except AssertionError as e:
        left.append(str(e))
    now = measure(d)
    print(f"weftd before and after: {before} {now}")
    if now["bytes"] > before["bytes"] + 16 * MIB:
        left.append("memory")
    return left


def measure(d):
    pid, device = d.process.pid, d.ctl("list")["device"]
    return {"descriptors": least_descriptors(pid), "bytes": resident(pid),
            "workers": len(d.children("weft-worker")),
            # of workers that are ready
            **{k: device.get(k, 0) for k in ("memory.current", "memory.swap.current")}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("WEFT_SEED", "1")))
    parser.add_argument("--memory", type=int, default=96, metavar="MIB")
    parser.add_argument("--placement", default="lru")
    parser.add_argument("--time", default="fair", help="policy of time; sets: turns by memory")
    parser.add_argument("--rewrite", default="off", help="of kernels: yield, share, auto, always")
    parser.add_argument("--no-swap", action="store_true")
    parser.add_argument("--device", choices=PIECE, default="soft")
    parser.add_argument("--context", type=int, default=0, metavar="MIB",
                        help="what the device takes for each session, besides --memory")
    options = parser.parse_args()
    # One more of each, because they overlap.
    most = int(options.memory * SHARE * SLACK) + (PROGRAMS + 2) * options.context
    memory = options.memory + (len(TENANTS) * (PROGRAMS + 1) + 3) * options.context
    config = f"[daemon]\ntime = {options.time}\n"
    config += "".join(f"[tenant {t}]\nmemory.max = {most}M\nkernel.rewrite = {options.rewrite}\n"
                      for t in TENANTS)
    swap = [] if options.no_swap else ["--swap", f"{8 * options.memory}M",
                                       "--piece", PIECE[options.device],
                                       "--placement", options.placement]
    with Daemon("--memory", f"{memory}M", *swap, config=config, device=options.device) as d:
        wait_for(lambda: d.ctl("list")["device"]["workers.ready"] == 2, 10, "the pool")
        before = measure(d)
        soak = Soak(d, options)
        soak.run()
        print(soak.counts)
        for t in TENANTS:
            print(t, d.ctl("get", t, "memory.events")["keys"]["memory.events"])
        errors = soak.errors or check_nothing_left(d, before)
        for e in errors:
            print("wrong:", e)
        if errors:
            print(d.log())
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
