#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""Scaled dot product attention, each backend, forward and backward, against double on CPU."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import check

torch.manual_seed(1)
shape = (2, 8, 256, 64)
q, k, v, up = (torch.randn(shape) for _ in range(4))


def attention(dev, dtype, causal):
    a = [t.to(dev, dtype).requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*a, is_causal=causal)
    out.backward(up.to(dev, dtype))
    return [out] + [t.grad for t in a]


for causal in (False, True):
    with sdpa_kernel(SDPBackend.MATH):
        want = attention("cpu", torch.float64, causal)
    for name, backend, dtype, tolerance in (
            ("math", SDPBackend.MATH, torch.float32, 5e-3),
            ("efficient fp32", SDPBackend.EFFICIENT_ATTENTION, torch.float32, 5e-3),
            ("efficient bf16", SDPBackend.EFFICIENT_ATTENTION, torch.bfloat16, 4e-2),
            ("flash bf16", SDPBackend.FLASH_ATTENTION, torch.bfloat16, 4e-2),
            ("flash fp16", SDPBackend.FLASH_ATTENTION, torch.float16, 1e-2),
            ("cudnn bf16", SDPBackend.CUDNN_ATTENTION, torch.bfloat16, 4e-2)):
        with sdpa_kernel(backend):
            got = attention("cuda", dtype, causal)
        for g, w, what in zip(got, want, ("output", "dq", "dk", "dv")):
            check.close(g, w, tolerance, f"{name}, causal {causal}, {what}")
check.done()
