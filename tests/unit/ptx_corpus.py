#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the sources in ptx_cu in several ways and has ptx_check read the PTX in them.

    ptx_corpus.py NVCC PTX_CHECK
"""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent / "ptx_cu"

# What to compile, and how. "-c" embeds the PTX in an object as programs hold it.
BUILDS = [
    ("half", "-ptx -arch=compute_75"),
    ("half", "-c -gencode arch=compute_90,code=compute_90 --compress-mode=speed"),
    ("groups", "-ptx -arch=compute_75"),
    ("groups", "-c -G -gencode arch=compute_90,code=compute_90"),
    ("wmma", "-c -gencode arch=compute_75,code=compute_75 "
             "-gencode arch=compute_80,code=compute_80"),
    ("lang", "-ptx -arch=compute_75 -lineinfo"),
    ("lang", "-c -rdc=true -no-compress -gencode arch=compute_90,code=compute_90"),
    ("libs", "-c -gencode arch=compute_90,code=compute_90"),
    ("mma_asm", "-ptx -arch=compute_90"),
]

# Two objects of relocatable code, which must link.
LINKED = {
    "one": "__device__ int twice(int); extern __device__ int table[4];\n"
           "__global__ void k(int *x) { x[threadIdx.x] = twice(table[threadIdx.x & 3]); }",
    "two": "__device__ int table[4] = {1, 2, 3, 4};\n"
           "__device__ int twice(int a) { return 2 * a; }",
}


def run(cmd):
    done = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.stdout:
        print(done.stdout, end="")
    return done.returncode == 0


def main():
    nvcc, check = sys.argv[1:3]
    ok = True
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for i, (name, how) in enumerate(BUILDS):
            out = tmp / f"{i}-{name}.o"
            ok &= run([nvcc, "-std=c++17", *how.split(), "-o", str(out),
                       str(HERE / f"{name}.cu")])
            ok &= out.exists() and run([check, str(out)])
        for name, text in LINKED.items():
            (tmp / f"{name}.cu").write_text(text)
            ok &= run([nvcc, "-rdc=true", "-c", "-o", str(tmp / f"{name}.o"),
                       str(tmp / f"{name}.cu")])
        ok &= run([check, "-l", *(str(tmp / f"{n}.o") for n in LINKED)])
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
