#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every path program, and every kernel of tests/ptx/cu, for each architecture and with each
kind of optimisation that nvcc has, on the software GPU.

    ninja -C build && tests/path/matrix.py build
    tests/path/matrix.py build --arch 80 --opt G --only sort --only cg_tiles

Programs are built into BUILD/matrix, with PTX only; what is there and newer than its sources
is not built again. Prints what failed and "N passed, N failed, N left out"; exit status 0 only
if nothing failed.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

PATH = os.path.dirname(os.path.abspath(__file__))
CU = os.path.join(os.path.dirname(PATH), "ptx", "cu")
ARCHS = ["75", "80", "90"]
OPTS = {"O3": ["-O3"], "O0": ["-O0", "-Xcicc", "-O0"], "G": ["-G", "-O0"]}
BUILD_SECONDS, RUN_SECONDS = 600, 300


def nvcc():
    return os.environ.get("NVCC", "nvcc")


def run(cmd, seconds, **env):
    """Exit status and what was printed."""
    try:
        done = subprocess.run(cmd, env=dict(os.environ, **env), timeout=seconds, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace") + "\ntimed out"


def is_new(target, sources):
    return os.path.exists(target) and all(
        os.path.getmtime(target) >= os.path.getmtime(s) for s in sources)


class Matrix:
    def __init__(self, build, archs, opts, only):
        self.build, self.archs, self.opts, self.only = build, archs, opts, only
        self.out = os.path.join(build, "matrix")
        os.makedirs(self.out, exist_ok=True)
        self.passed, self.failed, self.left_out = [], [], []

    def wanted(self, name):
        return not self.only or name in self.only

    def combinations(self):
        return [(a, o) for a in self.archs for o in self.opts]

    def program(self, name, sources, flags, arch, opt):
        """Builds and runs one; None if it passed, else why not."""
        exe = os.path.join(self.out, f"{name}-{arch}-{opt}")
        sources = [os.path.join(PATH, s) for s in sources]
        if not is_new(exe, [*sources, os.path.join(PATH, "check.h")]):
            status, text = run(
                [nvcc(), "-std=c++17", *flags, *OPTS[opt], "-gencode",
                 f"arch=compute_{arch},code=compute_{arch}", "-o", exe, *sources], BUILD_SECONDS)
            if status:
                return f"not built: {text[-2000:]}"
        status, text = run([f"{self.build}/hostd/weft-run", "--device", "soft", "--", exe],
                           RUN_SECONDS, WEFT_TEST_LIBRARY_PATH=library_path())
        return None if status == 0 else f"status {status}: {text[-2000:]}"

    def programs(self):
        """(name, sources, flags) and the architectures that it is for."""
        with open(f"{self.build}/tests/path/matrix.txt", encoding="utf-8") as f:
            for line in f:
                name, sources, flags = line.rstrip("\n").split("|")
                least = re.search(r"-arch=sm_(\d+)", flags)
                rest = [x for x in flags.split() if not x.startswith("-arch=")]
                if self.wanted(name):
                    yield name, sources.split(), rest, least.group(1) if least else "0"

    def ptx(self, path, arch, opt):
        name = os.path.basename(path).removesuffix(".cu")
        out = os.path.join(self.out, f"{name}-{arch}-{opt}.ptx")
        if is_new(out, [path]):
            return None
        flags = [x for x in OPTS[opt] if x not in ("-O0", "-O3")] if opt != "O0" else [
            "-Xcicc", "-O0"]
        status, text = run([nvcc(), "-ptx", f"-arch=compute_{arch}", "-std=c++17",
                            "-diag-suppress=20054", *flags, "-o", out, path], BUILD_SECONDS)
        return None if status == 0 else f"not built: {text[-2000:]}"

    def kernels(self, name, level):
        builds = " ".join(f"{a}-{o}" for a, o in self.combinations())
        status, text = run([f"{self.build}/tests/ptx/test_simt_{name}"], RUN_SECONDS,
                           WEFT_SIMT_ISA=level, PTX_DIR=self.out, PTX_BUILDS=builds)
        for line in sorted(set(text.splitlines())):
            if line.startswith("SKIP"):
                self.left_out.append(line.removeprefix("SKIP "))
        return None if status == 0 else f"status {status}: {text[-2000:]}"

    def record(self, name, why):
        if why is None:
            self.passed.append(name)
        else:
            self.failed.append(name)
            print(f"FAILED {name}: {why}", flush=True)

    def all(self, jobs):
        tasks, after = [], []
        for name, sources, flags, least in self.programs():
            for arch, opt in self.combinations():
                if int(arch) < int(least):
                    self.left_out.append(f"{name}-{arch}-{opt}: needs compute_{least}")
                else:
                    tasks.append((f"{name}-{arch}-{opt}", self.program,
                                  (name, sources, flags, arch, opt)))
        for path in sorted(glob.glob(f"{CU}/*.cu")):
            name = os.path.basename(path).removesuffix(".cu")
            if not self.wanted(name):
                continue
            tasks += [(f"{name}-{a}-{o}.ptx", self.ptx, (path, a, o))
                      for a, o in self.combinations()]
            after += [(f"simt_{name} {level}", self.kernels, (name, level))
                      for level in ("base", "v3")]
        with ThreadPoolExecutor(jobs) as pool:
            for part in (tasks, after):
                whys = pool.map(lambda t: t[1](*t[2]), part)
                for (name, _, _), why in zip(part, whys):
                    self.record(name, why)


def library_path():
    home = os.path.dirname(os.path.dirname(os.path.realpath(
        subprocess.run(["which", nvcc()], capture_output=True, text=True, check=True)
        .stdout.strip())))
    return os.path.join(home, "lib64")


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("build")
    ap.add_argument("--arch", action="append", choices=ARCHS)
    ap.add_argument("--opt", action="append", choices=list(OPTS))
    ap.add_argument("--only", action="append", metavar="NAME")
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    args = ap.parse_args()
    m = Matrix(os.path.abspath(args.build), args.arch or ARCHS, args.opt or list(OPTS),
               args.only)
    m.all(args.jobs)
    for what in m.left_out:
        print(f"left out: {what}")
    print(f"{len(m.passed)} passed, {len(m.failed)} failed, {len(m.left_out)} left out")
    return 1 if m.failed or not m.passed else 0


if __name__ == "__main__":
    sys.exit(main())
