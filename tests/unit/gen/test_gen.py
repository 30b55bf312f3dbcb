#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The generator against known outputs and known mistakes.

golden/*.api give golden/*.golden; after an intended change run this with --update and read
the difference. bad/*.api each have one line that ends in `#! TEXT`: the error must name the
file and that line and contain TEXT.

usage: test_gen.py TOP-OF-TREE [--update]
"""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = sys.argv[1]
GEN = os.path.join(TOP, "transport/gen/gen.py")
sys.path.insert(0, os.path.dirname(GEN))
sys.dont_write_bytecode = True
import gen  # noqa: E402


def generate(files, out):
    return subprocess.run([sys.executable, "-B", GEN, "--out", out, *files], text=True,
                          capture_output=True, check=False, cwd=HERE)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Golden(unittest.TestCase):
    files = ["golden/types.api", "golden/sample.api"]
    maxDiff = None

    def test_outputs(self):
        with tempfile.TemporaryDirectory() as out:
            r = generate(self.files, out)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            names = sorted(os.listdir(out))
            self.assertEqual([n + ".golden" for n in names], sorted(
                map(os.path.basename, glob.glob(os.path.join(HERE, "golden/*.golden")))))
            for n in names:
                with self.subTest(n):
                    self.assertEqual(read(os.path.join(out, n)),
                                     read(os.path.join(HERE, "golden", n + ".golden")))

    def test_hash_covers_the_wire_only(self):
        """A comment or a function answered in the guest changes nothing; a field does."""
        text = read(os.path.join(HERE, "golden/sample.api"))
        same = text.replace("fn cuAnswered local since 11030", "# nothing here")
        other = text.replace("in u16 three[3]", "in u16 three[2]")
        self.assertNotIn(text, (same, other))
        self.assertEqual(self.hash_of(text), self.hash_of(same))
        self.assertNotEqual(self.hash_of(text), self.hash_of(other))

    def hash_of(self, text):
        with tempfile.TemporaryDirectory() as out:
            path = os.path.join(out, "x.api")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            r = generate([self.files[0], path], out)
            self.assertEqual(r.returncode, 0, r.stderr)
            return [s for s in read(os.path.join(out, "ops.h")).split("\n")
                    if "WIRE_API_HASH" in s]

    def test_same_output_twice(self):
        with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
            generate(self.files, a)
            generate(self.files, b)
            for n in os.listdir(a):
                self.assertEqual(read(os.path.join(a, n)), read(os.path.join(b, n)))


class Bad(unittest.TestCase):
    def test_is_an_exit_status(self):
        with tempfile.TemporaryDirectory() as out:
            r = generate(["golden/types.api", "bad/fn-out-str.api"], out)
            self.assertEqual(r.returncode, 1)
            self.assertTrue(r.stderr.startswith("bad/fn-out-str.api:"), r.stderr)

    def test_each_names_its_line(self):
        os.chdir(HERE)
        paths = sorted(glob.glob(os.path.join(HERE, "bad/*.api")))
        self.assertGreater(len(paths), 30)
        for path in paths:
            shown = os.path.relpath(path, HERE)
            with self.subTest(shown), tempfile.TemporaryDirectory() as out:
                marked = [(n, s.split("#!")[1].strip()) for n, s in
                          enumerate(read(path).split("\n"), 1) if "#!" in s]
                self.assertEqual(len(marked), 1)
                line, text = marked[0]
                with self.assertRaises(SystemExit) as refused:
                    gen.main(["--out", out, "golden/types.api", shown])
                self.assertTrue(refused.exception.code.startswith(f"{shown}:{line}: "),
                                refused.exception.code)
                self.assertIn(text, refused.exception.code)
                self.assertEqual(os.listdir(out), [])


def update():
    with tempfile.TemporaryDirectory() as out:
        r = generate(Golden.files, out)
        if r.returncode:
            sys.exit(r.stderr)
        for n in os.listdir(out):
            with open(os.path.join(HERE, "golden", n + ".golden"), "w", encoding="utf-8") as f:
                f.write(read(os.path.join(out, n)))


if __name__ == "__main__":
    if "--update" in sys.argv:
        update()
    else:
        unittest.main(argv=sys.argv[:1])
