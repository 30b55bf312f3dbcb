#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch
"""PyTorch's green contexts: products of matrices on some of the SMs, right, and slower."""
import sys
import time

import torch

try:
    from torch.cuda.green_contexts import GreenContext
except ImportError:
    print("ok torch_green: this PyTorch has none")
    sys.exit(0)

torch.manual_seed(1)
a = torch.randn(4096, 4096, device="cuda")
b = torch.randn(4096, 4096, device="cuda")


def product():
    c = a @ b
    torch.cuda.current_stream().synchronize()
    begin = time.perf_counter()
    for _ in range(5):
        c = a @ b
    torch.cuda.current_stream().synchronize()
    return c, time.perf_counter() - begin


whole, all_s = product()
green = GreenContext.create(num_sms=16, device_id=0)
green.set_context()
part, some_s = product()
green.pop_context()
torch.cuda.synchronize()
torch.testing.assert_close(part, whole)
again, _ = product()
torch.testing.assert_close(again, whole)
print(f"ok torch_green: on 16 SMs {some_s / all_s:.1f} times as long")
sys.exit(some_s < 3 * all_s)
