#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy and Numba out of PyPI on the software GPU, as hostd/device/soft/software-gpu.md has them.

    packages.py BUILD DIR

DIR gets a virtual environment for each, 1 GB together; what is there is used again.
"""
import os
import subprocess
import sys
import venv

COMPAT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gpu/compat")
PACKAGES = {
    "cupy": (["cupy-cuda13x==14.2.0"],
             {"CUDA_PATH": "/usr/local/cuda", "CUPY_COMPILE_WITH_PTX": "1", "CUPY_ACCELERATORS": ""}),
    "numba": (["numba==0.61.2", "cuda-python<13", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvrtc-cu12"],
              {"CUDA_HOME": "/usr/local/cuda", "NUMBA_CUDA_USE_NVIDIA_BINDING": "1"}),
}

PROGRAMS = {
    "cupy": r"""
import cupy as cp
import numpy as np

def same(name, got, want):
    assert np.allclose(cp.asnumpy(got), want), (name, got, want)

a = np.arange(100000)
d = cp.asarray(a)
same("sum", d.sum(), a.sum())
same("max", (d * 2 + 1).max(), (a * 2 + 1).max())
same("mean", d.mean(), a.mean())
same("cumsum", cp.cumsum(cp.ones(1000)), np.cumsum(np.ones(1000)))
same("histogram", cp.histogram(d, 10)[0], np.histogram(a, 10)[0])
same("nonzero", cp.nonzero(d % 7 == 0)[0], np.nonzero(a % 7 == 0)[0])
same("fft", cp.fft.fft(d[:1024].astype(complex)), np.fft.fft(a[:1024]))
same("axis", d.reshape(100, -1).sum(axis=0), a.reshape(100, -1).sum(axis=0))
raw = cp.RawKernel('extern "C" __global__ void k(int *p) { p[threadIdx.x] += threadIdx.x; }', "k")
x = cp.ones(64, cp.int32)
raw((1,), (64,), (x,))
same("raw", x, np.arange(64) + 1)
# Machine code of libraries: an exception, no wrong number.
for name, call in (("sort", lambda: cp.sort(d)), ("matmul", lambda: cp.ones((4, 4)) @ cp.ones((4, 4)))):
    try:
        call()
    except Exception as e:
        print(name, type(e).__name__)
    else:
        raise AssertionError(name)
""",
    "numba": r"""
import numba
import numpy as np
from numba import cuda

@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < a.size:
        c[i] = a[i] + b[i]

@cuda.jit
def block_sums(a, out):
    s = cuda.shared.array(128, numba.float32)
    t = cuda.threadIdx.x
    s[t] = a[cuda.grid(1)]
    cuda.syncthreads()
    k = 64
    while k:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])

@cuda.reduce
def total(a, b):
    return a + b

a = np.arange(4096, dtype=np.float32)
c = np.zeros_like(a)
add[32, 128](a, 2 * a, c)
assert (c == 3 * a).all()
out = np.zeros(1, np.float32)
block_sums[32, 128](a, out)
assert np.isclose(out[0], a.sum()), out
assert total(np.arange(1000, dtype=np.float64)) == 499500
""",
}


def prepare(folder, packages):
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python


def main(build, folder):
    bad = 0
    for name, (packages, settings) in PACKAGES.items():
        python = prepare(os.path.join(os.path.abspath(folder), name), packages)
        for what in (["-c", PROGRAMS[name]], [os.path.join(COMPAT, f"{name}_managed.py")]):
            r = subprocess.run([os.path.join(build, "hostd", "weft-run"), "--device", "soft", "--",
                                python, "-W", "ignore", *what], check=False, timeout=300,
                               env=dict(os.environ, **settings))
            print("PASS" if r.returncode == 0 else "FAIL", name, *what[:1])
            bad += r.returncode != 0
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
