#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch,torchvision seconds=90
"""A training step of ResNet-50, batch 64, synthetic images on the device."""
import torch
import torch.nn.functional as F
import torchvision
from timing import blocks, report

for name, half in (("fp32", False), ("bf16", True)):
    torch.manual_seed(1)
    net = torchvision.models.resnet50().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(64, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (64,), device="cuda")

    def step():
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()

    report(f"resnet50_{name}", blocks(step, steps=5, count=9, warm=8))
