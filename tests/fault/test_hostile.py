#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guests that send garbage, lie, hold connections or flood. Their sessions end; a program
of another tenant, and of the same one, goes on with right results."""
import random
import struct
import unittest

from fault import Daemon, FaultTest, Guest, hello, until_running, wait_for

TENANTS = "[tenant good]\n[tenant bad]\n"


def record(size, op, flags, seq, body=b"", fixed=None):
    """All of the body is structure, if fixed does not say how many bytes of it."""
    if fixed is None:
        fixed = max(0, size - (24 if flags & 16 else 16)) % (1 << 16)
    return struct.pack("<HHHHQ", size // 8, fixed // 8, op, flags, seq) + body


class Hostile(FaultTest):
    def run_beside(self, seconds, attack):
        with Daemon(config=TENANTS) as d:
            good = d.run("steady", seconds, tenant="good")
            same = d.run("steady", seconds, tenant="bad")
            until_running(good)
            until_running(same)
            attack(d)
            self.assert_right(good)
            self.assert_right(same)
            wait_for(lambda: not d.sessions(), 3, "all sessions are gone")
            self.assertEqual(d.memory_used(), 0)
            self.assertIsNone(d.process.poll())

    def test_bad_hellos(self):
        def attack(d):
            for data in (bytes(64), b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n" + bytes(64),
                         hello(magic=1), hello(carriers=0), hello(carriers=0x80)):
                with Guest(d.socket("bad")) as g:
                    g.send(data)
                    self.assertTrue(g.closed())
            with Guest(d.socket("bad")) as g:
                g.send(hello(version=0))
                error, _, _ = g.welcome()
                self.assertLess(error, 0)
            with Guest(d.socket("bad")) as g:  # a later version is told ours
                g.send(hello(version=99))
                error, _, _ = g.welcome()
                self.assertIn(error, (0, -93))
            with Guest(d.socket("bad")) as g:  # a lane of no session
                g.send(hello(lane=1, token=bytes(range(16))))
                self.assertEqual(g.welcome()[0], -13)
        self.run_beside(3, attack)

    def test_token_of_another_tenant(self):
        def attack(d):
            with Guest(d.socket("good")) as owner:
                owner.send(hello())
                error, token, session = owner.welcome()
                self.assertEqual(error, 0)
                self.assertNotEqual(token, bytes(16))
                with Guest(d.socket("bad")) as thief:
                    thief.send(hello(lane=1, token=token))
                    self.assertEqual(thief.welcome()[0], -13)
                with Guest(d.socket("good")) as own:
                    own.send(hello(lane=1, token=token))
                    error, _, joined = own.welcome()
                    self.assertEqual((error, joined), (0, session))
        self.run_beside(3, attack)

    def test_held_connections(self):
        def attack(d):
            held = [Guest(d.socket("bad")) for _ in range(100)]
            for i, g in enumerate(held):
                g.send(hello()[:i % 64])
            self.assert_right(d.run("steady", 0.1, tenant="good"))
            # within the time that a hello may take, the listener is free again
            self.assert_right(d.run("steady", 0.1, tenant="bad"), 30)
            for g in held:
                g.sock.close()
        self.run_beside(4, attack)

    def test_broken_commands(self):
        """Each of these ends its session, and says so to nobody else."""
        cases = [
            record(0, 1, 0, 1),
            record(8, 1, 0, 1),
            record(16, 0, 0, 1),
            record(24, 1, 0, 1, bytes(8), fixed=16),
            record(24, 1, 0, 1, bytes(8), fixed=(1 << 19) - 8),
            record((1 << 19) - 8, 1, 0, 1) + bytes(4096),
            record((64 << 10) + 24, 1, 0, 1) + bytes(66000),
            record(24, 1, 0xffff, 1) + bytes(8),
            record(24, 1, 1, 1) + bytes(8),  # a reply
            record(24, 1, 16, 1) + struct.pack("<II", 0xffffffff, 0),
            record(24, 1, 16, 1) + struct.pack("<II", 0, 0),
            record(24, 1, 8, 0) + bytes(8),  # a ticket that never was
            b"\xff" * 5000,
            bytes(5000),
        ]

        def attack(d):
            for i, data in enumerate(cases):
                with Guest(d.socket("bad")) as g:
                    g.send(hello())
                    self.assertEqual(g.welcome()[0], 0, i)
                    g.send(data)
                    self.assertTrue(g.closed(), i)
        self.run_beside(4, attack)

    def test_random_commands(self):
        def attack(d):
            for _ in range(40):
                with Guest(d.socket("bad")) as g:
                    g.send(hello())
                    self.assertEqual(g.welcome()[0], 0)
                    seq = 1
                    for _ in range(50):
                        size = 16 + 8 * random.randrange(12)
                        posted = random.randrange(2)
                        body = random.choice((bytes(size - 16), random.randbytes(size - 16)))
                        if not g.send(record(size, random.randrange(80), 8 * posted, seq, body)):
                            break
                        seq += posted
        self.run_beside(6, attack)

    def test_flood(self):
        def attack(d):
            for _ in range(300):
                with Guest(d.socket("bad")) as g:
                    g.send(random.randbytes(random.randrange(200)))
            # The log of a flood stays short.
            self.assertLess(len(d.log()), 60000)
        self.run_beside(3, attack)

    def test_truncated_command_then_silence(self):
        def attack(d):
            with Guest(d.socket("bad")) as g:
                g.send(hello())
                self.assertEqual(g.welcome()[0], 0)
                g.send(record(4096, 1, 0, 1)[:10])
                self.assert_right(d.run("steady", 0.1, tenant="bad"))
        self.run_beside(2, attack)


if __name__ == "__main__":
    unittest.main()
