# SPDX-License-Identifier: Apache-2.0
"""The programs of the suite. Each says in its first lines what it needs:

    weft: needs=torch,!nvidia-smi seconds=60 env=NAME=VALUE libs=nvrtc soft alone

needs: Python modules, or with ! commands; seconds: its time-out; env: one variable of its
environment; libs: what a C program is linked with; soft: the software device can run it;
alone: it takes most of the device's memory, so nothing runs beside it; part: the
runner starts it for the benchmark of that name; refuses: what it asks for and does
without, as `weftctl info` calls it: whatever else it is refused is new.
"""
import glob
import os
import re
import shutil
import subprocess

SUFFIXES = (".py", ".sh", ".c", ".cu")
HEADER_LINES = 8


class Program:
    def __init__(self, path):
        self.path = path
        self.name, self.suffix = os.path.splitext(os.path.basename(path))
        self.needs, self.libs, self.env = [], [], {}
        self.refuses = []
        self.seconds, self.soft, self.alone = 60, False, False
        self.part = None
        self.argv = None  # once it is built
        with open(path, encoding="utf-8") as f:
            head = [f.readline() for _ in range(HEADER_LINES)]
        self.listed = False
        for line in head:
            m = re.match(r"(?:#|/\*) weft:(.*?)(?:\*/)?$", line.strip())
            if m:
                self.listed = True
                self._parse(m.group(1))

    def _parse(self, text):
        for word in text.split():
            key, _, value = word.partition("=")
            if key in ("needs", "libs", "refuses"):
                getattr(self, key).extend(value.split(","))
            elif key == "seconds":
                self.seconds = int(value)
            elif key == "env":
                name, _, what = value.partition("=")
                self.env[name] = what
            elif key == "part":
                self.part = value
            elif key in ("soft", "alone"):
                setattr(self, key, True)
            else:
                raise ValueError(f"{self.path}: {word} means nothing here")


def find(directory):
    paths = [p for p in sorted(glob.glob(os.path.join(directory, "*")))
             if p.endswith(SUFFIXES)]
    return [p for p in map(Program, paths) if p.listed and not p.part]


class Python:
    """The interpreter whose packages the programs use."""

    def __init__(self, path):
        self.path = path
        self.known = {}

    def has(self, module):
        """Looks without importing: a package may take seconds, or a GPU, to import."""
        if module not in self.known:
            code = ("import importlib.util as u, sys\n"
                    "try: s = u.find_spec(sys.argv[1])\n"
                    "except ImportError: s = None\n"
                    "sys.exit(s is None)")
            # Not from a directory that could hold a file of that name.
            r = subprocess.run([self.path, "-c", code, module], cwd="/", check=False,
                               stdin=subprocess.DEVNULL, capture_output=True)
            self.known[module] = r.returncode == 0
        return self.known[module]

    def site(self):
        """Where packages are, for the CUDA libraries that come as packages."""
        r = subprocess.run([self.path, "-c", "import sysconfig; "
                            "print(sysconfig.get_paths()['purelib'])"],
                           capture_output=True, text=True, check=False)
        return r.stdout.strip()


def missing(program, python):
    """Why a program cannot run on this machine; None if it can."""
    for need in program.needs:
        if need.startswith("!"):
            if not shutil.which(need[1:]):
                return f"no {need[1:]} here"
        elif not python.has(need):
            return f"no Python package {need} here"
    return None
