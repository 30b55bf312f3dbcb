#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=cupy seconds=60
"""CuPy with managed memory: arrays and libraries."""
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
check.done(f"CuPy {cp.__version__}")
