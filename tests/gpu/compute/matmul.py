#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch
"""Products of matrices by cuBLAS: for each line, of how many rows, says milliseconds of one."""
import sys
import time

import torch

SECONDS = 0.15  # of one measurement


def product_ms(n):
    a = torch.randn(n, n, device="cuda")
    b = torch.randn(n, n, device="cuda")
    a @ b
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + SECONDS
    while len(times) < 2 or time.perf_counter() < end:
        begin = time.perf_counter()
        a @ b
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3


product_ms(1024)
print("ready", flush=True)
for line in sys.stdin:
    print(f"{product_ms(int(line)):.4f}", flush=True)
