# SPDX-License-Identifier: Apache-2.0
"""Profiles of kernels (weft-run --profile): how well they foretell launches of other sizes."""
import os
import re
import subprocess

from . import compute, programs
from .looping import Row

# Machine code alone: of what PTX says nobody has to ask.
MACHINE = ("-arch=native",)
# Program: what it is told, a list for each run that a profile is made of, and for the one that is
# compared.
KINDS = {f"profile-{name}": ("rodinia", [[name, "small", "check"], [name, "medium", "check"]],
                             [name, "large", "check"])
         for name in ("dwt2d", "hotspot", "cfd", "nn")}
KINDS["profile-slices"] = ("slices", [["slices", size, "check"]
                                      for size in ("small", "medium", "large")],
                           ["slices", "larger", "check"])
KINDS["profile-cublas"] = ("blas", [["1", "12"], ["2", "12"], ["3", "12"]], ["7", "8"])
KINDS["profile-torch"] = ("tensors", [["1", "8"], ["2", "8"], ["3", "8"], ["4", "8"]], ["9", "8"])
NAMES = list(KINDS)
# Parts of the pieces that were reached (MSched's figure 8).
MISSED, EXTRA = 0.001, 0.01
SECONDS = 200
ROW = re.compile(r"^(\S.*?) +(\d+) +(\d+) +(\d+) +(\d+)$", re.M)


def row_of(name, text):
    """From what --compare printed last."""
    rows = [(r[0], *map(int, r[1:])) for r in ROW.findall(text)]
    if len(rows) < 3:
        return Row(name, "no comparison: " + text[-200:], False)
    kernels, foretold, open_ = rows[:-2], rows[-2], rows[-1]
    reached, missed, extra = foretold[2:]
    said = (f"{len(kernels)} kernels; foretold: {foretold[1]} launches, {reached} pieces, {missed} "
            f"missed, {extra} more; by allocations: {open_[1]} launches, {open_[2]} pieces, "
            f"{open_[4]} more")
    good = reached and missed <= MISSED * reached and extra <= EXTRA * reached
    return Row(name, said, bool(good), missed=missed, extra=extra, reached=reached)


def measure(where, name, program, runs, last, work):
    """A profile of several runs, and another run that is compared with it."""
    weft_run, file = f"{where}/hostd/weft-run", os.path.join(work, name)
    # Weft's programs, not what they run, may need libraries from here.
    env = dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join(
        p for p in (os.environ.get("LD_LIBRARY_PATH"), f"{where}/lib") if p))
    for how, args in [("--profile", r) for r in runs] + [("--compare", last)]:
        done = subprocess.run([weft_run, how, file, "--", *program, *args], env=env, timeout=SECONDS,
                              capture_output=True, text=True, check=False)
        if done.returncode:
            return Row(name, f"{how}: {done.stderr[-200:]}", False)
    return row_of(name, done.stderr)


def run(where, device, tools, work, want, python):
    """Rows, as they come."""
    if device != "cuda":
        print("profile skipped: its pages are moved by the real driver")
        return []
    there = {p.name: p for p in programs.find(compute.HERE)}
    rows = []
    for name in want:
        kind, runs, last = KINDS[name]
        program = there[kind]
        if program.suffix == ".py":
            argv = [python, program.path]
        else:
            tools.build(program, work, MACHINE)
            argv = program.argv
        rows.append(measure(where, name, argv, runs, last, work))
        print(f"{name}: {rows[-1].text}", flush=True)
    return rows
