#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch trains a small network inside the guest; says where the time goes."""
import faulthandler
import os
import sys
import time

faulthandler.dump_traceback_later(int(os.environ.get("WEFT_DUMP_SECONDS", "600")))
# Since the process was started, in the kernel's own ticks.
with open("/proc/self/stat", encoding="ascii") as f:
    begun = int(f.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
start = begun + time.monotonic() - time.clock_gettime(time.CLOCK_BOOTTIME)


def lap(what):
    global start
    now = time.monotonic()
    print(f"{what}: {now - start:.1f} s", flush=True)
    start = now


lap("Python")
import numpy  # noqa: E402,F401

lap("import numpy")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

lap("import torch")
x = torch.ones(4, device="cuda")
if float((x + 1).sum()) != 8:
    print("FAIL train_step: wrong sum")
    sys.exit(1)
lap("first tensor")
torch.manual_seed(1)
net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                    nn.Linear(256, 10)).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.5)
data, label = torch.randn(32, 3, 16, 16).cuda(), torch.arange(32).cuda() % 10
losses = []
for _ in range(8):
    opt.zero_grad()
    loss = F.cross_entropy(net(data), label)
    loss.backward()
    opt.step()
    losses.append(loss.item())
    if len(losses) == 1:
        lap("first step")
lap("seven more steps")
if not losses[-1] < losses[0]:
    print(f"FAIL train_step: losses {losses}")
    sys.exit(1)
print(f"ok train_step loss {losses[0]:.3f} -> {losses[-1]:.3f} on "
      f"{torch.cuda.get_device_name(0)}")
