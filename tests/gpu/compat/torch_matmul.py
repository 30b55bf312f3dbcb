#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""cuBLAS and cuBLASLt in every precision, against double precision on the CPU."""
import torch
import torch.nn.functional as F

import check

torch.manual_seed(1)
a, b = torch.randn(512, 768), torch.randn(768, 640)
want = a.double() @ b.double()
for name, dtype, tf32, tolerance in (("fp32", torch.float32, False, 1e-5),
                                     ("tf32", torch.float32, True, 2e-3),
                                     ("bf16", torch.bfloat16, False, 2e-2),
                                     ("fp16", torch.float16, False, 3e-3),
                                     ("fp64", torch.float64, False, 1e-12)):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    check.close(a.to("cuda", dtype) @ b.to("cuda", dtype), want, tolerance, f"matmul {name}")
torch.backends.cuda.matmul.allow_tf32 = False
x, y = torch.randn(16, 64, 96), torch.randn(16, 96, 32)
check.close(torch.bmm(x.cuda(), y.cuda()), x.double() @ y.double(), 1e-5, "bmm")
bias = torch.randn(640)
lin = F.linear(a.cuda().bfloat16(), b.t().contiguous().cuda().bfloat16(),
               bias.cuda().bfloat16())
check.close(lin, want + bias.double(), 2e-2, "linear with bias (cuBLASLt)")
fused = torch._addmm_activation(bias.cuda().half(), a.cuda().half(), b.cuda().half(),
                                use_gelu=True)
check.close(fused, F.gelu(want + bias.double()), 1e-2, "addmm with gelu (cuBLASLt)")
v = torch.randn(768)
check.close(a.cuda() @ v.cuda(), a.double() @ v.double(), 1e-5, "gemv")
i8 = torch.randint(-8, 8, (64, 128), dtype=torch.int8)
j8 = torch.randint(-8, 8, (128, 64), dtype=torch.int8)
check.same(torch._int_mm(i8.cuda(), j8.cuda()), i8.int() @ j8.int(), "int8 matmul")
if torch.cuda.get_device_capability() >= (8, 9):
    one = torch.ones((), device="cuda")
    f8 = torch._scaled_mm(a.cuda().to(torch.float8_e4m3fn),
                          b.t().contiguous().cuda().to(torch.float8_e4m3fn).t(),
                          scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    check.close(f8, want, 0.1, "fp8 matmul")
check.done()
