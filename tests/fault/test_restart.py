# SPDX-License-Identifier: Apache-2.0
"""weftd is killed, told to leave, or replaced, and no session notices."""
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from unittest import mock

from fault import (Daemon, FaultTest, Guest, Script, alive, built_sanitized, hello, kill, parent,
                   patient, processes, program, until_running, wait_for)

MIB = 1 << 20


def answers(daemon):
    """Whether its control socket does."""
    try:
        daemon.ctl("list")
    except AssertionError:
        return False
    return True


class Kept(Daemon):
    """A weftd with a supervisor above it; process is the supervisor."""

    def __init__(self, *options, **more):
        super().__init__("--keep-sessions", *options, **more)

    def broker(self):
        found = [p for p in processes("weftd") if parent(p) == self.process.pid]
        return found[0] if found else 0

    def up(self):
        return answers(self)

    def end_broker(self, sig=signal.SIGKILL):
        """Ends weftd and waits for the next one. Returns the pids of both."""
        was = self.broker()
        kill(was, sig)
        wait_for(lambda: self.broker() not in (0, was), 10, "another weftd")
        wait_for(self.up, 10, "it answers")
        return was, self.broker()

    def workers(self):
        """All that belong to this daemon, whoever is above them now."""
        return [p for p in processes("weft-worker")
                if parent(p) in (self.process.pid, self.broker())]

    def listeners(self):
        return [p for p in processes("weft-listener")
                if parent(p) in (self.process.pid, self.broker())]


# Numbers that go on from one weftd to the next.
SESSION = ("session", "tenant", "name", "pid", "carrier", "memory.current",
           "memory.swap.current", "memory.peak", "worker.memory.current", "lanes.current")
TENANT = ("name", "memory.current", "memory.swap.current", "memory.peak", "memory.free",
          "memory.max", "host.current", "worker.memory.current", "sessions.current")


def books(daemon):
    """The numbers of all sessions and tenants."""
    found = daemon.ctl("list")
    found["tenants"].sort(key=lambda t: t["name"])
    return ([{k: s.get(k) for k in SESSION} for s in found["sessions"]],
            [{k: t.get(k) for k in TENANT} for t in found["tenants"]])


# Messages between two places in which weftd is killed; 1 for all of them.
STRIDE = int(os.environ.get("WEFT_STRIDE", "2"))


def used(daemon):
    """Memory that sessions and tenants have, without what weftd counts of events."""
    sessions, tenants = books(daemon)
    return ([(s["session"], s["memory.current"], s["memory.swap.current"]) for s in sessions],
            [(t["name"], t["memory.current"], t["memory.swap.current"], t["host.current"])
             for t in tenants])


