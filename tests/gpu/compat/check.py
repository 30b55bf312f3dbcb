# SPDX-License-Identifier: Apache-2.0
"""Common part of the compatibility programs: comparisons that end the program when they fail."""
import os
import sys

NAME = os.path.basename(sys.argv[0]).rsplit(".", 1)[0]


def numba_cuda():
    """numba.cuda; some versions of it want a name that newer NumPy versions lack."""
    import numpy as np

    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack
    from numba import cuda
    return cuda


def fail(text):
    print(f"FAIL {NAME}: {text}", flush=True)
    # Not sys.exit(): threads and atexit handlers of a broken library could hang it.
    sys.stderr.flush()
    os._exit(1)


def that(condition, what):
    if not condition:
        fail(what)


def close(got, want, tolerance, what):
    """Largest difference against the largest wanted value; takes tensors and arrays."""
    import numpy as np

    def plain(x):
        if hasattr(x, "detach"):
            x = x.detach().to("cpu")
            x = x.to_dense() if x.layout.__str__() != "torch.strided" else x
            return x.double().numpy() if not x.is_complex() else x.numpy()
        return x.get() if hasattr(x, "get") else np.asarray(x)

    g, w = plain(got), plain(want)
    that(g.shape == w.shape, f"{what}: shape {g.shape}, not {w.shape}")
    scale = max(float(np.abs(w).max()), 1e-6) if w.size else 1.0
    error = float(np.abs(g - w).max()) / scale if w.size else 0.0
    that(error <= tolerance, f"{what}: off by {error:.3g} of the largest value")


def same(got, want, what):
    close(got, want, 0.0, what)


def done(text=""):
    print(f"ok {NAME} {text}".rstrip(), flush=True)
