#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""Operators with kernels of their own: convolutions, pooling, interpolation, embedding, RNN."""
import torch
import torch.nn.functional as F
from torch import nn

import check

torch.manual_seed(1)
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
x = torch.randn(4, 8, 33, 31)
for name, f in (
        ("conv2d", lambda t, w: F.conv2d(t, w, padding=1)),
        ("conv2d strided", lambda t, w: F.conv2d(t, w, stride=2)),
        ("conv2d dilated", lambda t, w: F.conv2d(t, w, dilation=2)),
        ("conv transpose", lambda t, w: F.conv_transpose2d(t, w.transpose(0, 1), stride=2))):
    w = torch.randn(16, 8, 3, 3)
    check.close(f(x.cuda(), w.cuda()), f(x.double(), w.double()), 1e-4, name)
check.close(F.conv1d(x[:, :, 0].cuda(), torch.ones(4, 8, 5).cuda()),
            F.conv1d(x[:, :, 0], torch.ones(4, 8, 5)), 1e-4, "conv1d")
v = torch.randn(2, 4, 12, 13, 14)
k3 = torch.randn(6, 4, 3, 3, 3)
check.close(F.conv3d(v.cuda(), k3.cuda()), F.conv3d(v.double(), k3.double()), 1e-4, "conv3d")
check.same(F.max_pool2d(x.cuda(), 3), F.max_pool2d(x, 3), "max_pool2d")
check.close(F.adaptive_avg_pool2d(x.cuda(), 7), F.adaptive_avg_pool2d(x, 7), 1e-5, "avg pool")
check.close(F.interpolate(x.cuda(), scale_factor=2, mode="bicubic"),
            F.interpolate(x, scale_factor=2, mode="bicubic"), 1e-4, "bicubic")
check.close(F.grid_sample(x.cuda(), torch.rand(4, 9, 9, 2).mul(2).sub(1).cuda() * 0),
            F.grid_sample(x, torch.zeros(4, 9, 9, 2)), 1e-4, "grid_sample")
for cell in (nn.LSTM, nn.GRU):
    net = cell(32, 64, 2, batch_first=True)
    seq = torch.randn(4, 20, 32)
    want = net(seq)[0]
    check.close(net.cuda()(seq.cuda())[0], want, 1e-4, cell.__name__)
bag = nn.EmbeddingBag(100, 16)
ids = torch.randint(0, 100, (8, 5))
want = bag(ids)
check.close(bag.cuda()(ids.cuda()), want, 1e-5, "embedding bag")
logits = torch.randn(20, 4, 10).log_softmax(2)
ctc = [F.ctc_loss(logits.to(d), torch.tensor([[1, 2, 3]] * 4).to(d), [20] * 4, [3] * 4)
       for d in ("cpu", "cuda")]
check.close(ctc[1], ctc[0], 1e-4, "ctc_loss")
check.done()