class Restart(FaultTest):
    def same(self, daemon, before):
        """The books are what they were, once everybody has answered."""
        wait_for(lambda: books(daemon) == before, 10,
                 f"books are as before:\n{before}\nnow:\n{books(daemon)}")

    def test_a_session_goes_on(self):
        with Kept() as d:
            p = d.run("steady", "-", stdin=subprocess.PIPE)
            until_running(p)
            before = books(d)
            d.end_broker()
            self.same(d, before)
            self.assert_right(p)
            self.assert_gone(d, "local")


    def keeps(self, daemon, tenant="local"):
        """A program that does as it is told."""
        t = Script(daemon, "keeps", tenant)
        self.assertEqual(t.say("s"), (0, 0))
        return t

    def fill(self, who, *slots, mib=8, changes=2):
        for slot in slots:
            self.assertEqual(who.say(f"a {slot} {mib * MIB}"), (0, 0))
            self.assertEqual(who.say(f"l {slot} {changes}"), (0, 0))

    def assert_kept(self, who, *slots):
        for slot in slots:
            self.assertEqual(who.say(f"c {slot}"), (0, 0))

    def end(self, daemon, *people):
        for p in people:
            p.process.stdin.close()
            self.assertEqual(p.process.wait(patient(20)), 0)
        wait_for(lambda: not daemon.sessions(), 5, "all sessions have ended")
        state = daemon.ctl("list")
        self.assertEqual(
            [(t["memory.current"], t["memory.swap.current"], t["worker.memory.current"])
             for t in state["tenants"]], [(0, 0, 0)] * len(state["tenants"]))
        device = state["device"]
        self.assertEqual((device["memory.current"], device["host.current"]), (0, 0))

    def test_limits_stay_exact(self):
        """Memory granted ahead is known, too: the limit is reached to the byte."""
        with Kept("--memory", "512M", config="[tenant local]\nmemory.max = 128M\n") as d:
            a, b = self.keeps(d), self.keeps(d)
            self.fill(a, 0, 1, mib=16)
            self.fill(b, 0, mib=16)
            self.assertEqual(a.say("f 1"), (0, 0))
            before = books(d)
            d.end_broker()
            self.same(d, before)
            self.fill(a, *range(2, 5), mib=16)
            self.fill(b, *range(1, 4), mib=16)
            for who in a, b:
                self.assertEqual(who.say(f"a 9 {2 * MIB}")[0], 2, "out of memory")
                self.assert_kept(who, 0)
            self.assertEqual(d.ctl("list")["tenants"][0]["memory.current"], 128 * MIB)
            self.end(d, a, b)

    def test_new_limits_apply(self):
        with Kept("--memory", "512M", config="[tenant local]\nmemory.max = 128M\n") as d:
            a = self.keeps(d)
            self.fill(a, 0, mib=64)
            with open(d.path("conf"), "w", encoding="utf-8") as f:
                f.write("[tenant local]\nmemory.max = 72M\n[tenant more]\n")
            d.end_broker(signal.SIGTERM)
            self.assertEqual(a.say(f"a 1 {16 * MIB}")[0], 2, "out of memory")
            self.fill(a, 2, mib=8)
            b = self.keeps(d, "more")
            self.assert_kept(a, 0, 2)
            self.end(d, a, b)

    def test_a_configuration_with_mistakes(self):
        """Sessions go on with the one before; the next one without mistakes holds."""
        good = "[tenant local]\nmemory.max = 128M\n[tenant more]\n"
        with Kept("--memory", "512M", config=good) as d:
            a, b = self.keeps(d), self.keeps(d, "more")
            self.fill(a, 0, mib=64)

            # The next weftd keeps it anew.
            d.end_broker()
            self.assert_kept(a, 0)

            def write(text):
                with open(d.path("conf"), "w", encoding="utf-8") as f:
                    f.write(text)

            def most():
                return [t["memory.max"] for t in d.ctl("list")["tenants"]
                        if t["name"] == "local"][0]

            for bad in ("[tenant local]\nmemory.max = much\n",
                        "[tenant local]\nmemory.max = 1M\nmemory.min = 2M\n"):
                write(bad)
                d.end_broker(signal.SIGTERM)
                self.assertIn("sessions go on with the one before", d.log())
                self.assertEqual(most(), 128 * MIB)
                self.assert_kept(a, 0)
            os.unlink(d.path("conf"))
            d.end_broker()
            self.assertEqual(most(), 128 * MIB)
            write("[tenant local]\nmemory.max = 96M\n[tenant more]\n")
            os.kill(d.broker(), signal.SIGHUP)
            wait_for(lambda: most() == 96 * MIB, 10, "the configuration is read again")
            write("nonsense")
            d.end_broker()
            self.assertEqual(most(), 96 * MIB)
            self.assert_kept(a, 0)
            self.end(d, a, b)

    def test_a_tenant_that_is_gone(self):
        """Sessions of one that the file has no more end, and only they do."""
        with Kept(config="[tenant a]\n[tenant b]\n") as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(b, 0)
            with open(d.path("conf"), "w", encoding="utf-8") as f:
                f.write("[tenant b]\n")
            d.end_broker(signal.SIGTERM)
            self.assertIn("tenant a session 1: ended at the restart of weftd: its tenant is not",
                          d.log())
            a.process.stdin.close()
            a.process.wait(patient(20))
            self.assert_kept(b, 0)
            self.end(d, b)

    def test_a_session_ends_while_nobody_is_there(self):
        with Kept() as d:
            people = [self.keeps(d) for _ in range(3)]
            for p in people:
                self.fill(p, 0)
            worker = d.sessions()[0]["worker.pid"]
            kill(d.process.pid, signal.SIGSTOP)
            kill(d.broker())
            kill(people[0].process.pid)
            wait_for(lambda: not alive(worker), 10, "its worker ends")
            kill(d.process.pid, signal.SIGCONT)
            wait_for(d.up, 10, "it answers")
            wait_for(lambda: len(d.sessions()) == 2, 10, "two are left")
            for p in people[1:]:
                self.assert_kept(p, 0)
            self.end(d, *people[1:])

    def swapping(self, time_policy):
        return Kept("--memory", "96M", "--swap", "256M", "--piece", "2M", "--reserve", "0",
                    config=f"[daemon]\ntime = {time_policy}\n"
                    "[tenant a]\nmemory.max = 1G\n[tenant b]\nmemory.max = 1G\n")

    def test_memory_that_has_moved(self):
        with self.swapping("fair") as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(a, *range(8))
            self.fill(b, *range(8))
            before = books(d)
            self.assertGreater(sum(t["memory.swap.current"] for t in before[1]), 0)
            d.end_broker()
            wait_for(lambda: sum(t["memory.swap.current"] + t["memory.current"]
                                 for t in books(d)[1]) == 128 * MIB, 10, "all is there")
            for _ in range(3):
                self.assert_kept(a, *range(8))
                self.assert_kept(b, *range(8))
            self.end(d, a, b)

    def dies_while_memory_moves(self, time_policy):
        with self.swapping(time_policy) as d:
            people = [d.run("mixed", 7, 60, i, tenant="ab"[i % 2]) for i in range(3)]
            for p in people:
                until_running(p)
            for _ in range(3):
                time.sleep(random.uniform(2, 2.4))
                d.end_broker(random.choice((signal.SIGKILL, signal.SIGTERM)))
            for p in people:
                self.assert_right(p, 60)
            self.end(d)

    def test_while_memory_moves(self):
        for time_policy in "fair", "sets":
            with self.subTest(time_policy):
                self.dies_while_memory_moves(time_policy)

    def give(self, who, slot):
        self.assertEqual(who.say("s"), (0, 0))
        who.tell(f"e {slot}")
        line = who.process.stdout.readline().strip()
        self.assertEqual(len(line), 128, line)
        self.assertEqual(who.answer(), (0, 0))
        return line

    def test_shares(self):
        with Kept() as d:
            a, b, c = self.keeps(d), self.keeps(d), self.keeps(d)
            self.fill(a, 0, 1, changes=0)
            self.fill(b, 0)
            handle, other = self.give(a, 0), self.give(a, 1)
            self.assertEqual(b.say(f"o 1 {8 * MIB} {handle}"), (0, 0))
            before = books(d)
            d.end_broker()
            self.same(d, before)
            self.assertEqual(c.say(f"o 1 {8 * MIB} {handle}"), (0, 0))
            self.assert_kept(b, 1)
            self.assert_kept(c, 1)
            # The maker goes: others keep it, now the tenant's, also in the next weftd.
            kill(a.process.pid)
            wait_for(lambda: len(d.sessions()) == 2, 10, "the maker has gone")
            before = books(d)
            d.end_broker()
            self.same(d, before)
            self.assert_kept(b, 0, 1)
            self.assertNotEqual(b.say(f"o 2 {8 * MIB} {other}")[0], 0)
            self.assertEqual(b.say("q 1"), (0, 0))
            d.end_broker()
            self.assert_kept(c, 1)
            self.end(d, b, c)

    def test_a_maker_goes_while_nobody_is_there(self):
        with Kept() as d:
            a, b = self.keeps(d), self.keeps(d)
            self.fill(a, 0, changes=0)
            handle = self.give(a, 0)
            self.assertEqual(b.say(f"o 1 {8 * MIB} {handle}"), (0, 0))
            used = d.ctl("list")["tenants"][0]["memory.current"]
            worker = d.sessions()[0]["worker.pid"]
            kill(d.process.pid, signal.SIGSTOP)
            kill(d.broker())
            kill(a.process.pid)
            wait_for(lambda: not alive(worker), 10, "its worker ends")
            kill(d.process.pid, signal.SIGCONT)
            wait_for(d.up, 10, "it answers")
            wait_for(lambda: len(d.sessions()) == 1, 10, "one is left")
            self.assert_kept(b, 1)
            self.assertEqual(d.ctl("list")["tenants"][0]["memory.current"], used)
            self.end(d, b)

    def test_again_and_again(self):
        """Killed at any time, while programs come, allocate, free and go."""
        with Kept("--memory", "512M", config="[tenant local]\nmemory.max = 256M\n") as d:
            until = time.monotonic() + 15
            people = [d.run("mixed", 18, 40, i) for i in range(2)]
            for p in people:
                until_running(p)
            stays = self.keeps(d)
            self.fill(stays, 0)
            # One death too many in ten seconds would be the end.
            while time.monotonic() < until:
                time.sleep(random.uniform(1.8, 2.3))
                d.end_broker()
                self.assert_kept(stays, 0)
                self.fill(stays, 1)
                self.assertEqual(stays.say("f 1"), (0, 0))
            for p in people:
                self.assert_right(p, 60)
            self.end(d, stays)

    def test_programs_that_start_meanwhile(self):
        """Guests that were let in, wait or come are served; nobody is refused."""
        with Kept("--pool", "1") as d:
            people = []
            for i in range(24):
                people.append(d.run("steady", 0.1))
                if i % 8 == 4:
                    time.sleep(random.uniform(0, 0.3))
                    kill(d.broker())
                    time.sleep(0.5)
            for p in people:
                self.assert_right(p, 60)
            wait_for(d.up, 10, "it answers")
            self.end(d)

    def test_a_listener_goes_on(self):
        """A guest that has said half a hello says the rest."""
        with Kept() as d:
            wait_for(d.listeners, 10, "a listener")
            listener = d.listeners()
            with Guest(d.socket()) as g:
                g.send(hello()[:32])
                d.end_broker()
                self.assertEqual(d.listeners(), listener)
                g.send(hello()[32:])
                self.assertEqual(g.welcome()[0], 0)
            self.end(d)

    def changed(self, d):
        d.ctl("add", "new", "memory.max=64M", "lanes.max=77")
        d.ctl("set", "new", "memory.max=48M")
        d.ctl("set", "b", "memory.max=32M", "sessions.max=3", "compute.weight=7",
              "compute.priority=3", "compute.latency=90000")
        d.ctl("remove", "a")
        d.ctl("add", "again")
        d.ctl("remove", "again")

    def assert_changed(self, d):
        self.assertEqual(sorted(t["name"] for t in d.ctl("list")["tenants"]),
                         ["b", "local", "new"])
        keys = [d.ctl("get", "new", "memory.max"), d.ctl("get", "new", "lanes.max"),
                d.ctl("get", "b", "memory.max"), d.ctl("get", "b", "sessions.max"),
                d.ctl("get", "b", "compute.weight"), d.ctl("get", "b", "compute.priority"),
                d.ctl("get", "b", "compute.latency")]
        self.assertEqual([int(v) for k in keys for v in k["keys"].values()],
                         [48 * MIB, 77, 32 * MIB, 3, 7, 3, 90000])

    TWO = "[tenant a]\n[tenant b]\nmemory.max = 100M\n"

    def test_changes_go_on(self):
        """Tenants that weftctl added, changed and removed, with a session of one."""
        with Kept(config=self.TWO) as d:
            self.changed(d)
            who = self.keeps(d, "new")
            self.fill(who, 0)
            before = books(d)
            for sig in signal.SIGKILL, signal.SIGTERM:
                d.end_broker(sig)
                self.same(d, before)
                self.assert_changed(d)
            # Read again, the file holds, and so does what is in no file.
            kill(d.process.pid, signal.SIGHUP)
            wait_for(lambda: len(d.ctl("list")["tenants"]) == 4, 10, "tenant a is there again")
            d.end_broker()
            self.assertEqual([int(v) for t in ("b", "new") for v in
                              d.ctl("get", t, "memory.max")["keys"].values()],
                             [100 * MIB, 48 * MIB])
            self.end(d, who)
            d.ctl("shutdown")
            d.process.wait(patient(10))
            self.assertFalse(os.path.exists(d.path("changes")))

    def test_changes_without_a_supervisor(self):
        with Daemon(config=self.TWO) as d:
            self.changed(d)
            kill(d.process.pid)
            d.process.wait()
            with d:
                self.assert_changed(d)

    def test_changes_that_cannot_be_made(self):
        for text in ("", "{", "[]", '{"version": 2, "tenants": {}}',
                     '{"version": 1, "tenants": {"b": {"set": {"memory.max": "x", "y": "1"}},'
                     ' "/": {"added": true}, "b": 3}}'):
            with self.subTest(text=text), Daemon(config=self.TWO, ready=False) as d:
                d.process.kill()
                d.process.wait()
                with open(d.path("changes"), "w", encoding="utf-8") as f:
                    f.write(text)
                with d:
                    wait_for(lambda: answers(d), 10, "it answers")
                    self.assertEqual(len(d.ctl("list")["tenants"]), 3)

    def version(self, top, name, worker="weft-worker"):
        """A folder with programs of one version."""
        folder = os.path.join(top, name)
        os.mkdir(folder)
        for p in "weftd", "weft-listener":
            shutil.copy(program(p), folder)
        shutil.copy(program(worker), os.path.join(folder, "weft-worker"))

    def point(self, top, name):
        """The version that is started from now on."""
        os.symlink(name, os.path.join(top, "new"))
        os.rename(os.path.join(top, "new"), os.path.join(top, "now"))

    def folder(self, pid):
        return os.path.basename(os.path.dirname(os.readlink(f"/proc/{pid}/exe")))

    def test_an_upgrade(self):
        """Another version serves new sessions, those that run keep their workers."""
        with tempfile.TemporaryDirectory() as top:
            self.version(top, "one")
            self.version(top, "two")
            self.point(top, "one")
            with Kept(weftd=os.path.join(top, "now", "weftd")) as d:
                a = self.keeps(d)
                self.fill(a, 0)
                before = books(d)
                self.point(top, "two")
                d.end_broker(signal.SIGTERM)
                self.same(d, before)
                b = self.keeps(d)
                self.fill(b, 0)
                self.assertEqual(
                    [self.folder(s["worker.pid"]) for s in d.sessions()], ["one", "two"])
                self.assertEqual(self.folder(d.broker()), "two")
                wait_for(lambda: [self.folder(p) for p in d.listeners()] == ["two"], 10,
                         "the listener is of the new version, too")
                self.fill(a, 1)
                self.assert_kept(a, 0, 1)
                self.end(d, a, b)

    def evil(self, how, why):
        """A session of a worker that says how, beside one of a right one."""
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.dict(os.environ, WEFT_EVIL=how):
            self.version(top, "right")
            self.version(top, "evil", "evil")
            self.point(top, "evil")
            with Kept("--sandbox", "off", weftd=os.path.join(top, "now", "weftd")) as d:
                with Guest(d.socket()) as g:
                    g.send(hello())
                    wait_for(d.sessions, 10, "a session")
                    wait_for(lambda: d.memory_used() == 400 * MIB, 10, "it has memory")
                    self.point(top, "right")
                    d.end_broker(signal.SIGTERM)
                    if why is None:
                        a = self.keeps(d)
                        self.assertEqual(len(d.sessions()), 2)
                        self.assertGreaterEqual(d.memory_used(), 400 * MIB)
                    else:
                        wait_for(lambda: not d.sessions(), 10, "it is ended")
                        self.assertIn(why, d.log())
                        a = self.keeps(d)
                    self.fill(a, 0)
                    g.sock.close()
                for s in d.sessions():
                    if s["name"] != "keeps":
                        d.ctl("kill", str(s["session"]))
                self.assert_kept(a, 0)
                self.end(d, a)

    def test_a_worker_that_says_what_is_true(self):
        self.evil("true", None)

    def test_a_worker_that_claims_more(self):
        self.evil("claims", "message RESUMED is refused")

    def test_a_worker_that_is_too_old(self):
        self.evil("old", "its worker is of a version that is too old for this weftd")

    def work(self, d, a, b):
        """Something of everything; ends as it began."""
        p = d.run("steady", 0.05)
        self.fill(a, 1, changes=0)
        handle = self.give(a, 1)
        self.assertEqual(b.say(f"o 1 {8 * MIB} {handle}"), (0, 0))
        self.fill(b, 2)
        self.assert_kept(b, 1, 2)
        self.assertEqual(b.say("q 1"), (0, 0))
        self.assertEqual(b.say("f 2"), (0, 0))
        self.assertEqual(a.say("f 1"), (0, 0))
        self.assert_right(p, 60)

    def test_at_each_message(self):
        """Killed before and after each message, in each place; a few for each daemon, since one
        that dies too often is the end."""
        if built_sanitized():
            self.skipTest("a sanitizer's run-time has to be loaded before what kills weftd")
        step, ended = 1, False
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.dict(os.environ, WEFT_DIES=os.path.join(top, "at"),
                                LD_PRELOAD=program("libdies.so")):
            while not ended:
                with Kept("--memory", "256M", "--swap", "64M", "--piece", "2M") as d, \
                        mock.patch.dict(os.environ, LD_PRELOAD=""):
                    a, b = self.keeps(d), self.keeps(d)
                    self.fill(a, 0)
                    self.fill(b, 0)
                    self.work(d, a, b)
                    wait_for(lambda: len(d.sessions()) == 2, 10, "two are left")
                    before = used(d)
                    for _ in range(4):
                        with open(os.path.join(top, "new"), "w", encoding="utf-8") as f:
                            f.write(str(step))
                        os.rename(os.path.join(top, "new"), os.path.join(top, "at"))
                        self.work(d, a, b)
                        wait_for(d.up, 10, "it answers")
                        wait_for(lambda: used(d) == before, 10,
                                 f"step {step}: books are as before: {before}")
                        ended = ended or os.path.exists(os.path.join(top, "at"))
                        step += STRIDE
                    self.assert_kept(a, 0)
                    self.assert_kept(b, 0)
                    self.end(d, a, b)
        self.assertGreater(step, 60)

    def test_many_tenants(self):
        """24 tenants with a session each, 8 of which work: all are there again, limits hold."""
        names = [f"vm{n:02}" for n in range(24)]
        config = "".join(f"[tenant {n}]\nmemory.max = 16M\n" for n in names)
        with Kept("--memory", "1G", config=config) as d:
            working = [d.run("steady", "-", 50, tenant=n, stdin=subprocess.PIPE)
                       for n in names[:8]]
            for p in working:
                until_running(p)
            holding = [self.keeps(d, n) for n in names[8:]]
            for p in holding:
                self.fill(p, 0, mib=12)
            before = books(d)
            self.assertEqual(sorted(s["tenant"] for s in before[0]), names)
            for sig in signal.SIGKILL, signal.SIGTERM:
                d.end_broker(sig)
                self.same(d, before)
                for p in holding:
                    self.assertEqual(p.say(f"a 1 {12 * MIB}")[0], 2, "above its limit")
                    self.assert_kept(p, 0)
            for p in working:
                self.assert_right(p)
            self.end(d, *holding)

    def test_counters_and_events_go_on(self):
        """Bills, the numbers of events, and that no session is to begin."""
        def counted(d):
            t = next(t for t in d.ctl("list")["tenants"] if t["name"] == "a")
            return {k: t[k] for k in ("used", "refused", "gpu.time", "sessions.total",
                                      "memory.events", "draining")}

        with Kept(config="[tenant a]\n[tenant b]\n") as d:
            self.assert_right(d.run("steady", 0.3, tenant="a"), 60)
            wait_for(lambda: not d.sessions(), 10, "it has ended")
            d.ctl("drain", "a")
            before, last = counted(d), d.ctl("events")["events"][-1]["number"]
            self.assertGreater(before["used"]["launches"], 0)
            for sig in signal.SIGKILL, signal.SIGTERM:
                d.end_broker(sig)
                self.assertEqual(counted(d), before)
                after = d.ctl("events", "--after", str(last))["events"]
                self.assertEqual(after[0]["event"], "weftd.restarted")
                self.assertGreater(after[0]["number"], last)
                last = after[-1]["number"]
            p = d.run("steady", 0.1, tenant="a")
            p.wait(patient(20))
            self.assertNotEqual(p.returncode, 0, "it drains")
            d.ctl("drain", "a", "--undo")
            d.end_broker()
            self.assert_right(d.run("steady", 0.1, tenant="a"), 60)

    def test_a_stop_ends_all(self):
        with Kept() as d:
            a = self.keeps(d)
            workers = d.workers()
            self.assertTrue(workers)
            d.process.terminate()
            self.assertEqual(d.process.wait(patient(10)), 0)
            wait_for(lambda: not any(map(alive, workers)), 10, "all workers have ended")
            self.assertNotEqual(a.say("s"), (0, 0))
            self.assertFalse(os.path.exists(d.path("control")))

    def test_shutdown_ends_all(self):
        with Kept() as d:
            self.keeps(d)
            workers = d.workers()
            d.ctl("shutdown")
            self.assertEqual(d.process.wait(patient(10)), 0)
            wait_for(lambda: not any(map(alive, workers)), 10, "all workers have ended")

    def test_the_supervisor_dies(self):
        """Nobody keeps anything any more: all ends."""
        with Kept() as d:
            self.keeps(d)
            workers = d.workers()
            kill(d.process.pid)
            wait_for(lambda: not any(map(alive, workers)), 10, "all workers have ended")
            wait_for(lambda: not processes(d.dir), 10, "and weftd")


if __name__ == "__main__":
    unittest.main()
