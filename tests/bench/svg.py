# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG text: axes, ticks, legends, lines. The same numbers give the same bytes."""
import math
from xml.sax.saxutils import escape

# Okabe and Ito's, which colour-blind people can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
FONT = "font-family=\"Helvetica, Arial, sans-serif\""
LEFT, RIGHT, TOP, BOTTOM = 62, 26, 30, 44
CHAR = 6.2  # width of a letter at 11 px, about


def number(v):
    """As short as it can be said; from 10,000 on with commas."""
    text = f"{v:,.0f}" if abs(v) >= 1000 else f"{v:.4g}"
    return "0" if text == "-0" else text


def linear_ticks(low, high, about=5):
    """Round numbers that span low to high; the first and last are the axis's ends."""
    high = high if high > low else low + 1
    span = high - low
    step = 10.0 ** math.floor(math.log10(span / about))
    step *= next(f for f in (1, 2, 2.5, 5, 10) if span / (step * f) <= about)
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [i * step for i in range(first, last + 1)]


def log_ticks(low, high, base):
    """Powers of the base from below low to above high, and steps of 1, 2, 5 if few."""
    first = math.floor(math.log(low, base) + 1e-9)
    last = max(math.ceil(math.log(high, base) - 1e-9), first + 1)
    if base == 10 and last - first <= 2:
        ticks = [m * 10.0 ** e for e in range(first, last) for m in (1, 2, 5)]
        ticks.append(10.0 ** last)
        while len(ticks) > 2 and ticks[1] <= low * (1 + 1e-9):
            ticks.pop(0)
        while len(ticks) > 2 and ticks[-2] >= high * (1 - 1e-9):
            ticks.pop()
        return ticks
    return [float(base) ** e for e in range(first, last + 1)]


class Axis:
    """label, and scale: "linear" (from 0 unless low says otherwise), 2 or 10 (logarithms)."""

    def __init__(self, label, scale="linear", low=None, high=None, backwards=False,
                 text=number):
        self.label, self.scale, self.backwards, self.text = label, scale, backwards, text
        self.low, self.high = low, high
        self.ticks = []

    def fit(self, values):
        values = [v for v in values if v is not None and (self.scale == "linear" or v > 0)]
        low = self.low if self.low is not None else min(values + [0] * (self.scale == "linear"))
        high = self.high if self.high is not None else max(values)
        self.ticks = (linear_ticks(low, high) if self.scale == "linear"
                      else log_ticks(low, high, self.scale))

    def place(self, v):
        """0 to 1 along the axis."""
        first, last = self.ticks[0], self.ticks[-1]
        if self.scale != "linear":
            first, last, v = math.log(first), math.log(last), math.log(max(v, first))
        part = (v - first) / (last - first)
        return 1 - part if self.backwards else part


class Panel:
    """One chart. line() adds a series: points (x, y); dashed, stepped, with marks or not."""

    def __init__(self, title, x, y):
        self.title, self.x, self.y = title, x, y
        self.series, self.notes = [], []

    def line(self, name, points, colour, dashed=False, stepped=False, marks=False):
        if points:
            self.series.append((name, points, COLOURS[colour], dashed, stepped, marks))

    def note(self, text, x=None, y=None):
        """A thin line across at x, or at y, and what it is."""
        self.notes.append((text, x, y))

    def names(self):
        return [(name, colour, dashed, marks)
                for name, _, colour, dashed, _, marks in self.series]

    def draw(self, left, top, width, height):
        head = TOP if self.title else 10
        x0, y0 = left + LEFT, top + head
        w, h = width - LEFT - RIGHT, height - head - BOTTOM
        self.x.fit([p[0] for s in self.series for p in s[1]] + [n[1] for n in self.notes])
        self.y.fit([p[1] for s in self.series for p in s[1]] + [n[2] for n in self.notes])

        def at_x(v):
            return x0 + w * min(max(self.x.place(v), 0), 1)

        def at_y(v):
            return y0 + h * (1 - min(max(self.y.place(v), 0), 1))

        out = []
        if self.title:
            out.append(text_at(x0 + w / 2, top + 18, self.title, 13, "middle", bold=True))
        for t in self.x.ticks:
            out += [stroke(at_x(t), y0, at_x(t), y0 + h, "#e4e4e4"),
                    text_at(at_x(t), y0 + h + 15, self.x.text(t), 11, "middle")]
        for t in self.y.ticks:
            out += [stroke(x0, at_y(t), x0 + w, at_y(t), "#e4e4e4"),
                    text_at(x0 - 6, at_y(t) + 4, self.y.text(t), 11, "end")]
        out += [stroke(x0, y0, x0, y0 + h, "#444"), stroke(x0, y0 + h, x0 + w, y0 + h, "#444"),
                text_at(x0 + w / 2, y0 + h + 34, self.x.label, 12, "middle"),
                text_at(left + 14, y0 + h / 2, self.y.label, 12, "middle", turned=True)]
        for text, x, y in self.notes:
            if x is not None:
                left_of = at_x(x) + 4 + CHAR * len(text) > x0 + w
                out += [stroke(at_x(x), y0, at_x(x), y0 + h, "#888", "2 3"),
                        text_at(at_x(x) + (-4 if left_of else 4), y0 + 12, text, 11,
                                "end" if left_of else "start", colour="#555")]
            else:
                out += [stroke(x0, at_y(y), x0 + w, at_y(y), "#888", "2 3"),
                        text_at(x0 + w - 4, at_y(y) - 4, text, 11, "end", colour="#555")]
        for _, points, colour, dashed, stepped, marks in self.series:
            out += path([(at_x(a), at_y(b)) for a, b in points], colour, dashed, stepped, marks)
        return out


