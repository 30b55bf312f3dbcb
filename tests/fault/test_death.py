#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Death of a program, its worker or its listener, whichever is first: what it held is gone within
a second, and nobody else notices."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

from fault import (Daemon, FaultTest, Guest, hello, kill, parent, patient, processes,
                   program, until_running, wait_for)


class Death(FaultTest):
    def neighbour(self, d, tenant="local"):
        """Works until assert_right() ends its input."""
        p = d.run("steady", "-", tenant=tenant, stdin=subprocess.PIPE)
        until_running(p)
        return p

    def test_program_killed_in_an_endless_kernel(self):
        with Daemon() as d:
            neighbour = self.neighbour(d)
            base = d.memory_used()
            p = d.run("endless", 256)
            until_running(p)
            self.assertGreaterEqual(d.memory_used(), base + (256 << 20))
            kill(p.pid)
            wait_for(lambda: len(d.sessions()) == 1, 1, "the session is gone")
            self.assertEqual(d.memory_used(), base)
            self.assert_right(neighbour)

    def test_worker_killed(self):
        with Daemon() as d:
            neighbour = self.neighbour(d)
            p = d.run("endless")
            until_running(p)
            victim = max(d.sessions(), key=lambda s: s["session"])
            kill(victim["worker.pid"])
            out, _ = p.communicate(timeout=patient(2))
            self.assertEqual(p.returncode, 1, out)
            self.assertIn("cudaError", out)
            self.assertNotIn("cudaSuccess", out)
            wait_for(lambda: len(d.sessions()) == 1, 1, "the session is gone")
            self.assert_right(neighbour)
            ended = d.ctl("info")["ended"]
            self.assertIn("signal 9", [e["end"] for e in ended
                                       if e["session"] == victim["session"]][0])

    def touches_without_worker(self, *args, seconds=0, carrier="auto"):
        """Touching managed memory does not hang; the next call says that it is over."""
        with Daemon() as d:
            neighbour = self.neighbour(d)
            p = d.run("touches", *args, stdin=subprocess.PIPE, carrier=carrier)
            until_running(p)
            time.sleep(seconds)
            self.assertIsNone(p.poll())
            kill(max(d.sessions(), key=lambda s: s["session"])["worker.pid"])
            out, _ = p.communicate(timeout=patient(5))
            self.assertEqual(p.returncode, 1, out)
            self.assertIn("touched", out)
            self.assertIn("cudaError", out)
            self.assert_right(neighbour)

    def test_managed_memory_of_a_worker_that_has_died(self):
        self.touches_without_worker()

    def test_managed_memory_without_a_window_of_a_worker_that_has_died(self):
        self.touches_without_worker(carrier="stream")

    def test_worker_killed_while_a_page_is_waited_for(self):
        for carrier in ("auto", "stream"):
            with self.subTest(carrier=carrier):
                # it waits, or is about to
                self.touches_without_worker("busy", seconds=0.3, carrier=carrier)

    def test_program_killed_while_it_waits_for_a_page(self):
        with Daemon() as d:
            neighbour = self.neighbour(d)
            base = d.memory_used()
            p = d.run("touches", "busy")
            until_running(p)
            time.sleep(0.3)
            kill(p.pid)
            wait_for(lambda: len(d.sessions()) == 1, 1, "the session is gone")
            self.assertEqual(d.memory_used(), base)
            self.assert_right(neighbour)

    def test_workers_killed_while_waiting_are_replaced(self):
        with Daemon("--pool", "2") as d:
            wait_for(lambda: d.ctl("list")["device"]["workers.ready"] == 2, 10, "the pool")
            for pid in d.children("weft-worker"):
                kill(pid)
            wait_for(lambda: d.ctl("list")["device"]["workers.ready"] == 2, 10, "a new pool")
            self.assert_right(d.run("steady", 0.1))

    def test_worker_killed_before_it_answered(self):
        """The program has been given to it already; it gets another one."""
        with Daemon("--pool", "1") as d:
            wait_for(lambda: d.ctl("list")["device"]["workers.ready"] == 1, 10, "the pool")
            [pid] = d.children("weft-worker")
            kill(pid, signal.SIGSTOP)
            p = d.run("steady", 0.1)
            wait_for(lambda: pid in [s["worker.pid"] for s in d.sessions()], 10, "it is given")
            kill(pid)
            self.assert_right(p)

    def test_listener_killed(self):
        with Daemon() as d:
            p = self.neighbour(d)
            for pid in d.children("weft-listener"):
                kill(pid)
            q = d.run("steady", 0.1)  # waits in the socket's queue for the next listener
            self.assert_right(q)
            self.assert_right(p)

    def test_connection_dropped_at_each_byte_of_the_hello(self):
        with Daemon() as d:
            for n in range(0, 65, 7):
                with Guest(d.socket()) as g:
                    g.send(hello()[:n])
            wait_for(lambda: not d.sessions(), 2, "all are gone")
            self.assert_right(d.run("steady", 0.1))

    def test_operator_kills_a_session(self):
        with Daemon(config="[tenant a]\n[tenant b]\n") as d:
            p, q = d.run("endless", tenant="a"), self.neighbour(d, "b")
            until_running(p)
            self.assertEqual(d.ctl("kill", "a")["killed"], 1)
            out, _ = p.communicate(timeout=patient(2))
            self.assertEqual(p.returncode, 1, out)
            self.assert_gone(d, "a")
            self.assert_right(q)


