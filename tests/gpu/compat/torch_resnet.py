#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch,torchvision seconds=90
"""ResNet-18 training with cuDNN: fp32 against the CPU, then bf16 autocast, channels last."""
import torch
import torch.nn.functional as F
import torchvision

import check

torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
torch.manual_seed(1)
cpu = torchvision.models.resnet18(num_classes=10)
gpu = torchvision.models.resnet18(num_classes=10)
gpu.load_state_dict(cpu.state_dict())
gpu = gpu.cuda()
x, y = torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))
loss_cpu = F.cross_entropy(cpu(x), y)
loss_cpu.backward()
loss_gpu = F.cross_entropy(gpu(x.cuda()), y.cuda())
loss_gpu.backward()
check.close(loss_gpu, loss_cpu, 1e-3, "first loss")
check.close(gpu.fc.weight.grad, cpu.fc.weight.grad, 1e-2, "gradient of the last layer")
check.close(gpu.conv1.weight.grad, cpu.conv1.weight.grad, 5e-2, "gradient of the first layer")

torch.backends.cudnn.benchmark = True
for name, dtype, layout in (("fp32", None, torch.contiguous_format),
                            ("bf16", torch.bfloat16, torch.channels_last)):
    net = torchvision.models.resnet18(num_classes=10).cuda().to(memory_format=layout)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    xs, ys = x.cuda().to(memory_format=layout), y.cuda()
    losses = []
    for _ in range(12):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
            loss = F.cross_entropy(net(xs), ys)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    check.that(losses[-1] < losses[0] * 0.6, f"{name}: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
check.done()