class Bars:
    """A chart with a group of bars for each name, one of each series; None: no bar."""

    def __init__(self, title, names, y):
        self.title, self.groups, self.y = title, names, y
        self.series, self.notes = [], []

    def add(self, name, values, colour):
        self.series.append((name, values, COLOURS[colour]))

    def note(self, text, y):
        self.notes.append((text, y))

    def names(self):
        return [(name, colour, False, False) for name, _, colour in self.series]

    def draw(self, left, top, width, height):
        head = TOP if self.title else 10
        x0, y0 = left + LEFT, top + head
        w, h = width - LEFT - RIGHT, height - head - BOTTOM
        self.y.fit([v for _, values, _ in self.series for v in values] +
                   [y for _, y in self.notes])

        def at_y(v):
            return y0 + h * (1 - min(max(self.y.place(v), 0), 1))

        out = []
        if self.title:
            out.append(text_at(x0 + w / 2, top + 18, self.title, 13, "middle", bold=True))
        for t in self.y.ticks:
            out += [stroke(x0, at_y(t), x0 + w, at_y(t), "#e4e4e4"),
                    text_at(x0 - 6, at_y(t) + 4, self.y.text(t), 11, "end")]
        each = w / max(len(self.groups), 1)
        bar = each * 0.8 / max(len(self.series), 1)
        for i, name in enumerate(self.groups):
            x = x0 + each * i
            out.append(text_at(x + each / 2, y0 + h + 15, name, 10, "middle"))
            for k, (_, values, colour) in enumerate(self.series):
                if values[i] is None:
                    continue
                y = at_y(values[i])
                out.append(f'<rect x="{x + each * 0.1 + bar * k:.1f}" y="{y:.1f}" '
                           f'width="{bar:.1f}" height="{y0 + h - y:.1f}" fill="{colour}"/>')
        for text, y in self.notes:
            out += [stroke(x0, at_y(y), x0 + w, at_y(y), "#888", "2 3"),
                    text_at(x0 + w - 4, at_y(y) - 4, text, 11, "end", colour="#555")]
        out += [stroke(x0, y0, x0, y0 + h, "#444"), stroke(x0, y0 + h, x0 + w, y0 + h, "#444"),
                text_at(left + 14, y0 + h / 2, self.y.label, 12, "middle", turned=True)]
        return out


def path(points, colour, dashed, stepped, marks):
    steps = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (_, before), (x, y) in zip(points, points[1:]):
        if stepped and f"{before:.1f}" != f"{y:.1f}":
            steps.append(f"L{x:.1f} {before:.1f}")
        steps.append(f"L{x:.1f} {y:.1f}")
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    out = [f'<path d="{"".join(thin(steps))}" fill="none" stroke="{colour}" '
           f'stroke-width="1.8"{dash}/>']
    if marks:
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return out


def thin(steps):
    """Without steps that repeat the one before, or lie on a level line between two."""
    out = []
    for s in steps:
        if out and s[1:] == out[-1][1:]:
            continue
        y = s.split()[1]
        if len(out) > 1 and out[-1].split()[1] == y and out[-2].split()[1] == y:
            out.pop()
        out.append(s)
    return out


def stroke(x1, y1, x2, y2, colour, dash=None):
    more = f' stroke-dasharray="{dash}"' if dash else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}"{more}/>')


def text_at(x, y, text, size, anchor, bold=False, turned=False, colour="#222"):
    more = ' font-weight="bold"' if bold else ""
    if turned:
        more += f' transform="rotate(-90 {x:.1f} {y:.1f})"'
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}" {FONT}{more}>{escape(text)}</text>')


def legend(entries, left, top, width):
    """Lines of "- name"; (SVG, height)."""
    out, x, y = [], left, top + 14
    for name, colour, dashed, marks in entries:
        need = 34 + CHAR * len(name) + 16
        if x > left and x + need > left + width:
            x, y = left, y + 18
        out += path([(x, y - 4), (x + 26, y - 4)], colour, dashed, False, False)
        if marks:
            out.append(f'<circle cx="{x + 13:.1f}" cy="{y - 4:.1f}" r="3" fill="{colour}"/>')
        out.append(text_at(x + 32, y, name, 11, "start"))
        x += need
    return out, y + 8 - top


def figure(title, panels, columns=1, width=640, height=330):
    """All panels in rows of so many, each width / columns wide, over one legend."""
    entries, seen = [], set()
    for p in panels:
        for e in p.names():
            if e[0] not in seen:
                seen.add(e[0])
                entries.append(e)
    rows = -(-len(panels) // columns)
    key, key_height = legend(entries, LEFT, 34, width - LEFT - RIGHT)
    head = 34 + key_height
    total = head + rows * height
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total:.0f}" '
           f'viewBox="0 0 {width} {total:.0f}">',
           f'<title>{escape(title)}</title>',
           f'<rect width="{width}" height="{total:.0f}" fill="#fff"/>',
           text_at(width / 2, 24, title, 14, "middle", bold=True), *key]
    for i, p in enumerate(panels):
        out += p.draw(i % columns * width / columns, head + i // columns * height,
                      width / columns, height)
    return "\n".join(out) + "\n</svg>\n"
