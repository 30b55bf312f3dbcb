#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch
"""Programs that need much memory, several of which weftgpu/sets.py runs where it is not there.

    large.py decode GIB     tokens of a model of so many GiB in fp16, eagerly
    large.py train GIB      steps of Adam, everything that it writes taking so many GiB

Says "ready", begins when a line comes, and at each further line prints how many steps there have
been so far, and the median and the longest of how long one took since the last line, in
microseconds."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

import torch  # noqa: E402
from gpt2 import decoder  # noqa: E402
from torch import nn  # noqa: E402

WIDTH, HEADS = 4096, 32
ROWS = 2048  # of a batch that is trained with


def decode(gib):
    layer = 12 * WIDTH * WIDTH * 2
    return decoder(WIDTH, HEADS, max(1, round(gib * 2 ** 30 / layer)))


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


class Steps:
    def __init__(self, step):
        self.step = step
        self.lock = threading.Lock()
        self.count, self.took, self.stop = 0, [], False

    def run(self):
        while not self.stop:
            start = time.perf_counter()
            self.step()
            torch.cuda.synchronize()
            took = (time.perf_counter() - start) * 1e6
            with self.lock:
                self.count += 1
                self.took.append(took)

    def tell(self):
        with self.lock:
            took, self.took = sorted(self.took) or [0], []
            print(self.count, f"{took[len(took) // 2]:.0f} {took[-1]:.0f}", flush=True)


def main():
    step = {"decode": decode, "train": train}[sys.argv[1]](float(sys.argv[2]))
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    steps = Steps(step)
    thread = threading.Thread(target=steps.run)
    thread.start()
    for _ in sys.stdin:
        steps.tell()
    steps.stop = True
    thread.join()


main()
