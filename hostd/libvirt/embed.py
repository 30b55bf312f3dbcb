#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C of a file: embed.py FILE NAME OUT."""
import sys


def main(path, name, out):
    with open(path, "rb") as f:
        data = f.read()
    rows = [", ".join(str(b) for b in data[i:i + 20]) for i in range(0, len(data), 20)]
    with open(out, "w", encoding="ascii") as f:
        f.write(f"extern const char {name}[];\nextern const unsigned {name}_len;\n"
                f"const char {name}[] = {{\n" + ",\n".join(rows) + "\n};\n"
                f"const unsigned {name}_len = {len(data)};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
