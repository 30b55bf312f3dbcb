#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=cupy seconds=60
"""CuPy: an array in managed memory, which program and kernels write in turn, and its managed pool."""
import ctypes

import cupy as cp
import numpy as np

import check

p = cp.cuda.malloc_managed(4096 * 8)
x = cp.ndarray((4096,), cp.float64, p)
here = np.ctypeslib.as_array(ctypes.cast(p.ptr, ctypes.POINTER(ctypes.c_double)), (4096,))
for k in range(5):
    here[:] = k
    x += 1
    cp.cuda.Device().synchronize()
    check.that((here == k + 1).all(), f"the program sees what the kernel wrote, {k}")
attributes = cp.cuda.runtime.pointerGetAttributes(p.ptr)
check.that(attributes.type == 3, "cudaMemoryTypeManaged")
cp.cuda.set_allocator(cp.cuda.MemoryPool(cp.cuda.malloc_managed).malloc)
a = np.arange(100000.0)
check.close(cp.asarray(a) * 2 + 1, a * 2 + 1, 1e-12, "managed pool")
check.done()
