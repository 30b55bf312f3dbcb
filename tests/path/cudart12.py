#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shared CUDA runtimes 12.x, as Python packages carry them, run a kernel through Weft.

    cudart12.py WEFT_RUN PROGRAM FATBIN CACHE_DIR VERSION

Fetches the wheel of that version once. Exit status 77 (skipped) if it cannot be had.
"""
import glob
import os
import subprocess
import sys
import zipfile


def main(weft_run, program, fatbin, cache, version):
    where = os.path.join(cache, version)
    lib = os.path.join(where, "nvidia/cuda_runtime/lib/libcudart.so.12")
    if not os.path.exists(lib):
        os.makedirs(where, exist_ok=True)
        got = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                              "--disable-pip-version-check", "-d", where,
                              f"nvidia-cuda-runtime-cu12=={version}"],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             check=False)
        wheels = glob.glob(os.path.join(where, "*.whl"))
        if got.returncode or not wheels:
            print(f"SKIP: the wheel of CUDA runtime {version} cannot be had here: "
                  f"{got.stderr.strip()[-200:]}")
            return 77
        with zipfile.ZipFile(wheels[0]) as z:
            z.extractall(where)
    r = subprocess.run([weft_run, "--", program, lib, fatbin], capture_output=True, text=True,
                       timeout=100, check=False)
    print(r.stdout, r.stderr)
    want = "PASS cudart " + ".".join(version.split(".")[:2])
    return 0 if r.returncode == 0 and want in r.stdout else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
