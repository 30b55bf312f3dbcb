#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=jax seconds=120 env=XLA_PYTHON_CLIENT_PREALLOCATE=false
"""jax_train without preallocated memory."""
import jax_train  # noqa: F401
