#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Messages to a newcomer where something is missing or mistyped."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load(name):
    """A program of vm-images as a module."""
    loader = importlib.machinery.SourceFileLoader(name, f"{TOP}/vm-images/{name}")
    spec = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def run(*argv):
    return subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=60)


class Demo(unittest.TestCase):
    def setUp(self):
        self.demo = load("demo")

    def test_no_toolkit(self):
        with mock.patch.object(self.demo.shutil, "which", return_value=None), \
                self.assertRaises(self.demo.debian.Error) as e:
            self.demo.check_toolkit()
        self.assertIn("no nvcc", str(e.exception))
        self.assertIn("cuda-nvcc-13-0", str(e.exception))

    def test_no_header(self):
        with tempfile.TemporaryDirectory() as d:
            with mock.patch.object(self.demo.shutil, "which", return_value=f"{d}/bin/nvcc"), \
                    self.assertRaises(self.demo.debian.Error) as e:
                self.demo.check_toolkit()
            self.assertIn(f"no cuda.h in {os.path.realpath(d)}/include", str(e.exception))

    def test_meson_is_heard(self):
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as d, contextlib.redirect_stderr(said):
            with mock.patch.object(self.demo, "TOP", d), \
                    self.assertRaises(self.demo.debian.Error):
                self.demo.configure(f"{d}/build")
        self.assertIn("meson.build", said.getvalue())


class Words(unittest.TestCase):
    def test_help_installs_nothing(self):
        r = run("vm-images/install-packages", "--help")
        self.assertEqual(r.returncode, 0)
        self.assertIn("--list", r.stdout)
        r = run("vm-images/install-packages", "--bogus")
        self.assertEqual((r.returncode, r.stdout), (64, ""))

    def test_run_says_what_it_wants(self):
        for args, word in ((["--cid", "2"], "3 or more"),
                           (["--window", "/dev/shm/x:60M"], "power of two"),
                           (["--window", "/dev/shm/x:8M"], "16M or more"),
                           (["--dir", "x"], "HOSTPATH=/GUESTPATH")):
            r = run("vm-images/run", *args, "--", "ls")
            self.assertEqual(r.returncode, 2)
            self.assertIn(word, r.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
