#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Output of the tools: weftctl's tables, JSON and sentences; starts and ends of weftd."""
import csv
import io
import json
import os
import pty
import select
import subprocess
import tempfile
import time
import unittest

from fault import BUILD, Daemon, FaultTest, patient, program, until_running, wait_for

LONG = "instance-0000002a-4a2f9b9a-0f6f-4a5e-8a60-0d4d0a6f0001"


def tool(name, *words, **more):
    return subprocess.run([program(name), *words], capture_output=True, text=True,
                          timeout=patient(20), check=False, stdin=subprocess.DEVNULL, **more)


def ctl(d, *words):
    return tool("weftctl", "--control", d.path("control"), *words)


class Tables(FaultTest):
    def columns(self, text):
        """Every table: each row's words begin or end where the column's title does."""
        for table in text.split("\n\n")[1:]:
            head, *rows = table.rstrip("\n").split("\n")
            for row in rows:
                at = 0
                for title in head.split():
                    at = head.index(title, at)
                    end = at + len(title)
                    begins = row[at:at + 1].strip() and not row[at - 1:at].strip()
                    ends = row[end - 1:end].strip() and not row[end:end + 1].strip()
                    self.assertTrue(begins or ends or not row[at:].strip(),
                                    f"{title}:\n{table}")

    def test_long_names_keep_columns(self):
        with Daemon(config=f"[tenant {LONG}]\nmemory.max = 1G\n[tenant b]\n") as d:
            runs = [d.run("steady", 60, tenant=t) for t in (LONG, "b", LONG)]
            wait_for(lambda: len(d.sessions()) == 3, 10, "three sessions")
            for words in (("list",), ("info",), ("list", "--bytes")):
                r = ctl(d, *words)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.columns(r.stdout)
                self.assertNotIn(" \n", r.stdout)
            self.assertIn(str(1 << 30), r.stdout)
            numbers = [s["session"] for s in d.sessions()]
            self.assertEqual(numbers, sorted(numbers))
            for p in runs:
                p.kill()

    def test_sessions_are_sorted(self):
        with Daemon() as d:
            for _ in range(6):
                d.run("steady", 60)
            wait_for(lambda: len(d.sessions()) == 6, 20, "six sessions")
            for p in d.started[:3]:
                p.kill()
            wait_for(lambda: len(d.sessions()) == 3, 10, "three sessions")
            for _ in range(3):
                d.run("steady", 60)
            wait_for(lambda: len(d.sessions()) == 6, 20, "six sessions")
            numbers = [s["session"] for s in d.sessions()]
            self.assertEqual(numbers, sorted(numbers))

    def test_options_stand_anywhere(self):
        with Daemon(config="[tenant vm1]\nmemory.max = 1536M\n") as d:
            self.assertEqual(tool("weftctl", "get", "vm1", "memory.max", "-b", "--control",
                                  d.path("control")).stdout, f"{1536 << 20}\n")
            self.assertEqual(ctl(d, "get", "vm1", "memory.max").stdout, "1.5 GiB\n")
            self.assertTrue(json.loads(ctl(d, "list", "-j").stdout)["ok"])


