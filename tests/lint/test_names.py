#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A test's name is a sentence in snake case: what is held, in two words at least."""
import glob
import os
import re
import sys

TEST = re.compile(r"^(?:Test|ParameterizedTest|Theory)\(\s*(\w+),\s*(\w+)", re.M)


def main(top):
    count, errors = 0, 0
    for path in sorted(glob.glob(os.path.join(top, "tests/**/*.c"), recursive=True)):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for m in TEST.finditer(text):
            count += 1
            if not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", m[2]):
                line = text.count("\n", 0, m.start()) + 1
                print(f"{os.path.relpath(path, top)}:{line}: {m[1]}, {m[2]}: "
                      "not a sentence in snake case")
                errors += 1
    print(f"{count} tests, {errors} errors")
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
