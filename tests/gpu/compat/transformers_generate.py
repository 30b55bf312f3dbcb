#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch,transformers seconds=120
"""A GPT-2 with random weights generates the same tokens on the device as on the CPU."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import check

torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = False
config = GPT2Config(vocab_size=1000, n_positions=128, n_embd=128, n_layer=3, n_head=4,
                    bos_token_id=0, eos_token_id=0, pad_token_id=0)
model = GPT2LMHeadModel(config).eval()
# Random weights give flat distributions: make the choice of a token unambiguous.
with torch.no_grad():
    for p in model.parameters():
        p.mul_(4)
ids = torch.randint(1, 1000, (2, 12))
with torch.no_grad():
    want = model(ids).logits
    tokens = model.generate(ids, max_new_tokens=20, do_sample=False, min_new_tokens=20)
    gpu = model.cuda()
    check.close(gpu(ids.cuda()).logits, want, 1e-3, "logits")
    got = gpu.generate(ids.cuda(), max_new_tokens=20, do_sample=False, min_new_tokens=20)
    check.same(got, tokens, "greedy tokens")
    torch.manual_seed(3)
    sampled = gpu.half().generate(ids.cuda(), max_new_tokens=20, do_sample=True, top_k=50)
check.that(sampled.shape[0] == 2, "sampling")
check.done()
