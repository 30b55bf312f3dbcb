#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The control socket by itself: its protocol, who may what, and clients that do not read."""
import json
import os
import socket
import subprocess
import unittest

from fault import Daemon, FaultTest, built_sanitized, patient, program, wait_for

NOBODY = 12345
MANY = 200  # tenants, whose list no socket takes at once


class Client:
    """A connection; answers come one by one."""

    def __init__(self, d):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(patient(10))
        self.sock.connect(d.path("control"))
        self.file = self.sock.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.file.close()
        self.sock.close()

    def tell(self, cmd=None, **more):
        q = {"cmd": cmd, **more} if cmd else more
        self.sock.sendall(json.dumps(q).encode() + b"\n")

    def answer(self):
        line = self.file.readline()
        return json.loads(line) if line else None

    def ask(self, cmd=None, **more):
        self.tell(cmd, **more)
        return self.answer()

    def close(self):
        self.__exit__()


class Protocol(FaultTest):
    def test_hello(self):
        with Daemon() as d, Client(d) as c:
            a = c.ask("hello")
            self.assertEqual((a["ok"], a["protocol"], a["may"]), (True, 1, "change"))
            self.assertEqual(a["pid"], d.process.pid)
            self.assertEqual(a["requests"]["tenant-set"], ["name", "set"])
            self.assertIn("hello", a["requests"])
            self.assertTrue(c.ask("list", protocol=1)["ok"])

    def test_what_is_not_known_is_said(self):
        with Daemon(config="[tenant vm1]\n") as d, Client(d) as c:
            for q, why in (
                    ({"cmd": "lst"}, 'no such request: "lst" (there are hello, '),
                    ({}, "the object has no cmd (there are hello, "),
                    ({"cmd": "list", "tenent": "vm1"},
                     'list has no field "tenent" (there are tenant, session)'),
                    ({"cmd": "ping", "x": 1}, 'ping has no field "x" (there are none)'),
                    ({"cmd": "list", "protocol": 2}, "speaks protocol 1 to 1: use the weftctl"),
                    ({"cmd": "list", "protocol": "1"}, "speaks protocol 1 to 1: use the weftctl"),
                    ({"cmd": "list", "protocol": -1}, "speaks protocol 1 to 1: use the weftctl"),
                    ({"cmd": "tenant-set", "name": "vm1", "set": {"memory.max": "1G"}, "y": 1},
                     'tenant-set has no field "y" (there are name, set)'),
                    ({"cmd": "tenant-set", "name": "vm1", "set": 7}, "sets nothing"),
                    ({"cmd": "tenant-set", "set": {}}, "names no tenant")):
                a = c.ask(**q)
                self.assertFalse(a["ok"], q)
                self.assertIn(why, a["error"])
            c.sock.sendall(b"[1]\nnothing\n{\n")
            for _ in range(3):
                self.assertEqual(c.answer()["error"], "not a JSON object")
            # nothing of it changed anything
            self.assertEqual(c.ask("tenant-get", name="vm1")["keys"]["memory.max"], "max")


class Groups(FaultTest):
    def setUp(self):
        if os.geteuid():
            self.skipTest("only root can run programs as others")

    def ctl(self, d, *words, group=()):
        """As a user without any right but this group."""
        return subprocess.run([program("weftctl"), "--control", d.path("control"), *words],
                              capture_output=True, text=True, timeout=patient(10), check=False,
                              user=NOBODY, group=NOBODY, extra_groups=group)

    def check(self, d, operators, viewers):
        os.chmod(d.dir, 0o755)
        for words in (("list",), ("info",), ("get", "vm1")):
            for group in operators + viewers:
                r = self.ctl(d, *words, group=[group])
                self.assertEqual(r.returncode, 0, (words, r.stderr))
        for words in (("set", "vm1", "memory.max=1G"), ("kill", "vm1"), ("add", "vm2"),
                      ("reclaim", "vm1", "1M"), ("drain",), ("remove", "vm1"), ("shutdown",)):
            for group in viewers:
                r = self.ctl(d, *words, group=[group])
                self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), words)
                self.assertIn("viewers may look and change nothing", r.stderr)
            r = self.ctl(d, *words)
            self.assertEqual(r.returncode, 1)
            self.assertRegex(r.stderr, "ask to be in the group")
        self.assertEqual(d.ctl("get", "vm1", "memory.max")["keys"]["memory.max"], "max")
        for group in operators:
            r = self.ctl(d, "set", "vm1", "memory.max=1G", group=[group])
            self.assertEqual(r.returncode, 0, r.stderr)

    def test_both(self):
        with Daemon("--operators", "games", "--viewers", "users", config="[tenant vm1]\n") as d:
            self.check(d, [60], [100])

    def test_viewers_alone(self):
        with Daemon("--viewers", "users", config="[tenant vm1]\n") as d:
            self.check(d, [], [100])

    def test_no_such_group(self):
        r = subprocess.run([program("weftd"), "--config", "/dev/null", "--viewers", "nosuch",
                            "--check-config"], capture_output=True, text=True, check=False,
                           timeout=patient(10))
        self.assertEqual(r.returncode, 78)
        self.assertIn('no group "nosuch" ([daemon] viewers)', r.stderr)


