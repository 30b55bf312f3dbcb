#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weftctl trace: what two tenants do is in the file, under the right name and in order."""
import json
import os
import signal
import socket
import subprocess
import time
import unittest

from fault import Daemon, FaultTest, Script, kill, patient, program, wait_for
from test_restart import Kept

MIB = 1 << 20
LITTLE = 4096  # for many launches
NAMES = 16 << 10  # pages of kernels' names, which stay as long as a session
TWO = "[tenant a]\nmemory.max = 1G\n[tenant b]\nmemory.max = 1G\n"


class Tracing:
    """weftctl trace, until it is stopped; then what it wrote, by tenant."""

    def __init__(self, d, *words):
        self.path = d.path(f"trace-{time.monotonic_ns()}.json")  # there when it has begun
        self.process = subprocess.Popen(
            [program("weftctl"), "-c", d.path("control"), "trace", "--json", "-o", self.path,
             *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: os.path.exists(self.path), 20, "the trace")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=patient(20))
        with open(self.path, encoding="utf-8") as f:
            self.all = json.load(f)
        self.said = json.loads(out)
        return self.process.returncode, err

    def of(self, tenant):
        events = self.all["traceEvents"]
        pids = [e["pid"] for e in events
                if e["name"] == "process_name" and e["args"]["name"] == tenant]
        return [e for e in events if e["pid"] in pids]

    def slices(self, tenant, cat=None):
        found = [e for e in self.of(tenant) if e["ph"] == "X" and cat in (None, e["cat"])]
        return sorted(found, key=lambda e: e["ts"])


def end(e):
    """In whole nanoseconds, as the beginning."""
    return start(e) + round(e["dur"] * 1000)


def start(e):
    return round(e["ts"] * 1000)


