#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures: right ticks, points where they belong, the same bytes each time."""
import copy
import re
import unittest
from xml.etree import ElementTree

import plot
import svg

MIB = 1 << 20
SHARES = {"kind": "shares", "device": "d", "room": 64 * MIB, "block": MIB, "context": MIB,
          "arrive": 1, "leave": 3, "apart": 0, "refused": 0,
          "samples": [[0, MIB, 0, 0, 0], [1, 65 * MIB, 0, MIB, 0],
                      [2, 33 * MIB, 32 * MIB, 33 * MIB, 32 * MIB], [4, 0, 0, 65 * MIB, 0]]}
DELAY = {"kind": "delay", "device": "d", "block": 50 * MIB, "room": 400 * MIB,
         "samples": [[1000000, 2000000], [3000000, 4000000]]}
PIECES = {"kind": "pieces", "device": "d", "room": MIB, "points": [
    {"size": size * 1024, "needs": {"p50": 1.5, "p99": 3}, "gives": {"p50": 2, "p99": 4}}
    for size in (128, 2048)]}
SLOWDOWN = {"kind": "slowdown", "device": "a & b <c>", "total": 512 * MIB, "pcie": 50e9,
            "points": [{"workload": w, "how": how, "room": int(512 * MIB * part),
                        "seconds": [1 / part, 1 / part], "bytes": 512 * MIB, "traffic": 10 ** 10}
                       for w in ("bfs", "lud") for how in ("weft", "managed")
                       for part in (1, 0.5, 0.25)] + [{"workload": "lud", "error": "no"}]}
RATES = {"kind": "rates", "device": "d", "points": [
    {"device": "d", "piece": size << 20, "memory": memory, "move": f"{move} {where}",
     "of_pinned": 0.5} for size in (2, 8) for memory in ("pieces", "extent")
    for move in ("out", "in", "both") for where in ("swapped", "mapped")]}
TOGETHER = plot.of_run({"machine": {"gpu": "d"}, "sim": [
    {"name": "auto: nbody"}, {"names": ["nbody", "tpacf"], "stp": {"in turns": 0.9, "sim": 1.5}},
    {"names": ["FDTD3d", "tpacf"], "stp": {"in turns": 0.8, "sim": 1.2}}]})
BESIDE = plot.of_run({"machine": {"gpu": "d"}, "pilot": [
    {"app": "bfs", "policy": p, "slower": {"75": 1.5, "150": 9}} for p in ("fair", "mfit")] + [
    {"app": "corr", "policy": "fair", "slower": {"150": 2}}]})
TURNS = plot.of_run({"machine": {"gpu": "d"}, "sets": [
    {"name": "two that fit"}, {"turn_ms": 500, "part": 0.9}, {"turn_ms": 50, "part": 0.7},
    {"turn_ms": 100, "part": 0.8}]})
ALL = (TOGETHER, BESIDE, TURNS, RATES, SHARES, DELAY, PIECES, SLOWDOWN)


def texts(text):
    return [e.text for e in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]


def path_of(text, colour, dashed):
    """The corners of the longest line of a colour."""
    found = []
    for m in re.finditer(r'<path d="([^"]*)" fill="none" stroke="([^"]*)"([^/]*)/>', text):
        if m[2] == svg.COLOURS[colour] and ("dasharray" in m[3]) == dashed:
            found.append([tuple(map(float, p.split())) for p in re.split("[ML]", m[1])[1:]])
    return max(found, key=len)


class Ticks(unittest.TestCase):
    def test_linear(self):
        self.assertEqual(svg.linear_ticks(0, 50), [0, 10, 20, 30, 40, 50])
        self.assertEqual(svg.linear_ticks(0, 51), [0, 20, 40, 60])
        self.assertEqual(svg.linear_ticks(0, 0)[-1], 1)
        self.assertEqual([svg.number(t) for t in svg.linear_ticks(0, 0.3)][:3],
                         ["0", "0.1", "0.2"])
        for high in (1, 7, 33, 4096, 0.004):
            ticks = svg.linear_ticks(0, high)
            self.assertTrue(ticks[0] == 0 and ticks[-1] >= high * (1 - 1e-6), ticks)
            self.assertLessEqual(len(ticks), 7)

    def test_logarithmic(self):
        self.assertEqual(svg.log_ticks(1, 50, 10), [1, 2, 5, 10, 20, 50])
        self.assertEqual(svg.log_ticks(1, 4000, 10), [1, 10, 100, 1000, 10000])
        self.assertEqual(svg.log_ticks(128, 1024, 2), [128, 256, 512, 1024])
        self.assertEqual(svg.log_ticks(3, 3, 10)[0], 2)

    def test_places(self):
        axis = svg.Axis("x", 10)
        axis.fit([1, 100])
        self.assertAlmostEqual(axis.place(10), 0.5)
        axis = svg.Axis("x", backwards=True)
        axis.fit([10])
        self.assertAlmostEqual(axis.place(2.5), 0.75)

    def test_numbers(self):
        self.assertEqual([svg.number(v) for v in (0, -0.0, 0.25, 5.0, 12345)],
                         ["0", "0", "0.25", "5", "12,345"])