class Csv(FaultTest):
    def rows(self, d, *words):
        r = ctl(d, *words, "--format", "csv")
        self.assertEqual(r.returncode, 0, r.stderr)
        return list(csv.DictReader(io.StringIO(r.stdout), strict=True))

    def test_is_what_json_says(self):
        with Daemon(config=f"[tenant {LONG}]\nmemory.max = 1G\n[tenant b]\n") as d:
            until_running(d.run("steady", 60, tenant=LONG))
            first = d.ctl("list")
            for words in (("list",), ("list", "tenants"), ("top",), ("top", "--once")):
                rows = self.rows(d, *words)
                self.assertEqual([r["name"] for r in rows], [t["name"] for t in first["tenants"]])
                row, said = rows[[r["name"] for r in rows].index(LONG)], {
                    t["name"]: t for t in first["tenants"]}[LONG]
                self.assertTrue(set(row) <= set(said), set(row) - set(said))
                self.assertEqual(row["memory.max"], str(1 << 30))
                self.assertEqual(row["memory.high"], "max")
            for words in (("list", "sessions"), ("top", "sessions")):
                row, = self.rows(d, *words)
                self.assertTrue(set(row) <= set(first["sessions"][0]))
                self.assertEqual((row["tenant"], row["name"]), (LONG, "steady"))
            self.assertEqual(self.rows(d, "list", "ended"), [])
            d.ctl("kill", LONG)
            wait_for(lambda: self.rows(d, "list", "ended"), 10, "the end")
            self.assertEqual(self.rows(d, "list", "ended")[0]["end"], "killed by operator")
            keys = {r["key"]: r["value"] for r in self.rows(d, "get", LONG)}
            self.assertEqual(keys["memory.max"], str(1 << 30))
            self.assertEqual(keys["memory.events.oom"], "0")
            self.assertEqual(self.rows(d, "get", LONG, "memory.max"),
                             [{"key": "memory.max", "value": str(1 << 30)}])
            d.ctl("set", "b", "memory.weight=7")
            change, = [r for r in self.rows(d, "events", "b") if r["event"] == "tenant.changed"]
            self.assertEqual((change["key"], change["to"]), ("memory.weight", "7"))
            self.assertIn(", pid ", change["by"])  # a comma within

    def test_who_has_it(self):
        with Daemon() as d:
            r = ctl(d, "kill", "local", "--format", "csv")
            self.assertEqual((r.returncode, r.stdout), (64, ""))
            self.assertIn("kill has no option --format", r.stderr)
            r = ctl(d, "list", "--format", "xml")
            self.assertEqual(r.returncode, 64)
            self.assertIn('"xml" is none of csv, json, table', r.stderr)
            self.assertTrue(json.loads(ctl(d, "kill", "local", "--format", "json").stdout)["ok"])
            self.assertEqual(ctl(d, "list", "nothing").returncode, 64)


class Json(FaultTest):
    def test_numbers_fit_any_reader(self):
        def check(o):
            if isinstance(o, dict):
                o = list(o.values())
            if isinstance(o, list):
                for v in o:
                    check(v)
            elif not isinstance(o, str):
                self.assertLess(o, 1 << 53)

        with Daemon() as d:
            text = ctl(d, "--json", "info").stdout
            check(json.loads(text))
            self.assertEqual(json.loads(text)["tenants"][0]["memory.max"], "max")
            self.assertNotIn("\\/", text)

    def test_one_spelling_of_a_key(self):
        """Keys of get are in list, with the same names and values."""
        with Daemon(config="[tenant vm1]\nmemory.max = 1G\n") as d:
            keys = d.ctl("get", "vm1")["keys"]
            tenant = next(t for t in d.ctl("list")["tenants"] if t["name"] == "vm1")
            self.assertEqual({k: v for k, v in tenant.items() if k in keys}, keys)
            self.assertEqual(keys["memory.max"], 1 << 30)
            self.assertEqual(d.ctl("get", "vm1", "memory.events")["keys"],
                             {"memory.events": keys["memory.events"]})

    def test_gpu_time(self):
        """GPU time grows while programs run, is the tenant's, and stays when they have ended."""
        def time_of(what, name):
            return next(o["gpu.time"] for o in d.ctl("list")[what] if o["tenant" if what ==
                        "sessions" else "name"] == name)

        with Daemon(config="[tenant vm1]\n[tenant vm2]\n") as d:
            until_running(d.run("endless", tenant="vm1"))
            wait_for(lambda: time_of("sessions", "vm1") > 200000, 10, "GPU time of a session")
            wait_for(lambda: d.ctl("get", "vm1")["keys"]["gpu.utilization"] > 50, 10, "it is busy")
            d.ctl("kill", "vm1")
            wait_for(lambda: not d.sessions(), 10, "the end")
            spent = time_of("tenants", "vm1")
            self.assertGreater(spent, 200000)
            self.assertEqual(time_of("tenants", "vm2"), 0)
            a = d.ctl("info")
            self.assertEqual(a["device"]["gpu.time"], spent)
            self.assertEqual(a["ended"][-1]["gpu.time"], spent)
            self.assertEqual(a["device"]["gpu.utilization"], 0)

    def test_errors_are_json(self):
        with Daemon() as d:
            for control, words, why in (
                    (d.path("control"), ("get", "nosuch"), 'no tenant "nosuch"'),
                    (d.path("nosuch"), ("list",), "no weftd at")):
                r = tool("weftctl", *words, "--json", "--control", control)
                a = json.loads(r.stdout)
                self.assertEqual((r.returncode, r.stderr, a["ok"]), (1, "", False))
                self.assertIn(why, a["error"])


