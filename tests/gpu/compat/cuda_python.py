#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=cuda.bindings seconds=60
"""cuda-python: driver and runtime calls, NVRTC to cubin, a launch, a graph."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc, runtime

import check


def ok(r):
    check.that(int(r[0]) == 0, f"error {r[0]}")
    return r[1] if len(r) == 2 else r[1:]


ok(driver.cuInit(0))
dev = ok(driver.cuDeviceGet(0))
ctx = ok(driver.cuDevicePrimaryCtxRetain(dev))
ok(driver.cuCtxSetCurrent(ctx))
name = ok(driver.cuDeviceGetName(100, dev)).split(b"\0")[0].decode()
A = driver.CUdevice_attribute
major = ok(driver.cuDeviceGetAttribute(A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev))
minor = ok(driver.cuDeviceGetAttribute(A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev))
source = b"""extern "C" __global__ void fill(int *p, int v)
{ p[blockIdx.x * blockDim.x + threadIdx.x] = v + threadIdx.x; }"""
prog = ok(nvrtc.nvrtcCreateProgram(source, b"fill.cu", 0, [], []))
arch = f"--gpu-architecture=sm_{major}{minor}".encode()
ok(nvrtc.nvrtcCompileProgram(prog, 1, [arch]))
size = ok(nvrtc.nvrtcGetCUBINSize(prog))
cubin = b" " * size
ok(nvrtc.nvrtcGetCUBIN(prog, cubin))
mod = ok(driver.cuModuleLoadData(cubin))
fn = ok(driver.cuModuleGetFunction(mod, b"fill"))
n = 1024
mem = ok(driver.cuMemAlloc(n * 4))
stream = ok(driver.cuStreamCreate(0))
args = ((int(mem), 7), (ctypes.c_void_p, ctypes.c_int))
ok(driver.cuLaunchKernel(fn, 4, 1, 1, 256, 1, 1, 0, stream, args, 0))
host = np.empty(n, np.int32)
ok(driver.cuMemcpyDtoHAsync(host.ctypes.data, mem, n * 4, stream))
ok(driver.cuStreamSynchronize(stream))
check.same(host, np.tile(np.arange(256), 4) + 7, "kernel")

ok(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
args = ((int(mem), 100), (ctypes.c_void_p, ctypes.c_int))
ok(driver.cuLaunchKernel(fn, 4, 1, 1, 256, 1, 1, 0, stream, args, 0))
graph = ok(driver.cuStreamEndCapture(stream))
instance = ok(driver.cuGraphInstantiate(graph, 0))
ok(driver.cuGraphLaunch(instance, stream))
ok(driver.cuStreamSynchronize(stream))
ok(driver.cuMemcpyDtoH(host.ctypes.data, mem, n * 4))
check.same(host, np.tile(np.arange(256), 4) + 100, "graph")
ok(driver.cuMemFree(mem))
check.that(ok(runtime.cudaGetDeviceCount()) >= 1, "runtime")
p = ok(runtime.cudaGetDeviceProperties(0))
check.that(p.name.decode().startswith(name), "two names")
check.done(f"on {name}, sm_{major}{minor}")
