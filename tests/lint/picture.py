#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's picture is what its text says: hostd/doc/picture.txt -> picture.svg.

    tests/lint/picture.py TOP            compares
    tests/lint/picture.py TOP --draw     draws
"""
import os
import sys
from html import escape

KINDS = {"outer": ("#f6f8fa", "#8c959f"), "part": ("#ffffff", "#8c959f"),
         "ours": ("#ddf4ff", "#0969da")}
HEAD = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" '
        'height="{h}" font-family="sans-serif" font-size="12">\n'
        '<!-- drawn by tests/lint/picture.py from picture.txt -->\n'
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#57606a"/></marker></defs>\n'
        '<rect width="{w}" height="{h}" fill="#ffffff"/>\n')


def box(words):
    x, y, w, h = (int(v) for v in words[:4])
    fill, line = KINDS[words[4]]
    weight = ' font-weight="bold"' if words[4] != "part" else ""
    return (f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{fill}" '
            f'stroke="{line}"/>\n<text x="{x + 10}" y="{y + 19}"{weight}>'
            f'{escape(" ".join(words[5:]))}</text>\n')


def text(words):
    return (f'<text x="{words[0]}" y="{words[1]}" fill="#57606a" font-size="11">'
            f'{escape(" ".join(words[2:]))}</text>\n')


def arrow(words):
    x1, y1, x2, y2 = (int(v) for v in words[:4])
    line = (f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#57606a" '
            'marker-end="url(#tip)"/>\n')
    if len(words) > 4:
        line += (f'<text x="{(x1 + x2) // 2 - 20}" y="{(y1 + y2) // 2 - 8}" '
                 f'font-size="11">{escape(" ".join(words[4:]))}</text>\n')
    return line


def draw(source):
    out, size = "", None
    with open(source, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split()
            if not words or words[0] == "#":
                continue
            if words[0] == "size":
                size = words[1:3]
                continue
            kind = {"box": box, "text": text, "arrow": arrow}.get(words[0])
            if not kind:
                sys.exit(f"{source}:{number}: {words[0]}: no such thing")
            out += kind(words[1:])
    return HEAD.format(w=size[0], h=size[1]) + out + "</svg>\n"


def main(top, how=""):
    folder = os.path.join(top, "hostd", "doc")
    svg = draw(os.path.join(folder, "picture.txt"))
    path = os.path.join(folder, "picture.svg")
    if how == "--draw":
        with open(path, "w", encoding="utf-8") as f:
            f.write(svg)
        return 0
    with open(path, encoding="utf-8") as f:
        same = f.read() == svg
    print("picture.svg is what picture.txt says" if same else
          "picture.svg is not what picture.txt says: tests/lint/picture.py . --draw")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
