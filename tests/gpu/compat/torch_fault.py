#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""An assertion on the device ends one process with CUDA's error; a process beside it goes on."""
import subprocess
import sys

import torch

import check

if len(sys.argv) > 1:
    t = torch.zeros(10, device="cuda")
    try:
        t[torch.tensor([10_000], device="cuda")]
        torch.cuda.synchronize()
    except RuntimeError as e:
        print("device-side assert" in str(e), flush=True)
    sys.exit(0)
x = torch.ones(1 << 20, device="cuda")
bad = subprocess.Popen([sys.executable, __file__, "bad"], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, text=True)
for _ in range(100):
    x = x * 1.0
out, _ = bad.communicate(timeout=50)
check.that("True" in out, f"the other process did not get a device-side assert: {out!r}")
check.that(float((x + 1).sum()) == 2 << 20, "this process was hurt")
check.done()
