#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every command of the README, as it stands there, and checks that paths which it and
other pages name exist (results of a day apart: they say what was).

    readme.py TOP BUILD

vm-images/demo is told to use the build at hand. What commands want of the build must be
among what the README's own ninja makes: on a fresh clone nothing else is there.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile


def commands(text):
    for line in text.splitlines():
        if line.startswith("    ") and line.strip():
            yield line.split("#")[0].strip()


def unbuilt(build, text):
    """Files below build/ that the README's commands use and its ninja command does not make."""
    target = re.search(r"ninja -C build (\w+)", text)[1]
    made = subprocess.run(["ninja", "-C", build, "-t", "query", target], check=True,
                          capture_output=True, text=True).stdout.replace("|", " ").split()
    used = re.findall(r"\bbuild/([\w./-]+)", "\n".join(commands(text)))
    return sorted(set(used) - set(made))


def missing(top):
    """(page, path) of what does not exist. Names may have a * and lack .c or .h."""
    pages = glob.glob(os.path.join(top, "[!b]*", "**", "*.md"), recursive=True)
    for page in pages + [os.path.join(top, p) for p in ("README.md", ".github/CONTRIBUTING.md")]:
        name = os.path.relpath(page, top)
        if name.startswith("tests/bench/results/2"):
            continue
        with open(page, encoding="utf-8") as f:
            text = f.read()
        for path in re.findall(r"`((?:tests|hostd|guestlib|transport|vm-images|policies|"
                               r"qemu-device|\.github)/[^`\s<]*)`", text):
            at = os.path.join(top, path)
            if not glob.glob(at) and not glob.glob(at + ".[ch]"):
                yield name, path


def main(top, build):
    with open(os.path.join(top, "README.md"), encoding="utf-8") as f:
        text = f.read()
    bad, ran = 0, 0
    for name in unbuilt(build, text):
        print(f"README uses build/{name}, which its ninja command does not make")
        bad += 1
    with tempfile.TemporaryDirectory() as where:
        for name in os.listdir(top):
            if not name.startswith("build"):
                os.symlink(os.path.join(top, name), os.path.join(where, name))
        os.symlink(build, os.path.join(where, "build"))
        for cmd in commands(text):
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
    for page, path in sorted(set(missing(top))):
        print(f"{page} names {path}, which does not exist")
        bad += 1
    return 1 if bad or ran < 3 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
