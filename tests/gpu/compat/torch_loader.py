#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""A DataLoader with worker processes and pinned memory, copies that do not block."""
import torch
from torch.utils.data import DataLoader, Dataset

import check


COUNT = 512


class Numbers(Dataset):
    def __len__(self):
        return COUNT

    def __getitem__(self, i):
        return torch.full((256,), float(i)), i


torch.zeros(1, device="cuda")  # the workers fork off a process with a context
total, seen = torch.zeros((), device="cuda", dtype=torch.float64), 0
loader = DataLoader(Numbers(), batch_size=64, num_workers=4, pin_memory=True, shuffle=True,
                    persistent_workers=True)
for epoch in range(2):
    for x, y in loader:
        check.that(x.is_pinned(), "batch is not pinned")
        g, h = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        total += (g.double().mean(1) - h).abs().sum() + g[:, 0].double().sum()
        seen += len(y)
want = 2 * COUNT * (COUNT - 1) / 2
check.that(seen == 2 * COUNT and float(total) == want, f"sum {float(total)}, not {want}")
p = torch.empty(1 << 24, dtype=torch.uint8, pin_memory=True)
src = torch.randint(0, 255, (1 << 24,), dtype=torch.uint8, device="cuda")
p.copy_(src, non_blocking=True)
torch.cuda.synchronize()
check.same(p, src, "device to pinned")
check.done()
