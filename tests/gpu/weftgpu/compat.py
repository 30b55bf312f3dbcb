# SPDX-License-Identifier: Apache-2.0
"""The compatibility suite: every program natively and through Weft."""
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from . import build, programs, table

lock = threading.Lock()


class Row:
    def __init__(self, program):
        self.name = program.name
        self.program = program
        self.native = self.weft = None
        self.refused = []
        self.known = []  # refused, as the program says
        self.skip = None

    @property
    def verdict(self):
        if self.skip:
            return "skipped"
        results = [r for r in (self.native, self.weft) if r]
        if all(r.status == "ok" for r in results):
            return "ok"
        if self.native and self.native.status != "ok":
            return "FAILS NATIVELY"
        return "FAILED"

    def reason(self):
        for r in (self.native, self.weft):
            if r and r.status != "ok":
                return r.line
        return self.skip or (self.weft or self.native).line

    def as_dict(self):
        return {"name": self.name, "verdict": self.verdict, "skip": self.skip,
                "refused": self.refused, "known": self.known,
                "native": self.native and self.native.as_dict(),
                "weft": self.weft and self.weft.as_dict()}


def prepare(rows, python, tools, work, device):
    for row in rows:
        p = row.program
        row.skip = programs.missing(p, python)
        if not row.skip and device == "soft" and not p.soft:
            row.skip = "needs a GPU"
        if row.skip:
            continue
        if p.suffix == ".py":
            p.argv = [python.path, p.path]
        elif p.suffix == ".sh":
            p.argv = ["sh", p.path]
        else:
            try:
                tools.build(p, os.path.join(work, "bin"))
            except build.Error as e:
                row.skip = str(e)


def run_row(row, native, daemon, work, show):
    p = row.program
    sides = [s for s in (native, daemon and daemon.side(p.name)) if s]
    for side in sides:
        log = os.path.join(work, f"{p.name}.{side.name}.log")
        setattr(row, side.name, side.run(p.argv, seconds=p.seconds, env=p.env, log=log))
    if daemon:
        sort_refusals(row, daemon.refused(p.name))
    with lock:
        one_line(row)
        for side in sides:
            r = getattr(row, side.name)
            if show and r.status != "ok":
                text = [s for s in r.output.splitlines() if s.strip()]
                keep = text if len(text) <= show else \
                    text[:show // 2] + ["    ..."] + text[-(show - show // 2):]
                print("\n".join(f"    {side.name}| {s[:240]}" for s in keep), flush=True)


def sort_refusals(row, texts):
    for text in texts:
        known = any(k in text for k in row.program.refuses)
        (row.known if known else row.refused).append(text)


def one_line(row):
    parts = [f"{s} {r.status} {r.seconds:.1f} s" for s, r in
             (("native", row.native), ("weft", row.weft)) if r]
    print(f"{row.name:22} {row.verdict:8} {', '.join(parts)}: {row.reason()[:200]}",
          flush=True)
    for text in row.refused[:6]:
        print(f"    refused: {text}", flush=True)
    for text in row.known:
        print(f"    refused, as expected: {text}", flush=True)


def run(directory, names, *, python, tools, native, daemon, work, device, jobs, show,
        seconds=0):
    """Returns the rows, in the order of the programs' names."""
    rows = [Row(p) for p in programs.find(directory) if p.name in names]
    for row in rows:
        row.program.seconds = min(row.program.seconds, seconds or row.program.seconds)
    prepare(rows, python, tools, work, device)
    for row in rows:
        if row.skip:
            print(f"{row.name:22} skipped: {row.skip}", flush=True)
    ready = [r for r in rows if not r.skip]
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for f in [pool.submit(run_row, r, native, daemon, work, show)
                  for r in sorted(ready, key=lambda r: -r.program.seconds)
                  if not r.program.alone]:
            f.result()
    for r in ready:
        if r.program.alone:
            run_row(r, native, daemon, work, show)
    return rows


def render(rows):
    def cell(r):
        return None if not r else f"{r.seconds:.1f} s" if r.status == "ok" else r.status
    return table.render(("program", "native", "Weft", "refused", "", ""),
                        [(r.name, cell(r.native), cell(r.weft), len(r.refused) or None,
                          r.verdict, r.reason()[:100]) for r in rows], right=(1, 2, 3))
