#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Edits of a description that transport/gen/release.py lets pass, and those that it refuses.

usage: test_release.py TOP-OF-TREE PRESENT.txt
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

TOP, PRESENT = sys.argv[1:3]
sys.path.insert(0, os.path.join(TOP, "transport/gen"))
sys.dont_write_bytecode = True
import release  # noqa: E402

OLD = """const WIRE_VERSION 0x3
const WIRE_VERSION_MIN 0x3
const WIRE_F_REPLY 0x1
bytes uuid 0102
enum refusal
    REFUSAL_A 0
    REFUSAL_B 1
struct wire_hello 16
    magic 0 4
    version 4 2
handle_make(6, 0xabc, 0x12345) 0x2a
record pair
    in u32 first
    in u32 second
op 1 open call
    in u32 a
    in bytes blob max 100
    out u64 size
op 2 send any
    in u64 dst
    payload in
op 4 twist call
    inout u32 mode
"""

# An edit of OLD: (what, becomes, the sentence that refuses it or None)
EDITS = {
    "nothing": ("", "", None),
    "a field comes last": ("    in bytes blob max 100\n",
                           "    in bytes blob max 100\n    in u64 b\n", None),
    "a field of a reply comes last": ("    out u64 size\n",
                                      "    out u64 size\n    out u32 c\n", None),
    "bytes come last": ("    out u64 size\n", "    out u64 size\n    in bytes more max 8\n", None),
    "a new operation": ("op 4 twist", "op 5 fifth post\n    in u32 x\nop 4 twist", None),
    "a new record": ("record pair", "record three\n    in u64 third\nrecord pair", None),
    "a new constant": ("bytes uuid", "const WIRE_F_NEW 0x80\nbytes uuid", None),
    "a new value": ("    REFUSAL_B 1\n", "    REFUSAL_B 1\n    REFUSAL_C 2\n", None),
    "a new structure": ("record pair", "struct more 8\n    x 0 8\nrecord pair", None),
    "a higher version": ("WIRE_VERSION 0x3", "WIRE_VERSION 0x4", None),
    "a field in the middle": ("    in u32 a\n", "    in u64 b\n    in u32 a\n",
                              "'in u64 b' stands where 'in u32 a' was in the command: "
                              "a new field comes last"),
    "a field in the middle of a reply": ("    out u64 size\n", "    out u32 x\n    out u64 size\n",
                                         "comes last"),
    "a field that is gone": ("    in u32 a\n", "", "a new field comes last"),
    "the last field is gone": ("    in bytes blob max 100\n", "", "is gone: leave it"),
    "a wider field": ("in u32 a", "in u64 a", "append another field"),
    "another name": ("in u32 a", "in u32 b", "append another field"),
    "more bytes": ("blob max 100", "blob max 200", "append another field"),
    "a string comes last": ("    out u64 size\n", "    out u64 size\n    in str s max 8\n",
                            "make it bytes"),
    "a direction": ("inout u32 mode", "in u32 mode", "append another field"),
    "a payload no more": ("    payload in\n", "", "add another operation"),
    "a payload that may lack": ("    payload in\n", "    payload in?\n", "add another operation"),
    "a class": ("op 2 send any", "op 2 send post", "was 'any' and is 'post'"),
    "an operation is gone": ("op 4 twist call\n    inout u32 mode\n", "",
                             "operation 4, twist, is gone"),
    "a number given away": ("op 4 twist", "op 4 other", "was twist and is other now"),
    "numbers follow another order": ("op 1 open call", "op 3 open call",
                                     "operation 1, open, is gone"),
    "a record grows": ("    in u32 second\n", "    in u32 second\n    in u64 third\n",
                       "add another record and leave this one"),
    "a constant": ("WIRE_F_REPLY 0x1", "WIRE_F_REPLY 0x2", "const WIRE_F_REPLY was 0x1 and is 0x2"),
    "a constant is gone": ("const WIRE_F_REPLY 0x1\n", "", "const WIRE_F_REPLY is gone"),
    "a value moves": ("REFUSAL_B 1", "REFUSAL_B 2", "values keep their numbers"),
    "an enumeration is gone": ("enum refusal\n    REFUSAL_A 0\n    REFUSAL_B 1\n", "",
                               "enum refusal is gone"),
    "a structure grows": ("wire_hello 16", "wire_hello 24", "another WIRE_VERSION"),
    "a member moves": ("version 4 2", "version 6 2", "'version 4 2' has become 'version 6 2'"),
    "bytes": ("uuid 0102", "uuid 0103", "bytes uuid was 0102"),
    "handles look different": ("12345) 0x2a", "12345) 0x2b", "was 0x2a and is 0x2b"),
    "a version goes back": ("WIRE_VERSION 0x3", "WIRE_VERSION 0x2", "went back"),
    "releases are spoken to no more": ("WIRE_VERSION 0x3\nconst WIRE_VERSION_MIN 0x3",
                                       "WIRE_VERSION 0x4\nconst WIRE_VERSION_MIN 0x4",
                                       "WIRE_VERSION_MIN is higher"),
}


