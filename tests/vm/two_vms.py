#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Two VMs share a device; whatever one of them does, the other's results are right.

"good" computes and checks all the time while "bad" stores where it may not, aborts, spins,
takes all memory, floods the host with garbage, and is killed.
"""
import os
import signal
import sys
import threading
import time

import harness
from harness import check, patient
from weftvm import agent, daemon

BOOT_SECONDS = 60
# Each checks its result against the CPU.
HONEST = ("vector_add", "reduce_scan", "nbody", "histogram")


class Neighbour(threading.Thread):
    """Runs honest programs in one VM, over and over, and counts."""

    def __init__(self, v):
        super().__init__(daemon=True)
        self.v = v
        self.done = 0
        self.failures = []
        self.stopping = False
        self.start()

    def run(self):
        while not self.stopping and not self.failures:
            for name in HONEST:
                try:
                    job = self.v.run([name], timeout=120)
                except (TimeoutError, agent.Gone) as e:
                    self.failures.append(f"{name}: {e}")
                    break
                if job.status != 0 or b"PASS" not in job.out:
                    self.failures.append(f"{name}: status {job.status} {job.out.decode()} "
                                         f"{job.err.decode()}")
                    break
                self.done += 1

    def goes_on(self):
        """At least one more program must end well."""
        want = self.done + 2  # one may have begun before
        deadline = time.monotonic() + 120
        while self.done < want:
            check(not self.failures, self.failures)
            check(time.monotonic() < deadline, "the neighbour is stuck")
            time.sleep(0.05)


def says(job, text, seconds=60):
    deadline = time.monotonic() + seconds
    while text not in job.out:
        check(time.monotonic() < deadline and not job.ended.is_set(),
              f"{job.argv}: {job.out.decode()} {job.err.decode()}")
        time.sleep(0.02)


def honest(v, name="vector_add"):
    job = v.run([name], timeout=120)
    check(job.status == 0, f"status {job.status}: {job.out.decode()} {job.err.decode()}")


def wild(bad, good):
    job = bad.run(["hostile", "wild"], timeout=120)
    check(job.status == 0, f"status {job.status}: {job.out.decode()}")
    good.goes_on()
    honest(bad)


def aborts(d, bad, good):
    job = bad.run(["hostile", "abort"], timeout=120)
    check(job.status == -signal.SIGABRT, f"status {job.status}: {job.out.decode()}")
    check(d.wait_no_sessions("bad", patient(1)), "its session outlives it")
    good.goes_on()


def spins(d, bad, good):
    job = bad.spawn(["hostile", "endless"])
    says(job, b"spinning")
    good.goes_on()
    job.kill(signal.SIGKILL)
    check(job.wait(10) == -signal.SIGKILL, f"status {job.status}")
    check(d.wait_no_sessions("bad", patient(1)), "its session outlives it")


def takes_all_memory(d, bad, good):
    job = bad.spawn(["hostile", "leak"])
    says(job, b"full")
    good.goes_on()
    job.kill(signal.SIGKILL)
    job.wait(10)
    check(d.wait_no_sessions("bad", patient(1)), "its session outlives it")
    honest(bad)


def floods(d, bad, good):
    jobs = [bad.spawn(["flood"]) for _ in range(2)]
    for j in jobs:
        says(j, b"flooding")
    good.goes_on()
    good.goes_on()
    for j in jobs:
        j.kill(signal.SIGKILL)
        j.wait(30)
    check(d.wait_no_sessions("bad", patient(5)), "sessions are left behind")
    # The window of "bad" is garbage now: it still has the socket.
    honest(bad)


def dies(d, bad, good):
    says(bad.spawn(["hostile", "endless"]), b"spinning")
    bad.kill()
    check(d.wait_no_sessions("bad", patient(1)), "its session outlives the VM")
    good.goes_on()


def main():
    tap = harness.Tap()
    build_dir = os.path.abspath(sys.argv[1])
    programs = [os.path.join(build_dir, "tests/path", p) for p in HONEST]
    programs += [os.path.join(build_dir, "tests/vm", p) for p in ("hostile", "flood")]
    with harness.Bench(build_dir, programs=programs) as b, \
         daemon.Daemon(build_dir, ["good", "bad"], device="soft", quota="512M") as d, \
         b.gpu_vm(d, "good", cid=42) as good, b.gpu_vm(d, "bad", cid=43) as bad:
        good.wait_ready(BOOT_SECONDS)
        bad.wait_ready(BOOT_SECONDS)
        n = Neighbour(good)
        tap.case("both compute at once", lambda: (honest(bad), n.goes_on()))
        tap.case("a wild store", wild, bad, n)
        tap.case("an abort", aborts, d, bad, n)
        tap.case("an endless kernel, then kill -9", spins, d, bad, n)
        tap.case("all memory of its quota", takes_all_memory, d, bad, n)
        tap.case("a flood of garbage", floods, d, bad, n)
        tap.case("kill -9 of the VM", dies, d, bad, n)
        n.stopping = True
        n.join(130)
        tap.ok(not n.failures, f"the neighbour ran {n.done} programs, all right")
        for f in n.failures:
            tap.note(f)
        if tap.failed:
            for text in (d.log_tail(), good.log_tail(), bad.log_tail()):
                tap.note(text)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
