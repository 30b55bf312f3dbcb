# SPDX-License-Identifier: Apache-2.0
"""What tests/gpu/run is made of."""
