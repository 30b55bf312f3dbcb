#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weft-run --profile and --compare, by a double of what the driver does to pages.

    profile.py WEFT_RUN PROFILED DOUBLE
"""
import os
import re
import subprocess
import sys
import tempfile

EXPECTED = {
    "twice": ["at u64[0] + each(u32[16], 4) bytes 4", "at u64[8] + each(u32[16], 4) bytes 4"],
    "slice": ["at u64[0] + u32[8] * 16384 bytes 4194304"],
    "columns": ["at u64[0] + each(u32[8], u32[12] * 4) bytes 2097152"],
    "head": ["at u64[0] bytes 2097152"],
    "odd": ["somewhere u64[0]"],
}


def run(weft_run, double, *args):
    """Inside of Weft, whose libcuda is the driver that is profiled."""
    return subprocess.run([weft_run, "--private", "--device", "soft", "--", "env",
                           f"LD_PRELOAD={double}", weft_run, *args],
                          capture_output=True, text=True, timeout=100, check=False)


def kernels(text):
    """Lines of each kernel, by the name that its program has for it."""
    found = {}
    for part in text.split("\nkernel ")[1:]:
        lines = [line for line in part.split("\n")[1:] if re.match("at|somewhere", line)]
        found[re.match(r"_Z\d+([a-z]+)", part).group(1).rstrip("Pfi")] = lines
    return found


def rows(text):
    """Launches, pieces reached, missed and not needed, of each kernel and of all."""
    return {m.group(1): tuple(map(int, m.groups()[1:])) for m in
            re.finditer(r"^(?:_Z\d)?(\S+) +(\d+) +(\d+) +(\d+) +(\d+)$", text, re.M)}


def check(what, is_so, *shown):
    print(f"{'ok' if is_so else 'FAIL'}: {what}", *([] if is_so else shown), sep="\n")
    return bool(is_so)


def main(weft_run, profiled, double):
    with tempfile.TemporaryDirectory() as tmp:
        file = f"{tmp}/extents"
        done = run(weft_run, double, "--profile", file, "--", profiled)
        with open(file, encoding="utf-8") as f:
            text = f.read()
        good = check("a profile is made", done.returncode == 0, done.stdout, done.stderr)
        said = kernels(text)
        for name, lines in EXPECTED.items():
            good &= check(f"{name} is as it was written", said.get(name) == lines, text)
        good &= check("by a pointer in memory: nothing is said", "follow" not in said and
                      re.search(r"^# \S*follow\S* reaches what no parameter", text, re.M), text)
        done = run(weft_run, double, "--compare", file, "--", profiled, "1")
        again = run(weft_run, double, "--profile", file, "--", profiled)
        with open(file, encoding="utf-8") as f:
            good &= check("another run adds nothing new", again.returncode == 0 and
                          f.read() == text, again.stderr)
        good &= check("other sizes are compared", done.returncode == 0, done.stderr)
        found = rows(done.stderr)
        for name, lines in EXPECTED.items():
            row = next((r for k, r in found.items() if k.startswith(name)), ())
            good &= check(f"{name}, foretold exactly", row[0:1] == (5,) and row[2:3] == (0,) and
                          (row[3:] == (0,) or "somewhere" in lines[0]), done.stderr)
        missed = [r for k, r in found.items() if k.startswith("follow")]
        good &= check("what nobody foretold is counted", missed and missed[0][2] > 0, done.stderr)
        with open(file, "w", encoding="utf-8") as f:
            f.write("weft-extents 2\n")
        done = run(weft_run, double, "--compare", file, "--", profiled)
        good &= check("a file with a mistake is refused", done.returncode == 125 and
                      ":1: expected version 1" in done.stderr, done.stderr)
        done = run(weft_run, double, "--compare", file, "--memory", "1G", "--", profiled)
        good &= check("so are options of a daemon", done.returncode == 125 and
                      "no other option" in done.stderr, done.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