class Figures(unittest.TestCase):
    def test_all_are_xml_and_reproducible(self):
        for r in ALL:
            text = plot.draw([r])
            self.assertEqual(text, plot.draw([copy.deepcopy(r)]))
            self.assertTrue(ElementTree.fromstring(text).tag.endswith("svg"))
            self.assertIn(r["device"], texts(text)[0])

    def test_axes_have_units(self):
        for r, words in ((SHARES, ("seconds", "MiB")), (DELAY, ("ms per 100 MiB",)),
                         (PIECES, ("128 KiB", "2 MiB", "ms per 100 MiB")),
                         (SLOWDOWN, ("memory there is, % of what two want",))):
            for word in words:
                self.assertIn(word, texts(plot.draw([r])))

    def test_shares(self):
        """The context is not shown, and half lies half way up."""
        text = plot.draw([SHARES])
        first = path_of(text, 0, False)
        bottom, top = first[0][1], min(y for _, y in first)
        self.assertEqual(first[-1][1], bottom)
        half = path_of(text, 1, False)
        self.assertIn(round((bottom + top) / 2, 1), [y for _, y in half])
        self.assertEqual(min(y for _, y in half), top)

    def test_turns(self):
        text = plot.draw([TURNS])
        (x0, y0), (x1, y1), (x2, y2) = path_of(text, 0, False)
        self.assertTrue(x0 < x1 < x2 and y0 > y1 > y2)
        self.assertIn("MSched, 1.5 times", texts(text))

    def test_slowdown(self):
        """Half the memory, twice the time: a straight line on these axes is not drawn bent."""
        text = plot.draw([SLOWDOWN])
        self.assertEqual([t for t in texts(text) if t in ("bfs", "lud")], ["bfs", "lud"])
        (x0, y0), (x1, y1), (x2, y2) = path_of(text, 0, False)
        self.assertAlmostEqual(y0 - y1, y1 - y2, delta=0.2)
        self.assertAlmostEqual((x1 - x0) / (x2 - x1), 2, delta=0.02)
        # 1 s and half of 10 GB at 50 GB/s: a tenth more
        self.assertAlmostEqual(plot.allowed_seconds(SLOWDOWN, SLOWDOWN["points"][0],
                                                    256 * MIB), 1.1)
        # natively is what is compared with, where it was measured
        more = {**SLOWDOWN, "points": [{**SLOWDOWN["points"][0], "how": "native",
                                        "seconds": [0.5, 0.5]}]}
        self.assertIn("time, 1: natively", texts(plot.draw([SLOWDOWN, more])))

    def test_delay(self):
        """Twice the time for 100 MiB as for 50, and the last sample is at 100 %."""
        points = plot.distribution([6, 2])
        self.assertEqual(points, [(0, 0), (2, 50), (6, 100)])
        line = path_of(plot.draw([DELAY]), 0, False)
        axis = svg.Axis("")
        axis.fit([8])
        left, right = svg.LEFT, 640 - svg.RIGHT
        self.assertAlmostEqual(line[-1][0], left + (right - left) * axis.place(6), delta=0.1)

    def bars(self, text, colour):
        return [(float(e.get("x")), float(e.get("height")))
                for e in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}rect")
                if e.get("fill") == svg.COLOURS[colour]]

    def test_together(self):
        """Bars as high as what was measured, in the order of the rows."""
        text = plot.draw([TOGETHER])
        self.assertEqual([t for t in texts(text) if "+" in t], ["NB+TP", "FD+TP"])
        (x0, h0), (x1, h1) = self.bars(text, 1)
        self.assertLess(x0, x1)
        self.assertAlmostEqual(h0 / h1, 1.5 / 1.2, delta=0.01)

    def test_beside(self):
        """A panel for each part; no bar where nothing was measured."""
        text = plot.draw([BESIDE])
        self.assertEqual([t for t in texts(text) if "%" in t],
                         ["75 % of the device", "150 % of the device"])
        self.assertEqual((len(self.bars(text, 0)), len(self.bars(text, 1))), (3, 2))

    def test_kinds_do_not_mix(self):
        for pair in ((SHARES, DELAY), (SHARES, SHARES)):
            with self.assertRaises(ValueError):
                plot.draw(list(pair))


if __name__ == "__main__":
    unittest.main()
