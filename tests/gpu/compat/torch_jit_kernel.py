#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""NVRTC through PyTorch: jiterator, user kernels, TorchScript fusion; printf on the device."""
import torch

import check

f = torch.cuda.jiterator._create_jit_fn(
    "template <typename T> T weft(T x, T y) { return x * y + x; }")
x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
check.close(f(x, y), x * y + x, 1e-6, "jiterator")
check.close(torch.special.bessel_j0(x), torch.special.bessel_j0(x.cpu()), 1e-5, "bessel_j0")
source = r"""
extern "C" __global__ void saxpy(float *out, const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] += 2.5f * x[i];
}
"""
if hasattr(torch.cuda, "_compile_kernel"):
    k = torch.cuda._compile_kernel(source, "saxpy")
    out = y.clone()
    k(grid=(4, 1, 1), block=(256, 1, 1), args=[out, x, 1000])
    check.close(out, y + 2.5 * x, 1e-6, "kernel of a user")


@torch.jit.script
def fused(a, b):
    return (a * b + a).tanh() * 2


for _ in range(4):
    out = fused(x, y)
check.close(out, (x * y + x).tanh() * 2, 1e-5, "TorchScript fuser")
check.done()
