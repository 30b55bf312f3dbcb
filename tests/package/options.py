#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The machine file's property `tests`: packages are configured without nvcc and Criterion, and
who wants the tests hears what they lack."""
import json
import os
import re
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def setup(where, text, *options):
    machine = f"{where}/machine.ini"
    with open(machine, "w", encoding="utf-8") as f:
        f.write(text)
    return subprocess.run(["meson", "setup", f"{where}/build", TOP, "--native-file", machine,
                           *options], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=250)


def tests_of(where):
    r = subprocess.run(["meson", "introspect", f"{where}/build", "--tests"], check=True,
                       capture_output=True, text=True)
    return json.loads(r.stdout)


class Options(unittest.TestCase):
    def test_packages_build_no_tests(self):
        with open(f"{TOP}/hostd/package/package.ini", encoding="utf-8") as f:
            text = f.read()
        with tempfile.TemporaryDirectory() as where:
            r = setup(where, text)
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            self.assertIn("no tests are built: the machine file says so", r.stdout)
            self.assertEqual(tests_of(where), [])

    def test_versions_are_one(self):
        with open(f"{TOP}/meson.build", encoding="utf-8") as f:
            version = re.search(r"version: '([^']+)'", f.read())[1]
        with open(f"{TOP}/hostd/package/debian/changelog", encoding="utf-8") as f:
            self.assertIn(f"weft ({version})", f.readline())

    def test_enabled_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as where:
            r = setup(where, no_criterion(where))
            self.assertNotEqual(r.returncode, 0)
            self.assertIn("no tests can be built: there is no Criterion", r.stdout + r.stderr)


def no_criterion(where):
    """A machine file with a pkg-config that knows everything else."""
    path = f"{where}/pkg-config"
    with open(path, "w", encoding="utf-8") as f:
        f.write('#!/bin/sh\ncase "$*" in *criterion*) exit 1 ;; esac\nexec pkg-config "$@"\n')
    os.chmod(path, 0o755)
    return f"[properties]\ntests = 'enabled'\n[binaries]\npkgconfig = '{path}'\n"


if __name__ == "__main__":
    unittest.main(verbosity=2)
