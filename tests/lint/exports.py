#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libcuda.so.1 exports what the toolkit's driver library exports, and nothing else."""
import subprocess
import sys


def exported(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True,
                         check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()
            if len(line.split()) == 3 and line.split()[1] in "TtDBRWVi"}


def main(ours, stub):
    have, want = exported(ours), {n for n in exported(stub) if n.startswith("cu")}
    for name in sorted(want - have):
        print(f"missing: {name}")
    for name in sorted(have - want):
        print(f"should not be exported: {name}")
    soname = subprocess.run(["readelf", "-d", ours], capture_output=True, text=True,
                            check=True).stdout
    if "[libcuda.so.1]" not in soname:
        print("SONAME is not libcuda.so.1")
        return 1
    print(f"{len(have)} exported, {len(want)} wanted")
    return 1 if have != want else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
