#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: assemble.py PTXAS PTX_CHECK FILE...

Has ptxas assemble what persistent forms of the kernels in the files are: PTX of ours is PTX of
NVIDIA's, too. Prints the registers that a copy needs more than its kernel.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile


def assemble(ptxas, path):
    """Registers by function, or what ptxas has against the text."""
    with open(path, encoding="utf-8", errors="replace") as f:
        target = re.search(r"^\.target\s+(sm_\d+a?)", f.read(), re.M).group(1)
    r = subprocess.run([ptxas, f"-arch={max(target, 'sm_80')}", "-v", "-o", os.devnull, path],
                       capture_output=True, text=True, check=False)
    if r.returncode:
        return None, r.stderr
    found = re.findall(r"Compiling entry function '(\S+)'.*?Used (\d+) registers", r.stderr, re.S)
    return {name: int(n) for name, n in found}, ""


def main():
    ptxas, check, *files = sys.argv[1:]
    bad = copies = 0
    with tempfile.TemporaryDirectory() as into:
        subprocess.run([check, "-r", into, *files], check=True, stdout=subprocess.DEVNULL)
        for path in sorted(glob.glob(f"{into}/*.ptx")):
            used, why = assemble(ptxas, path)
            if used is None:
                print(why)
                bad += 1
                continue
            for name, n in used.items():
                if name.startswith("weft_pt$"):
                    copies += 1
                    print(f"{n - used[name[8:]]:+d} of {used[name[8:]]}: {name[8:][:70]}")
    print(f"{copies} copies assembled, {bad} texts refused")
    return bad != 0 or not copies


sys.exit(main())
