#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch,torchvision seconds=90
"""A training step of ResNet-50, batch 64."""
from resnet import trainer
from timing import blocks, report

for name, half in (("fp32", False), ("bf16", True)):
    report(f"resnet50_{name}", blocks(trainer(half), steps=5, count=9, warm=8))
