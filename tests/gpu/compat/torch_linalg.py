#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=90
"""cuSOLVER and cuSPARSE: factorizations and sparse products."""
import torch

import check

torch.manual_seed(1)
n = 200
a = torch.randn(n, n, dtype=torch.float64)
spd = a @ a.t() + n * torch.eye(n, dtype=torch.float64)
b = torch.randn(n, 8, dtype=torch.float64)
check.close(torch.linalg.solve(a.cuda(), b.cuda()), torch.linalg.solve(a, b), 1e-8, "solve")
check.close(torch.linalg.cholesky(spd.cuda()), torch.linalg.cholesky(spd), 1e-10, "cholesky")
check.close(torch.linalg.eigvalsh(spd.cuda()), torch.linalg.eigvalsh(spd), 1e-10, "eigvalsh")
check.close(torch.linalg.svdvals(a.cuda()), torch.linalg.svdvals(a), 1e-9, "svdvals")
q, r = torch.linalg.qr(a.cuda())
check.close(q @ r, a, 1e-10, "qr")
check.close(torch.linalg.inv(spd.cuda()), torch.linalg.inv(spd), 1e-9, "inv")
check.close(torch.linalg.lstsq(a.cuda(), b.cuda()).solution,
            torch.linalg.lstsq(a, b).solution, 1e-7, "lstsq")
batch = torch.randn(50, 16, 16)
check.close(torch.linalg.det(batch.cuda()), torch.linalg.det(batch.double()), 1e-3, "batched det")
dense = torch.where(torch.rand(500, 400) < 0.05, torch.randn(500, 400), torch.zeros(()))
m = torch.randn(400, 32)
for name, s in (("coo", dense.to_sparse()), ("csr", dense.to_sparse_csr())):
    check.close(torch.sparse.mm(s.cuda(), m.cuda()), dense.double() @ m.double(), 1e-5,
                f"sparse {name}")
check.close((dense.cuda().to_sparse_csr() @ dense.t().contiguous().cuda().to_sparse_csr()),
            dense.double() @ dense.double().t(), 1e-5, "sparse times sparse")
check.done()
