#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60 env=PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
"""PyTorch's allocator on the driver's memory pools."""
import torch

import check

check.that(torch.cuda.get_allocator_backend() == "cudaMallocAsync", "backend")
for rounds in range(20):
    ts = [torch.full((i << 16,), float(i), device="cuda") for i in range(1, 20)]
    s = sum(float(t[-1]) for t in ts)
    check.that(s == 190.0, f"sum {s}")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    t = torch.ones(1 << 20, device="cuda")
    u = t * 3
u.record_stream(torch.cuda.current_stream())
torch.cuda.current_stream().wait_stream(side)
check.that(float(u.sum()) == 3 << 20, "across streams")
g = torch.cuda.CUDAGraph()
x = torch.ones(1000, device="cuda")
with torch.cuda.graph(g):
    y = (x + 1) * 2
x.fill_(4)
g.replay()
check.that(float(y[0]) == 10, "memory nodes in a graph")
torch.cuda.empty_cache()
check.done()
