#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone, every file starts with its licence and stays readable."""
import os
import subprocess
import sys

MAX_LINES = 900  # about 600 is the aim; a table may be longer, a hot file may not be

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */"


def main(top, cuda_include):
    libraries = subprocess.run(["pkg-config", "--cflags", "libxml-2.0"], capture_output=True,
                               text=True, check=True).stdout.split()
    errors = 0
    roots = {"guestlib": ("", "transport", "guestlib"),
             "": ("", "transport", "hostd", "hostd/ptx", "hostd/simt", "qemu-device")}
    count = 0
    for directory in ("transport", "guestlib", "hostd", "qemu-device", "policies", "tests"):
        for root, _, files in os.walk(os.path.join(top, directory)):
            for f in sorted(files):
                if not f.endswith((".c", ".h", ".cu", ".py")):
                    continue
                path = os.path.join(root, f)
                rel = os.path.relpath(path, top)
                if "/golden/" in path or "/bad/" in path:
                    continue
                with open(path, encoding="utf-8") as fd:
                    text = fd.read()
                python = f.endswith(".py")
                if not (LICENCE[2:-2].strip() in text[:200] if python else text.startswith(LICENCE)):
                    print(f"{rel}:1: does not begin with its licence as others do")
                    errors += 1
                if text.count("\n") > MAX_LINES:
                    print(f"{rel}: {text.count(chr(10))} lines, more than {MAX_LINES}")
                    errors += 1
                generated = any(s in text for s in ('"ops.h"', '"codec.h"', '"dispatch.h"'))
                includes = ["-I" + os.path.join(top, d)
                            for d in roots.get(directory, roots[""])]
                if f.endswith(".h") and directory != "tests" and not generated:
                    r = subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-fsyntax-only",
                                        "-Wall", "-Wno-pragma-once-outside-header",
                                        "-I" + root, *includes, "-isystem", cuda_include, *libraries,
                                        "-x", "c", path], capture_output=True, text=True,
                                       check=False)
                    count += 1
                    if r.returncode:
                        print(f"{rel}: does not compile alone\n{r.stderr[:800]}")
                        errors += 1
    print(f"{count} headers compiled alone, {errors} errors")
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
