#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=cupy seconds=90
"""CuPy's libraries: cuBLAS, cuFFT, cuSOLVER, cuSPARSE, cuRAND, CUB."""
import cupy as cp
import cupyx.scipy.sparse as sparse
import numpy as np

import check

rng = np.random.default_rng(1)
a, b = rng.standard_normal((200, 300)), rng.standard_normal((300, 100))
check.close(cp.asarray(a) @ cp.asarray(b), a @ b, 1e-12, "cuBLAS")
f = a.astype(np.float32)
check.close(cp.asarray(f) @ cp.asarray(f.T), f.astype(float) @ f.T, 2e-3, "cuBLAS single")
check.close(cp.fft.fft2(cp.asarray(a)), np.fft.fft2(a), 1e-11, "cuFFT")
check.close(cp.fft.rfft(cp.asarray(a)), np.fft.rfft(a), 1e-11, "cuFFT real")
m = a[:, :200] @ a[:, :200].T + np.eye(200) * 200
check.close(cp.linalg.cholesky(cp.asarray(m)), np.linalg.cholesky(m), 1e-10, "cholesky")
check.close(cp.linalg.solve(cp.asarray(m), cp.asarray(a)), np.linalg.solve(m, a), 1e-9, "solve")
check.close(cp.linalg.eigvalsh(cp.asarray(m)), np.linalg.eigvalsh(m), 1e-10, "eigvalsh")
check.close(cp.linalg.svd(cp.asarray(a), compute_uv=False),
            np.linalg.svd(a, compute_uv=False), 1e-10, "svd")
d = np.where(rng.random((400, 400)) < 0.03, 1.5, 0.0)
s = sparse.csr_matrix(cp.asarray(d))
check.close(s @ cp.ones(400), d @ np.ones(400), 1e-12, "cuSPARSE vector")
check.close((s @ s).toarray(), d @ d, 1e-12, "cuSPARSE matrix")
cp.random.seed(3)
x = cp.random.standard_normal(1 << 20)
check.that(abs(float(x.mean())) < 0.01 and abs(float(x.std()) - 1) < 0.01, "cuRAND moments")
u = cp.random.default_rng(5).random(1 << 20)
check.that(abs(float(u.mean()) - 0.5) < 0.01, "random generator")
check.close(cp.histogram(u, bins=10, range=(0, 1))[0].sum(), 1 << 20, 0, "histogram")
check.done()
