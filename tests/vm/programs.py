#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The compatibility programs of tests/path, unmodified, inside VMs: with a window, without
one, with one that is full, and with one that fills up and empties while they run.

    programs.py BUILD [CASE,...] [PROGRAM... | some]

"some" is every third program: CI runs all of them beside a daemon, and these in a VM.
"""
import concurrent.futures
import os
import sys
import time

import harness
from harness import check, patient
from weftvm import daemon

BOOT_SECONDS = 60
PROGRAM_SECONDS = 120
# Sessions that have a part of a window of WINDOW_MIB.
WINDOW_MIB = 256
SLICES = 4
# More at once than have room in the window.
AT_ONCE = SLICES + 3


def run(v, name):
    job = v.run([name], timeout=PROGRAM_SECONDS)
    text = job.out.decode(errors="replace")
    check(job.status == 0 and "PASS" in text,
          f"status {job.status}: {text[-500:]} {job.err.decode(errors='replace')[-500:]}")
    return job


def over(d, v):
    """The carrier of a session begun now, as the host lists it; and what its program says."""
    before = {s["session"] for s in d.sessions("vm")}
    job = hold(v)
    carriers = [s["carrier"] for s in d.sessions("vm") if s["session"] not in before]
    end(job)
    check(len(carriers) == 1, carriers)
    return carriers[0], job.err.decode()


def hold(v):
    """A session that stays until it is killed."""
    job = v.spawn(["hold"])
    deadline = time.monotonic() + patient(20)
    while b"holding" not in job.out:
        check(time.monotonic() < deadline and not job.ended.is_set(),
              f"no session: {job.out.decode()} {job.err.decode()}")
        time.sleep(0.02)
    return job


def end(job):
    if not job.ended.is_set():
        job.kill()
        job.wait(10)


def with_window(tap, d, v, programs):
    def carrier():
        name, said = over(d, v)
        check(name == "vsock+window", name)
        check(not said, said)

    tap.case("window: the carrier", carrier)
    for p in programs:
        tap.case(f"window: {p}", run, v, p)


def without_window(tap, d, v, programs):
    def carrier():
        name, said = over(d, v)
        check(name == "vsock", name)
        check("warning: no shared window (this VM has no such device" in said, said)
        check(said.count("\n") == 1, said)

    tap.case("no window: the carrier", carrier)
    for p in programs:
        tap.case(f"no window: {p}", run, v, p)


def full_window(tap, d, v, programs):
    holders = [hold(v) for _ in range(SLICES)]

    def carrier():
        name, said = over(d, v)
        check(name == "vsock", name)
        check("warning: no shared window (it is full" in said, said)

    def again():
        for job in holders:
            end(job)
        check(d.wait_no_sessions("vm", patient(2)), "a session outlives its program")
        check(over(d, v)[0] == "vsock+window", "what is free again is not used")

    tap.case("full window: the carrier", carrier)
    for p in programs:
        tap.case(f"full window: {p}", run, v, p)
    tap.case("full window: used again when it is not", again)


def changing_window(tap, d, v, programs):
    """Each program starts as soon as another has ended: the window is full, and is not."""
    seen = set()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        left = [(p, pool.submit(run, v, p)) for p in programs]
        while not all(f.done() for _, f in left):
            seen |= {s["carrier"] for s in d.sessions("vm")} - {""}
            time.sleep(0.02)
    for p, f in left:
        tap.case(f"window that fills up: {p}", f.result)
    if len(programs) > 3 * AT_ONCE:
        tap.ok(seen == {"vsock", "vsock+window"}, f"carriers: {sorted(seen)}")


# name: what it does, window of the tenant in MiB (0: none)
CASES = {
    "window": (with_window, WINDOW_MIB),
    "none": (without_window, 0),
    "full": (full_window, WINDOW_MIB),
    "changing": (changing_window, WINDOW_MIB),
}


def case(tap, build_dir, name, programs):
    fn, window_mib = CASES[name]
    hold_ = os.path.join(build_dir, "tests/vm/hold")
    with harness.Bench(build_dir, programs=[hold_, *programs]) as b, \
         daemon.Daemon(build_dir, ["vm"], device="soft", window_mib=window_mib) as d, \
         b.gpu_vm(d, "vm", with_window=window_mib > 0) as v:
        v.wait_ready(BOOT_SECONDS)
        fn(tap, d, v, [os.path.basename(p) for p in programs])
        tap.ok(d.wait_no_sessions("vm", patient(2)), f"{name}: no session is left behind")
        if tap.failed:
            tap.note(d.log_tail())
            tap.note(v.log_tail())


def main():
    tap = harness.Tap()
    build_dir = os.path.abspath(sys.argv[1])
    names = sys.argv[2].split(",") if len(sys.argv) > 2 else list(CASES)
    programs = sys.argv[3:]
    some = programs == ["some"]
    if not programs or some:
        with open(os.path.join(build_dir, "tests/path/programs.txt"), encoding="utf-8") as f:
            programs = sorted(f.read().split())[::3 if some else 1]
    for name in names:
        case(tap, build_dir, name, programs)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
