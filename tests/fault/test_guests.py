#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guests that come in crowds, leave again, or bring what takes long to close: their own tenant
waits for that, and no other."""
import array
import os
import shutil
import socket
import struct
import tempfile
import time
import unittest

import fault
from fault import Daemon, FaultTest, Guest, hello, patient, program, wait_for

TENANTS = "[tenant good]\n[tenant bad]\n"


class SlowStart(Daemon):
    """Workers take as long to start as a driver needs for a context."""

    def __init__(self, seconds, *options, config=TENANTS):
        super().__init__(*options, config=config)
        self.bin = tempfile.mkdtemp(prefix="weft-slow-")
        for name in ("weftd", "weft-listener"):
            shutil.copy(program(name), self.bin)
        path = os.path.join(self.bin, "weft-worker")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\nsleep {seconds}\nexec {program('weft-worker')} \"$@\"\n")
        os.chmod(path, 0o755)

    def __enter__(self):
        real = fault.program
        fault.program = lambda name: (os.path.join(self.bin, name) if name == "weftd"
                                      else real(name))
        try:
            return super().__enter__()
        finally:
            fault.program = real

    def __exit__(self, *exc):
        super().__exit__(*exc)
        shutil.rmtree(self.bin, ignore_errors=True)


def ask(path):
    g = Guest(path)
    g.sock.settimeout(patient(60))
    g.send(hello())
    return g


def closes_slowly(seconds):
    """A TCP socket whose last close waits for a peer that does not read."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.bind(("127.0.0.1", 0))
    peer.listen(1)
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    s.connect(peer.getsockname())
    s.setblocking(False)
    try:
        while True:
            s.send(bytes(65536))
    except BlockingIOError:
        pass
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    return peer, s


class Guests(FaultTest):
    def test_what_is_sent_along_is_not_weftds(self):
        """Refused with a descriptor behind the hello: whoever closes that may wait."""
        with Daemon(config=TENANTS) as d:
            while not self.send_along(d.socket("bad")):
                pass  # refused before it had got there
            self.assert_right(d.run("steady", 0.1, tenant="good"), 5)

    def send_along(self, path):
        """False if that came too late."""
        peer, slow = closes_slowly(int(patient(60)))
        self.addCleanup(peer.close)
        with Guest(path) as g:
            lane = hello(lane=1, token=bytes([1] * 16))  # of no session
            g.send(lane[:63])
            time.sleep(0.2)
            g.send(lane[63:])
            try:
                socket.send_fds(g.sock, [b"x"], [slow.fileno()])
                sent = True
            except (PermissionError, BrokenPipeError) as e:
                sent = isinstance(e, PermissionError)  # the kernel keeps it out
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            slow.close()
            time.sleep(0.2)
        return sent

    def test_weftd_holds_no_socket_of_a_guest(self):
        with SlowStart(0.3, "--pool", "0") as d:
            guests = [ask(d.socket("bad")) for _ in range(8)]
            while len(d.sessions("bad")) < len(guests):
                with open("/proc/net/unix", encoding="utf-8") as f:
                    theirs = {line.split()[6] for line in f if d.socket("bad") in line}
                held = theirs & set(self.sockets(d.process.pid))
                self.assertLessEqual(len(held), 1, "the listening one alone")
            for g in guests:
                self.assertEqual(g.welcome()[0], 0)
                g.sock.close()

    def sockets(self, pid):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                at = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if at.startswith("socket:"):
                yield at[8:-1]

    def test_many_that_start_together(self):
        with SlowStart(0.2, config="[tenant bad]\nsessions.max = 60\n") as d:
            guests = [ask(d.socket("bad")) for _ in range(60)]
            for g in guests:
                self.assertEqual(g.welcome()[0], 0)
            for g in guests:
                g.sock.close()

    def test_tenants_in_turn(self):
        """A crowd of one tenant's is not served before another's first."""
        with SlowStart(1, "--pool", "0") as d:
            crowd = [ask(d.socket("bad")) for _ in range(60)]
            self.assertEqual(crowd[0].welcome()[0], 0)
            with ask(d.socket("good")) as g:
                self.assertEqual(g.welcome()[0], 0)
                number = d.sessions("good")[0]["session"]
            self.assertLess(number, 25, "the first eight, and who came while we connected")
            for g in crowd:
                g.sock.close()

    def test_who_has_left_gets_no_worker(self):
        with SlowStart(0.3, "--pool", "0") as d:
            for _ in range(50):
                ask(d.socket("bad")).sock.close()
            with ask(d.socket("bad")) as g:
                self.assertEqual(g.welcome()[0], 0)
                self.assertLess(d.sessions("bad")[0]["session"], 10)

    def test_numbers_are_a_tenants_own(self):
        """Sessions of others do not show."""
        with Daemon(config=TENANTS) as d:
            def number(tenant):
                with ask(d.socket(tenant)) as g:
                    error, _, session = g.welcome()
                self.assertEqual(error, 0)
                return session
            first = number("bad")
            for _ in range(3):
                number("good")
            self.assertEqual(number("bad"), first + 1)

    def test_lines_in_the_log_are_bounded(self):
        with Daemon(config=TENANTS) as d:
            began = time.monotonic()
            for _ in range(150):
                with ask(d.socket("bad")) as g:
                    g.welcome()
            seconds = time.monotonic() - began
            wait_for(lambda: not d.sessions(), 5, "they have ended")
            lines = [line for line in d.log().splitlines() if "tenant bad session" in line]
            self.assertLess(len(lines), 12 * (seconds + 2) + 10)

    def test_removing_a_tenant_does_not_wait(self):
        """The tenant's worker takes seconds to end; others are served meanwhile."""
        with Daemon(config=TENANTS) as d:
            with ask(d.socket("bad")) as g:
                self.assertEqual(g.welcome()[0], 0)
                d.ctl("remove", "bad")
                self.assertEqual(d.sessions("bad"), [])
                self.assertTrue(g.closed())
            d.ctl("add", "bad")
            self.assert_right(d.run("steady", 0.1, tenant="bad"), 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
