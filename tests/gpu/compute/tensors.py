#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch
"""Layers of PyTorch on tensors of other sizes in each round, which a seed says.

    tensors.py SEED ROUNDS
"""
import sys

import torch
from torch.nn import functional

SMALLEST, STEP, STEPS = 1024, 128, 22


def main(seed, rounds):
    made = torch.Generator().manual_seed(int(seed))
    torch.backends.cuda.matmul.allow_tf32 = True
    for _ in range(int(rounds)):
        n, m, k = (SMALLEST + STEP * int(torch.randint(STEPS, (1,), generator=made))
                   for _ in range(3))
        for kind in (torch.float32, torch.bfloat16):
            a = torch.ones(n, k, device="cuda", dtype=kind)
            c = a @ torch.ones(k, m, device="cuda", dtype=kind)
            d = functional.layer_norm(torch.softmax(c, -1), (m,))
            (functional.gelu(d) + c).sum()
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(*sys.argv[1:])
