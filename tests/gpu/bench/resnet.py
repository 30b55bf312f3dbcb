# SPDX-License-Identifier: Apache-2.0
"""ResNet-50, trained with synthetic images that are on the device."""
import torch
import torch.nn.functional as F
import torchvision

BATCH = 64


def trainer(half):
    """Returns a function that makes one step; half: in bf16, where that is enough."""
    torch.manual_seed(1)
    net = torchvision.models.resnet50().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(BATCH, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (BATCH,), device="cuda")

    def step():
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()

    return step
