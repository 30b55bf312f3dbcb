# SPDX-License-Identifier: Apache-2.0
"""Common part of the benchmarks in Python."""
import statistics
import time

import torch


def blocks(step, *, steps, count, warm):
    """Median milliseconds of one step, over blocks of steps that end with a wait."""
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / steps * 1e3)
    return statistics.median(times)


def report(metric, value):
    print(f"{metric} {value:.5g}", flush=True)
