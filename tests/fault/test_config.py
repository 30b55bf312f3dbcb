#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weftd's configuration: what is refused, and what changes while it runs."""
import os
import signal
import socket
import subprocess
import tempfile
import unittest
from unittest import mock

from fault import Daemon, FaultTest, patient, program, until_running, wait_for


def check(text, *options):
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        return subprocess.run([program("weftd"), "--config", f.name, *options],
                              capture_output=True, text=True, timeout=patient(10), check=False)


class Check(FaultTest):
    def test_what_is_right(self):
        r = check("[daemon]\nrun-dir = /nonexistent/weft\n[tenant vm1]\nmemory.max = 1.5G\n",
                  "--check-config")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("no mistakes", r.stdout)
        self.assertIn("limits are not compared with the device", r.stdout)
        r = check("[daemon]\nmemory = 1G\n[tenant vm1]\nmemory.max = 1.5G\n", "--check-config")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotIn("limits are not compared", r.stdout)
        self.assertIn("conf:4: tenant vm1: memory.max 1.5 GiB is more than the device has: 1 GiB",
                      r.stderr)

    def test_what_is_wrong_ends_any_start(self):
        text = ("[tenant vm1]\nwindow.path = /dev/shm/x\nwindow.size = 16M\n"
                "[tenant vm2]\nwindow.path = /dev/shm/x\nwindow.size = 16M\n")
        for options in (["--check-config"], []):
            r = check(text, *options)
            self.assertEqual(r.returncode, 78, r.stderr)
            self.assertIn("vm1, line 2", r.stderr)
            self.assertIn(".conf:5:", r.stderr)


class DropIns(FaultTest):
    """weftd.conf.d beside weftd.conf."""

    def setUp(self):
        super().setUp()
        self.where = tempfile.TemporaryDirectory()
        self.conf = os.path.join(self.where.name, "weftd.conf")
        os.mkdir(self.conf + ".d")

    def tearDown(self):
        self.where.cleanup()

    def write(self, name, text):
        path = os.path.join(self.conf + ".d", name) if name else self.conf
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def check(self, *options):
        return subprocess.run([program("weftd"), "--config", self.conf, "--check-config",
                               *options], capture_output=True, text=True, timeout=patient(10),
                              check=False)

    def test_places_are_named_across_files(self):
        self.write("", "[daemon]\nmemory = 1G\n[tenant vm1]\nmemory.max = 1G\n"
                       "window.path = /dev/shm/x\nwindow.size = 16M\n")
        self.write("10-a.conf", "[tenant vm1]\nmemory.min = 512M\n"
                                "vm.uuid = 6d2f6a0e-4b0c-4d3a-9a5e-0f3c1c1b2a3d\n")
        r = self.check()
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertIn(f"{self.conf} and 1 of {self.conf}.d: no mistakes", r.stdout)
        self.write("20-b.conf", "# nothing\n[tenant vm2]\nwindow.path = /dev/shm/x\n"
                                "window.size = 16M\n"
                                "vm.uuid = 6D2F6A0E-4b0c-4d3a-9a5e-0f3c1c1b2a3d\n"
                                "memory.min = 768M\n")
        self.write("30-c.conf", "[tenant vm1]\n\nmemory.max = 256M\n")
        r = self.check()
        self.assertEqual(r.returncode, 78, r.stderr)
        for text in (f"20-b.conf:3: /dev/shm/x is both the window of tenant vm1, {self.conf}:5",
                     f"20-b.conf:5: vm.uuid 6d2f6a0e-4b0c-4d3a-9a5e-0f3c1c1b2a3d is that of "
                     f"tenant vm2, and of tenant vm1, {self.conf}.d/10-a.conf:3",
                     "30-c.conf:3: tenant vm1: memory.min 512 MiB is above memory.max 256 MiB, "
                     f"see {self.conf}.d/10-a.conf:2",
                     "memory.min of all tenants is 1.2 GiB, the device has 1 GiB"):
            self.assertIn(text, r.stderr)

    def test_what_is_later_wins(self):
        self.write("", "[daemon]\nmemory = 4G\n[tenant vm1]\nmemory.max = 1G\n")
        self.write("9.conf", "[tenant vm1]\nmemory.max = 3G\n")
        self.write("10.conf", "[tenant vm1]\nmemory.max = 2G\nsessions.max = 5\n")
        for name in ("99.conf.bak", ".98.conf", "97"):
            self.write(name, "nonsense\n")
        with Daemon() as d:
            os.unlink(d.path("conf"))
            os.symlink(self.conf, d.path("conf"))
            os.symlink(self.conf + ".d", d.path("conf.d"))
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "read again" in d.log(), 5, "the files are read")
            keys = d.ctl("get", "vm1")["keys"]
            self.assertEqual((keys["memory.max"], keys["sessions.max"]), (3 << 30, 5))

    def test_mistakes_name_their_file(self):
        self.write("", "")
        self.write("a.conf", "[tenant vm1]\nmem = 1\n")
        r = self.check()
        self.assertEqual(r.returncode, 78)
        self.assertIn(f"{self.conf}.d/a.conf:2: no such key: mem", r.stderr)
        os.unlink(self.conf + ".d/a.conf")
        os.symlink("/nonexistent", self.conf + ".d/a.conf")
        r = self.check()
        self.assertEqual(r.returncode, 78)
        self.assertIn("a.conf: No such file", r.stderr)

    def test_contradictions_that_are_no_mistakes(self):
        self.write("", "[tenant vm1]\nmemory.high = 1G\n[tenant vm2]\n"
                       "compute.max = 5000 5000\n")
        r = self.check()
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("weftd.conf:2: tenant vm1: memory.high has no effect without swap",
                      r.stderr)
        self.assertIn("weftd.conf:3: tenant vm2: compute.max has a quota of the whole period: "
                      "there is no limit", r.stderr)