class Trace(FaultTest):
    def well_formed(self, events):
        """Slices of a thread contain each other or are apart."""
        for tid in {e["tid"] for e in events}:
            stack = []
            for e in sorted((e for e in events if e["tid"] == tid),
                            key=lambda e: (start(e), -end(e))):
                while stack and stack[-1] <= start(e):
                    stack.pop()
                self.assertTrue(not stack or end(e) <= stack[-1], e)
                stack.append(end(e))

    def keeps(self, d, tenant):
        t = Script(d, "keeps", tenant)
        self.assertEqual(t.say("s"), (0, 0))
        return t

    def test_two_tenants(self):
        with Daemon("--memory", "64M", "--swap", "256M", "--piece", "2M", "--reserve", "0",
                    config=TWO) as d:
            first = self.keeps(d, "a")
            t = Tracing(d)
            second = self.keeps(d, "b")  # begins while it is traced
            self.assertEqual(first.say(f"a 0 {8 * MIB}")[0], 0)
            self.assertEqual(first.say("l 0 3")[0], 0)
            self.assertEqual(second.say(f"a 1 {16 * MIB}")[0], 0)
            self.assertEqual(second.say("l 1 2")[0], 0)
            self.assertEqual(first.say("s"), (0, 0))
            self.assertEqual(second.say("s"), (0, 0))
            self.assertGreaterEqual(d.ctl("reclaim", "a", "4M")["bytes"], 4 * MIB)
            self.assertEqual(first.say("c 0"), (0, 0))
            self.assertEqual(second.say("c 1"), (0, 0))
            second.process.stdin.close()
            second.process.wait(patient(20))
            wait_for(lambda: len(d.sessions()) == 1, 20, "the end of one")
            status, err = t.stop()
            self.assertEqual((status, t.said["lost"], err), (0, 0, ""))

            for tenant, n in (("a", 3), ("b", 2)):
                self.well_formed(t.slices(tenant))
                for cat, length in (("submit", n + 2), ("kernel", n + 2)):
                    names = [e["args"]["kernel"] for e in t.slices(tenant, cat)]
                    self.assertEqual(len(names), length, names)
                    for name, word in zip(names, ["fill"] + ["change"] * n + ["check"]):
                        self.assertIn(word, name)
                for s, k in zip(t.slices(tenant, "submit"), t.slices(tenant, "kernel")):
                    self.assertLessEqual(start(s), start(k))
                    self.assertEqual(s["args"]["blocks"], k["args"]["blocks"])
                kernels = t.slices(tenant, "kernel")
                for one, other in zip(kernels, kernels[1:]):  # of one stream
                    self.assertLessEqual(end(one), start(other))
                self.assertTrue(t.slices(tenant, "wait"))
            out = t.slices("a", "swap_out")
            self.assertGreaterEqual(sum(e["args"]["bytes"] for e in out), 4 * MIB)
            self.assertEqual(t.slices("b", "swap_out"), [])
            turns = t.slices("a", "turn")
            for e in out:
                self.assertTrue(any(start(g) <= start(e) and end(e) <= end(g) for g in turns))
            most = {(e["pid"], e["name"]): 0 for e in t.all["traceEvents"] if e["ph"] == "C"}
            for e in t.all["traceEvents"]:
                if e["ph"] == "C":
                    key = e["pid"], e["name"]
                    most[key] = max(most[key], e["args"]["value"])
            pid = {w: t.of(w)[0]["pid"] for w in "ab"}
            self.assertGreaterEqual(most[pid["a"], "memory.current"], 8 * MIB)
            self.assertGreaterEqual(most[pid["b"], "memory.current"], 16 * MIB)
            self.assertGreaterEqual(most[pid["a"], "memory.swap.current"], 4 * MIB)
            for tenant in "ab":  # both compute, on all TPCs
                self.assertGreater(most[pid[tenant], "compute.slice"], 1000)
                self.assertEqual(most[pid[tenant], "tpcs"], 4)
                self.assertEqual(most[pid[tenant], "compute.held"], 0)

    def test_memory(self):
        """Kernels and copies say what they reach of an allocation; one with a pointer into it that
        nobody understands names it."""
        with Daemon("--memory", "64M", "--swap", "256M", "--piece", "2M", "--reserve", "0",
                    config="[daemon]\ntime = sets\n" + TWO) as d:
            t = Tracing(d, "--memory")
            a = self.keeps(d, "a")
            self.assertEqual(a.say(f"a 0 {32 * MIB}")[0], 0)
            for words in "p 0 2", "s", "g 0 5", "l 0 1", "s", "f 0":
                self.assertEqual(a.say(words), (0, 0))
            self.assertEqual(t.stop()[0], 0)
            self.assertEqual(t.said["lost"], 0)
            memory = [e for e in t.of("a") if e["ph"] == "i"]
            new, = (e["args"] for e in memory
                    if e["cat"] == "map" and e["args"]["bytes"] == 32 * MIB)
            gone = [e["args"]["from"] for e in memory if e["cat"] == "unmap"]
            self.assertIn(new["from"], gone)

            def reached(name):
                return {(e["args"]["from"] - new["from"], e["args"]["bytes"]) for e in memory
                        if e["cat"] == "reach" and name in e["args"].get("kernel", "")}

            self.assertIn((8 * MIB, 4 * MIB), reached("work_in_part"))
            self.assertIn((0, 32 * MIB), reached("change"))
            # Nodes of graphs have no names in a trace.
            nameless = {(e["args"]["from"] - new["from"], e["args"]["bytes"]) for e in memory
                        if e["cat"] == "reach" and "kernel" not in e["args"]}
            self.assertIn((20 * MIB, 4 * MIB), nameless)

    def test_memory_is_not_told_unless_asked_for(self):
        with Daemon("--swap", "256M", config="[daemon]\ntime = sets\n" + TWO) as d:
            a = self.keeps(d, "a")
            t = Tracing(d)
            self.assertEqual(a.say(f"a 0 {8 * MIB}")[0], 0)
            self.assertEqual(a.say("l 0 1")[0], 0)
            t.stop()
            self.assertTrue(t.slices("a", "submit"))
            self.assertEqual([e for e in t.of("a") if e["ph"] == "i"], [])

    def test_one_of_two(self):
        with Daemon(config=TWO) as d:
            scripts = [self.keeps(d, w) for w in "ab"]
            t = Tracing(d, "b")
            for s in scripts:
                self.assertEqual(s.say(f"a 0 {MIB}")[0], 0)
                self.assertEqual(s.say("s"), (0, 0))
            self.assertEqual(t.stop()[0], 0)
            self.assertEqual(t.of("a"), [])
            self.assertTrue(t.slices("b", "kernel"))

    def test_copies(self):
        with Daemon(config=TWO) as d:
            t = Tracing(d)
            self.assert_right(d.run("steady", 0, tenant="b"))  # one round
            t.stop()
            self.assertEqual(t.slices("a"), [])
            self.well_formed(t.slices("b"))
            work = [(e["cat"], e["args"].get("bytes")) for e in t.slices("b")
                    if e["cat"] in ("to_device", "from_device", "submit")]
            self.assertEqual(work, [("to_device", 80000), *4 * [("submit", None)],
                                    ("from_device", 80000)])
            self.assertEqual(len(t.slices("b", "kernel")), 4)

    def shared(self, d):
        """Bytes of what the one session's worker shares with weftd that are there."""
        total, ours = 0, False
        try:
            with open(f"/proc/{d.sessions()[0]['worker.pid']}/smaps", encoding="utf-8") as f:
                for line in f:
                    if "-" in line.split()[0]:
                        ours = "weft-page" in line
                    elif ours and line.startswith("Rss:"):
                        total += int(line.split()[1]) << 10
        except PermissionError:
            self.skipTest("only root may look at a worker's memory")
        return total

    def test_nothing_stays(self):
        with Daemon(config=TWO) as d:
            a = self.keeps(d, "a")
            self.assertEqual(a.say(f"a 0 {LITTLE}")[0], 0)
            none = self.shared(d) + NAMES
            t = Tracing(d)
            self.assertEqual(a.say("l 0 1000")[0], 0)
            self.assertEqual(a.say("s"), (0, 0))
            t.stop()
            self.assertEqual((len(t.slices("a", "kernel")), t.said["lost"]), (1000, 0))
            wait_for(lambda: self.shared(d) <= none, 20, "memory of records to go")
            before = self.shared(d)
            self.assertEqual(a.say("l 0 1000")[0], 0)
            self.assertEqual(a.say("s"), (0, 0))
            self.assertEqual(self.shared(d), before)
            t = Tracing(d)
            self.assertEqual(a.say("l 0 2")[0], 0)
            self.assertEqual(a.say("s"), (0, 0))
            t.stop()
            self.assertEqual(len(t.slices("a", "kernel")), 2)
            for e in t.slices("a", "kernel"):
                self.assertIn("change", e["name"])

    def test_weftd_dies(self):
        """The next one goes on with the session, which nobody traces any more."""
        with Kept(config=TWO) as d:
            a = self.keeps(d, "a")
            self.assertEqual(a.say(f"a 0 {LITTLE}")[0], 0)
            none = self.shared(d) + NAMES
            t = Tracing(d)
            kill(d.broker())
            self.assertEqual(t.process.wait(patient(20)), 1)
            self.assertIn("the trace ends there", t.process.communicate()[0])
            with open(t.path, encoding="utf-8") as f:
                self.assertIn("traceEvents", json.load(f))
            wait_for(d.up, 20, "the next weftd")
            self.assertEqual(a.say("l 0 1000")[0], 0)
            self.assertEqual(a.say("s"), (0, 0))
            self.assertLessEqual(self.shared(d), none)
            t = Tracing(d)
            self.assertEqual(a.say("l 0 2")[0], 0)
            self.assertEqual(a.say("s"), (0, 0))
            t.stop()
            self.assertEqual(len(t.slices("a", "kernel")), 2)

    def test_reader_that_does_not_read(self):
        with Daemon(config=TWO) as d:
            a = self.keeps(d, "a")
            self.assertEqual(a.say(f"a 0 {LITTLE}")[0], 0)
            s = socket.socket(socket.AF_UNIX)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(d.path("control"))
            s.sendall(b'{"cmd": "trace", "memory": 1}\n{"cmd": "trace"}\n')
            lines = s.makefile("r", encoding="utf-8")
            self.assertIn("neither true nor false", json.loads(lines.readline())["error"])
            self.assertTrue(json.loads(lines.readline())["ok"])
            for _ in range(12):
                self.assertEqual(a.say("l 0 1000")[0], 0)
                self.assertEqual(a.say("s"), (0, 0))
            self.assertTrue(d.ctl("list")["ok"])
            r = subprocess.run([program("weftctl"), "-c", d.path("control"), "trace", "-o",
                                d.path("other")], capture_output=True, text=True, check=False,
                               timeout=patient(20))
            self.assertEqual(r.returncode, 1)
            self.assertIn("traces already", r.stderr)
            self.assertFalse(os.path.exists(d.path("other")))
            lost = records = 0
            while lost == 0:
                line = json.loads(lines.readline())
                for one in line["sessions"]:
                    lost += one["lost"]
                    records += len(one["records"])
            self.assertGreater(records, 0)
            lines.close()
            s.close()
            t = Tracing(d)  # as soon as the other has gone
            self.assertEqual(t.stop()[0], 0)

    def test_wrong_words(self):
        with Daemon(config=TWO) as d:
            for words, said in ((("nosuch",), 'no tenant "nosuch"'),
                                (("--seconds", "x"), '"x" is no time'),
                                (("--seconds", "1", "-o", "/nosuch/file"), "/nosuch/file: No")):
                r = subprocess.run([program("weftctl"), "-c", d.path("control"), "trace", *words],
                                   capture_output=True, text=True, check=False, cwd=d.dir,
                                   timeout=patient(20))
                self.assertEqual(r.returncode, 1)
                self.assertIn(said, r.stderr)
            self.assertFalse(os.path.exists(d.path("weft-trace.json")))
            r = subprocess.run([program("weftctl"), "-c", d.path("control"), "trace", "--seconds",
                                "0.1"], capture_output=True, text=True, check=False, cwd=d.dir,
                               timeout=patient(20))
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("ui.perfetto.dev", r.stdout)
            with open(d.path("weft-trace.json"), encoding="utf-8") as f:
                self.assertEqual(json.load(f)["otherData"]["device"], "Weft software GPU")


if __name__ == "__main__":
    unittest.main()
