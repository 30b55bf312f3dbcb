#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=numba,numba_cuda seconds=90
"""numba-cuda: kernels, shared memory, atomics, streams, events."""
import numpy as np

import check

cuda = check.numba_cuda()
from numba import float32  # noqa: E402


@cuda.jit
def scale(x, k):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= k


@cuda.jit
def block_sum(x, out):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 128
    while step:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


x = np.arange(10000, dtype=np.float32)
d = cuda.to_device(x)
scale[40, 256](d, np.float32(3))
check.same(d.copy_to_host(), x * 3, "scale")
out = cuda.to_device(np.zeros(1, np.float32))
block_sum[40, 256](cuda.to_device(np.ones(10000, np.float32)), out)
check.that(out.copy_to_host()[0] == 10000, "shared memory and atomics")
s = cuda.stream()
e0, e1 = cuda.event(), cuda.event()
with cuda.pinned(x):
    e0.record(s)
    d2 = cuda.to_device(x, stream=s)
    scale[40, 256, s](d2, np.float32(2))
    y = d2.copy_to_host(stream=s)
    e1.record(s)
    e1.synchronize()
check.same(y, x * 2, "stream")
check.that(e0.elapsed_time(e1) >= 0, "elapsed time")
check.that(cuda.current_context().get_memory_info().free > 0, "memory info")
check.done()
