#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shared CUDA runtimes 12.x, as Python packages carry them, run a kernel through Weft.

    cudart12.py WEFT_RUN PROGRAM FATBIN CACHE_DIR VERSION

Fetches the wheel of that version once. Exit status 77 (skipped) if it cannot be had.
"""
import os
import subprocess
import sys

import wheels


def main(weft_run, program, fatbin, cache, version):
    lib = wheels.library("nvidia-cuda-runtime-cu12", version,
                         "nvidia/cuda_runtime/lib/libcudart.so.12", os.path.join(cache, version))
    if not lib:
        return 77
    r = subprocess.run([weft_run, "--", program, lib, fatbin], capture_output=True, text=True,
                       timeout=100, check=False)
    print(r.stdout, r.stderr)
    want = "PASS cudart " + ".".join(version.split(".")[:2])
    return 0 if r.returncode == 0 and want in r.stdout else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
