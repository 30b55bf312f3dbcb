#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=cupy seconds=60
"""CuPy: arrays, elementwise and raw kernels (NVRTC), reductions, streams, pinned memory."""
import cupy as cp
import numpy as np

import check

rng = np.random.default_rng(1)
a = rng.standard_normal((300, 400))
g = cp.asarray(a)
check.close(cp.sin(g) * 2 + g ** 2, np.sin(a) * 2 + a ** 2, 1e-12, "elementwise")
check.close(g.sum(axis=0), a.sum(axis=0), 1e-12, "sum")
check.same(cp.sort(g, axis=1), np.sort(a, axis=1), "sort")
check.same(cp.argmax(g, axis=1), a.argmax(axis=1), "argmax")
check.same(g[::3, 5:50].copy(), a[::3, 5:50], "slice")
check.close(cp.cumsum(g), np.cumsum(a), 1e-9, "cumsum")
saxpy = cp.ElementwiseKernel("T x, T y, T k", "T z", "z = k * x + y", "saxpy")
check.close(saxpy(g, g, 3.0), 4 * a, 1e-12, "ElementwiseKernel")
norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
check.close(norm(g), np.sqrt((a * a).sum()), 1e-12, "ReductionKernel")
raw = cp.RawKernel(r"""
extern "C" __global__ void twice(const double *x, double *y, int n)
{
    __shared__ double s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n)
        y[i] = 2 * s[threadIdx.x];
}""", "twice")
flat, out = g.ravel(), cp.empty(a.size)
raw(((a.size + 255) // 256,), (256,), (flat, out, np.int32(a.size)))
check.close(out, 2 * a.ravel(), 0, "RawKernel")
module = cp.RawModule(code="""
__constant__ float factor;
template <typename T> __global__ void scale(T *x) { x[threadIdx.x] *= factor; }""",
                      options=("-std=c++17",), name_expressions=["scale<float>"])
k = module.get_function("scale<float>")
f = cp.ndarray((1,), cp.float32, module.get_global("factor"))
f[:] = 7
v = cp.arange(32, dtype=cp.float32)
k((1,), (32,), (v,))
check.same(v, np.arange(32) * 7.0, "RawModule with a template and a constant")
with cp.cuda.Stream(non_blocking=True) as s:
    b = cp.ones(1 << 20)
    b += 1
    e = s.record()
e.synchronize()
check.that(float(b.sum()) == 2 << 20, "stream")
pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(8 << 10), np.float64, 1024)
pinned[:] = 5
check.same(cp.asarray(pinned), pinned, "pinned")
check.that(cp.cuda.runtime.memGetInfo()[0] > 0, "memGetInfo")
check.done(f"CuPy {cp.__version__}")