class Aliases(FaultTest):
    """Words of MIG, vGPU, HAMi and MPS, in the file and at the control socket."""

    def set(self, d, *words):
        r = subprocess.run([program("weftctl"), "--control", d.path("control"), *words],
                           capture_output=True, text=True, timeout=patient(10), check=False)
        return r.returncode, r.stderr

    def test_what_they_become(self):
        with Daemon(config="[tenant vm1]\nprofile = H200X-1C\n[tenant vm2]\n") as d:
            keys = d.ctl("get", "vm1")["keys"]
            self.assertEqual((keys["profile"], keys["memory.max"], keys["memory.min"]),
                             ("H200X-1C", 1 << 30, 1 << 30))
            self.assertEqual(self.set(d, "set", "vm2", "profile=1g.1gb"), (0, ""))
            self.assertEqual(d.ctl("get", "vm2")["keys"]["compute.max"], "14285 100000")
            self.assertIn("tenant vm2: memory.max was max, is 953.7 MiB", d.log())
            self.assertEqual(d.ctl("get", "vm2", "memory.max")["keys"]["memory.max"], 10 ** 9)
            status, said = self.set(d, "add", "vm3", "nvidia.com/gpumem=300", "gpucores=40")
            self.assertEqual((status, said), (0, ""))
            keys = d.ctl("get", "vm3")["keys"]
            self.assertEqual((keys["memory.max"], keys["profile"], keys["compute.max"]),
                             (300 << 20, "", "40000 100000"))
            self.assertEqual(self.set(d, "set", "vm2", "memory.min=0"), (0, ""))
            self.assertEqual(d.ctl("get", "vm2")["keys"]["profile"], "")

    def test_what_cannot_be_had_changes_nothing(self):
        with Daemon(config="[tenant vm1]\nmemory.max = 1G\n") as d:
            for words, text in (
                    (("set", "vm1", "gpumem=10", "gpucores=half"), "from 0 to 100"),
                    (("set", "vm1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=0"), "from 1 to 100"),
                    (("set", "vm1", "profile=1g.18gb"), "the device has 2 GiB"),
                    (("set", "vm1", "profile=big"), '"big" is no profile of MIG or vGPU'),
                    (("add", "vm2", "gpumem-percentage=50"), "give memory.max")):
                status, said = self.set(d, *words)
                self.assertEqual(status, 1, words)
                self.assertIn(text, said)
            self.assertEqual(d.ctl("get", "vm1", "memory.max")["keys"]["memory.max"], 1 << 30)
            self.assertEqual(len(d.ctl("list")["tenants"]), 2)


