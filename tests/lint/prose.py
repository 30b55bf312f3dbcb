#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prose in READMEs and pages is wrapped at 100 columns; tables, code and links may be longer.

    prose.py TOP              lists the lines that are longer
    prose.py TOP --wrap       wraps their paragraphs, in all pages or in those named after it
"""
import os
import re
import subprocess
import sys

WIDTH = 100
# A span of code or a link is one word: broken, it would not be found by searching.
WORD = re.compile(r"(?:`[^`]*`|!?\[[^\]]*\]\([^)]*\)|[^\s`\[!]|[`\[!])+")
ITEM = re.compile(r"(\s*)([-*]|\d+\.)(\s+)")
# No line of a paragraph begins with these: it would be something else there.
NOT_FIRST = re.compile(r"([-+*#>|]+|\d+[.)])$")


def fold(first, rest, text):
    """Lines of text; the first one begins with first, others with rest."""
    lines, line = [], first
    for word in WORD.findall(text):
        full = line.strip() and len(line) + 1 + len(word) > WIDTH and line != first
        if full and not NOT_FIRST.match(word):
            lines.append(line)
            line = rest + word
        else:
            line += ("" if line in (first, rest) else " ") + word
    return lines + [line]


def paragraphs(lines):
    """Yields (index, number of lines, first, rest) of each paragraph or item of a list."""
    i, fenced, after_blank, inside = 0, False, True, 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            fenced = not fenced
        item = ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        code = after_blank and indent >= inside + 4 or indent >= 4 and not inside
        if fenced or not line.strip() or line.startswith(("#", "|", "```", "<")) or code:
            after_blank = not line.strip()
            inside = inside if after_blank or indent else 0
            i += 1
            continue
        first = item[0] if item else " " * indent
        rest = " " * len(first)
        inside = len(first) if item else indent and inside
        start, i, after_blank = i, i + 1, False
        while i < len(lines) and lines[i].strip() and not ITEM.match(lines[i]) \
                and not lines[i].startswith(("#", "|", "```")):
            i += 1
        yield start, i - start, first, rest


def wrap(lines):
    """Lines, with those paragraphs folded that have a line that is too long."""
    out, at = [], 0
    for start, n, first, rest in paragraphs(lines):
        part = lines[start:start + n]
        out += lines[at:start]
        at = start + n
        if any(len(line) > WIDTH for line in part):
            part[0] = part[0][len(first):]
            part = fold(first, rest, " ".join(line.strip() for line in part))
        out += part
    return out + lines[at:]


def pages(top):
    r = subprocess.run(["git", "-C", top, "ls-files", "*.md"], capture_output=True, text=True,
                       check=False)
    if r.returncode == 0 and r.stdout:
        return [f for f in r.stdout.splitlines() if os.path.exists(os.path.join(top, f))]
    return sorted(os.path.relpath(os.path.join(root, f), top)
                  for root, _, files in os.walk(top) for f in files
                  if f.endswith(".md") and "/build" not in root)


def main(top, *args):
    errors = 0
    for page in args[1:] or pages(top):
        path = os.path.join(top, page)
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
        wrapped = wrap(lines)
        if args and wrapped != lines:
            with open(path, "w", encoding="utf-8") as f:
                f.write("\n".join(wrapped) + "\n")
        elif wrapped != lines:
            n = sum(len(line) > WIDTH and line not in wrapped for line in lines)
            print(f"{page}: {n} lines longer than {WIDTH} columns: tests/lint/prose.py . --wrap")
            errors += n
    print(f"{errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
