#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60 alone
"""Out of memory is an exception, and the program goes on after it."""
import torch

import check

free, total = torch.cuda.mem_get_info()
x = torch.ones(1 << 20, device="cuda")
for what, size in (("more than there is", total + (1 << 30)), ("absurd", 1 << 50)):
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        pass
    else:
        check.fail(f"{what}: no error for {size} bytes")
held, piece = [], 4 << 30
try:
    while len(held) * piece <= total:
        held.append(torch.empty(piece, dtype=torch.uint8, device="cuda"))
except torch.cuda.OutOfMemoryError:
    pass
else:
    check.fail("allocated more than the device has")
count = len(held)
check.that(count >= 1, "not even one piece")
held.clear()
torch.cuda.empty_cache()
check.that(torch.cuda.mem_get_info()[0] > free - (1 << 30), "memory did not come back")
check.that(float((x + 1).sum()) == 2 << 20, "the context is broken")
check.done(f"({count} pieces of 4 GiB)")
