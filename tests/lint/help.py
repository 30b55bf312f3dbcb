#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each program's --help and manual page name each of its options, with words; weftctl(1) has
each command, and weftd(8) each request of the control socket.

    help.py TOP BUILD
"""
import os
import re
import subprocess
import sys

# program: source of its options, manual page
PROGRAMS = {
    "hostd/weftd": ("hostd/broker/main.c", "weftd.8"),
    "hostd/weftctl": ("hostd/tools/weftctl.c", "weftctl.1"),
    "hostd/weft-run": ("hostd/tools/weft_run.c", "weft-run.1"),
    "hostd/weft-worker": ("hostd/worker/options.c", "weft-worker.8"),
    "hostd/weft-listener": ("hostd/listener/main.c", "weft-worker.8"),
    "hostd/weft-gl": ("hostd/gl/main.c", "weft-worker.8"),
    "hostd/weft-exporter": ("hostd/exporter/main.c", "weft-exporter.8"),
    "guestlib/weft-guest-check": ("guestlib/check/main.c", "weft-guest-check.1"),
    "guestlib/weft-guest-connect": ("guestlib/connect/main.c", "weft-guest-connect.8"),
    "guestlib/weft-guest-gl": ("guestlib/gl/main.c", "weft-guest-gl.8"),
    "qemu-device/weft-vsock": ("qemu-device/main.c", "weft-vsock.1"),
}
# Needs a library that need not be there.
OPTIONAL = {"hostd/weft-exporter", "hostd/weft-gl"}
# Options whose names say what they are.
PLAIN = {"help", "version"}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def words_of(usage, option):
    """Words of --help about an option, on its line or on the next."""
    m = re.search(rf"^ +(?:-\w, )?--{option}\b[^\n]*(?:\n {{20,}}[^\n]*)*", usage, re.M)
    if not m:
        return None
    line = m[0].split(f"--{option}", 1)[1]
    return re.split(r"\s{2,}|\n", line, maxsplit=1)[1:] or [""]


def check(top, build, program, source, page):
    options = re.findall(r'{"([a-z.-]+)", (?:no|required)_argument', read(top, source))
    manual = read(top, "hostd", "man", page)
    r = subprocess.run([os.path.join(build, program), "--help"], capture_output=True, text=True,
                       check=False)
    bad = []
    if r.returncode or r.stderr:
        bad.append(f"--help: status {r.returncode} {r.stderr}")
    for o in options:
        words = words_of(r.stdout, o)
        if words is None:
            bad.append(f"--help does not have --{o}")
        elif o not in PLAIN and not words[0].strip():
            bad.append(f"--help has no words about --{o}")
        if not re.search(rf"(Fl|,) -{o}\b", manual):
            bad.append(f"{page} does not have --{o}")
    for said in re.findall(r"^ +(?:-\w, )?--([a-z.-]+)", r.stdout, re.M):
        if said not in options:
            bad.append(f"--help has --{said}, which is no option")
    if len(options) < 3:
        bad.append(f"{source} has no options")
    return [f"{program}: {b}" for b in bad]


def commands(top, source, page, entry):
    """Names in a table of the source that the manual page lacks."""
    names = re.findall(r'^\t{"([a-z0-9.-]+)", (?:"|request_)', read(top, source), re.M)
    manual = read(top, "hostd", "man", page)
    bad = [f"{page} does not have {n}" for n in names
           if not re.search(rf"^\.It {entry}{n}\b", manual, re.M)]
    return bad if len(names) > 3 else [f"{source} has no commands"]


def main(top, build):
    bad = commands(top, "hostd/tools/weftctl.c", "weftctl.1", "Cm ")
    bad += commands(top, "hostd/broker/request.c", "weftd.8", "")
    for program, (source, page) in PROGRAMS.items():
        if program in OPTIONAL and not os.path.exists(os.path.join(build, program)):
            print(f"{program} is not built here")
            continue
        bad += check(top, build, program, source, page)
    pages = [os.path.join(top, "hostd", "man", p) for p in
             os.listdir(os.path.join(top, "hostd", "man")) if re.search(r"\.\d$", p)]
    r = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True,
                       text=True, check=False)
    bad += r.stdout.splitlines()
    print("\n".join(bad))
    return 1 if bad or not pages else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
