#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program with a profiler in it, as PyTorch's is: CUPTI says that there is no profiling.

    cupti.py WEFT_RUN PROGRAM CACHE_DIR PACKAGE VERSION PATH ERROR

Fetches the wheel with CUPTI of that version once. Exit status 77 (skipped) if it cannot
be had. Nothing of what CUPTI asks the driver for may count as refused.
"""
import os
import subprocess
import sys

import wheels


def main(weft_run, program, cache, package, version, path, error):
    lib = wheels.library(package, version, path, os.path.join(cache, "cupti-" + version))
    if not lib:
        return 77
    r = subprocess.run([weft_run, "--stats", "--", program, lib, error], capture_output=True,
                       text=True, timeout=100, check=False)
    print(r.stdout, r.stderr)
    good = r.returncode == 0 and "PASS cupti" in r.stdout
    return 0 if good and "LAUNCHES" in r.stderr and "REFUSED" not in r.stderr else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
