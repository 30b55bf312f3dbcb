#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=90
"""A transformer of 12 layers, 768 wide: training step and inference, bf16 autocast."""
import torch
import torch.nn.functional as F
from timing import blocks, report
from torch import nn

torch.manual_seed(1)
layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, norm_first=True)
net = nn.Sequential(nn.Embedding(32000, 768),
                    nn.TransformerEncoder(layer, 12, enable_nested_tensor=False),
                    nn.Linear(768, 32000)).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 32000, (8, 513), device="cuda")
x, y = tokens[:, :-1], tokens[:, 1:].flatten()


def train():
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16):
        loss = F.cross_entropy(net(x).flatten(0, 1), y)
    loss.backward()
    opt.step()


@torch.no_grad()
def infer():
    with torch.autocast("cuda", torch.bfloat16):
        net(x)


report("transformer_train", blocks(train, steps=5, count=9, warm=5))
net.eval()
report("transformer_infer", blocks(infer, steps=10, count=9, warm=5))
