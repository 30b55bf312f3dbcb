#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weftd itself: its end in every form, its files, its control socket."""
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from fault import (Daemon, FaultTest, alive, kill, patient, program, times_run,
                   until_running, wait_for)

IDLE_WINDOWS = 10


def has_open(process, path):
    fds = f"/proc/{process.pid}/fd"
    try:
        return any(os.readlink(os.path.join(fds, fd)) == path for fd in os.listdir(fds))
    except OSError:
        return False  # it has closed one, or ended, meanwhile


class End(FaultTest):
    def end_by(self, sig, tidy):
        with Daemon() as d:
            p = d.run("endless")
            until_running(p)
            children = d.children()
            self.assertGreaterEqual(len(children), 2)
            start = time.monotonic()
            d.process.send_signal(sig)
            d.process.wait(patient(5))
            out, _ = p.communicate(timeout=patient(5))
            self.assertEqual(p.returncode, 1, out)
            wait_for(lambda: not any(map(alive, children)), 2, "workers and listeners have ended")
            self.assertLess(time.monotonic() - start, patient(5))
            if tidy:
                self.assertEqual(d.process.returncode, 0)
                self.assertEqual(sorted(os.listdir(d.dir)), ["conf", "lock", "log"])

    def test_sigterm_is_orderly(self):
        self.end_by(signal.SIGTERM, True)

    def test_sigkill(self):
        self.end_by(signal.SIGKILL, False)

    def test_shutdown_request(self):
        with Daemon() as d:
            d.ctl("shutdown")
            self.assertEqual(d.process.wait(patient(5)), 0)

    def test_starts_over_what_a_killed_one_left(self):
        with Daemon() as d:
            kill(d.process.pid)
            d.process.wait()
            self.assertIn("weft.sock", os.listdir(d.dir))
            d.__enter__()
            self.assert_right(d.run("steady", 0.1))

    def test_a_window_outlives_it(self):
        """A VM has it mapped: the next daemon goes on with that file, and with its key."""
        with Daemon() as d:
            d.config = (f"[tenant vm1]\nwindow.path = {d.path('window')}\n"
                        "window.size = 64M\n")
            kill(d.process.pid)
            d.process.wait()
            seen = []
            for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
                d.__enter__()
                with open(d.path("window"), "rb") as f:
                    seen.append((os.fstat(f.fileno()).st_ino, f.read(24)))
                d.process.send_signal(sig)
                d.process.wait(patient(5))
            self.assertEqual(len(set(seen)), 1, seen)
            d.__enter__()
            d.ctl("remove", "vm1")
            self.assertFalse(os.path.exists(d.path("window")))
            self.assertFalse(os.path.exists(d.path("vm1.window")))

    def test_one_daemon_for_a_directory(self):
        with Daemon() as d:
            r = subprocess.run([program("weftd"), "--config", "/dev/null", "--run-dir", d.dir],
                               capture_output=True, text=True, timeout=patient(10), check=False)
            self.assertEqual(r.returncode, 1)
            self.assertIn("another weftd", r.stderr)
            self.assert_right(d.run("steady", 0.1))

    def starts_while_its_directory_goes(self, run_dir):
        """Does to it what weft-run does to directories left behind; what weftd says."""
        lock, log = os.path.join(run_dir, "lock"), run_dir + ".log"
        os.mkdir(run_dir)
        with open(lock, "wb") as f, open(log, "wb") as said:
            fcntl.flock(f, fcntl.LOCK_EX)
            p = subprocess.Popen([program("weftd"), "--config", "/dev/null", "--run-dir",
                                  run_dir, "--device", "soft"], stdin=subprocess.DEVNULL,
                                 stdout=said, stderr=said)
            try:
                wait_for(lambda: p.poll() is not None or has_open(p, lock), 5, "it waits")
                shutil.rmtree(run_dir)
                fcntl.flock(f, fcntl.LOCK_UN)
                wait_for(lambda: p.poll() is not None or
                         os.path.exists(os.path.join(run_dir, "weft.sock")), 5, "it is there")
            finally:
                p.terminate()
                p.wait(patient(10))
        with open(log, encoding="utf-8") as f:
            return p.returncode, f.read()

    def test_directory_removed_before_it_has_the_lock(self):
        with tempfile.TemporaryDirectory(prefix="weft-fault-") as top:
            for i in range(20):
                status, said = self.starts_while_its_directory_goes(f"{top}/{i}")
                if "another weftd" not in said:  # or we had the lock for too long
                    break
            self.assertEqual(status, 0, said)

    def test_bad_configuration_names_the_line(self):
        with Daemon() as d:
            with open(d.path("bad"), "w", encoding="utf-8") as f:
                f.write("[daemon]\npool = 2\ntpc = 4\n")
            r = subprocess.run([program("weftd"), "--config", d.path("bad")],
                               capture_output=True, text=True, timeout=patient(10), check=False)
            self.assertEqual(r.returncode, 78)
            self.assertIn("bad:3:", r.stderr)


