#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""CUDA graphs: capture and replay, memory pool shared by graphs, a training step."""
import torch
import torch.nn.functional as F
from torch import nn

import check

torch.manual_seed(1)
x = torch.zeros(256, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        y = (x * 2 + 1).cumsum(0)
torch.cuda.current_stream().wait_stream(side)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = (x * 2 + 1).cumsum(0)
for i in range(50):
    x.fill_(float(i))
    g.replay()
check.same(y, torch.arange(1, 257) * 99.0, "replayed 50 times")

a = torch.randn(64, 64, device="cuda")
a @ a  # cuBLAS cannot be opened while a stream is captured
g1, g2 = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(g1):
    b = a @ a
with torch.cuda.graph(g2, pool=g1.pool()):
    c = b + 1
a.copy_(torch.eye(64))
g1.replay()
g2.replay()
check.same(c, torch.eye(64) + 1, "two graphs of one pool")

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).cuda()
opt = torch.optim.Adam(net.parameters(), lr=0.01, capturable=True)
data, label = torch.randn(32, 64, device="cuda"), torch.randint(0, 8, (32,), device="cuda")


def step():
    opt.zero_grad(set_to_none=True)
    loss = F.cross_entropy(net(data), label)
    loss.backward()
    opt.step()
    return loss


side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
whole = torch.cuda.CUDAGraph()
with torch.cuda.graph(whole):
    loss = step()
whole.replay()
first = loss.item()
for _ in range(30):
    whole.replay()
check.that(loss.item() < first * 0.5, f"training step: {first:.3f} -> {loss.item():.3f}")

made = torch.cuda.make_graphed_callables(nn.Linear(64, 64).cuda(),
                                         (torch.randn(4, 64, device="cuda"),))
out = made(torch.ones(4, 64, device="cuda"))
out.sum().backward()
check.that(bool(torch.isfinite(out).all()), "make_graphed_callables")

cond = torch.cuda.CUDAGraph()
rng = torch.cuda.Stream()
with torch.cuda.graph(cond):
    r = torch.rand(1000, device="cuda")
cond.replay()
one = r.clone()
cond.replay()
check.that(not torch.equal(one, r), "random numbers repeat in a graph")
check.done()
