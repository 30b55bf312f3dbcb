#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Driver calls through ctypes: a kernel of PTX text, run by whatever Python is there."""
import ctypes
import struct
import sys

PTX = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry add(.param .u64 p, .param .u32 n)
{
    .reg .u64 a, b; .reg .u32 i, t, c; .reg .pred q;
    ld.param.u64 a, [p];
    ld.param.u32 c, [n];
    mov.u32 i, %ctaid.x;
    mov.u32 t, %ntid.x;
    mul.lo.u32 i, i, t;
    mov.u32 t, %tid.x;
    add.u32 i, i, t;
    setp.ge.u32 q, i, c;
    @q ret;
    mul.wide.u32 b, i, 4;
    add.u64 a, a, b;
    ld.global.u32 t, [a];
    add.u32 t, t, i;
    st.global.u32 [a], t;
    ret;
}
"""
N = 100_000
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    r = getattr(cuda, name)(*args)
    if r:
        print(f"FAIL driver_calls: {name} gave {r}")
        sys.exit(1)


ctx, mod, fn, dev = (ctypes.c_void_p() for _ in range(4))
mem = ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(dev), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), 0)
call("cuCtxSetCurrent", ctx)
call("cuModuleLoadData", ctypes.byref(mod), PTX)
call("cuModuleGetFunction", ctypes.byref(fn), mod, b"add")
call("cuMemAlloc_v2", ctypes.byref(mem), ctypes.c_size_t(4 * N))
data = struct.pack(f"{N}I", *range(N))
call("cuMemcpyHtoD_v2", mem, data, ctypes.c_size_t(4 * N))
count = ctypes.c_uint32(N)
args = (ctypes.c_void_p * 2)(ctypes.addressof(mem), ctypes.addressof(count))
call("cuLaunchKernel", fn, (N + 255) // 256, 1, 1, 256, 1, 1, 0, None, args, None)
out = ctypes.create_string_buffer(4 * N)
call("cuMemcpyDtoH_v2", out, mem, ctypes.c_size_t(4 * N))
if struct.unpack(f"{N}I", out.raw) != tuple(2 * i for i in range(N)):
    print("FAIL driver_calls: wrong values")
    sys.exit(1)
name = ctypes.create_string_buffer(100)
call("cuDeviceGetName", name, 100, 0)
print(f"ok driver_calls on {name.value.decode()}, Python {sys.version.split()[0]}")
