#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of HeCBench or PolyBench whose kernels are rewritten by each pass, against the same ones
as they are.

    hecbench.py BUILD CLONE DIR [--most N] [--device soft|cuda] [NAME...]

CLONE is one of github.com/zjin-lcf/HeCBench or cavazos-lab/PolyBench-ACC. Takes N of its CUDA
programs at most (100), or those named, which nvcc builds from their own files alone; DIR keeps what
was built, and what is there is used again. Arguments are made smaller: sizes by 64, repeats to two;
to 64 at most, where that takes too long. What a program prints is compared but for times; one that
prints something else by itself, run twice as it is, has only its exit status compared. Prints a
line for each program, and a table. Exit status 1: some differ, or take over --seconds (20).
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shlex
import subprocess
import sys

MODES = ("off", "share", "always", "yield", "always-yield")
# A line with a number that says how long something took.
TIMED = re.compile(r"time|second|\b[mun]?s\b|[KMGT]i?B/s|flop|speed|throughput|bandwidth|average|"
                   r"^\s*[\d.]+$|elapsed|\bfps\b|rate|\bclock", re.I)
NUMBER = re.compile(r"\d+$")
LARGE, BY, REPEATS = 512, 64, 2
# No number is larger where a program takes too long all the same.
TINY = 64


def smaller(args):
    """Numbers are sizes, and the last of several, if it is round, says how often."""
    small = []
    for i, a in enumerate(args):
        if NUMBER.match(a):
            n = int(a)
            if i == len(args) - 1 and i and n in (10, 100, 1000, 10000, 20, 50, 200, 500):
                a = str(REPEATS)
            elif n > LARGE:
                a = str(n // BY)
        small.append(a)
    return small


def tiny(arg):
    return str(TINY) if NUMBER.match(arg) and int(arg) > TINY else arg


def folders(clone):
    """Names and folders: HeCBench's, or PolyBench's, whose sizes are those of MINI_DATASET."""
    hecbench = {os.path.basename(f)[:-len("-cuda")]: f for f in glob.glob(f"{clone}/src/*-cuda")
                if os.path.exists(f"{f}/Makefile")}
    return hecbench or {os.path.basename(f)[:-len(".cu")]: os.path.dirname(f)
                        for f in glob.glob(f"{clone}/CUDA/**/*.cu", recursive=True)}


def arguments(folder):
    """Arguments of "make run"; None: there are none that need no shell."""
    with open(f"{folder}/Makefile", encoding="utf-8", errors="replace") as f:
        text = f.read()
    m = re.search(r"^run:.*\n\t(?:\S*/)?\$\(program\)(.*)$", text, re.M) or \
        re.search(r"^\t(?:\$\(LAUNCHER\) *)?(?:\./)?\$\(program\)(.*)$", text, re.M)
    if "PATH_TO_UTILS" in text:
        return []
    if not m or re.search(r"[|<>$`;&\\]", m.group(1)):
        return None
    return smaller(shlex.split(m.group(1)))


def flags(folder):
    with open(f"{folder}/Makefile", encoding="utf-8", errors="replace") as f:
        text = f.read()
    utils = re.search(r"^PATH_TO_UTILS *:= *(\S+)", text, re.M)
    if utils:
        return ["-DMINI_DATASET", "-DcudaThreadSynchronize=cudaDeviceSynchronize",
                "-I", os.path.join(folder, utils.group(1))]
    return [w for w in re.findall(r"-(?:D\S+|std=\S+|I\s?\S+|-extended-lambda|-use_fast_math)", text)
            if "$" not in w]


def build(folder, out):
    sources = [s for ext in ("cu", "cpp", "cc", "c") for s in glob.glob(f"{folder}/*.{ext}")]
    if os.path.exists(out):
        return True
    if not any(s.endswith(".cu") for s in sources):
        return False
    r = subprocess.run(["nvcc", "-O3", "-w", "-x", "cu", "-gencode", "arch=compute_80,code=compute_80",
                        "-I", folder, *flags(folder), "-o", out + ".part", *sources],
                       cwd=folder, capture_output=True, timeout=300, check=False)
    if r.returncode == 0:
        os.rename(out + ".part", out)
    return r.returncode == 0


class Runner:
    def __init__(self, build_dir, device, seconds):
        self.weft_run = f"{build_dir}/hostd/weft-run"
        self.device, self.seconds = device, seconds

    def run(self, program, folder, args, mode):
        """The status, and what was printed; None: there was no end."""
        try:
            r = subprocess.run([self.weft_run, "--private", "--device", self.device,
                                "--kernel.rewrite", mode, "--", program, *args],
                               cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               timeout=self.seconds, check=False)
        except subprocess.TimeoutExpired:
            return None
        text = r.stdout.decode(errors="replace")
        return r.returncode, [l for l in text.splitlines() if not TIMED.search(l)]

    def check(self, program, folder, args):
        """Words for each mode, or why there is nothing to compare."""
        plain = self.run(program, folder, args, "off")
        if plain is None:
            return "takes too long"
        if plain[0] != 0:
            return f"exit status {plain[0]}"
        again = self.run(program, folder, args, "off") or plain
        said = {}
        for mode in MODES[1:]:
            got = self.run(program, folder, args, mode)
            if got is None:
                said[mode] = "no end"
            elif got == plain:
                said[mode] = "same"
            elif plain != again and got[0] == plain[0]:
                said[mode] = "ended"
            else:
                said[mode] = "DIFFERS"
        return said


def one(name, folder, opts, runner):
    out = f"{opts.dir}/{name}"
    args = arguments(folder)
    if args is None:
        return name, "no arguments"
    try:
        if not build(folder, out):
            return name, "not built"
    except subprocess.TimeoutExpired:
        return name, "not built"
    said = runner.check(os.path.abspath(out), folder, args)
    if said == "takes too long":
        said = runner.check(os.path.abspath(out), folder, [tiny(a) for a in args])
    return name, said


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("build")
    p.add_argument("clone")
    p.add_argument("dir")
    p.add_argument("names", nargs="*")
    p.add_argument("--most", type=int, default=100)
    p.add_argument("--device", default="soft")
    p.add_argument("--seconds", type=float, default=20)
    opts = p.parse_args()
    os.makedirs(opts.dir, exist_ok=True)
    found = folders(os.path.abspath(opts.clone))
    names = opts.names or sorted(found)
    runner = Runner(opts.build, opts.device, opts.seconds)
    total = {mode: {} for mode in MODES[1:]}
    compared = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, said in pool.map(lambda n: one(n, found[n], opts, runner), names[:opts.most]):
            if isinstance(said, str):
                print(f"{name:24} {said}", flush=True)
                continue
            compared += 1
            print(f"{name:24} " + " ".join(f"{m}: {s}" for m, s in said.items()), flush=True)
            for m, s in said.items():
                total[m][s] = total[m].get(s, 0) + 1
    print(f"\n{compared} programs")
    for m, counts in total.items():
        print(f"{m:14} " + ", ".join(f"{n} {s}" for s, n in sorted(counts.items())))
    return int(any("DIFFERS" in c or "no end" in c for c in total.values()))


if __name__ == "__main__":
    sys.exit(main())