class Sentences(FaultTest):
    def test_weftctl(self):
        with Daemon(config="[tenant vm1]\n") as d:
            for words, status, said in (
                    (("lst",), 64, 'unknown command "lst"'),
                    ((), 64, "no command"),
                    (("list", "x"), 64, "list takes [tenants | sessions | ended]"),
                    (("set", "vm1", "memory.max"), 64, "set takes TENANT KEY=VALUE..."),
                    (("reclaim", "vm1"), 64, "reclaim takes TENANT SIZE"),
                    (("kill", "vm1"), 0, "vm1 has no sessions"),
                    (("kill", "77"), 1, "no session 77"),
                    (("get", "vm2"), 1, 'no tenant "vm2" (there are vm1, local)'),
                    (("get", "vm1", "x"), 1, 'no key "x" (there are memory.min'),
                    (("set", "vm1", "memory.max=+1G"), 1, '"+1G" is no size: 1536M'),
                    (("set", "vm1", "window.size=1G"), 1, "change weftd.conf and restart"),
                    (("set", "vm1", "memory.peak=1G"), 1, "can only be read"),
                    (("add", "vm 3"), 1, "a tenant's name is letters"),
                    (("add", "vm1"), 0, "vm1 was there")):
                r = ctl(d, *words)
                self.assertEqual(r.returncode, status, (words, r.stdout, r.stderr))
                self.assertIn(said, r.stdout + r.stderr)
                self.assertLessEqual((r.stdout + r.stderr).count("\n"), 2, words)

    def test_no_daemon(self):
        with Daemon() as d:
            path = d.path("control")
            d.process.kill()
            d.process.wait()
            # A child that it was just starting may have the socket for a moment.
            wait_for(lambda: "nobody listens there any more: start weftd" in
                     tool("weftctl", "list", "--control", path).stderr, 5, "it is said")

    def test_guest(self):
        with Daemon(config="[tenant vm1]\nsessions.max = 1\n") as d:
            d.run("steady", 60, tenant="vm1")
            wait_for(lambda: d.sessions(), 10, "a session")
            p = d.run("steady", 1, tenant="vm1")
            self.assertIn("all sessions that this tenant may have", p.communicate()[0])
            p = d.run("steady", 1, tenant="nosuch")
            self.assertIn("there is no such socket: is weftd running?", p.communicate()[0])

    def test_no_driver(self):
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "guestlib"))
        r = tool("weft-run", "--device", "cuda", "--", "true", env=env)
        self.assertEqual(r.returncode, 125)
        self.assertIn("is Weft's guest library and no driver", r.stderr)

    def test_log_level(self):
        with Daemon() as d:
            p = subprocess.run([program("weftd"), "--config", "/dev/null", "--run-dir", d.dir],
                               env=dict(os.environ, WEFT_LOG="bogus"), capture_output=True,
                               text=True, timeout=patient(10), check=False)
            self.assertIn("WEFT_LOG=bogus is none of error, warning, info, debug", p.stderr)


class Doctor(FaultTest):
    def test_what_is_found(self):
        """tests/unit/host/doctor.c has hosts on which all kinds of things are wrong."""
        with Daemon() as d:
            r = ctl(d, "doctor", "--json")
            a = json.loads(r.stdout)
            found = {c["check"]: c for c in a["checks"]}
            self.assertEqual(found["weftd"]["says"], f"runs (pid {d.process.pid})")
            wrong = [c for c in a["checks"] if c["found"] == "wrong"]
            self.assertEqual((a["ok"], r.returncode), (not wrong, 1 if wrong else 0))
            for c in a["checks"]:
                self.assertEqual("type" in c, c["found"] != "ok", c)
            text = ctl(d, "doctor").stdout
            for c in a["checks"]:
                self.assertIn(c["says"], text)
        r = ctl(d, "doctor")
        self.assertEqual(r.returncode, 1)
        self.assertRegex(r.stdout, r"wrong +weftd +no weftd at .*\n +type: systemctl start weftd")


