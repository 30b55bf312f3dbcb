#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every command of the README, as it stands there, and checks that its paths exist.

    readme.py TOP BUILD

The command that runs this test is not run again, and vm-images/demo is told to use the
build at hand.
"""
import os
import re
import subprocess
import sys
import tempfile

SELF = "tests/run"


def commands(text):
    for line in text.splitlines():
        if line.startswith("    ") and line.strip():
            yield line.split("#")[0].strip()


def main(top, build):
    with open(os.path.join(top, "README.md"), encoding="utf-8") as f:
        text = f.read()
    bad, ran = 0, 0
    with tempfile.TemporaryDirectory() as where:
        for name in os.listdir(top):
            if not name.startswith("build"):
                os.symlink(os.path.join(top, name), os.path.join(where, name))
        os.symlink(build, os.path.join(where, "build"))
        for cmd in commands(text):
            if cmd == SELF:
                print(f"not run: {cmd} (it runs this test)")
                continue
            if cmd == "vm-images/demo":
                cmd += f" --device soft --build-dir {build}"
            r = subprocess.run(cmd, shell=True, cwd=where, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, check=False,
                               env=dict(os.environ, PATH=os.environ["PATH"] +
                                        ":/usr/local/cuda/bin"))
            ran += 1
            print(f"{r.returncode}: {cmd}")
            if r.returncode:
                print(r.stdout[-3000:], r.stderr[-3000:])
                bad += 1
    for path in re.findall(r"`((?:tests|hostd|guestlib|transport|vm-images|policies|qemu-device)/[^` ]*)`",
                           text):
        if not os.path.exists(os.path.join(top, path)):
            print(f"README names {path}, which does not exist")
            bad += 1
    return 1 if bad or ran < 3 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
