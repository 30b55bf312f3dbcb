#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weftctl top: one picture without a terminal, a live one on a terminal."""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unittest

from fault import Daemon, FaultTest, patient, program, until_running, wait_for

MANY = 256


class Terminal:
    """weftctl top on a terminal of some size; text() is what was written to it so far."""

    def __init__(self, d, *words, lines=24, columns=80, term="vt100"):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            [program("weftctl"), "-c", d.path("control"), "top", *words], stdin=slave,
            stdout=slave, stderr=slave, env={**os.environ, "TERM": term})
        os.close(slave)
        self.written = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)

    def text(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            if not data:
                break
            self.written += data
        return re.sub(r"\x1b[()][A-Z0-9]|\x1b\[[0-9;?]*[a-zA-Z]|[\x0e\x0f]|\x1b[=>]", " ",
                      self.written.decode(errors="replace"))

    def press(self, keys):
        self.text()
        self.written = b""
        os.write(self.master, keys.encode())

    def shows(self, *what):
        """All of it, on a screen that is drawn as a whole: curses writes what differs."""
        deadline = time.monotonic() + patient(10)
        while time.monotonic() < deadline:
            self.press("\x0c")
            time.sleep(0.1)
            if all(w in self.text() for w in what):
                return
        raise AssertionError(f"{what} is not on the terminal: {self.text()}")

    def ends(self):
        deadline = time.monotonic() + patient(10)
        while self.process.poll() is None and time.monotonic() < deadline:
            self.text()
            time.sleep(0.01)
        return self.process.wait(patient(1))


def top(d, *words):
    return subprocess.run([program("weftctl"), "-c", d.path("control"), "top", *words],
                          capture_output=True, text=True, timeout=patient(10), check=False,
                          stdin=subprocess.DEVNULL)


class Top(FaultTest):
    def test_one_picture(self):
        with Daemon("--memory", "1G", "--swap", "1G",
                    config="[tenant vm1]\nmemory.max = 256M\n[tenant vm2]\n") as d:
            until_running(d.run("endless", tenant="vm2"))
            wait_for(lambda: d.ctl("list")["device"]["gpu.utilization"] > 50, 10, "it is busy")
            r = top(d)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            lines = r.stdout.splitlines()
            self.assertIn("3 tenants, 1 sessions, 0 wait", lines[0])
            self.assertRegex(lines[1], r"^GPU +\[\|+ *\] \d+ %$")
            self.assertRegex(lines[2], r"^Memory +\[\|* *\] .* of 1 GiB$")
            self.assertRegex(lines[3], r"^Swap +\[ *\] 0 B of 1 GiB$")
            self.assertEqual([line.split()[0] for line in lines[5:]],
                             ["TENANT", "vm2", "local", "vm1"])
            self.assertIn("256 MiB", lines[8])
            self.assertIn(str(256 << 20), top(d, "--bytes", "--once").stdout)
            order = [line.split()[0] for line in top(d, "--sort", "name").stdout.splitlines()[6:]]
            self.assertEqual(order, ["local", "vm1", "vm2"])
            r = top(d, "sessions")
            self.assertRegex(r.stdout.splitlines()[-1], r"^vm2 +1 endless +\d+ ")
            self.assertEqual(len(json.loads(top(d, "--json").stdout)["tenants"]), 3)

    def test_many_tenants(self):
        config = "".join(f"[tenant instance-{n:08x}-4a2f-9b9a-8a60-0d4d0a6f0001]\n"
                         for n in range(MANY))
        with Daemon("--pool", "1", config=config) as d:
            r = top(d, "--sort", "name")
            self.assertEqual(len(r.stdout.splitlines()), 3 + 2 + MANY + 1)
            with Terminal(d, "--sort", "name", "--delay", "0.2") as t:
                t.shows(f"{MANY + 1} tenants", "instance-00000000", f"of {MANY + 1}", "q quit")
                t.press("  ")  # two pages
                t.shows("0000002")
                t.press("i")
                t.shows("0-0 of 0")
                t.press("q")
                self.assertEqual(t.ends(), 0)

    def test_keys(self):
        with Daemon(config="[tenant vm1]\n[tenant vm2]\n") as d:
            until_running(d.run("endless", tenant="vm1"))
            with Terminal(d, "--delay", "0.2", lines=12, columns=100) as t:
                t.shows("TENANT", "vm1", "vm2", "Tab sessions")
                t.press("\t")
                t.shows("PROGRAM", "endless", "LAUNCH/s", "Tab tenants")
                t.press("+")
                t.shows("0.4 s")
                t.press("mswtlngr\tjkq")
                self.assertEqual(t.ends(), 0)
            # The size changes under it, to the smallest.
            with Terminal(d, "--delay", "0.2") as t:
                t.shows("vm1")
                for lines, columns in ((3, 10), (1, 1), (200, 300), (24, 80)):
                    fcntl.ioctl(t.master, termios.TIOCSWINSZ,
                                struct.pack("HHHH", lines, columns, 0, 0))
                    t.press("r")
                    time.sleep(0.1)
                t.press("Q")
                t.shows("vm1")
                t.press("q")
                self.assertEqual(t.ends(), 0)

    def test_weftd_ends_and_comes_back(self):
        with Daemon(config="[tenant vm1]\n") as d, Terminal(d, "--delay", "0.1") as t:
            t.shows("vm1")
            d.process.terminate()
            d.process.wait(patient(10))
            t.shows("no weftd at")
            d.__enter__()
            t.shows("q quit")
            t.press("q")
            self.assertEqual(t.ends(), 0)


class Wrong(FaultTest):
    def test_sentences(self):
        with Daemon() as d:
            for words, status, why in (
                    (("--sort", "x"), 1, '--sort: "x" is none of name, gpu,'),
                    (("--delay", "0"), 1, '--delay: "0" is no number of seconds from 0.1'),
                    (("--delay", "nan"), 1, "is no number of seconds"),
                    (("--delay", "1s"), 1, "is no number of seconds"),
                    (("x",), 64, "top takes [tenants | sessions]"),
                    (("--follow",), 64, "top has no option --follow")):
                r = top(d, *words)
                self.assertEqual((r.returncode, r.stderr.count("\n")), (status, 1), r.stderr)
                self.assertIn(why, r.stderr)
            with Terminal(d, term="nosuch") as t:
                self.assertEqual(t.ends(), 1)
                self.assertIn('terminal "nosuch" is not known: set TERM, or use --once',
                              t.text())
        r = top(d)
        self.assertEqual(r.returncode, 1)
        self.assertIn("no weftd at", r.stderr)


if __name__ == "__main__":
    unittest.main()
