#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Means of a worker or a listener that was taken over: what it inherited, its
log, its user, and what it leaves behind. tests/unit/host/sandbox.c tries the system calls."""
import os
import shutil
import socket
import stat
import sys
import time
import unittest
import unittest.mock

import fault
from fault import Daemon, alive, built_sanitized, processes, wait_for

# In place of weft-worker: says nothing to weftd, much to the log, and leaves a process behind.
EVIL = r"""#!/bin/sh
sleep 4711 &
echo 'weftd: info: forged'
printf 'a\rweftd: info: forged\n'
while :; do
    head -c 4000000 /dev/zero | tr '\0' x 1>&2
    yes 'weftd: info: forged' | head -n 100000
done
"""


# In place of weft-worker, too: the first sends weftd a descriptor that takes ten minutes to close,
# in one of several ways; the others wait for guests.
SLOW = r"""#!%(python)s
import array, os, socket, struct, time
ctl = socket.socket(fileno=3)
def message(kind):
    return struct.pack("<IIQQII96s", kind, 0, 1 << 30, 0, 0, 0, b"evil GPU") # struct msg_ready
def send(data, n=1):
    s = socket.create_connection(("127.0.0.1", int(os.environ["WEFT_EVIL_PORT"])))
    s.setblocking(False)
    try:
        while True:
            s.send(bytes(65536))
    except BlockingIOError:
        pass
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
    ctl.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [s.fileno()] * n))])
ctl.send(message(1))
try:
    os.symlink(str(os.getpid()), os.environ["WEFT_EVIL_ONCE"])
except FileExistsError:
    time.sleep(1000)
way = os.environ["WEFT_EVIL_WAY"]
if way == "unknown":
    send(message(1000))
elif way == "short":
    send(b"x")
elif way == "empty":
    send(b"")
elif way == "many":
    send(message(1000), 250)
elif way == "queued":
    ctl.send(message(1000))
    send(message(1000))
"""


def status(pid, key):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        for line in f:
            if line.startswith(key + ":"):
                return line.split()[1]
    return None


def children(d):
    """The daemon's workers and listeners."""
    with open(f"/proc/{d.process.pid}/task/{d.process.pid}/children", encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


def started(d, n):
    """Waits for so many that are programs of their own by now."""
    wait_for(lambda: sum("--sandbox" in command(p) for p in children(d)) == n, 10,
             "so many workers and a listener")


def session(pid):
    return int(fault.stat(pid)[3])


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Inherited(unittest.TestCase):
    def setUp(self):
        os.environ["SECRET_OF_THE_OPERATOR"] = "abc"
        self.addCleanup(os.environ.pop, "SECRET_OF_THE_OPERATOR")

    def test_what_children_have(self):
        with Daemon("--pool", "3") as d:
            started(d, 4)
            for pid in children(d):
                self.assertTrue(os.readlink(f"/proc/{pid}/fd/0") == "/dev/null")
                for fd in (1, 2):
                    mode = os.stat(f"/proc/{pid}/fd/{fd}").st_mode
                    self.assertTrue(stat.S_ISFIFO(mode), "the log itself is out of reach")
                with open(f"/proc/{pid}/environ", encoding="utf-8") as f:
                    self.assertNotIn("SECRET_OF_THE_OPERATOR", f.read())
                self.assertEqual(os.getsid(pid), pid)
            workers = [p for p in children(d) if "weft-worker" in command(p)]
            self.assertEqual(len(workers), 3)
            for pid in workers:
                with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as f:
                    self.assertEqual(int(f.read()), 500)

    def test_confinement(self):
        with Daemon("--pool", "2") as d:
            started(d, 3)
            if built_sanitized():
                self.skipTest("built with a sanitizer: there is no sandbox")
            for pid in children(d):
                wait_for(lambda p=pid: status(p, "Seccomp") == "2", 5, "it has a filter")
                self.assertEqual(status(pid, "NoNewPrivs"), "1")
                # A process whose memory nobody may look at belongs to root in /proc.
                self.assertEqual(os.stat(f"/proc/{pid}/fd").st_uid, 0)

    @unittest.skipIf(os.geteuid(), "only root's daemon can have many users")
    def test_no_two_have_one_user(self):
        with Daemon("--pool", "3") as d:
            started(d, 4)
            if built_sanitized():
                self.skipTest("built with a sanitizer: there is no sandbox")
            if "run as one user" in d.log():
                self.skipTest("this user name space has no numbers to give")
            for pid in children(d):
                wait_for(lambda p=pid: status(p, "Uid") != "0", 5, "it is not root's any more")
                self.assertEqual(status(pid, "CapEff").strip("0"), "")
            users = [status(pid, "Uid") for pid in children(d)]
            self.assertEqual(len(set(users)), 4, users)


# CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID
DAEMON_CAPABILITIES = sum(1 << cap for cap in (0, 1, 3, 5, 6, 7))


class Broker(unittest.TestCase):
    def assert_confined(self, pid):
        self.assertEqual(status(pid, "NoNewPrivs"), "1")
        self.assertEqual(status(pid, "Seccomp"), "2")
        self.assertEqual(os.stat(f"/proc/{pid}/fd").st_uid, 0)
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(status(pid, kind), 16) & ~DAEMON_CAPABILITIES, 0, kind)
        if status(pid, "Uid") == "0":
            self.assertEqual(int(status(pid, "CapBnd"), 16) & ~DAEMON_CAPABILITIES, 0)

    def test_confinement(self):
        with Daemon("--pool", "1") as d:
            started(d, 2)
            if built_sanitized():
                self.skipTest("built with a sanitizer: there is no sandbox")
            self.assert_confined(d.process.pid)

    @unittest.skipIf(os.geteuid(), "not root: the other tests are about such a daemon")
    def test_a_users_daemon(self):
        """Changes no user; its workers work, and go first when memory runs out."""
        with Daemon("--pool", "1", user=12345) as d:
            started(d, 2)
            if built_sanitized():
                self.skipTest("built with a sanitizer: there is no sandbox")
            self.assert_confined(d.process.pid)
            for pid in children(d):
                self.assertEqual(status(pid, "Uid"), "12345")
                if "weft-worker" in command(pid):
                    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as f:
                        self.assertEqual(int(f.read()), 500)
            p = d.run("steady", "1")
            out, _ = p.communicate(timeout=fault.patient(30))
            self.assertEqual(p.returncode, 0, out)

    @unittest.skipIf(os.geteuid(), "only root's daemon serves others' files")
    def test_what_belongs_to_others(self):
        """A socket in a directory of another user's, and a window that is his alone."""
        with Daemon() as where:
            os.chmod(where.dir, 0o755)
            theirs = where.path("theirs")
            os.mkdir(theirs, 0o700)
            window = os.path.join(theirs, "window")
            with open(window, "wb") as f:
                f.truncate(16 << 20)
            os.chmod(window, 0o600)
            for path in (theirs, window):
                os.chown(path, 1, 1)
            config = (f"[tenant vm]\nowner = daemon\nsocket = {theirs}/socket\n"
                      f"window.path = {window}\nwindow.size = 16M\n")
            with Daemon(config=config) as d:
                self.assertEqual(os.stat(f"{theirs}/socket").st_uid, 1)
                d.ctl("remove", "vm")
                self.assertFalse(os.path.exists(f"{theirs}/socket"))


