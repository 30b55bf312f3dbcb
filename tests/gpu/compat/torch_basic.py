#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""Tensors: creation, indexing, reductions, sorting, scattering, each against the CPU."""
import torch

import check

torch.manual_seed(1)
a = torch.randn(257, 511)
g = a.cuda()
check.that(g.is_cuda and torch.cuda.is_available(), "no device")
check.that(torch.cuda.device_count() >= 1, "no device counted")
check.same(g, a, "round trip")
check.close(g.sum(), a.double().sum(), 1e-4, "sum")
check.close(g.softmax(1), a.double().softmax(1), 1e-5, "softmax")
check.close(g.cumsum(0), a.double().cumsum(0), 1e-4, "cumsum")
check.same(g.sort(dim=1).values, a.sort(dim=1).values, "sort")
check.same(g.topk(7).values, a.topk(7).values, "topk")
check.same(g[::2, 3:100:5].contiguous(), a[::2, 3:100:5], "strided view")
check.same(g.t().contiguous(), a.t(), "transpose")
index = torch.randint(0, 257, (1000,))
check.same(g[index.cuda()], a[index], "gather rows")
check.same(torch.where(g > 0, g, -g), a.abs(), "where")
count = torch.zeros(64).cuda().scatter_add_(
    0, torch.arange(4096).cuda() % 64, torch.ones(4096).cuda())
check.same(count, torch.full((64,), 64.0), "scatter_add")
check.same(torch.nonzero(g > 2), torch.nonzero(a > 2), "nonzero")
check.same(torch.unique((g * 4).int()), torch.unique((a * 4).int()), "unique")
for t in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.bool,
          torch.complex64):
    check.same(g.to(t).cpu().to(torch.complex64).real.contiguous(),
               a.to(t).to(torch.complex64).real.contiguous(), f"conversion to {t}")
free, total = torch.cuda.mem_get_info()
check.that(0 < free <= total, f"memory {free} of {total}")
p = torch.cuda.get_device_properties(0)
check.that(p.total_memory == total, f"{p.total_memory} and {total} bytes of memory")
big = torch.arange(1 << 28, device="cuda", dtype=torch.int32)
check.that(int(big[-1]) == (1 << 28) - 1 and int(big[12345]) == 12345, "1 GiB tensor")
check.done(f"on {torch.cuda.get_device_name(0)}")
