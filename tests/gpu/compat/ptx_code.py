#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=!nvcc
"""PTX that the driver compiles is the code that ptxas makes: as many registers, as many bytes."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = r"""
extern "C" __global__ void product(const float *a, const float *b, float *c, int n)
{
	__shared__ float s[32][32], t[32][32];
	int x = threadIdx.x, y = threadIdx.y;
	int row = blockIdx.y * 32 + y, col = blockIdx.x * 32 + x;
	float sum = 0;

	for (int k = 0; k < n; k += 32) {
		s[y][x] = a[(size_t)row * n + k + x];
		t[y][x] = b[(size_t)(k + y) * n + col];
		__syncthreads();
		for (int i = 0; i < 32; i++)
			sum += s[y][i] * t[i][x];
		__syncthreads();
	}
	c[(size_t)row * n + col] = sum;
}
"""
NUM_REGS = 4  # CU_FUNC_ATTRIBUTE_NUM_REGS
cuda = ctypes.CDLL("libcuda.so.1")


def ok(result, what):
    if result:
        sys.exit(f"{what}: {result}")


def registers(image):
    mod, fn, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    ok(cuda.cuModuleLoadData(ctypes.byref(mod), image), "cuModuleLoadData")
    ok(cuda.cuModuleGetFunction(ctypes.byref(fn), mod, b"product"), "cuModuleGetFunction")
    ok(cuda.cuFuncGetAttribute(ctypes.byref(n), NUM_REGS, fn), "cuFuncGetAttribute")
    return n.value


def main():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    ptxas = os.path.join(os.path.dirname(os.path.realpath(nvcc)), "ptxas")
    ctx, dev, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    ok(cuda.cuInit(0), "cuInit")
    ok(cuda.cuDeviceGet(ctypes.byref(dev), 0), "cuDeviceGet")
    ok(cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, dev), "major")
    ok(cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, dev), "minor")
    ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), dev), "cuDevicePrimaryCtxRetain")
    ok(cuda.cuCtxSetCurrent(ctx), "cuCtxSetCurrent")
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/p.cu", "w", encoding="ascii") as f:
            f.write(SOURCE)
        subprocess.run([nvcc, "-ptx", "-o", f"{d}/p.ptx", f"{d}/p.cu"], check=True)
        subprocess.run([ptxas, f"-arch=sm_{major.value}{minor.value}", "-o", f"{d}/p.cubin",
                        f"{d}/p.ptx"], check=True)
        with open(f"{d}/p.ptx", "rb") as f:
            by_driver = registers(f.read() + b"\0")
        with open(f"{d}/p.cubin", "rb") as f:
            by_ptxas = registers(f.read())
    print(f"registers: {by_driver}, by ptxas {by_ptxas}")
    return by_driver != by_ptxas


sys.exit(main())