class TakenOver(unittest.TestCase):
    def slow_to_close(self, way):
        with Daemon() as where, socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.bind(("127.0.0.1", 0))
            peer.listen()
            programs = where.path("programs")
            os.mkdir(programs)
            for name in ("weftd", "weft-listener"):
                shutil.copy(fault.program(name), programs)
            with open(os.path.join(programs, "weft-worker"), "w", encoding="ascii") as f:
                f.write(SLOW % {"python": sys.executable})
            os.chmod(f.name, 0o755)
            os.environ.update(WEFT_EVIL_PORT=str(peer.getsockname()[1]), WEFT_EVIL_WAY=way,
                              WEFT_EVIL_ONCE=where.path("once"))
            # In the sandbox a guest of this host's would have to bring the socket.
            with Daemon("--pool", "1", "--sandbox", "off",
                        weftd=os.path.join(programs, "weftd")) as d:
                wait_for(lambda: os.path.lexists(where.path("once")), 10, "it is evil")
                evil = int(os.readlink(where.path("once")))
                wait_for(lambda: not alive(evil), 10, "it is ended")
                d.ctl("list")

    def test_what_is_slow_to_close(self):
        for way in ("unknown", "short", "empty", "many", "queued"):
            with self.subTest(way):
                self.slow_to_close(way)

    def test_log_and_orphans(self):
        with Daemon() as where:
            programs = where.path("programs")
            os.mkdir(programs)
            for name in ("weftd", "weft-listener"):
                shutil.copy(fault.program(name), programs)
            with open(os.path.join(programs, "weft-worker"), "w", encoding="ascii") as f:
                f.write(EVIL)
            os.chmod(f.name, 0o755)
            with Daemon("--pool", "1", weftd=os.path.join(programs, "weftd"),
                        ready=False) as d:
                wait_for(lambda: processes("sleep 4711"), 10, "one has begun")
                wait_for(lambda: "says more than is shown" in d.log(), 10, "it is too much")
                evil = [p for p in children(d) if "weft-worker" in command(p)]
                d.ctl("list")
                text = d.log()
                self.assertNotIn("\nweftd: info: forged", text)
                self.assertIn("]: weftd: info: forged", text)
                # As much as may be written at once, and what is added to each line.
                self.assertLess(len(text), 256 << 10)
                for pid in evil:
                    os.kill(pid, 9)
                # Others take their place.
                wait_for(lambda: not any(alive(p) for p in evil), 5, "they are gone")
                wait_for(lambda: not any(session(p) in evil for p in processes("sleep 4711")),
                         2, "nor is what they left behind")
            wait_for(lambda: not processes("sleep 4711"), 5, "nothing is left")

    def has_memory(self, how):
        """A session of a worker that does so; returns how it has ended, if it has."""
        with Daemon() as where, unittest.mock.patch.dict(os.environ, WEFT_EVIL=how):
            programs = where.path("programs")
            os.mkdir(programs)
            for name in ("weftd", "weft-listener"):
                shutil.copy(fault.program(name), programs)
            shutil.copy(fault.program("evil"), os.path.join(programs, "weft-worker"))
            with Daemon("--pool", "1", config="[tenant a]\n",
                        weftd=os.path.join(programs, "weftd")) as d:
                with fault.Guest(d.socket("a")) as g:
                    g.send(fault.hello())
                    wait_for(lambda: d.sessions("a"), 10, "it has a session")
                    # The grants before five looks, five looks, and as many again.
                    until = time.monotonic() + 15
                    while time.monotonic() < until and d.sessions("a"):
                        time.sleep(0.1)
                    ended = d.ctl("info")["ended"]
                    return ended[-1]["end"] if ended else None

    def test_credit_that_lies(self):
        self.assertEqual(self.has_memory("credit"), "worker: had more memory than it may")

    def test_more_than_was_granted(self):
        self.assertEqual(self.has_memory("more"), "worker: had more memory than it may")

    def test_what_was_granted(self):
        self.assertIsNone(self.has_memory("true"))


if __name__ == "__main__":
    unittest.main()
