#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=jax seconds=120 alone
"""JAX: jit, grad, vmap, convolution, scan, random, linear algebra; memory preallocated."""
import jax
import jax.numpy as jnp
import numpy as np

import check

check.that(jax.devices()[0].platform == "gpu", f"no GPU: {jax.devices()}")
rng = np.random.default_rng(1)
a = rng.standard_normal((128, 256)).astype(np.float32)
with jax.default_matmul_precision("highest"):
    check.close(jax.jit(lambda x: x @ x.T)(a), a.astype(float) @ a.T, 1e-5, "matmul")
check.close(jax.jit(lambda x: jnp.tanh(x).sum(0))(a), np.tanh(a).sum(0), 1e-4, "fusion")
x = rng.standard_normal((2, 8, 16, 16)).astype(np.float32)
w = rng.standard_normal((4, 8, 3, 3)).astype(np.float32)
conv = jax.jit(lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID",
                                         precision=jax.lax.Precision.HIGHEST))
want = sum(np.einsum("nchw,kc->nkhw", x[:, :, i:i + 14, j:j + 14], w[:, :, i, j])
           for i in range(3) for j in range(3))
check.close(conv(x, w), want, 1e-4, "convolution")


def loss(p, x, y):
    h = jax.nn.relu(x @ p["a"])
    return ((h @ p["b"] - y) ** 2).mean()


p = {"a": jnp.array(rng.standard_normal((32, 64)) * 0.1),
     "b": jnp.array(rng.standard_normal((64, 1)) * 0.1)}
data = rng.standard_normal((256, 32)).astype(np.float32)
label = data[:, :1] * 2 - data[:, 1:2]
step = jax.jit(lambda p: jax.tree.map(lambda v, g: v - 0.05 * g, p,
                                      jax.grad(loss)(p, data, label)))
first = float(loss(p, data, label))
for _ in range(100):
    p = step(p)
last = float(loss(p, data, label))
check.that(last < first * 0.3, f"loss {first:.3f} -> {last:.3f}")
total = jax.lax.scan(lambda c, v: (c + v, c), 0.0, jnp.arange(100.0))[0]
check.that(float(total) == 4950, "scan")
# Each result differs from the one before, so that a stale one is noticed.
line = jax.jit(lambda v: v * 2 + 1)
for k in range(300):
    got = np.asarray(line(np.full(1568, float(k), np.float32)))
    check.that((got == 2 * k + 1).all(), f"round {k} gave {got.min()} to {got.max()}")
r = jax.random.normal(jax.random.key(0), (1 << 18,))
check.that(abs(float(r.mean())) < 0.02 and abs(float(r.std()) - 1) < 0.02, "random")
m = a @ a.T + np.eye(128, dtype=np.float32) * 300
check.close(jnp.linalg.cholesky(m), np.linalg.cholesky(m), 1e-4, "cholesky")
check.close(jnp.fft.fft(a), np.fft.fft(a), 1e-4, "fft")
check.same(jnp.sort(a), np.sort(a), "sort")
check.done(f"JAX {jax.__version__}")
