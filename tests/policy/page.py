#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a page has the table that a program prints: page.py PAGE PROGRAM."""
import subprocess
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    page = f.read()
table = subprocess.run([sys.argv[2]], capture_output=True, text=True, check=True).stdout
if table not in page:
    sys.exit(f"{sys.argv[1]} lacks this table:\n{table}")