class Added(FaultTest):
    """Tenants added while weftd runs obey the rules of those in the file."""

    def refused(self, d, *words):
        r = subprocess.run([program("weftctl"), "--control", d.path("control"), *words],
                           capture_output=True, text=True, timeout=patient(10), check=False)
        self.assertEqual(r.returncode, 1, words)
        return r.stderr

    def test_clashes(self):
        with Daemon(config="[tenant vm1]\n") as d:
            window = d.path("window")
            d.ctl("add", "vm2", f"window.path={window}", "window.size=16M")
            for words in (["add", "weft"], ["add", "vm3", f"socket={d.path('vm1.sock')}"],
                          ["add", "vm3", f"socket={d.path('control')}"],
                          ["add", "vm3", f"window.path={window}", "window.size=16M"]):
                self.assertIn("is both", self.refused(d, *words))
            os.mkdir(d.path("sub"))
            os.symlink(d.dir, d.path("link"))
            for detour in ("sub/../window", "link/window"):
                self.assertIn("is both", self.refused(
                    d, "add", "vm3", f"window.path={d.path(detour)}", "window.size=16M"))
            names = [t["name"] for t in d.ctl("list")["tenants"]]
            self.assertEqual(sorted(names), ["local", "vm1", "vm2"])
            d.ctl("add", "vm3")  # nothing is left of the attempts
            self.assertIn("is above memory.max",
                          self.refused(d, "set", "vm3", "memory.min=1G", "memory.max=1M"))
            self.assertEqual(d.ctl("get", "vm3")["keys"]["memory.max"], "max")
            for key, value, says in (("weight", "0", "no number from 1 to 10000"),
                                     ("priority", "-1", "no number from 0 to 100"),
                                     ("slice", "5", 'no key "compute.slice"')):
                self.assertIn(says, self.refused(d, "set", "vm3", f"compute.{key}={value}"))

    def test_sentences(self):
        with Daemon(config="[tenant vm1]\n") as d:
            for words, text in (
                    (["get", "nosuch"], 'no tenant "nosuch" (there are vm1, local)'),
                    (["get", "vm1", "nokey"], 'no key "nokey" (there are memory.min,'),
                    (["set", "vm1", "window.size=1G"], "cannot be changed while weftd runs"),
                    (["set", "vm1", "memory.peak=1G"], "memory.peak can only be read"),
                    (["set", "vm1", "memory.max=+1G"], '"+1G" is no size: 1536M,'),
                    (["add", "vm 3"], "a tenant's name is letters"),
                    (["add", "77"], "is not a number"),
                    (["add", "vm3", "group=nosuch"], 'no group "nosuch"'),
                    (["add", "vm3", "pool=3"], "no such key: pool"),
                    (["kill", "vm2"], 'no tenant "vm2"'),
                    (["kill", "99"], "no session 99"),
                    (["info", "99"], "no session 99"),
                    (["reclaim", "vm1", "1G"], "no swap"),
                    (["remove", "local"], "as long as weftd is")):
                self.assertIn(text, self.refused(d, *words))
            self.assertEqual(d.ctl("kill", "vm1")["killed"], 0)

    def test_log_says_who_and_what(self):
        with Daemon(config="[tenant vm1]\n") as d:
            d.ctl("set", "vm1", "memory.max=1G", "sessions.max=3")
            d.ctl("add", "vm2")
            d.ctl("remove", "vm2")
            d.ctl("shutdown")
            d.process.wait(patient(10))
            for line in ("tenant vm1: memory.max was max, is 1 GiB (uid ",
                         "tenant vm1: sessions.max was 64, is 3 (uid ",
                         "tenant vm2: added (uid ", "tenant vm2: removed (uid ",
                         "ends: shutdown (uid "):
                self.assertIn(line, d.log())


class Reload(FaultTest):
    def reload(self, d, text):
        with open(d.path("conf"), "w", encoding="utf-8") as f:
            f.write(text)
        before = d.log().count("read again")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: d.log().count("read again") > before, 5, "the file is read")

    def tenants(self, d):
        return sorted(t["name"] for t in d.ctl("list")["tenants"])

    def test_limits_and_tenants(self):
        with Daemon(config="[tenant vm1]\nmemory.max = 1G\n[tenant vm2]\n[tenant vm3]\n") as d:
            d.ctl("add", "vm9")
            p = d.run("endless", tenant="vm1")
            q = d.run("endless", tenant="vm3")
            until_running(p)
            until_running(q)
            self.reload(d, "[tenant vm1]\nmemory.max = 2G\nsessions.max = 5\n[tenant vm4]\n")
            self.assertEqual(self.tenants(d), ["local", "vm1", "vm3", "vm4", "vm9"])
            self.assertIn("vm1: memory.max was 1 GiB, is 2 GiB", d.log())
            self.assertIn("vm3: not in the file any more, but has sessions", d.log())
            self.assertEqual(d.ctl("get", "vm1")["keys"]["sessions.max"], 5)
            self.assertTrue(os.path.exists(d.socket("vm4")))
            self.assertFalse(os.path.exists(d.socket("vm2")))
            self.assertEqual((p.poll(), q.poll()), (None, None))  # nobody noticed
            d.ctl("kill", "vm3")
            wait_for(lambda: not d.sessions("vm3"), 5, "vm3 is idle")
            self.reload(d, "[tenant vm1]\n")
            self.assertEqual(self.tenants(d), ["local", "vm1", "vm9"])
            self.assertEqual(d.ctl("get", "vm1")["keys"]["memory.max"], "max")

    def test_a_mistake_changes_nothing(self):
        with Daemon(config="[tenant vm1]\nmemory.max = 1G\n") as d:
            for text, words in (("[tenant vm1]\nmemory.max = 2G\n[tenant vm2]\nmem = 1\n",
                                 "conf:4: no such key"),
                                ("[tenant weft]\n[tenant vm1]\nmemory.max = 2G\n", "is both")):
                self.reload(d, text)
                self.assertIn(words, d.log())
                self.assertEqual(self.tenants(d), ["local", "vm1"])
                self.assertEqual(d.ctl("get", "vm1")["keys"]["memory.max"], 1 << 30)
            os.unlink(d.path("conf"))
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "No such file" in d.log(), 5, "it is missed")
            self.assertEqual(self.tenants(d), ["local", "vm1"])

    def test_what_needs_a_restart_is_named(self):
        with Daemon(config="[tenant vm1]\n") as d:
            self.reload(d, f"[daemon]\npool = 7\nswap = 1G\n[tenant vm1]\nmode = 0660\n"
                           f"socket = {d.path('other')}\n")
            self.assertIn("[daemon] swap, pool: changed", d.log())
            self.assertIn("tenant vm1: socket, mode: changed", d.log())
            self.assertFalse(os.path.exists(d.path("other")))
            self.assertTrue(os.path.exists(d.socket("vm1")))

    def test_added_tenants_count(self):
        with Daemon() as d:
            d.ctl("add", "vm1", f"socket={d.path('x')}")
            self.reload(d, f"[tenant vm2]\nsocket = {d.path('x')}\n")
            self.assertIn("is both", d.log())
            self.assertEqual(self.tenants(d), ["local", "vm1"])
            d.ctl("remove", "vm1")
            self.reload(d, f"[tenant vm2]\nsocket = {d.path('x')}\n")
            self.assertEqual(self.tenants(d), ["local", "vm2"])


