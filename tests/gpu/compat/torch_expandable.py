#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60 env=PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
"""PyTorch's allocator on the driver's virtual memory calls."""
import torch

import check

keep = []
for i in range(1, 40):
    keep.append(torch.full((i << 18,), float(i), device="cuda"))
for i, t in enumerate(keep, 1):
    check.that(float(t[0]) == i and float(t[-1]) == i, f"tensor {i}")
held = torch.cuda.memory_reserved()
del keep[::2]
torch.cuda.empty_cache()
check.that(torch.cuda.memory_reserved() < held, "nothing given back")
again = [torch.ones(1 << 22, device="cuda") for _ in range(8)]
check.that(all(float(t.sum()) == 1 << 22 for t in again), "use after growing again")
x = torch.randn(512, 512, device="cuda")
check.close(x @ x, x.cpu().double() @ x.cpu().double(), 1e-2, "product")
check.done()
