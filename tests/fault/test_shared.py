# SPDX-License-Identifier: Apache-2.0
"""Class shared on the software GPU: side by side with each other, in turns with others, and of
one fate. On a real one MPS does it: tests/gpu/run --only shared."""
import time
import unittest

from fault import Daemon, FaultTest, Script, built_sanitized, busy, patient, wait_for
from test_events import events, types
from test_pace import gpu_time
from test_restart import Kept

MEASURES = not built_sanitized()
PART = 1 if MEASURES else 0.2
ILLEGAL_ADDRESS = 700
TWO = "[tenant a]\ncompute.class=shared\n[tenant b]\ncompute.class=shared\n[tenant c]\n"


def classes(d):
    return {s["tenant"]: s["compute.class"] for s in d.sessions()}


class Shared(FaultTest):
    def shares(self, d, *tenants):
        """Shares of the device's time that tenants with work all the time have."""
        those = [busy(d, t) for t in tenants]
        for p in those:
            p.tell(f"k {4000 * PART:.0f} 500")
        time.sleep(0.6)  # sessions say it twice a second
        before, begin = [gpu_time(d, t) for t in tenants], time.monotonic()
        time.sleep(2.5 * PART)
        after, end = [gpu_time(d, t) for t in tenants], time.monotonic()
        for p in those:
            self.assertEqual(p.answer()[0], 0)
            p.process.stdin.close()
            p.process.wait()
        return [(a - b) / 1e6 / (end - begin) for a, b in zip(after, before)]

    def assert_near(self, is_, wanted):
        if MEASURES:
            self.assertAlmostEqual(is_, wanted, delta=0.2)

    def test_side_by_side(self):
        with Daemon(config=TWO) as d:
            x, y = self.shares(d, "a", "b")
            if MEASURES:  # in turns each would have half
                self.assertGreater(min(x, y), 0.6, (x, y))
            self.assertGreater(self.shares(d, "c")[0], 0.6 if MEASURES else 0)

    def test_one_to_others(self):
        """Two that are shared have together what one that is isolated has."""
        with Daemon(config=TWO) as d:
            x, y, z = self.shares(d, "a", "b", "c")
            if MEASURES:  # roughly: three devices of software on few processors
                self.assertAlmostEqual(z, 0.5, delta=0.13)
                self.assertGreater(x + y, z, (x, y, z))

    def test_cap(self):
        with Daemon(config=TWO + "[tenant local]\n") as d:
            d.ctl("set", "a", "compute.max=25000 100000")
            x, y = self.shares(d, "a", "b")
            self.assert_near(x, 0.25)
            if MEASURES:
                self.assertGreater(y, 0.6)

    def test_a_fault_is_everybodys(self):
        with Daemon(config=TWO) as d:
            a, b, c = (Script(d, "busy", t) for t in "abc")
            idle = Script(d, "busy", "b")
            for p in a, b, c, idle:
                self.assertEqual(p.say("w 10 100")[0], 0)
            self.assertEqual(classes(d), {"a": "shared", "b": "shared", "c": "isolated"})
            b.tell("k 10000 500")
            self.assertEqual(a.say("f")[0], ILLEGAL_ADDRESS)
            begin = time.monotonic()
            self.assertEqual(b.answer()[0], ILLEGAL_ADDRESS)
            self.assertLess(time.monotonic() - begin, patient(1))
            wait_for(lambda: classes(d) == {"c": "isolated"}, 10, "all others to end")
            self.assertNotEqual(idle.say("w 10 100")[:1], (0,))
            self.assertEqual(c.say("w 100 100")[0], 0)
            lost = [e for e in events(d) if e["event"] == "shared.lost"]
            self.assertEqual(len(lost), 1)
            self.assertIn(lost[0]["tenant"], "ab")
            ends = {e["end"] for e in events(d) if e["event"] == "session.ended"}
            self.assertTrue(ends <= {"a fault in class shared", "ended"}, ends)
            self.assertIn("a fault in class shared", ends)
            # And then it begins anew.
            self.assertEqual(Script(d, "busy", "b").say("w 100 100")[0], 0)
            self.assertEqual(types(d).count("worker.died"), 0)

    def test_a_fault_of_an_isolated_one_is_its_own(self):
        with Daemon(config=TWO) as d:
            a, c = Script(d, "busy", "a"), Script(d, "busy", "c")
            self.assertEqual(a.say("w 100 100")[0], 0)
            self.assertEqual(c.say("f")[0], ILLEGAL_ADDRESS)
            self.assertEqual(a.say("w 100 100")[0], 0)

    def test_changed_for_what_begins_then(self):
        with Daemon(config="[tenant a]\n") as d:
            before = Script(d, "busy", "a")
            self.assertEqual(before.say("w 10 100")[0], 0)
            keys = d.ctl("set", "a", "compute.class=shared")["keys"]
            self.assertEqual(keys["compute.class"], "shared")
            self.assertEqual(classes(d), {"a": "isolated"})
            after = Script(d, "busy", "a")
            self.assertEqual(after.say("w 10 100")[0], 0)
            self.assertEqual([s["compute.class"] for s in d.sessions()], ["isolated", "shared"])
            d.ctl("set", "a", "compute.class=isolated")
            wait_for(lambda: len(d.children("weft-worker")) == 4, 10, "none waits in vain")
            self.assertEqual(after.say("w 10 100")[0], 0)

    def test_contradictions(self):
        with Daemon(config=TWO) as d:
            for words, names in ((("a", "compute.priority=1"), "compute.priority"),
                                 (("a", "compute.weight=200"), "compute.weight"),
                                 (("c", "compute.priority=1", "compute.class=shared"),
                                  "compute.priority"),
                                 (("c", "compute.class=both"), "isolated nor shared")):
                with self.assertRaises(AssertionError) as e:
                    d.ctl("set", *words)
                self.assertIn("compute.class", str(e.exception))
                self.assertIn(names, str(e.exception))

    def test_over_a_restart(self):
        with Kept(config=TWO) as d:
            a, b = Script(d, "busy", "a"), Script(d, "busy", "b")
            for p in a, b:
                self.assertEqual(p.say("w 10 100")[0], 0)
            d.end_broker()
            self.assertEqual(classes(d), {"a": "shared", "b": "shared"})
            self.assertEqual(a.say("f")[0], ILLEGAL_ADDRESS)
            wait_for(lambda: not d.sessions(), 10, "all of the class to end")
            self.assertNotEqual(b.say("w 10 100")[:1], (0,))


if __name__ == "__main__":
    unittest.main()
