#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rooms and headers stay small: files in a folder, prototypes in a header.

A function of a table (a pointer that is a member) counts as a prototype.
"""
import os
import re
import subprocess
import sys

MAX_FILES = 40
MAX_PROTOTYPES = 40
# header -> why it may have more
LARGE = {
    "guestlib/nvml/nvml_calls.h": "the prototypes are those of NVIDIA's nvml.h",
}
PROTOTYPE = re.compile(r"^(?!static|typedef|extern \"|#|\s)[A-Za-z_][\w\s*]*?\b(\w+)"
                       r"\((?:[^(){};]|\([^(){};]*\))*\)[^;{}()]*(?:\([^;{}]*\))?\s*;", re.M)

# A member that is a pointer to a function; parameters of others stand behind a bracket.
POINTER = re.compile(r"(?<=[;{])\s*[A-Za-z_][\w\s*]*\(\*\w+\)\(")


def prototypes(path):
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    return len(PROTOTYPE.findall(text)) + len(POINTER.findall(text))


def tracked(top):
    r = subprocess.run(["git", "-C", top, "ls-files"], capture_output=True, text=True,
                       check=False)
    if r.returncode == 0 and r.stdout:
        return [f for f in r.stdout.splitlines() if os.path.exists(os.path.join(top, f))]
    return [os.path.relpath(os.path.join(root, f), top)
            for root, _, files in os.walk(top) for f in files if "/build" not in root]


def main(top):
    errors = 0
    files = tracked(top)
    folders = {}
    for f in files:
        if not f.startswith("tests/"):
            folders.setdefault(os.path.dirname(f), []).append(f)
    for folder, inside in sorted(folders.items()):
        if len(inside) > MAX_FILES:
            print(f"{folder}: {len(inside)} files, more than {MAX_FILES}")
            errors += 1
    headers = {f: prototypes(os.path.join(top, f)) for f in files
               if f.endswith(".h") and not f.startswith("tests/")}
    for f, n in sorted(headers.items()):
        if n > MAX_PROTOTYPES and f not in LARGE:
            print(f"{f}: {n} prototypes and pointers, more than {MAX_PROTOTYPES}")
            errors += 1
    for f in LARGE:
        if headers.get(f, 0) <= MAX_PROTOTYPES:
            print(f"{f}: is not large any more: remove it from {os.path.basename(__file__)}")
            errors += 1
    most = max(folders, key=lambda d: len(folders[d]))
    head = max((f for f in headers if f not in LARGE), key=headers.get)
    print(f"largest folder: {most}, {len(folders[most])} files; most prototypes and pointers: "
          f"{head}, {headers[head]}; {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
