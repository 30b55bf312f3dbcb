# SPDX-License-Identifier: Apache-2.0
"""Parts of tests/gpu/run."""
