# SPDX-License-Identifier: Apache-2.0
"""Where Weft's programs come from, and how those of the suite are built."""
import glob
import os
import shutil
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
BUILD_DEPENDENCIES = ("meson", "ninja")


class Error(Exception):
    """Something cannot be built; the text says why."""


def weft(directory=None):
    """Returns a directory with hostd/weft-run, building one where the tools are."""
    directory = os.path.abspath(directory or os.path.join(TOP, "build"))
    if not os.path.exists(os.path.join(directory, "hostd", "weft-run")):
        absent = [t for t in BUILD_DEPENDENCIES if not shutil.which(t)]
        if absent:
            raise Error(f"no {' and no '.join(absent)} here, and no weft-run in {directory}: "
                        "make a bundle with tests/gpu/bundle and name it with --bundle")
        for cmd in (["meson", "setup", directory], ["ninja", "-C", directory]):
            r = subprocess.run(cmd, cwd=TOP, capture_output=True, text=True, check=False)
            if r.returncode:
                raise Error(f"{' '.join(cmd)} failed:\n{(r.stdout + r.stderr)[-3000:]}")
    return directory


def unpack(bundle, where):
    """A bundle is a directory or what tests/gpu/bundle wrote."""
    if os.path.isdir(bundle):
        return os.path.abspath(bundle)
    os.makedirs(where, exist_ok=True)
    r = subprocess.run(["tar", "-xf", os.path.abspath(bundle), "-C", where],
                       capture_output=True, text=True, check=False)
    if r.returncode:
        raise Error(f"cannot unpack {bundle}: {r.stderr.strip()}")
    return where


class Toolchain:
    """nvcc and the CUDA toolkit, wherever they are: /usr/local or a Python environment."""

    def __init__(self, site=""):
        self.nvcc = shutil.which("nvcc") or next(
            (p for p in ["/usr/local/cuda/bin/nvcc"] if os.path.exists(p)), None)
        home = os.path.dirname(os.path.dirname(os.path.realpath(self.nvcc))) \
            if self.nvcc else "/usr/local/cuda"
        roots = [home, "/usr/local/cuda", *sorted(glob.glob(f"{site}/nvidia/*"))]
        self.includes = [d for r in roots for d in (f"{r}/include",) if os.path.isdir(d)]
        self.libdirs = [d for r in roots for d in (f"{r}/lib64", f"{r}/lib")
                        if os.path.isdir(d)]

    def find_library(self, name):
        for d in self.libdirs:
            for pattern in (f"{d}/lib{name}.so", f"{d}/lib{name}.so.*"):
                hits = sorted(glob.glob(pattern))
                if hits:
                    return hits[0]
        return None

    def driver_stub(self, where):
        """Something to link -lcuda with: the toolkit's stub, or an empty one of our own."""
        for d in self.libdirs:
            if os.path.exists(f"{d}/stubs/libcuda.so"):
                return f"{d}/stubs/libcuda.so"
        for p in ("/usr/local/nvidia/lib64/libcuda.so.1",
                  "/usr/lib/x86_64-linux-gnu/libcuda.so.1"):
            if os.path.exists(p):
                return p
        raise Error("no libcuda.so to link with")

    def build(self, program, where, flags=()):
        """Builds one program of the suite; sets argv."""
        os.makedirs(where, exist_ok=True)
        out = os.path.join(where, program.name)
        if program.suffix == ".cu":
            if not self.nvcc:
                raise Error("no nvcc here")
            cmd = [self.nvcc, "-O2", *flags, "-o", out, program.path]
            cmd += [f"-l{lib}" for lib in program.libs]
        else:
            cmd = ["gcc", "-O2", "-g", "-o", out, program.path, "-I" + TOP + "/transport"]
            cmd += [f"-I{d}" for d in self.includes]
            cmd += [self.driver_stub(where), "-Wl,--allow-shlib-undefined"]
            for lib in program.libs:
                path = self.find_library(lib)
                if not path:
                    raise Error(f"no lib{lib} here")
                cmd += [path, f"-Wl,-rpath,{os.path.dirname(path)}"]
            cmd += ["-lm", "-lpthread"]
        r = subprocess.run(cmd, capture_output=True, text=True, check=False)
        if r.returncode:
            raise Error(f"does not build: {first_line(r.stderr)}")
        program.argv = [out]


def first_line(text):
    lines = [s for s in text.splitlines() if "error" in s.lower()] or text.splitlines()
    return lines[0][:200] if lines else "no message"
