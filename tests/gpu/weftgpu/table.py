# SPDX-License-Identifier: Apache-2.0
"""Tables for people."""


def render(header, rows, right=()):
    """Columns as wide as they need to be; right: indices of those aligned to the right."""
    cells = [list(map(str, header))] + [["-" if c is None else str(c) for c in r]
                                        for r in rows]
    width = [max(len(r[i]) for r in cells) for i in range(len(header))]
    lines = []
    for n, row in enumerate(cells):
        lines.append("  ".join(c.rjust(w) if i in right else c.ljust(w)
                               for i, (c, w) in enumerate(zip(row, width))).rstrip())
        if n == 0:
            lines.append("  ".join("-" * w for w in width))
    return "\n".join(lines)


def number(x):
    if x is None:
        return "-"
    if x == 0:
        return "0"
    if abs(x) >= 1000:
        return f"{x:.0f}"
    return f"{x:.3g}" if abs(x) < 100 else f"{x:.1f}"


def spread(values):
    """Median and extremes."""
    s = sorted(values)
    n = len(s)
    mid = s[n // 2] if n % 2 else (s[n // 2 - 1] + s[n // 2]) / 2
    return mid, s[0], s[-1]
