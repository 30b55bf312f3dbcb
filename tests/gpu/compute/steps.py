# SPDX-License-Identifier: Apache-2.0
"""Programs that do one thing over and over, as weftgpu/looping.py asks them what they did."""
import sys
import threading
import time

import torch

WARM = 3


class Steps:
    """Calls step, each so many ms or one behind the other; `ranks` are percentiles to tell."""

    def __init__(self, step, ms, ranks):
        self.step, self.ms, self.ranks = step, ms, ranks
        self.lock = threading.Lock()
        self.count, self.took = 0, []
        self.stop = self.good = False
        self.warm, self.begin = threading.Event(), threading.Event()

    def warm_up(self):
        """In the thread that goes on: libraries make something for each."""
        try:
            for _ in range(WARM):
                self.step()
            torch.cuda.synchronize()
            self.good = True
        finally:
            self.warm.set()

    def run(self):
        self.warm_up()
        self.begin.wait()
        due = time.perf_counter()
        while not self.stop:
            time.sleep(max(0, due - time.perf_counter()))
            start = time.perf_counter()
            self.step()
            torch.cuda.synchronize()
            end = time.perf_counter()
            with self.lock:
                self.count += 1
                self.took.append((end - start) * 1e6)
            due = max(due + self.ms / 1e3, end) if self.ms else end

    def tell(self):
        with self.lock:
            took, self.took = sorted(self.took), []
            n = len(took)
            print(self.count, *(f"{took[min(n * p // 100, n - 1)]:.0f}" if n else 0
                                for p in self.ranks), flush=True)


def serve(step, ms=0, ranks=(50, 99)):
    """Says "ready", begins when a line comes, and tells at each further one."""
    steps = Steps(step, ms, ranks)
    thread = threading.Thread(target=steps.run)
    thread.start()
    steps.warm.wait()
    if not steps.good:
        sys.exit(1)
    print("ready", flush=True)
    steps.stop = not sys.stdin.readline()
    steps.begin.set()
    for _ in sys.stdin:
        steps.tell()
    steps.stop = True
    thread.join()