class Drain(FaultTest):
    def ctl(self, d, *words):
        return subprocess.Popen([program("weftctl"), "-c", d.path("control"), *words],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def said(self, d, *words):
        p = self.ctl(d, *words)
        return p.communicate(timeout=patient(20))[0], p.returncode

    def check(self, d, words, name, others):
        """No program begins of what is drained, one that runs goes on; then it is empty."""
        runs = d.run("steady", "-", tenant="vm1", stdin=subprocess.PIPE)
        wait_for(lambda: d.sessions("vm1"), 10, "a session")
        self.assertEqual(self.said(d, "drain", *words),
                         (f"{name}: no session begins; 1 go on\n", 0))
        self.assertIn("drains", self.said(d, "list")[0])
        p = d.run("steady", 1, tenant="vm1")
        self.assertIn("drains this GPU", p.communicate()[0])
        p = d.run("steady", 1, tenant="vm2")
        self.assertEqual("drains this GPU" not in p.communicate()[0], others)
        waits = self.ctl(d, "drain", *words, "--wait")
        self.assertEqual(waits.stdout.readline(), f"{name}: no session begins; 1 go on\n")
        runs.stdin.close()
        runs.stdin = None
        self.assertEqual(waits.communicate(timeout=patient(20))[0], f"{name} is empty\n")
        self.assertEqual(waits.returncode, 0)
        self.assertIn("right", runs.communicate()[0])
        self.assertEqual(self.said(d, "drain", *words, "--wait"), (f"{name} is empty\n", 0))
        self.assertEqual(self.said(d, "drain", *words, "--undo"),
                         (f"{name} takes sessions again\n", 0))
        self.assert_right(d.run("steady", 1, tenant="vm1"))
        told = [e["event"] for e in d.ctl("events")["events"]]
        kind = "tenant" if words else "weftd"
        for event in ("draining", "drained", "undrained"):
            self.assertEqual(told.count(f"{kind}.{event}"), 1, told)

    def test_a_tenant(self):
        with Daemon(config="[tenant vm1]\n[tenant vm2]\n") as d:
            self.check(d, ("vm1",), "vm1", True)

    def test_all(self):
        with Daemon(config="[tenant vm1]\n[tenant vm2]\n") as d:
            self.check(d, (), "weftd", False)

    def test_the_wait_ends_otherwise(self):
        with Daemon(config="[tenant vm1]\n[tenant vm2]\n") as d:
            for tenant in ("vm1", "vm2"):
                d.run("steady", 600, tenant=tenant)
                wait_for(lambda t=tenant: d.sessions(t), 10, "a session")
            waits = [self.ctl(d, "drain", t, "--wait") for t in ("vm1", "vm2")]
            for p in waits:
                p.stdout.readline()
            d.ctl("drain", "vm1", "--undo")
            self.assertIn("vm1 takes sessions again (by uid", waits[0].communicate()[0])
            self.assertEqual(waits[0].returncode, 1)
            d.ctl("shutdown")
            self.assertIn("weftd ends (by uid", waits[1].communicate()[0])
            self.assertEqual(waits[1].returncode, 1)

    def test_wrong(self):
        with Daemon() as d:
            said, status = self.said(d, "drain", "nosuch")
            self.assertEqual((said, status),
                             ('weftctl: no tenant "nosuch" (there are local)\n', 1))
            self.assertEqual(self.said(d, "list", "--wait")[1], 64)


class Slow(FaultTest):
    def many(self):
        return Daemon("--pool", "1", config="".join(f"[tenant instance-{n:032x}]\n"
                                                    for n in range(MANY)))

    def test_answers_of_any_length(self):
        with self.many() as d, Client(d) as c:
            for _ in range(3):
                c.tell("list")
            c.tell("ping")
            for _ in range(3):
                self.assertEqual(len(c.answer()["tenants"]), MANY + 1)
            self.assertEqual(c.answer()["pid"], d.process.pid)

    def test_who_does_not_read_is_nobodys_trouble(self):
        with self.many() as d:
            stuck = [Client(d) for _ in range(150)]
            for c in stuck:
                c.tell("list")
            # All are answered that still read, and weftd stays small.
            self.assertEqual(len(d.ctl("list")["tenants"]), MANY + 1)
            with open(f"/proc/{d.process.pid}/status", encoding="utf-8") as f:
                kib = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
            self.assertTrue(built_sanitized() or kib < 64 << 10, kib)
            # The last to come is not one of those that were closed for it.
            self.assertEqual(len(stuck[-1].answer()["tenants"]), MANY + 1)
            for c in stuck:
                c.close()
            self.assertTrue(d.ctl("list")["ok"])

    def pings(self, d):
        """Whether a client that comes now is answered; one too many may find its socket closed."""
        with Client(d) as c:
            try:
                return c.ask("ping")["ok"]
            except (BrokenPipeError, ConnectionResetError):
                return False

    def test_no_more_than_so_many(self):
        with Daemon() as d:
            many = [Client(d) for _ in range(512)]
            self.assertTrue(many[-1].ask("ping")["ok"])
            with Client(d) as one_more:
                self.assertIn("512 clients are connected", one_more.answer()["error"])
            many.pop().close()
            wait_for(lambda: self.pings(d), 5, "one may come again")
            for c in many:
                c.close()
            self.assertTrue(d.ctl("list")["ok"])


if __name__ == "__main__":
    unittest.main()
