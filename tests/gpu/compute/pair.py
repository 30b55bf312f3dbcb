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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

from gpt2 import captured, decoder  # noqa: E402
from resnet import trainer  # noqa: E402
from steps import serve  # noqa: E402


def main():
    what, ms = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0
    step = trainer(True) if what == "train" else decoder()
    for _ in range(10):
        step()
    serve(captured(step) if what == "decode" else step, ms)


main()