class Service(FaultTest):
    def start(self, *options, **more):
        return subprocess.Popen([program("weftd"), "--config", "/dev/null", *options],
                                stdin=subprocess.DEVNULL, **more)

    def test_no_descriptor_is_named(self):
        for option in ("--ready-fd", "--lifeline-fd"):
            for wrong in ("", "x", "1x", "-1", "4294967296"):
                r = tool("weftd", option, wrong, "--check-config")
                self.assertEqual(r.returncode, 64, (option, wrong, r.stderr))
                self.assertIn(option, r.stderr)

    def test_background_says_whether_it_runs(self):
        with tempfile.TemporaryDirectory(prefix="weft-fault-") as d:
            r = tool("weftd", "--config", "/dev/null", "--run-dir", d, "--device", "cuda",
                     "--background", env=dict(os.environ, LD_LIBRARY_PATH=""))
            if r.returncode == 0:  # there is a GPU
                self.assertEqual(tool("weftctl", "--control", f"{d}/control", "list",
                                      ).returncode, 0)
                tool("weftctl", "--control", f"{d}/control", "shutdown")
            else:
                self.assertEqual(r.returncode, 1, r.stderr)
                self.assertIn("cannot start (device cuda)", r.stderr)

    def test_background_leaves_the_terminal(self):
        ours, theirs = pty.openpty()
        with tempfile.TemporaryDirectory(prefix="weft-fault-") as d:
            p = self.start("--run-dir", d, "--device", "soft", "--background",
                           stdout=theirs, stderr=theirs)
            self.assertEqual(p.wait(patient(20)), 0)
            os.close(theirs)
            # weftd is ready, and has been told to say nothing here any more.
            said = b""
            with self.assertRaises(OSError):  # nobody has it open
                while select.select([ours], [], [], patient(20))[0]:
                    said += os.read(ours, 4096)
            self.assertIn(b"device: Weft software GPU", said)
            self.assertEqual(tool("weftctl", "--control", f"{d}/control", "shutdown").returncode,
                             0)
        os.close(ours)

    def test_shutdown_waits(self):
        with Daemon() as d:
            until_running(d.run("endless"))
            self.assertEqual(ctl(d, "shutdown").returncode, 0)
            self.assertFalse(os.path.exists(d.path("control")))
            self.assertEqual(d.children(), [])
            d.process.wait(patient(5))

    def test_priorities_for_the_journal(self):
        with tempfile.TemporaryDirectory(prefix="weft-fault-") as d:
            with open(f"{d}/log", "wb") as log:
                st = os.fstat(log.fileno())
                for journal in (f"{st.st_dev}:{st.st_ino}", "1:2"):
                    p = self.start("--run-dir", d, "--device", "soft", stderr=log,
                                   env=dict(os.environ, JOURNAL_STREAM=journal))
                    deadline = time.monotonic() + patient(20)
                    while not os.path.exists(f"{d}/control") and time.monotonic() < deadline:
                        time.sleep(0.02)
                    tool("weftd", "--config", "/dev/null", "--run-dir", d)
                    p.terminate()
                    p.wait(patient(10))
            with open(f"{d}/log", encoding="utf-8") as f:
                said = f.read()
        self.assertIn("<6>weftd: info: ends: ", said)
        self.assertIn("\nweftd: info: ends: ", said)

    def test_no_runtime_directory(self):
        env = dict(os.environ, XDG_RUNTIME_DIR="/nonexistent")
        r = tool("weftd", "--config", "/dev/null", "--check-config", env=env, user=12345,
                 group=12345, extra_groups=())
        self.assertEqual(r.returncode, 0, r.stderr)
        p = self.start("--device", "soft", env=env, user=12345, group=12345, extra_groups=(),
                       stderr=subprocess.PIPE, text=True)
        try:
            self.assertIn("/tmp/weft-12345/weft.sock",
                          next((line for line in p.stderr if "tenant local" in line), ""))
        finally:
            p.terminate()
            p.communicate(timeout=patient(10))


if __name__ == "__main__":
    unittest.main(verbosity=2)