class Releases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def have(self, version, text):
        with open(os.path.join(self.folder.name, version + ".txt"), "w", encoding="utf-8") as f:
            f.write(text)

    def check(self, version, present):
        return release.check(version, present, self.folder.name)

    def record(self, version, present):
        with contextlib.redirect_stdout(io.StringIO()):
            return release.record(version, present, self.folder.name)

    def test_edits(self):
        self.have("0.1.0", OLD)
        for name, (was, becomes, refused) in EDITS.items():
            with self.subTest(name):
                self.assertIn(was, OLD)
                said = self.check("0.2.0", OLD.replace(was, becomes, 1))
                if refused is None:
                    self.assertIsNone(said)
                else:
                    self.assertIn(refused, said)
                    self.assertIn("release 0.1.0: ", said)
                    self.assertIn("What may change", said)

    def test_two_releases_before_are_served(self):
        """Numbers count for older ones as well; 0.10 comes after 0.9."""
        for v in ("0.8.0", "0.9.0", "0.10.0"):
            self.have(v, OLD)
        shorter = OLD.replace("    in bytes blob max 100\n", "")
        said = self.check("0.11.0", shorter)
        self.assertEqual([s.split(":")[0] for s in said.split("\n")[:-1]],
                         ["release 0.9.0", "release 0.10.0"])
        self.assertIn("0.8.0: operation 4 was twist",
                      self.check("0.11.0", OLD.replace("4 twist", "4 new")))

    def test_the_version_at_hand_is_one_of_them_once_recorded(self):
        self.have("0.1.0", OLD)
        self.assertIn("gone", self.check("0.1.0", OLD.replace("    out u64 size\n", "")))

    def test_record(self):
        self.assertIsNone(self.record("0.1.0", OLD))
        self.assertIsNone(self.record("0.1.0", OLD), "the same once more")
        more = OLD + "op 5 fifth call\n"
        less = OLD.replace("op 4 twist call\n    inout u32 mode\n", "")
        self.assertIn("is gone", self.record("0.1.0", less))
        self.assertIsNone(self.record("0.1.0", more), "what came since")
        self.git("init", "-q")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        self.git("tag", "v0.1.0")
        self.assertIn("a new version", self.record("0.1.0", more + "op 6 sixth call\n"))
        self.assertIsNone(self.record("0.1.0", more), "the same once more")
        self.assertIsNone(self.record("0.2.0", more))
        self.assertIn("is gone", self.record("0.3.0", OLD))
        self.assertEqual(release.recorded(self.folder.name), ["0.1.0", "0.2.0"])

    def git(self, *command):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *command],
                       check=True, cwd=self.folder.name)

    def test_nothing_recorded(self):
        self.assertIn("no release is recorded", self.check("0.1.0", OLD))

    def test_present(self):
        """The real description is understood: every kind of thing is in it, all of it counts."""
        text = release.read(PRESENT)
        d = release.Description(text)
        kinds = {t.split()[0].split("(")[0] for t in d.things}
        self.assertEqual(kinds, {"const", "bytes", "enum", "struct", "record", "handle_make",
                                 "ring_layout"})
        self.assertGreater(len(d.ops), 100)
        self.have("0.1.0", text)
        self.assertIsNone(self.check("0.1.0", text))
        lines = text.splitlines()
        for i in range(len(lines) % 5, len(lines), 5):
            if lines[i].startswith("const WIRE_VERSION"):
                continue
            with self.subTest(lines[i]):
                other = "\n".join(lines[:i] + [lines[i] + "9"] + lines[i + 1:])
                self.assertTrue(list(release.compare(d, release.Description(other))))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
