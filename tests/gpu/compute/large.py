#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch
"""Programs that need much memory, several of which weftgpu/sets.py runs where it is not there.

    large.py decode GIB     tokens of a model of so many GiB in fp16, eagerly
    large.py graph GIB      the same as a CUDA graph
    large.py train GIB      steps of Adam, everything that it writes taking so many GiB
    large.py NETWORK GIB    what torchvision's network of that name says of a batch of images, as
                            many as take so many GiB

Says "ready", begins when a line comes, and at each further line prints how many steps there have
been so far, and the median and the longest of how long one took since the last line, in
microseconds."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

import torch  # noqa: E402
from gpt2 import captured, decoder  # noqa: E402
from steps import serve  # noqa: E402
from torch import nn  # noqa: E402

WIDTH, HEADS = 4096, 32
ROWS = 2048  # of a batch that is trained with


def decode(gib):
    layer = 12 * WIDTH * WIDTH * 2
    return decoder(WIDTH, HEADS, max(1, round(gib * 2 ** 30 / layer)), torch.half)


def graph(gib):
    return captured(decode(gib))


def train(gib):
    """A weight, its gradient and two moments take 16 bytes."""
    torch.manual_seed(1)
    layer = WIDTH * WIDTH * 16
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False)
                            for _ in range(max(1, round(gib * 2 ** 30 / layer))))).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, foreach=False)
    x = torch.randn(ROWS, WIDTH, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()

    return step


def network(name, gib):
    import torchvision
    torch.manual_seed(1)
    more = {"init_weights": False} if name == "inception_v3" else {}
    net = getattr(torchvision.models, name)(weights=None, **more).cuda().eval()
    side = 299 if name == "inception_v3" else 224

    def takes(n):
        """Bytes of the device that a batch of n takes, with what the allocator keeps."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        with torch.inference_mode():
            net(torch.zeros(n, 3, side, side, device="cuda"))
        return torch.cuda.max_memory_reserved()

    n = 32
    takes(n)  # what libraries keep from then on is not of the batch
    for _ in range(3):
        n = max(1, int(n * gib * 2 ** 30 / takes(n)))
    torch.cuda.empty_cache()
    images = torch.randn(n, 3, side, side, device="cuda")

    def step():
        with torch.inference_mode():
            net(images)

    return step


def main():
    made = {"decode": decode, "graph": graph, "train": train}
    name, gib = sys.argv[1], float(sys.argv[2])
    serve(made[name](gib) if name in made else network(name, gib), ranks=(50, 100))


main()
