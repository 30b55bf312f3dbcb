#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completion by bash and zsh: every option and command of --help, tenants, choices.

    completion.py BUILD
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = ""
LIBRARY = "/usr/share/bash-completion/bash_completion"
PROGRAMS = ("weftctl", "weftd", "weft-run", "weft-vsock", "weft-guest-check")
SECONDS = 60

BASH = r"""
. /usr/share/bash-completion/bash_completion
. "$0"
compopt() { :; }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
_weft "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
# A terminal of its own, in which Tab is pressed.
ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; unsetopt zle_bracketed_paste; LISTMAX=1000; fpath=('$1' $fpath)'
zpty -w z 'autoload -Uz compinit && compinit -u -D && print READY''NOW'
zpty -r z said '*READYNOW*'
zpty -n -w z "$2"$'\t\t'
# Waits until it is there, or for ever.
for word in "${@:3}"; do zpty -r z said "*$word*"; done
print found
zpty -d z
"""


def path():
    return ":".join([f"{BUILD}/{d}" for d in ("hostd", "qemu-device", "guestlib")] +
                    ["/usr/bin", "/bin"])


def bash(*words, first="/nonexistent"):
    """Words that bash offers for the last one; first: a folder that its PATH begins with."""
    r = subprocess.run(["bash", "-c", BASH, f"{TOP}/hostd/install/completion/weft.bash", *words],
                       capture_output=True, text=True, check=False, timeout=SECONDS,
                       stdin=subprocess.DEVNULL,
                       env={"PATH": f"{first}:{path()}", "HOME": "/nonexistent"})
    if r.stderr:
        raise AssertionError(f"{words}: {r.stderr}")
    return sorted(r.stdout.split())


def usage(program):
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=True,
                          env={"PATH": path()}).stdout


@unittest.skipUnless(os.path.exists(LIBRARY), "no bash-completion here")
class Bash(unittest.TestCase):
    def test_every_option(self):
        for p in PROGRAMS:
            wanted = re.findall(r"^ +(?:-\w, +)?(--[a-z.-]+)", usage(p), re.M)
            self.assertGreater(len(wanted), 2, p)
            self.assertEqual(bash(p, "--"), sorted(wanted), p)

    def test_every_command(self):
        wanted = re.findall(r"^  ([a-z][a-z-]*)\b", usage("weftctl"), re.M)
        self.assertGreater(len(wanted), 8)
        self.assertEqual(bash("weftctl", ""), sorted(wanted))

    def test_choices_are_those_of_help(self):
        self.assertEqual(bash("weftd", "--device", ""), ["auto", "cuda", "soft"])
        self.assertEqual(bash("weftd", "--sandbox", "o"), ["off", "on"])
        self.assertEqual(bash("weft-run", "--device", "s"), ["soft"])

    def test_files(self):
        self.assertEqual(bash("weftd", "--config", "/etc/host.c"), ["/etc/host.conf"])
        self.assertEqual(bash("weftctl", "-c", "/etc/host.c"), ["/etc/host.conf"])

    def test_programs(self):
        self.assertEqual(bash("weft-run", "--device", "soft", "--", "weft-vso"), ["weft-vsock"])
        self.assertEqual(bash("weft-run", "weft-vso"), ["weft-vsock"])

    def test_tenants_and_keys(self):
        """Names come from the daemon that weftctl finds."""
        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/weftctl", "w", encoding="ascii") as f:
                # weftctl of the build, and the daemon of this test.
                f.write(f'#!/bin/sh\nexec {BUILD}/hostd/weftctl --control {d}/run/control "$@"\n')
            os.chmod(f"{d}/weftctl", 0o755)
            os.mkdir(f"{d}/run", 0o755)
            with subprocess.Popen([f"{BUILD}/hostd/weftd", "--config", "/dev/null", "--device",
                                   "soft", "--run-dir", f"{d}/run"],
                                  stderr=subprocess.DEVNULL) as weftd:
                try:
                    deadline = time.monotonic() + SECONDS
                    while not os.path.exists(f"{d}/run/control"):
                        self.assertLess(time.monotonic(), deadline)
                        time.sleep(0.05)
                    subprocess.run([f"{d}/weftctl", "add", "vm1"], check=True,
                                   stdout=subprocess.DEVNULL)
                    self.assertEqual(bash("weftctl", "get", "", first=d), ["local", "vm1"])
                    self.assertEqual(bash("weftctl", "set", "vm1", "memory.mi", first=d),
                                     ["memory.min="])
                finally:
                    weftd.terminate()
                    weftd.wait(SECONDS)


@unittest.skipUnless(shutil.which("zsh"), "no zsh here")
class Zsh(unittest.TestCase):
    def press_tab(self, line, *words):
        """Returns when these have appeared, in this order."""
        with tempfile.TemporaryDirectory() as home:
            r = subprocess.run(["zsh", "-f", "-c", ZSH, "zsh",
                                f"{TOP}/hostd/install/completion", line, *words],
                               capture_output=True, text=True, check=False, timeout=SECONDS,
                               stdin=subprocess.DEVNULL,
                               env={"PATH": path(), "HOME": home, "TERM": "dumb"})
        self.assertEqual(r.stdout, "found\n", r.stderr)

    def test_commands(self):
        self.press_tab("weftctl re", "reclaim", "remove")

    def test_options(self):
        self.press_tab("weftd --", "--check-config", "--device", "--pool")


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
