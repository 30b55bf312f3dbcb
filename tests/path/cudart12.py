#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shared CUDA runtimes 12.x, as Python packages carry them, run a kernel through Weft.

    cudart12.py WEFT_RUN PROGRAM FATBIN CACHE_DIR VERSION

Fetches the wheel of that version once. Exit status 77 (skipped) if it cannot be had.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

FETCH_SECONDS = 60


def fetch(version, where):
    """Makes that directory of the wheel, whole or not at all; returns why not."""
    os.makedirs(os.path.dirname(where), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(where)) as beside:
        try:
            got = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                                  "--disable-pip-version-check", "--retries", "1",
                                  "--timeout", "15", "-d", beside,
                                  f"nvidia-cuda-runtime-cu12=={version}"],
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"not within {FETCH_SECONDS} s"
        wheels = glob.glob(os.path.join(beside, "*.whl"))
        if got.returncode or not wheels:
            return got.stderr.strip()[-200:]
        whole = os.path.join(beside, "whole")
        with zipfile.ZipFile(wheels[0]) as z:
            z.extractall(whole)
        shutil.rmtree(where, ignore_errors=True)
        os.rename(whole, where)
    return None


def main(weft_run, program, fatbin, cache, version):
    where = os.path.join(cache, version)
    lib = os.path.join(where, "nvidia/cuda_runtime/lib/libcudart.so.12")
    if not os.path.exists(lib):
        why = fetch(version, where)
        if why is not None:
            print(f"SKIP: the wheel of CUDA runtime {version} cannot be had here: {why}")
            return 77
    r = subprocess.run([weft_run, "--", program, lib, fatbin], capture_output=True, text=True,
                       timeout=100, check=False)
    print(r.stdout, r.stderr)
    want = "PASS cudart " + ".".join(version.split(".")[:2])
    return 0 if r.returncode == 0 and want in r.stdout else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
