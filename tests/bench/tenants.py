#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weftd with many tenants attached, some of them working, on the software device.

    WEFT_BUILD=build tests/bench/tenants.py [--tenants 256] [--working 64] [--rounds 50] [--restart]

Prints a table: weftd's memory; how long weftctl set and a request alone take, and how long
weftctl --version, which asks nobody; the answer to list; and weftd's processor time with and
without somebody who asks for it each second. A program that works does so all the time but for
pauses of half a second, so that a small machine is not all that is measured. With --restart weftd
is killed, and told to end, under all of them instead: after how many seconds its socket answers,
and all sessions are there.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))
import fault  # noqa: E402

HZ = os.sysconf("SC_CLK_TCK")
SECONDS = 10
PAUSE_MS = 500  # of a working program, between two rounds of copies and launches


def status(pid, key):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key))


def processor_s(pid):
    return sum(map(int, fault.stat(pid)[11:13])) / HZ


def times(rounds, action):
    """Milliseconds of each round."""
    taken = []
    for n in range(rounds):
        start = time.perf_counter()
        action(n)
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def row(what, taken):
    taken = sorted(taken)
    print(f"{what:34} {statistics.median(taken):8.2f} {taken[int(len(taken) * 0.95)]:8.2f} "
          f"{taken[-1]:8.2f}")


def weftctl(d, *words):
    return subprocess.run([fault.program("weftctl"), "-c", d.path("control"), *words],
                          check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout


def attach(d, tenants, working):
    """A program of each tenant's: idle ones hold memory, and then come those that work."""
    for n in range(working, tenants):
        assert fault.Script(d, "keeps", f"vm{n}").say(f"a 0 {1 << 20}")[0] == 0
    for n in range(working):
        d.run("steady", "-", PAUSE_MS, tenant=f"vm{n}", stdin=subprocess.PIPE)
    fault.wait_for(lambda: len(d.sessions()) == tenants, 120, "all are there")


def used_in(d, seconds, each_second):
    """weftd's processor time in so many seconds, in per cent of one processor."""
    before, end = processor_s(d.process.pid), time.monotonic() + seconds
    while time.monotonic() < end:
        each_second()
        time.sleep(1)
    return (processor_s(d.process.pid) - before) / seconds * 100


def measure(d, options):
    from test_control import Client  # the fault tests' own

    first = status(d.process.pid, "VmRSS")
    attach(d, options.tenants, options.working)
    print(f"{options.tenants} tenants with a session each, {options.working} work, "
          f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.0f}\n")
    print(f"weftd: {status(d.process.pid, 'VmRSS') / 1024:.1f} MiB (before any session "
          f"{first / 1024:.1f}), at most {status(d.process.pid, 'VmHWM') / 1024:.1f}\n")
    print(f"{'milliseconds':34} {'median':>8} {'95 %':>8} {'most':>8}")
    vms = [f"vm{n % options.tenants}" for n in range(options.rounds)]
    row("weftctl --version", times(options.rounds, lambda n: weftctl(d, "--version")))
    row("weftctl set", times(options.rounds, lambda n: weftctl(
        d, "set", vms[n], f"memory.weight={n + 1}", "memory.max=1G")))
    row("weftctl list --json", times(options.rounds, lambda n: weftctl(d, "list", "--json")))
    with Client(d) as c:
        row("tenant-set alone", times(options.rounds, lambda n: c.ask(
            "tenant-set", name=vms[n], set={"memory.weight": n + 1, "memory.max": "2G"})))
        row("ping alone", times(options.rounds, lambda n: c.ask("ping")))
        c.tell("list")
        size = len(c.file.readline())

        def read_list():
            c.tell("list")
            c.file.readline()

        row("list alone", times(options.rounds, lambda n: read_list()))
        print(f"\nan answer to list has {size / 1024:.0f} KiB")
        without = used_in(d, SECONDS, lambda: None)
        asked = used_in(d, SECONDS, read_list)
    print(f"weftd's processor time: {without:.2f} % of one, asked for list each second "
          f"{asked:.2f} %")
    print(f"weftd afterwards: {status(d.process.pid, 'VmRSS') / 1024:.1f} MiB")
    assert json.loads(weftctl(d, "list", "--json"))["ok"]


def restart(d, options):
    """d keeps its sessions: its process is the supervisor, weftd is below that."""
    attach(d, options.tenants, options.working)
    sessions = sorted(s["session"] for s in d.sessions())
    print(f"{options.tenants} tenants with a session each, {options.working} work\n\n"
          f"{'weftd is ended by':20} {'answers':>8} {'has all':>8}  seconds; MiB")
    for sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        was, start = d.broker(), time.monotonic()
        os.kill(was, sig)
        fault.wait_for(lambda: d.broker() not in (0, was) and d.up(), 30, "it answers")
        answers = time.monotonic() - start
        fault.wait_for(lambda: sorted(s["session"] for s in d.sessions()) == sessions, 60,
                       "all sessions are there")
        print(f"{sig.name:20} {answers:8.2f} {time.monotonic() - start:8.2f}  "
              f"{status(d.broker(), 'VmRSS') / 1024:.1f}")
    assert all(p.poll() is None for p in d.started), "a program has ended"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--tenants", type=int, default=256)
    p.add_argument("--working", type=int, default=64)
    p.add_argument("--rounds", type=int, default=50)
    p.add_argument("--restart", action="store_true")
    options = p.parse_args()
    config = "".join(f"[tenant vm{n}]\nmemory.max = 512M\n" for n in range(options.tenants))
    from test_restart import Kept
    with (Kept if options.restart else fault.Daemon)("--memory", "8G", "--pool", "4",
                                                     config=config) as d:
        (restart if options.restart else measure)(d, options)


if __name__ == "__main__":
    main()
