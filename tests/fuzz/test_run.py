#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner of the fuzz targets, on two small ones of its own: one that has something to
find out, and one that fails.

    test_run.py TOP
"""
import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = sys.argv.pop(1)

TINY = """
#include <stddef.h>
#include <stdint.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	volatile int n = 0;
	if (size > 0 && data[0] == 'W')
		n++;
	if (size > 1 && data[1] == 'E')
		n++;
	return 0;
}
"""
BAD = """
#include <stdint.h>
#include <stdlib.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == 'x')
		abort();
	return 0;
}
"""


def load():
    loader = importlib.machinery.SourceFileLoader("fuzz_run", f"{TOP}/tests/fuzz/run")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz_run", loader))
    loader.exec_module(module)
    return module


class Runner(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.run = load()
        self.run.TOP = top = self.dir.name
        for name, text in (("tiny", TINY), ("bad", BAD)):
            self.write(f"tests/fuzz/{name}.c", text)
            os.makedirs(f"{top}/build-fuzz/tests/fuzz", exist_ok=True)
            self.clang(f"tests/fuzz/{name}.c", "-fsanitize=fuzzer,address", "-o",
                       f"build-fuzz/tests/fuzz/fuzz_{name}")
            self.write(f"tests/fuzz/corpus/{name}/seed", "x")
        self.write("build-fuzz/tests/fuzz/targets.txt", "tiny tests/fuzz/tiny.c\nbad tests/fuzz/bad.c\n")

    def tearDown(self):
        self.dir.cleanup()

    def write(self, path, text):
        os.makedirs(os.path.dirname(f"{self.dir.name}/{path}"), exist_ok=True)
        with open(f"{self.dir.name}/{path}", "w", encoding="utf-8") as f:
            f.write(text)

    def clang(self, *args):
        subprocess.run(["clang", "-g", *args], cwd=self.dir.name, check=True)

    def test_runs_and_tells(self):
        names = list(self.run.targets_of("build-fuzz"))
        tiny, bad = self.run.run_all(names, 4, lambda *t: self.run.fuzz("build-fuzz", *t, 1))
        self.assertEqual(tiny["status"], 0, tiny["tail"])
        self.assertGreater(tiny["runs"], 100)
        self.assertGreater(tiny["edges"][0], 0)
        self.assertGreater(tiny["edges"][1], tiny["edges"][0])
        self.assertNotEqual(bad["status"], 0)
        self.assertIn("deadly signal", bad["tail"])
        self.assertTrue(os.path.exists(bad["log"]))
        self.assertGreater(tiny["cpu"], 0)
        self.run.table([tiny, bad], {"tiny": 100})

    def test_takes_what_is_new(self):
        self.run.fuzz("build-fuzz", "tiny", 0, 1)
        self.assertGreater(self.run.merge("build-fuzz", "tiny"), 0)
        self.assertEqual(self.run.merge("build-fuzz", "tiny"), 0)
        corpus = f"{self.dir.name}/tests/fuzz/corpus/tiny"
        self.assertIn("seed", os.listdir(corpus))
        self.run.MERGE_BYTES = 0
        shutil.rmtree(corpus)
        self.assertEqual(self.run.merge("build-fuzz", "tiny"), 0, "no room")

    def test_counts_lines(self):
        tools = [shutil.which("llvm-profdata"), shutil.which("llvm-cov")]
        if not all(tools):
            self.assertIn("missing", self.run.lines(["tiny"], "build-fuzz")[1])
            print("SKIP lines: no llvm-cov")
            return
        os.makedirs(f"{self.dir.name}/build-coverage/tests/fuzz")
        shutil.copy(f"{self.dir.name}/build-fuzz/tests/fuzz/targets.txt",
                    f"{self.dir.name}/build-coverage/tests/fuzz")
        self.clang("-fprofile-instr-generate", "-fcoverage-mapping", "tests/fuzz/tiny.c",
                   f"{TOP}/tests/fuzz/replay.c", "-o", "build-coverage/tests/fuzz/replay_tiny")
        work = f"{self.dir.name}/build-fuzz/corpus/tiny"
        part = self.run.lines_of("tiny", work, tools)
        self.assertTrue(0 < part < 100, part)
        self.write("build-fuzz/corpus/tiny/all", "WE")
        self.assertEqual(self.run.lines_of("tiny", work, tools), 100)

    def test_knows_the_blind(self):
        seeing = {"file": "a.c", "command": f"clang {self.run.EDGES} -c a.c"}
        self.write("build-fuzz/compile_commands.json",
                   json.dumps([seeing, {"file": "b.c", "command": "clang -c b.c"}]))
        self.assertEqual(self.run.blind("build-fuzz"), ["b.c"])


if __name__ == "__main__":
    if not shutil.which("clang"):
        print("SKIP: no clang")
        sys.exit(77)
    unittest.main()
