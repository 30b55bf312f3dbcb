#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch,torchvision
"""Real programs that weftgpu/pair.py runs side by side.

    pair.py train           ResNet-50, batch 64, in bf16
    pair.py decode MS       a token of a GPT-2-sized model each MS milliseconds, as a graph;
                            0: one behind the other
    pair.py eager MS        likewise, each kernel launched by itself

Says "ready", begins when a line comes, and at each further line prints how many steps or
tokens there have been so far, and the median and the 99th percentile of how long one took
since the last line, in microseconds."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

import torch  # noqa: E402
from gpt2 import captured, decoder  # noqa: E402
from resnet import trainer  # noqa: E402


class Steps:
    def __init__(self, step, ms):
        self.step, self.ms = step, ms
        self.lock = threading.Lock()
        self.count, self.took = 0, []
        self.stop = False

    def run(self):
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
            print(self.count, *(f"{took[n * p // 100]:.0f}" if n else 0 for p in (50, 99)),
                  flush=True)


def main():
    what, ms = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0
    step = trainer(True) if what == "train" else decoder()
    for _ in range(10):
        step()
    steps = Steps(captured(step) if what == "decode" else step, ms)
    torch.cuda.synchronize()
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    thread = threading.Thread(target=steps.run)
    thread.start()
    for _ in sys.stdin:
        steps.tell()
    steps.stop = True
    thread.join()


main()
