#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weft-vsock: what is left to its processes, when it is root's, and after a crash."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from fault import BUILD, FaultTest, alive, kill, patient, wait_for

VSOCK = os.path.join(BUILD, "qemu-device", "weft-vsock")
DAC_OVERRIDE = 1 << 1


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return {k: v.split() for k, v in (line.split(":", 1) for line in f)}


def filters(pid):
    return int(status(pid)["Seccomp_filters"][0])


def core_limit(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as f:
        return next(line.split()[4] for line in f if line.startswith("Max core"))


def sanitized():
    """Built with a run-time whose reports need files: such a build has no sandbox."""
    with open(VSOCK, "rb") as f:
        return b"__asan_init" in f.read()


@unittest.skipIf(sanitized(), "built with a sanitizer: there is no sandbox")
class Vsock(FaultTest):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="weft-vsock-")
        self.started = []

    def tearDown(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.wait()
            p.stderr.close()
        shutil.rmtree(self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, *options):
        p = subprocess.Popen([VSOCK, "--cid", "42", "--forward", self.path("forward"), *options],
                             stderr=subprocess.PIPE, text=True)
        self.started.append(p)
        return p

    def listen(self, *options):
        p = self.start("--socket", self.path("vsock"), "--handover", self.path("handover"),
                       *options)
        self.wait_serving(p)
        return p

    def children(self, p, name):
        with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
            return [int(c) for c in f.read().split()
                    if alive(c) and status(c)["Name"] == [name]]

    def server(self, p):
        return self.children(p, "weft-vsock")[0]

    def wait_serving(self, p):
        """Waits until each process has a filter, and the server's is beside the supervisor's."""
        def confined():
            servers = self.children(p, "weft-vsock")
            connectors = self.children(p, "weft-connector")
            return (servers and filters(servers[0]) > filters(p.pid) > 0
                    and connectors and filters(connectors[0]) > 0)
        wait_for(lambda: p.poll() is not None or confined(), 5, "weft-vsock serves")
        self.assertIsNone(p.poll(), "weft-vsock has ended")

    def assert_confined(self, pid, capabilities=0):
        s = status(pid)
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(s[kind][0], 16) & ~capabilities, 0, (pid, kind))
        self.assertEqual(s["NoNewPrivs"], ["1"], pid)
        self.assertEqual(s["Seccomp"], ["2"], pid)
        self.assertEqual(core_limit(pid), "0", pid)
        # A process that may not be looked into is root's in /proc.
        self.assertEqual(os.stat(f"/proc/{pid}/mem").st_uid, 0, pid)

    def assert_user(self, pid, uid):
        s = status(pid)
        self.assertEqual(s["Uid"], [str(uid)] * 4)
        self.assertEqual(s["Groups"], [])

    def assert_all_confined(self, p, uid):
        connector, = self.children(p, "weft-connector")
        for pid in (p.pid, self.server(p)):
            self.assert_confined(pid)
            self.assert_user(pid, uid)
        self.assert_confined(connector, DAC_OVERRIDE)

    @unittest.skipIf(os.geteuid(), "not root: there is no other user to become")
    def test_rights_are_given_up(self):
        p = self.listen("--user", "12345:12346")
        self.assert_all_confined(p, 12345)
        self.assertEqual(status(self.server(p))["Gid"], ["12346"] * 4)

    @unittest.skipIf(os.geteuid(), "not root: there is no other user to become")
    def test_root_is_never_meant(self):
        p = self.listen()
        self.assertNotEqual(status(p.pid)["Uid"][0], "0")
        p = self.start("--socket", self.path("other"), "--user", "root")
        self.assertEqual(p.wait(patient(5)), 1)
        self.assertIn("does not run as root", p.stderr.read())

    def test_the_next_server_is_confined_as_well(self):
        p = self.listen()
        uid = int(status(p.pid)["Uid"][0])
        first = self.server(p)
        kill(first, signal.SIGSEGV)
        wait_for(lambda: self.children(p, "weft-vsock") not in ([], [first]), 5,
                 "there is another server")
        self.wait_serving(p)
        self.assert_all_confined(p, uid)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.path("vsock"))  # it has the listening socket

    def test_a_successor_is_given_everything(self):
        old = self.listen()
        new = self.start("--takeover", self.path("handover"))
        self.assertEqual(old.wait(patient(10)), 0)
        self.wait_serving(new)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.path("vsock"))

    def test_nobody_stays_behind(self):
        for sig in (signal.SIGTERM, signal.SIGKILL):
            p = self.listen()
            rest = [self.server(p), *self.children(p, "weft-connector")]
            kill(p.pid, sig)
            self.assertEqual(p.wait(patient(5)), 0 if sig == signal.SIGTERM else -sig)
            wait_for(lambda: not any(map(alive, rest)), 2, "all have ended")


if __name__ == "__main__":
    unittest.main()