class Manager(FaultTest):
    """Notifications to a service manager."""

    def test_notifications(self):
        with tempfile.TemporaryDirectory() as top, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(os.path.join(top, "notify"))
            s.settimeout(patient(10))
            os.environ["NOTIFY_SOCKET"] = os.path.join(top, "notify")
            try:
                with Daemon() as d:
                    del os.environ["NOTIFY_SOCKET"]
                    self.assertEqual(s.recv(200), b"READY=1")
                    d.process.send_signal(signal.SIGHUP)
                    self.assertRegex(s.recv(200).decode(),
                                     r"^RELOADING=1\nMONOTONIC_USEC=\d+$")
                    self.assertEqual(s.recv(200), b"READY=1")
                    d.process.terminate()
                    self.assertEqual(s.recv(200), b"STOPPING=1")
            finally:
                os.environ.pop("NOTIFY_SOCKET", None)


    def test_watchdog(self):
        """weftd says so again and again while the loop goes round, and no more once it stands."""
        with tempfile.TemporaryDirectory() as top, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(os.path.join(top, "notify"))
            s.settimeout(patient(10))
            env = {"NOTIFY_SOCKET": os.path.join(top, "notify"), "WATCHDOG_USEC": "100000"}
            with mock.patch.dict(os.environ, env), Daemon() as d:
                heard = [s.recv(200) for _ in range(5)]
                self.assertGreaterEqual(heard.count(b"WATCHDOG=1"), 4, heard)
                d.process.send_signal(signal.SIGSTOP)
                try:
                    s.settimeout(1)
                    with self.assertRaises(TimeoutError):
                        while True:
                            s.recv(200)
                finally:
                    d.process.send_signal(signal.SIGCONT)
                s.settimeout(patient(10))
                self.assertEqual(s.recv(200), b"WATCHDOG=1")

    def test_watchdog_of_another_process(self):
        with tempfile.TemporaryDirectory() as top, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(os.path.join(top, "notify"))
            s.settimeout(patient(10))
            env = {"NOTIFY_SOCKET": os.path.join(top, "notify"), "WATCHDOG_USEC": "1000",
                   "WATCHDOG_PID": str(os.getpid())}
            with mock.patch.dict(os.environ, env), Daemon() as d:
                self.assertEqual(s.recv(200), b"READY=1")
                d.process.terminate()
                self.assertEqual(s.recv(200), b"STOPPING=1")


class Operators(FaultTest):
    def ping(self, d, *groups):
        """As a user without any right but these groups."""
        r = subprocess.run([program("weftctl"), "--control", d.path("control"), "list"],
                           capture_output=True, text=True, timeout=patient(10), check=False,
                           user=12345, group=12345, extra_groups=groups)
        return r.returncode, r.stderr

    def test_a_group_may_control(self):
        if os.geteuid():
            self.skipTest("only root can run programs as others")
        with Daemon("--operators", "games") as d:
            os.chmod(d.dir, 0o755)
            self.assertEqual(self.ping(d, 60)[0], 0)
            status, said = self.ping(d)
            self.assertEqual(status, 1)
            self.assertIn("ermission denied", said)


if __name__ == "__main__":
    unittest.main()
