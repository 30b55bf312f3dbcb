#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=200
"""Tokens of a GPT-2-sized model whose keys grow with each one, as a plain decoder's do:
cuDNN compiles a kernel for each new length. Two processes, one after the other: the second
finds what the first compiled."""
import subprocess
import sys
import time

WIDTH, HEADS, LAYERS, WORDS, TOKENS = 768, 12, 12, 50257, 96


def decode():
    import torch
    import torch.nn.functional as F

    torch.manual_seed(1)
    words = torch.randn(WORDS, WIDTH, device="cuda", dtype=torch.bfloat16) / 28
    weights = [[torch.randn(WIDTH, n * WIDTH, device="cuda", dtype=torch.bfloat16) / 28
                for n in (3, 1)] for _ in range(LAYERS)]
    keys = torch.zeros(LAYERS, 2, 1, HEADS, TOKENS + 1, WIDTH // HEADS, device="cuda",
                       dtype=torch.bfloat16)

    def step(token, length):
        x = words[token].view(1, WIDTH)
        for i, (qkv, out) in enumerate(weights):
            q, k, v = (t.view(1, 1, HEADS, -1).transpose(1, 2)
                       for t in (x @ qkv).split(WIDTH, dim=1))
            keys[i, 0, :, :, length - 1] = k[:, :, 0]
            keys[i, 1, :, :, length - 1] = v[:, :, 0]
            a = F.scaled_dot_product_attention(q, keys[i, 0, :, :, :length],
                                               keys[i, 1, :, :, :length])
            x = F.rms_norm(x + a.transpose(1, 2).reshape(1, WIDTH) @ out, (WIDTH,))
        return (x @ words.T).argmax(-1).item()

    with torch.no_grad():
        token = step(0, 1)  # libraries load
        start = time.monotonic()
        for length in range(2, TOKENS + 2):
            token = step(token, length)
        return (time.monotonic() - start) * 1e3 / TOKENS


if len(sys.argv) > 1:
    print(decode())
else:
    for which in ("first", "second"):
        done = subprocess.run([sys.executable, "-B", __file__, "child"], check=True,
                              stdout=subprocess.PIPE, text=True)
        print(f"decode_growing_{which} {float(done.stdout.split()[-1]):.3f}", flush=True)
