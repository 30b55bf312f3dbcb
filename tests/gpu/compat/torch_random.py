#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""Random numbers: repeatable, right moments; dropout and multinomial."""
import torch

import check

torch.cuda.manual_seed(42)
a = torch.randn(1 << 20, device="cuda")
torch.cuda.manual_seed(42)
check.same(torch.randn(1 << 20, device="cuda"), a, "same seed")
check.that(abs(float(a.mean())) < 0.01 and abs(float(a.std()) - 1) < 0.01, "moments")
u = torch.rand(1 << 20, device="cuda")
check.that(0 <= float(u.min()) and float(u.max()) < 1, "range")
check.that(abs(float(u.mean()) - 0.5) < 0.01, "mean")
p = torch.randperm(10000, device="cuda")
check.same(p.sort().values, torch.arange(10000), "permutation")
d = torch.nn.functional.dropout(torch.ones(1 << 20, device="cuda"), 0.25)
check.that(abs(float((d == 0).float().mean()) - 0.25) < 0.01, "dropout")
w = torch.tensor([1.0, 2.0, 7.0], device="cuda")
c = torch.bincount(torch.multinomial(w, 100000, replacement=True), minlength=3) / 1e5
check.close(c, torch.tensor([0.1, 0.2, 0.7]), 0.02, "multinomial")
state = torch.cuda.get_rng_state()
x = torch.rand(10, device="cuda")
torch.cuda.set_rng_state(state)
check.same(torch.rand(10, device="cuda"), x, "state")
check.done()
