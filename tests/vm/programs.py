#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every compatibility program of tests/path, unmodified, inside a VM."""
import os
import sys

import harness
from harness import check, patient
from weftvm import daemon

BOOT_SECONDS = 60
PROGRAM_SECONDS = 300
# What a window of this size cannot do yet: sessions that find it full hang.
SKIPPED = {"drv_start": "56 sessions at once want more than a window of 256 MiB"}


def run(v, name):
    job = v.run([name], timeout=PROGRAM_SECONDS)
    text = job.out.decode(errors="replace")
    check(job.status == 0 and "PASS" in text,
          f"status {job.status}: {text[-500:]} {job.err.decode(errors='replace')[-500:]}")


def uses(v, name, carrier):
    """The library says over what it reached its worker."""
    job = v.run([name], timeout=PROGRAM_SECONDS, env={"WEFT_LOG": "debug"})
    want = b", vsock+window\n" if carrier == "window" else b", vsock\n"
    check(want in job.err, job.err[-300:].decode(errors="replace"))


def main():
    tap = harness.Tap()
    build_dir = os.path.abspath(sys.argv[1])
    carrier = sys.argv[2]  # window, or vsock alone
    programs = sys.argv[3:]
    if not programs:
        with open(os.path.join(build_dir, "tests/path/programs.txt"), encoding="utf-8") as f:
            programs = f.read().split()
    with harness.Bench(build_dir, programs=programs) as b, \
         daemon.Daemon(build_dir, ["vm"], device="soft") as d, \
         b.gpu_vm(d, "vm", with_window=carrier == "window") as v:
        v.wait_ready(BOOT_SECONDS)
        tap.case(f"the carrier is {carrier}", uses, v, os.path.basename(programs[0]), carrier)
        for p in map(os.path.basename, programs):
            if p in SKIPPED:
                tap.skip(f"{carrier}: {p}", SKIPPED[p])
            else:
                tap.case(f"{carrier}: {p}", run, v, p)
        tap.ok(d.wait_no_sessions("vm", patient(1)), "no session is left behind")
        if tap.failed:
            tap.note(d.log_tail())
            tap.note(v.log_tail())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
