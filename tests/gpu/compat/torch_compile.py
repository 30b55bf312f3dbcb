#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch,triton seconds=120
"""torch.compile: inductor's Triton kernels, forward and backward, dynamic shapes."""
import torch
import torch.nn.functional as F
from torch import nn

import check

torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = False


@torch.compile
def pointwise(x, y):
    return torch.sigmoid(x) * y.sin() + (x * y).sum(1, keepdim=True)


x, y = torch.randn(300, 500), torch.randn(300, 500)
want = torch.sigmoid(x.double()) * y.double().sin() + (x.double() * y).sum(1, keepdim=True)
check.close(pointwise(x.cuda(), y.cuda()), want, 1e-5, "pointwise and reduction")

net = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10)).cuda()
fast = torch.compile(net)
data, label = torch.randn(64, 128, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
slow_loss = F.cross_entropy(net(data), label)
slow = torch.autograd.grad(slow_loss, list(net.parameters()))
fast_loss = F.cross_entropy(fast(data), label)
quick = torch.autograd.grad(fast_loss, list(net.parameters()))
check.close(fast_loss, slow_loss, 1e-4, "loss")
for a, b in zip(quick, slow):
    check.close(a, b, 1e-3, "gradient")

graphed = torch.compile(lambda t: (t.relu() @ t.t()).softmax(1), mode="reduce-overhead")
t = torch.randn(128, 128, device="cuda")
for _ in range(4):
    out = graphed(t)
check.close(out, (t.relu() @ t.t()).softmax(1), 1e-3, "reduce-overhead (CUDA graphs)")
check.done()
