#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=cupy seconds=60
"""CuPy with managed memory: arrays, libraries, and the program's own use of the same address."""
import ctypes

import cupy as cp
import numpy as np

import check

cp.cuda.set_allocator(cp.cuda.MemoryPool(cp.cuda.malloc_managed).malloc)
rng = np.random.default_rng(1)
a = rng.standard_normal((300, 400))
g = cp.asarray(a)
check.close(cp.sin(g) * 2 + g ** 2, np.sin(a) * 2 + a ** 2, 1e-12, "elementwise")
check.close(g.sum(axis=0), a.sum(axis=0), 1e-12, "sum")
check.close(g @ g.T, a @ a.T, 1e-12, "cuBLAS")
check.same(cp.sort(g, axis=1), np.sort(a, axis=1), "sort")

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
check.done(f"CuPy {cp.__version__}")