class Idle(FaultTest):
    def test_no_processor_time(self):
        with Daemon() as d:
            p = d.run("endless")  # a session whose program waits
            until_running(p)
            d.ctl("kill", "local")
            p.communicate(timeout=patient(5))
            wait_for(lambda: d.ctl("list")["device"]["workers.ready"] == 2, 10, "the pool")
            time.sleep(1.2)  # the last measure of utilisation
            pids = [d.process.pid, *d.children()]
            # Something may still come to its end; what polls has no such window.
            for _ in range(IDLE_WINDOWS):
                before = [times_run(x) for x in pids]
                self.assertTrue(all(before))
                time.sleep(2)
                after = [times_run(x) for x in pids]
                if after == before:
                    break
            self.assertEqual(after, before)


class Control(FaultTest):
    def ask(self, d, data):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(5)
            s.connect(d.path("control"))
            s.sendall(data)
            out = b""
            while not out.endswith(b"\n"):
                try:
                    piece = s.recv(65536)
                except ConnectionResetError:
                    return None
                if not piece:
                    return None
                out += piece
            return json.loads(out.splitlines()[0])

    def test_nonsense_is_answered(self):
        with Daemon() as d:
            for line in (b"\n", b"[]\n", b"{\n", b'{"cmd":1}\n', b'{"cmd":"fly"}\n',
                         b'{"cmd":"kill"}\n', b'{"cmd":"kill","session":99}\n',
                         b'{"cmd":"info","tenant":"nobody"}\n',
                         b'{"cmd":"tenant-add","name":"../x"}\n',
                         b'{"cmd":"tenant-add","name":"x","set":{"memory.max":"lots"}}\n',
                         b'{"cmd":"tenant-remove","name":"nobody"}\n', b"\xff\xfe\n"):
                a = self.ask(d, line)
                self.assertFalse(a["ok"], line)
                self.assertTrue(a["error"])
            self.assertIsNone(self.ask(d, b"x" * 70000))
            self.assertTrue(self.ask(d, b'{"cmd":"ping"}\n')["ok"])

    def test_mode(self):
        with Daemon() as d:
            for name in ("control", "weft.sock"):
                self.assertEqual(os.stat(d.path(name)).st_mode & 0o777, 0o600)

    def test_tenants_come_and_go(self):
        with Daemon() as d:
            a = d.ctl("add", "vm1", "memory.max=256M", "sessions.max=1",
                      f"window.path={d.path('window')}", "window.size=64M")
            self.assertEqual(a["tenant"]["memory.max"], 256 << 20)
            self.assertEqual(os.stat(d.path("window")).st_size, 64 << 20)
            self.assertTrue(d.ctl("add", "vm1")["existed"])
            p = d.run("endless", tenant="vm1")
            until_running(p)
            q = d.run("steady", 0.1, tenant="vm1")  # one more than it may have
            q.communicate(timeout=patient(10))
            self.assertEqual(q.returncode, 1)
            d.ctl("remove", "vm1")
            p.communicate(timeout=patient(5))
            self.assertEqual(p.returncode, 1)
            self.assertFalse(os.path.exists(d.path("vm1.sock")))
            self.assertFalse(os.path.exists(d.path("window")))
            self.assertEqual(d.memory_used(), 0)

    def test_carrier_is_named(self):
        with Daemon() as d:
            until_running(d.run("endless"))
            self.assertEqual(d.sessions()[0]["carrier"], "unix+window")
            self.assertIn("session 1: over unix+window", d.log())

    def test_counts(self):
        with Daemon() as d:
            self.assert_right(d.run("steady", 0.1))
            wait_for(lambda: d.ctl("info")["ended"], 1, "a record")
            e = d.ctl("info")["ended"][0]
            self.assertEqual(e["name"], "steady")
            self.assertEqual(e["end"], "ended")
            self.assertGreater(e["calls"], 10)
            self.assertGreaterEqual(e["launches"], 4)
            self.assertGreaterEqual(e["copied.to_device"], 80000)
            self.assertGreaterEqual(e["memory.peak"], 2 << 20)
            self.assertEqual(d.memory_used(), 0)


if __name__ == "__main__":
    unittest.main()
