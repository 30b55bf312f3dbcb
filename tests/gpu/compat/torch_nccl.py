#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=90
"""NCCL on one GPU: a group of one process, collectives, DDP."""
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn

import check

# One machine, one GPU: no network is looked for.
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
with tempfile.NamedTemporaryFile() as f:
    dist.init_process_group("nccl", init_method=f"file://{f.name}.store", rank=0, world_size=1,
                            device_id=torch.device("cuda", 0))
    x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    want = x.clone()
    dist.all_reduce(x)
    check.same(x, want, "all_reduce")
    dist.broadcast(x, 0)
    out = [torch.empty_like(x)]
    dist.all_gather(out, x)
    check.same(out[0], want, "all_gather")
    part = torch.empty_like(x)
    dist.reduce_scatter_tensor(part, x)
    check.same(part, want, "reduce_scatter")
    back = torch.empty_like(x)
    dist.all_to_all_single(back, x)
    check.same(back, want, "all_to_all")
    dist.barrier()
    net = nn.parallel.DistributedDataParallel(nn.Linear(64, 64).cuda(), device_ids=[0])
    loss = net(torch.ones(4, 64, device="cuda")).sum()
    loss.backward()
    check.same(net.module.bias.grad, torch.full((64,), 4.0), "DDP gradient")
    dist.destroy_process_group()
check.done(f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}")