class WeftRun(FaultTest):
    """weft-run with a daemon of its own leaves nothing behind."""

    def setUp(self):
        super().setUp()
        self.tmp = tempfile.mkdtemp(prefix="wf")
        self.env = dict(os.environ, TMPDIR=self.tmp)

    def start(self, *args):
        return subprocess.Popen([program("weft-run"), "--device", "soft", *args],
                                env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def assert_nothing_left(self, seconds=3):
        wait_for(self.no_child_is_left, seconds, "all processes have ended")

    def no_child_is_left(self):
        """Orphans are ours. One that is about to end has no command line any more, but has
        its locks."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        return False

    def child(self, p, text):
        [pid] = [pid for pid in processes(text) if parent(pid) == p.pid]
        return pid

    def test_status_and_signals(self):
        for script, want in (("exit 7", 7), ("kill -TERM $$", 128 + 15), ("true", 0)):
            p = self.start("--", "sh", "-c", script)
            p.communicate(timeout=patient(20))
            self.assertEqual(p.returncode, want, script)
        p = self.start("--", "/nonexistent/program")
        p.communicate(timeout=patient(20))
        self.assertEqual(p.returncode, 127)
        p = self.start("--", "sh", "-c", "trap 'exit 33' TERM; echo running; while :; do sleep 0.1; done")
        until_running(p)
        p.send_signal(signal.SIGTERM)
        p.stdout.close()
        self.assertEqual(p.wait(patient(10)), 33)
        self.assertEqual(os.listdir(self.tmp), [])

    def test_program_killed(self):
        p = self.start("--", program("endless"))
        until_running(p)
        kill(self.child(p, program("endless")))
        p.stdout.close()
        self.assertEqual(p.wait(patient(10)), 128 + 9)
        self.assert_nothing_left()
        self.assertEqual(os.listdir(self.tmp), [])

    def test_weft_run_killed(self):
        p = self.start("--", program("endless"))
        until_running(p)
        kill(p.pid)
        p.wait()
        p.stdout.close()
        self.assert_nothing_left()
        # The directory goes with the next start.
        p = self.start("--", "true")
        p.communicate(timeout=patient(20))
        self.assertEqual(os.listdir(self.tmp), [])

    def test_its_daemon_killed(self):
        p = self.start("--", program("endless"))
        until_running(p)
        kill(self.child(p, "weftd --config /dev/null --run-dir " + self.tmp))
        out, _ = p.communicate(timeout=patient(10))
        self.assertEqual(p.returncode, 1, out)
        self.assert_nothing_left()
        self.assertEqual(os.listdir(self.tmp), [])

    def test_no_device(self):
        p = subprocess.run([program("weft-run"), "--device", "cuda", "--", "true"],
                           env=self.env, capture_output=True, text=True, timeout=patient(30),
                           check=False)
        if p.returncode == 0:
            self.skipTest("there is a real device")
        self.assertEqual(p.returncode, 125)
        self.assertIn("weft", p.stderr)
        self.assertEqual(os.listdir(self.tmp), [])


if __name__ == "__main__":
    unittest.main()
