#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Units, users and folders that are installed: systemd and apparmor know all that is in them.

    units.py BUILD
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = ""
# Programs that a unit names, and that need not be installed here.
PROGRAM = re.compile(r"^(Exec\w+=[-+@:!]*)(/\S+)", re.M)


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)


def need(test, program):
    if not shutil.which(program):
        test.skipTest(f"no {program} here")


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.where = tempfile.mkdtemp(prefix="weft-units-")
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
                        cls.where], check=True, stdin=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.where)

    def found(self, pattern):
        files = glob.glob(f"{self.where}/**/{pattern}", recursive=True)
        self.assertTrue(files, pattern)
        return files

    def test_units(self):
        need(self, "systemd-analyze")
        with tempfile.TemporaryDirectory() as d:
            paths = []
            for unit in self.found("systemd/system/*.service") + \
                    self.found("systemd/system/*.socket"):
                with open(unit, encoding="utf-8") as f:
                    text = f.read()
                self.assertNotRegex(text, r"@\w+@", unit)
                for _, program in PROGRAM.findall(text):
                    # Ours are where the unit says; what is others' may be missing.
                    if "weft" in program:
                        self.assertTrue(os.access(self.where + program, os.X_OK), program)
                name = os.path.basename(unit).replace("@.", "@vm1.")
                paths.append(os.path.join(d, name))
                with open(paths[-1], "w", encoding="utf-8") as f:
                    f.write(PROGRAM.sub(r"\1/bin/true", text))
            r = run("systemd-analyze", "verify", "--man=no", *paths)
            said = [line for line in r.stderr.splitlines() if "weft" in line]
            self.assertEqual((r.returncode, said), (0, []), r.stderr)

    def test_users(self):
        need(self, "systemd-sysusers")
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(f"{root}/etc")
            r = run("systemd-sysusers", f"--root={root}", *self.found("sysusers.d/*.conf"))
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(f"{root}/etc/passwd", encoding="utf-8") as f:
                self.assertRegex(f.read(), r"(?m)^weft:.*nologin$")
            with open(f"{root}/etc/group", encoding="utf-8") as f:
                self.assertRegex(f.read(), r"(?m)^weft-operators:")

    def test_folders(self):
        need(self, "systemd-tmpfiles")
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(f"{root}/run")
            r = run("systemd-tmpfiles", f"--root={root}", "--create",
                    *self.found("tmpfiles.d/*.conf"))
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(os.stat(f"{root}/run/weft").st_mode & 0o777, 0o755)

    def test_apparmor(self):
        need(self, "apparmor_parser")
        with open(self.found("apparmor")[0], encoding="utf-8") as f:
            lines = f.read()
        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/profile", "w", encoding="utf-8") as f:
                f.write("profile qemu /usr/bin/qemu {\n" + lines + "}\n")
            r = run("apparmor_parser", "--skip-kernel-load", "--skip-cache", f"{d}/profile")
            self.assertEqual(r.returncode, 0, r.stderr)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
