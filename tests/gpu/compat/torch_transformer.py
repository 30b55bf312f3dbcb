#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=90
"""A transformer encoder: forward and backward against the CPU, AdamW training in bf16."""
import torch
import torch.nn.functional as F
from torch import nn

import check

torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = False


def model():
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True,
                                       norm_first=True)
    return nn.Sequential(nn.Embedding(1000, 128),
                         nn.TransformerEncoder(layer, 3, enable_nested_tensor=False),
                         nn.Linear(128, 1000))


tokens = torch.randint(0, 1000, (8, 65))
x, y = tokens[:, :-1], tokens[:, 1:]


def loss_of(net, dev):
    return F.cross_entropy(net(x.to(dev)).float().flatten(0, 1), y.to(dev).flatten())


cpu, gpu = model(), model().cuda()
a, b = loss_of(cpu, "cpu"), loss_of(gpu, "cuda")
a.backward()
b.backward()
check.close(b, a, 1e-4, "loss")
for (n, p), q in zip(cpu.named_parameters(), gpu.parameters()):
    check.close(q.grad, p.grad, 1e-2, f"gradient of {n}")

for fused in (False, True):
    net = model().cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, fused=fused)
    losses = []
    for _ in range(20):
        opt.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(net, "cuda")
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        losses.append(loss.item())
    check.that(losses[-1] < losses[0] * 0.7, f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")

half = torch.nn.Linear(64, 64).cuda()
scaler = torch.amp.GradScaler("cuda")
opt = torch.optim.SGD(half.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    with torch.autocast("cuda", torch.float16):
        loss = half(torch.ones(8, 64, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
check.that(bool(torch.isfinite(half.weight).all()), "fp16 with a gradient scaler")
check.done()
