# SPDX-License-Identifier: Apache-2.0
"""Keeps generated C within 90 columns: breaks long lines after commas and operators."""

WIDTH = 90
TAB = 8


def columns(line):
    n = 0
    for c in line:
        n = (n // TAB + 1) * TAB if c == "\t" else n + 1
    return n


def break_at(line):
    """Index after the last comma, && or || (outside strings) that still fits; 0 if none."""
    best, col, quoted = 0, 0, False
    for i, c in enumerate(line):
        col = (col // TAB + 1) * TAB if c == "\t" else col + 1
        if col > WIDTH:
            break
        if c == '"':
            quoted = not quoted
        if not quoted and (line.startswith(", ", i) or line[i - 1:i + 2] in ("&& ", "|| ")):
            best = i + 1
    return best


def wrap_line(line):
    if columns(line) <= WIDTH or line.lstrip().startswith(("/*", "*", "#")):
        return [line]
    cut = break_at(line)
    indent = line[:len(line) - len(line.lstrip("\t"))]
    if not cut:
        eq = line.find(" = ")
        if eq < 0:
            return [line]
        return [line[:eq + 2]] + wrap_line(indent + "\t\t" + line[eq + 3:])
    more = indent if indent.endswith("\t\t") and len(indent) > 2 else indent + "\t\t"
    return [line[:cut]] + wrap_line(more + line[cut:].lstrip())


def wrap(text):
    return "\n".join(w for line in text.split("\n") for w in wrap_line(line))
