# SPDX-License-Identifier: Apache-2.0
"""Builds guest images from Debian packages, boots them and runs programs in them."""
