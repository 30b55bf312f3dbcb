#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""Streams with priorities, events with timing, order between streams, threads."""
import threading

import torch

import check

low, high = torch.cuda.Stream(priority=0), torch.cuda.Stream(priority=-5)
check.that(high.priority < low.priority, "priorities")
x = torch.zeros(1 << 20, device="cuda")
for i in range(100):
    with torch.cuda.stream(low):
        x.add_(1)
    high.wait_stream(low)
    with torch.cuda.stream(high):
        x.mul_(1)
    low.wait_stream(high)
torch.cuda.synchronize()
check.that(float(x.min()) == 100 and float(x.max()) == 100, "order between streams")

start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
a = torch.randn(4096, 4096, device="cuda")
start.record()
for _ in range(10):
    a @ a
end.record()
end.synchronize()
ms = start.elapsed_time(end)
check.that(0.5 < ms < 5000, f"10 products took {ms} ms")
check.that(end.query() and torch.cuda.current_stream().query(), "finished but not ready")
torch.cuda._sleep(200_000_000)
e = torch.cuda.Event()
e.record()
check.that(not e.query(), "an event is ready before what it follows")
e.synchronize()

sums = [0.0] * 8


def work(i):
    with torch.cuda.stream(torch.cuda.Stream()):
        t = torch.full((1000,), float(i), device="cuda")
        for _ in range(200):
            t = t + 1
        sums[i] = float(t.sum())


threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
check.that(sums == [1000.0 * (200 + i) for i in range(8)], f"eight threads: {sums}")
check.done()
