#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Events: what happened is told, to any number of readers, however slowly they read."""
import json
import subprocess
import unittest

from fault import (Daemon, FaultTest, Script, built_sanitized, patient, program, until_running,
                   wait_for)
from test_control import Client

MIB = 1 << 20


def events(d, *words):
    return d.ctl("events", *words)["events"]


def types(d, *words):
    return [e["event"] for e in events(d, *words)]


class Events(FaultTest):
    def test_what_happens(self):
        with Daemon("--memory", "256M", config="[tenant vm1]\nsessions.max = 1\n") as d:
            d.ctl("add", "vm2", "memory.max=64M")
            d.ctl("set", "vm2", "memory.max=100M", "memory.weight=50")
            until_running(d.run("endless", tenant="vm1"))
            d.run("steady", 1, tenant="vm1").wait(patient(20))
            d.ctl("kill", "vm1")
            wait_for(lambda: "session.ended" in types(d), 10, "the end")
            d.ctl("remove", "vm2")
            all_of = events(d)
            self.assertEqual([e["number"] for e in all_of], list(range(1, len(all_of) + 1)))
            by = {e["event"]: e for e in all_of}
            self.assertEqual([e["event"] for e in all_of],
                             ["weftd.ready", "tenant.added", "tenant.changed", "tenant.changed",
                              "session.opened", "session.refused", "session.killed",
                              "session.ended", "tenant.removed"])
            change = all_of[2]
            self.assertEqual((change["tenant"], change["key"], change["from"], change["to"]),
                             ("vm2", "memory.max", 64 * MIB, 100 * MIB))
            self.assertRegex(change["by"], r"^uid \d+, pid \d+$")
            self.assertRegex(change["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
            self.assertIn("sessions.max", by["session.refused"]["why"])
            self.assertEqual(by["session.ended"]["end"], "killed by operator")
            self.assertEqual(by["session.ended"]["session"], by["session.opened"]["session"])
            self.assertEqual(types(d, "vm1"), ["session.opened", "session.refused",
                                               "session.killed", "session.ended"])
            self.assertEqual(types(d, "--after", str(len(all_of) - 1)), ["tenant.removed"])
            # of a tenant that has gone, too
            self.assertEqual(types(d, "vm2")[-1], "tenant.removed")
            self.assertEqual(types(d, "--after", "9007199254740993"), [])

    def test_memory(self):
        with Daemon("--memory", "256M", config="[tenant vm1]\nmemory.max = 64M\n") as d:
            me = Script(d, "keeps", "vm1")
            self.assertEqual(me.say(f"a 0 {100 * MIB}")[0], 2)
            wait_for(lambda: "memory.max" in types(d), 10, "it is told")
            e = next(e for e in events(d) if e["event"] == "memory.max")
            self.assertEqual((e["tenant"], e["count"]), ("vm1", 1))

    def test_follow(self):
        with Daemon(config="[tenant vm1]\n[tenant vm2]\n") as d:
            p = subprocess.Popen([program("weftctl"), "-c", d.path("control"), "events", "vm2",
                                  "--follow", "--json"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
            for n in range(1, 4):
                d.ctl("set", "vm1", f"memory.weight={n}")
                d.ctl("set", "vm2", f"memory.weight={n}")
                e = json.loads(p.stdout.readline())
                self.assertEqual((e["tenant"], e["to"]), ("vm2", n))
            d.ctl("shutdown")
            self.assertEqual(p.wait(patient(10)), 1)
            self.assertIn("weftd has ended", p.stdout.read())
            p.stdout.close()
            p.stderr.close()

    def test_slow_readers(self):
        """Hundreds of readers that do not read, while more happens than is kept."""
        with Daemon("--pool", "1", config="[tenant vm1]\n") as d:
            readers = [Client(d) for _ in range(300)]
            for c in readers:
                c.tell("events", follow=True)
            with Client(d) as c:
                for n in range(6000):
                    c.ask("tenant-set", name="vm1", set={"memory.weight": 1 + n % 1000})
            with open(f"/proc/{d.process.pid}/status", encoding="utf-8") as f:
                kib = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
            self.assertTrue(built_sanitized() or kib < 48 << 10, kib)
            # One gets what its socket took, how many it has missed, and the rest.
            c, lost, number = readers[0], 0, 0
            self.assertTrue(c.answer()["ok"])
            while number < 6000:
                e = c.answer()
                if e["event"] == "lost":
                    lost += e["count"]
                    number += e["count"]
                else:
                    number += 1
                    self.assertEqual(e["number"], number)
            self.assertGreater(lost, 0)
            for c in readers:
                c.close()

    def test_guests_cannot_fill_it(self):
        with Daemon("--pool", "1", config="[tenant vm1]\nsessions.max = 0\n") as d:
            d.ctl("set", "vm1", "memory.weight=7")
            for _ in range(60):
                d.run("steady", 1, tenant="vm1")
            for p in d.started:
                p.wait(patient(30))
            told = types(d)
            self.assertLess(told.count("session.refused"), 60)
            self.assertIn("tenant.changed", told)


class Wrong(FaultTest):
    def test_sentences(self):
        with Daemon() as d:
            for words, status, why in (
                    (("events", "nosuch"), 1, 'no tenant "nosuch"'),
                    (("events", "a", "b"), 64, "events takes [TENANT]"),
                    (("events", "--after", "-1"), 64, '--after: "-1" is no number'),
                    (("events", "--after", ""), 64, "is no number"),
                    (("list", "--follow"), 64, "list has no option --follow"),
                    (("kill", "local", "--after", "1"), 64, "kill has no option --after")):
                r = subprocess.run([program("weftctl"), "-c", d.path("control"), *words],
                                   capture_output=True, text=True, timeout=patient(10),
                                   check=False)
                self.assertEqual(r.returncode, status, (words, r.stderr))
                self.assertIn(why, r.stderr)
                self.assertEqual(r.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
