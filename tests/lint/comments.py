#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The comment rule: a comment begins with the thing it is about.

Begins means its first word, after a DOC: heading if there is one: a noun, a verb whose
subject is the thing below, or a condition (If, When, Until, ...), never a word that refers
to something the reader has not read. Comments of C, CUDA and Python are read; comment
lines that follow each other are one comment, and of a docstring the first words count.
"""
import ast
import io
import os
import re
import sys
import tokenize

FORBIDDEN = re.compile(
    r"(It|Its|That|So|Who|Whoever|Whose|Of|The same|Likewise|What|Whatever|Which|Then|They|"
    r"Those|This|These|Such)\b")

TOKEN = re.compile(r'/\*(?P<block>.*?)\*/|//(?P<line>[^\n]*)|"(?:\\.|[^"\\\n])*"|'
                   r"'(?:\\.|[^'\\\n])*'", re.S)


def begins(text):
    """A comment without stars and rules of dashes; of a DOC: heading, what stands behind."""
    text = re.sub(r"\s*\n\s*\*?\s*", " ", text).strip(" *!-\n\t")
    heading = re.match(r"DOC:\s*(.*)", text)
    return heading[1][:1].upper() + heading[1][1:] if heading else text


def joined(lines):
    """Comment lines [(number, text, alone)] that follow each other as [number, text]."""
    last = None
    for number, text, alone in lines:
        if alone and last is not None and number == last + 1:
            comment[1] += " " + text
        else:
            if last is not None:
                yield comment
            comment = [number, text]
        last = number
    if last is not None:
        yield comment


def c_comments(text):
    lines = []
    for m in TOKEN.finditer(text):
        number = text.count("\n", 0, m.start()) + 1
        if m["block"] is not None:
            yield number, m["block"]
        elif m["line"] is not None and not m["line"].startswith(" SPDX-"):
            before = text[text.rfind("\n", 0, m.start()) + 1:m.start()]
            lines.append((number, m["line"].strip(), not before.strip()))
    yield from joined(lines)


def python_comments(text):
    lines = []
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type == tokenize.COMMENT and not re.match(r"#!|# SPDX-", t.string):
            lines.append((t.start[0], t.string.lstrip("# "), not t.line[:t.start[1]].strip()))
    yield from joined(lines)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            if ast.get_docstring(node):
                yield node.body[0].lineno, ast.get_docstring(node)


def sources(top):
    for directory in ("transport", "guestlib", "hostd", "qemu-device", "policies", "tests",
                      "vm-images"):
        for root, _, files in os.walk(os.path.join(top, directory)):
            for f in sorted(files):
                if f.endswith((".c", ".h", ".cu", ".py")):
                    yield os.path.relpath(os.path.join(root, f), top)


def main(top):
    n_files, n_comments, errors = 0, 0, 0
    for rel in sorted(sources(top)):
        with open(os.path.join(top, rel), encoding="utf-8") as f:
            text = f.read()
        n_files += 1
        for number, comment in (python_comments if rel.endswith(".py") else c_comments)(text):
            n_comments += 1
            m = FORBIDDEN.match(begins(comment))
            if m:
                print(f"{rel}:{number}: a comment begins with '{m[0]}', "
                      "not with what it is about")
                errors += 1
    print(f"{n_comments} comments of {n_files} files, {errors} errors")
    return 1 if errors or not n_comments else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
