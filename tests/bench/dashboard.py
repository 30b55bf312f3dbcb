#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the dashboard hostd/exporter/weft.json from a minute of a running Weft.

    dashboard.py BUILD -o FIGURE.svg [--seconds N]

Three tenants share a software GPU with swap. weft-exporter is scraped once a second by a
Prometheus of its own (Debian's package has the program), which then answers each panel's
query as Grafana would ask it. Not as root: weft-exporter does not run as root.
"""
import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import svg

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CONFIG = """
[daemon]
device = soft
memory = 512M
swap = 1G
[tenant vm1]
memory.max = 256M
[tenant vm2]
memory.weight = 300
[tenant vm3]
memory.min = 64M
memory.max = 128M
"""
PROMETHEUS = """
global: {scrape_interval: 1s}
scrape_configs:
  - {job_name: weft, static_configs: [{targets: ["%s"]}]}
"""
WIDTH, HEIGHT, COLUMNS = 430, 220, 3
LINES = 6  # in a panel, for as many there are colours


def unit(panel):
    name = panel["fieldConfig"]["defaults"]["unit"]
    return {"bytes": ("MiB", 1 << 20), "Bps": ("MiB/s", 1 << 20), "percentunit": ("%", 0.01),
            "ops": ("a second", 1), "s": ("seconds", 1), "short": ("", 1)}[name]


def asked(expr):
    """The query with Grafana's variables filled in."""
    return expr.replace("$tenant", ".*").replace("$__rate_interval", "5s")


def legend(text, labels):
    return re.sub(r"{{\s*(\w+)\s*}}", lambda m: labels.get(m[1], ""), text)


class Prometheus:
    def __init__(self, where, target):
        self.port = 22889
        with open(os.path.join(where, "prometheus.yml"), "w", encoding="utf-8") as f:
            f.write(PROMETHEUS % target)
        self.process = subprocess.Popen(
            [shutil.which("prometheus"), "--config.file", os.path.join(where, "prometheus.yml"),
             "--storage.tsdb.path", os.path.join(where, "tsdb"), "--log.level", "error",
             "--web.listen-address", f"127.0.0.1:{self.port}"])

    def query(self, expr, start, end):
        q = urllib.parse.urlencode({"query": expr, "start": start, "end": end, "step": 1})
        with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/api/v1/query_range?{q}", timeout=20) as r:
            return json.load(r)["data"]["result"]


def draw(panels, prometheus, start, end):
    drawn = []
    for p in panels:
        word, scale = unit(p)
        chart = svg.Panel("", svg.Axis("seconds"), svg.Axis(word))
        found = [(legend(t["legendFormat"], s["metric"]),
                  [(float(at) - start, float(v) / scale) for at, v in s["values"]
                   if math.isfinite(float(v))])
                 for t in p["targets"]
                 for s in prometheus.query(asked(t["expr"]), start, end)]
        # A figure with a line a session or event would be all legend.
        found.sort(key=lambda s: -sum(v for _, v in s[1]))
        for i, (name, points) in enumerate(sorted(found[:LINES])):
            chart.line(name, points, i)
        if found:
            drawn.append(svg.figure(p["title"], [chart], width=WIDTH, height=HEIGHT))
        else:
            print(f"{p['title']}: nothing to draw")
    return drawn


def page(drawn):
    """Figures side by side, each with its own legend."""
    out, y = [], 0
    for i in range(0, len(drawn), COLUMNS):
        row = drawn[i:i + COLUMNS]
        out += [d.replace("<svg ", f'<svg x="{k * WIDTH}" y="{y}" ', 1) for k, d in enumerate(row)]
        y += max(int(re.search(r'height="(\d+)"', d)[1]) for d in row)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * WIDTH}" height="{y}" '
            f'viewBox="0 0 {COLUMNS * WIDTH} {y}">\n<title>Weft\'s dashboard</title>\n'
            + "".join(out) + "</svg>\n")


def work(build, where, seconds):
    """Programs come and go; what they do is right or the drawing fails."""
    running, began, n = [], time.monotonic(), 0
    plan = [(0, "vm1", 0.6), (5, "vm2", 0.8), (12, "vm3", 0.4), (20, "vm1", 0.3),
            (26, "vm2", 0.3), (32, "vm3", 0.3)]
    while time.monotonic() - began < seconds:
        while n < len(plan) and time.monotonic() - began >= plan[n][0] * seconds / 60:
            _, tenant, part = plan[n]
            env = dict(os.environ, WEFT_HOST=f"unix:{where}/{tenant}.sock",
                       LD_LIBRARY_PATH=os.path.join(build, "guestlib"))
            program = "mixed" if n % 2 else "steady"
            running.append(subprocess.Popen(
                [os.path.join(build, "tests/fault", program), str(int(part * seconds)), "200"],
                env=env, stdout=subprocess.DEVNULL))
            n += 1
        time.sleep(0.1)
    for p in running:
        p.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    args = parser.parse_args()
    if not shutil.which("prometheus"):
        sys.exit("no prometheus (Debian's package of that name)")
    with open(os.path.join(TOP, "hostd/exporter/weft.json"), encoding="utf-8") as f:
        panels = json.load(f)["panels"]
    build = os.path.abspath(args.build)
    with tempfile.TemporaryDirectory() as where:
        with open(os.path.join(where, "conf"), "w", encoding="utf-8") as f:
            f.write(CONFIG)
        started = []
        try:
            started.append(subprocess.Popen([os.path.join(build, "hostd/weftd"), "--config",
                                             os.path.join(where, "conf"), "--run-dir", where]))
            time.sleep(3)
            started.append(subprocess.Popen([os.path.join(build, "hostd/weft-exporter"),
                                             "--control", os.path.join(where, "control")]))
            prometheus = Prometheus(where, "127.0.0.1:22888")
            started.append(prometheus.process)
            time.sleep(3)
            start = time.time()
            work(build, where, args.seconds)
            time.sleep(2)
            drawn = draw(panels, prometheus, start, time.time() - 1)
        finally:
            for p in reversed(started):
                p.terminate()
                p.wait(20)
        with open(args.output, "w", encoding="utf-8") as f:
            f.write(page(drawn))


if __name__ == "__main__":
    main()
