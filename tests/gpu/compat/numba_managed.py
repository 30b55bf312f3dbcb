#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=numba,numba_cuda seconds=90
"""numba-cuda: managed arrays, which program and kernels write in turn."""
import numpy as np

import check

cuda = check.numba_cuda()


@cuda.jit
def bump(x, k):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += k


m = cuda.managed_array(1 << 20, dtype=np.float64)
m[:] = 1
for k in range(5):
    bump[4096, 256](m, k)
    cuda.synchronize()
    check.that((m == 1 + sum(range(k + 1))).all(), f"the program sees what the kernel wrote, {k}")
m[10:20] *= 2
bump[4096, 256](m, 1)
cuda.synchronize()
check.that(m[10] == 23 and m[20] == 12, "the kernel sees what the program wrote")
one = cuda.managed_array((64, 64), dtype=np.float32, attach_global=False)
one[...] = np.eye(64, dtype=np.float32)
check.that(float(one.sum()) == 64, "an array that no kernel has")
check.done()
