#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=90
"""One token of a GPT-2-sized model, eagerly and as a CUDA graph."""
from gpt2 import captured, decoder
from timing import blocks, report

step = decoder()
report("decode_eager", blocks(step, steps=50, count=9, warm=20))
report("decode_graph", blocks(captured(step), steps=200, count=9, warm=20))
