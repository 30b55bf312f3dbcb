#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""torch.profiler with CUDA activities. Natively it sees the device's; through Weft CUPTI is told
that there is no profiling: no event of the device, nothing refused, and the program unharmed."""
import torch
from torch.profiler import ProfilerActivity, profile

import check

x = torch.randn(512, 512, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    for _ in range(10):
        y = x @ x
    torch.cuda.synchronize()
table = p.key_averages().table(row_limit=5)
check.that("aten::mm" in table, "no aten::mm in the table")
check.close(y, x.double().cpu() @ x.double().cpu(), 1e-2, "product")
kernels = sum(1 for e in p.events() if str(e.device_type).endswith("CUDA"))
with torch.autograd.profiler.emit_nvtx():
    (x + 1).sum().item()
torch.cuda.nvtx.range_push("weft")
torch.cuda.nvtx.range_pop()
check.done(f"({kernels} device events)")
