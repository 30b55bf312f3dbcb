# SPDX-License-Identifier: Apache-2.0
"""Tenants' kernels run on their TPCs, whatever is changed under them."""
import signal
import unittest

from fault import Daemon, FaultTest, Script, wait_for
from test_restart import Kept

BLOCKS = 256  # enough for each SM to have some
TPCS = 16


def bits(*numbers):
    return sum(1 << n for n in numbers)


def span(first, last):
    return bits(*range(first, last + 1))


ALL = span(0, TPCS - 1)


def daemon(config="", kind=Daemon):
    return kind("--tpcs", str(TPCS), config=config)


class Tpcs(FaultTest):
    def where(self, d, tenant="local"):
        return Script(d, "where", tenant)

    def runs_on(self, who, tpcs, what="k"):
        self.assertEqual(who.say(f"{what} {BLOCKS}"), (0, tpcs))

    def refused(self, d, *words):
        with self.assertRaises(AssertionError) as e:
            d.ctl(*words)
        return str(e.exception)

    def test_all_where_nothing_is_asked_for(self):
        with daemon() as d:
            p = self.where(d)
            self.runs_on(p, ALL)
            self.assertEqual(p.say("s"), (0, 2 * TPCS))
            self.assertEqual(d.ctl("get", "local", "tpc.current")["keys"]["tpc.current"], "0-15")

    def test_from_the_first_launch_on(self):
        config = ("[tenant a]\ntpc.set = 1,3-4\n[tenant b]\ntpc.count = 5\n"
                  "[tenant c]\ngpc.set = 2\n")
        with daemon(config) as d:
            self.runs_on(self.where(d, "a"), bits(1, 3, 4))
            five = self.where(d, "b").say(f"k {BLOCKS}")
            self.assertEqual((five[0], bin(five[1]).count("1")), (0, 5))
            self.runs_on(self.where(d, "c"), span(8, 11))

    def test_changed_live(self):
        """A program that runs, its graph, and what it is told of the device when it starts."""
        with daemon("[tenant a]\n") as d:
            p = self.where(d, "a")
            self.runs_on(p, ALL)
            self.runs_on(p, ALL, "g")
            for text, tpcs in (("0-3", span(0, 3)), ("15", bits(15)), ("2,4,8", bits(2, 4, 8)),
                               ("all", ALL), ("0-7", span(0, 7))):
                keys = d.ctl("set", "a", f"tpc.set={text}")["keys"]
                self.assertEqual(keys["tpc.current"], "0-15" if text == "all" else text)
                wait_for(lambda: p.say(f"k {BLOCKS}") == (0, tpcs), 5, f"kernels run on {text}")
                self.runs_on(p, tpcs, "g")
                self.runs_on(p, tpcs)
                q = self.where(d, "a")
                self.assertEqual(q.say("s"), (0, 2 * bin(tpcs).count("1")))

    def test_what_does_not_fit_is_refused(self):
        """On a GPU it would wait for ever."""
        with daemon("[tenant a]\ntpc.set = 0-1,4\n") as d:
            p = self.where(d, "a")
            self.assertEqual(p.say("c 4")[0], 0)
            self.assertEqual(p.say("c 8")[0], 912, "cudaErrorInvalidClusterSize")
            self.assertEqual(p.say("o 6")[0], 0)
            self.assertEqual(p.say("o 1024")[0], 720, "cudaErrorCooperativeLaunchTooLarge")
            self.runs_on(p, bits(0, 1, 4))

    def test_alone(self):
        with daemon("[tenant a]\n[tenant b]\n") as d:
            a, b = self.where(d, "a"), self.where(d, "b")
            d.ctl("set", "a", "tpc.set=0-3", "tpc.exclusive=yes")
            wait_for(lambda: a.say(f"k {BLOCKS}") == (0, span(0, 3)), 5, "a has its own")
            wait_for(lambda: b.say(f"k {BLOCKS}") == (0, span(4, 15)), 5, "b has the others")
            d.ctl("remove", "a")
            wait_for(lambda: b.say(f"k {BLOCKS}") == (0, ALL), 5, "b has all again")

    def test_wrong_ones_change_nothing(self):
        config = "[tenant a]\ntpc.set = 0-3\ntpc.exclusive = yes\n[tenant b]\n"
        with daemon(config) as d:
            for keys, says in (
                    (("b", "tpc.set=3-5"), r"TPC 3 is that of tenant b, and of tenant a, and a"),
                    (("b", "tpc.set=16"), "tpc.set has TPC 16, the device has 0 to 15"),
                    (("b", "gpc.set=4"), "gpc.set has GPC 4, which the device has not"),
                    (("b", "gpc.set=0"), "is that of tenant b, and of tenant a"),
                    (("b", "tpc.count=13"), "tpc.count is 13, and 12 TPCs are left"),
                    (("b", "tpc.count=5", "tpc.set=4"), "tpc.set and tpc.count contradict"),
                    (("a", "gpc.set=0"), "tpc.set and gpc.set contradict"),
                    (("b", "tpc.exclusive=yes"), "tpc.exclusive wants tpc.set"),
                    (("a", "tpc.set=0-15"), "all TPCs are other tenants' alone"),
                    (("b", "tpc.set=5-3"), "is no list of TPCs such as 0-19,40"),
                    (("b", "tpc.set="), "is no list of TPCs"),
                    (("b", "tpc.count=0"), "is neither a number from 1 to 128"),
                    (("b", "tpc.exclusive=1"), "is neither yes nor no"),
                    (("b", "tpc.current=1"), "can only be read")):
                self.assertIn(says, self.refused(d, "set", *keys))
            self.assertEqual(d.ctl("get", "b", "tpc.current")["keys"]["tpc.current"], "4-15")
            self.assertIn("contradict", self.refused(d, "add", "c", "tpc.count=1", "gpc.set=1"))
            self.assertEqual(len(d.ctl("list")["tenants"]), 3)
            self.runs_on(self.where(d, "b"), span(4, 15))

    def test_a_file_that_wants_too_much(self):
        """Before the device is known nobody can say so: it is told of then."""
        with daemon("[tenant a]\ntpc.set = 20\n[tenant b]\ntpc.set = 1\n") as d:
            wait_for(lambda: "tpc.set has TPC 20, the device has 0 to 15" in d.log(), 5, "told")
            self.runs_on(self.where(d, "b"), bits(1))
            self.runs_on(self.where(d, "a"), ALL)

    def test_over_a_restart(self):
        with daemon("[tenant a]\ntpc.set = 0-3\n[tenant b]\n", Kept) as d:
            p, q = self.where(d, "a"), self.where(d, "b")
            self.runs_on(p, span(0, 3))
            d.ctl("set", "b", "tpc.set=8")
            wait_for(lambda: q.say(f"k {BLOCKS}") == (0, bits(8)), 5, "it is told")
            for sig in signal.SIGKILL, signal.SIGTERM:
                d.end_broker(sig)
                self.runs_on(p, span(0, 3))
                self.runs_on(q, bits(8))
                self.runs_on(self.where(d, "b"), bits(8))
            d.ctl("set", "a", "tpc.set=5")
            wait_for(lambda: p.say(f"k {BLOCKS}") == (0, bits(5)), 5, "the next weftd is heard")

    def test_events(self):
        with daemon("[tenant a]\n") as d:
            d.ctl("set", "a", "tpc.set=0-3,5")
            e = [e for e in d.ctl("events")["events"] if e["event"] == "tenant.changed"][-1]
            self.assertEqual((e["key"], e["from"], e["to"]), ("tpc.set", "all", "0-3,5"))


if __name__ == "__main__":
    unittest.main()
