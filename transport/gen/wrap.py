# SPDX-License-Identifier: Apache-2.0
"""Keeps generated C within 90 columns and aligns what is continued, as clang-format would."""

WIDTH = 90
TAB = 8


def columns(line):
    n = 0
    for c in line:
        n = (n // TAB + 1) * TAB if c == "\t" else n + 1
    return n


def indent(n):
    return "\t" * (n // TAB) + " " * (n % TAB)


def scan(line, start):
    """Yields where the line may be broken and the column at which the rest then begins:
    after the bracket that is open there, else `start`."""
    opened, quoted, col = [], False, 0
    for i, c in enumerate(line):
        col = (col // TAB + 1) * TAB if c == "\t" else col + 1
        if col > WIDTH:
            return
        if c == '"':
            quoted = not quoted
        if quoted:
            continue
        if c in "({":
            opened.append(col)
        elif c in ")}" and opened:
            opened.pop()
        elif c == " " and (line[i - 1] == "," or line[i - 2:i] in ("&&", "||", " +", " |")):
            yield i + 1, opened[-1] if opened else start


def own_indent(line):
    return columns(line[:len(line) - len(line.lstrip("\t "))])


def wrap_line(line, start=None):
    """start: the column at which a continuation begins where no bracket says it."""
    if columns(line) <= WIDTH or line.lstrip().startswith(("/*", "*", "#")):
        return [line]
    if start is None:
        start = own_indent(line) + TAB
    breaks = list(scan(line, start))
    if breaks:
        cut, at = breaks[-1]
        rest = wrap_line(indent(at) + line[cut:], at)
        if all(columns(r) <= WIDTH for r in rest):
            return [line[:cut].rstrip()] + rest
    return wrap_hard(line)


def wrap_hard(line):
    """No bracket helps: the return type, or what is assigned, gets a line of its own."""
    name = line.find("(")
    if not line.startswith(("\t", " ")) and name > 0:
        cut = max(line.rfind(" ", 0, name), line.rfind("*", 0, name)) + 1
        return [line[:cut].rstrip()] + wrap_line(line[cut:])
    cut = line.find(" = ") + 2
    if cut > 1:
        return [line[:cut]] + wrap_line(indent(own_indent(line) + TAB) + line[cut:].lstrip())
    return [line]


def wrap(text):
    return "\n".join(w for line in text.split("\n") for w in wrap_line(line))
