# SPDX-License-Identifier: Apache-2.0
"""Time on the device: slices by weight and priority, and caps, whatever a program does.

Programs and their devices share processors with whatever else there is, so shares are compared
roughly here; tests/policy and tests/unit/host/pace.c are exact."""
import signal
import time
import unittest

from fault import Daemon, FaultTest, built_sanitized, busy, patient, wait_for
from test_restart import Kept

# A sanitized device takes ten times as long for all but its slices: what it does is looked at,
# not how much, and not for as long.
MEASURES = not built_sanitized()
PART = 1 if MEASURES else 0.2


def gpu_time(d, tenant):
    """Microseconds so far, as tenants' sessions have said."""
    return d.ctl("get", tenant, "gpu.time")["keys"]["gpu.time"]


class Pace(FaultTest):
    def tell(self, program, what, ms, us):
        """To do that for ms, in kernels of us."""
        program.tell(f"{what} {ms * PART:.0f} {us}")

    def shares(self, d, seconds, *tenants):
        """Shares of the device's time, for so long."""
        time.sleep(0.6)  # its sessions say it twice a second
        before, begin = [gpu_time(d, t) for t in tenants], time.monotonic()
        time.sleep(seconds * PART)
        after, end = [gpu_time(d, t) for t in tenants], time.monotonic()
        return [(a - b) / 1e6 / (end - begin) for a, b in zip(after, before)]

    def assert_near(self, is_, wanted, within):
        if MEASURES:
            self.assertTrue(abs(is_ - wanted) <= within, f"{is_:.3f}, not {wanted:.3f}")

    def assert_more(self, is_, than):
        if MEASURES:
            self.assertGreater(is_, than)

    def side_by_side(self, d):
        """Shares of two that have work all the time."""
        both = busy(d, "a"), busy(d, "b")
        for p in both:
            self.tell(p, "k", 4000 + 1000 / PART, 500)  # for longer than shares are looked at
        shares = self.shares(d, 2.5, "a", "b")
        for p in both:
            self.assertEqual(p.answer()[0], 0)
        return shares

    def test_weights(self):
        with Daemon(config="[tenant a]\ncompute.weight=300\n[tenant b]\n") as d:
            x, y = self.side_by_side(d)
            self.assert_near(x / (x + y), 0.75, 0.15)
            # Time that is counted by who has work and how long slices are agrees with that.
            for tenant in "ab":
                stat = d.ctl("get", tenant, "compute.stat")["keys"]["compute.stat"]
                self.assert_near(stat["usage_usec"] / gpu_time(d, tenant), 1, 0.5)
                self.assertGreater(stat["stalled_usec"], 0)
            self.assert_more(sum(s["compute.time"] for s in d.sessions()), 2e6)

    def test_priority(self):
        """A tenant below gets little while one above has work, and never nothing."""
        with Daemon(config="[tenant a]\ncompute.priority=1\n[tenant b]\n") as d:
            x, y = self.side_by_side(d)
            self.assert_more(x / (x + y), 0.7)
            self.assert_more(y, 0)
            # Sessions say it twice a second, which is as long as a sanitized device is looked at.
            self.assertGreater(gpu_time(d, "b"), 0)

    def test_who_is_in_a_hurry_gathers(self):
        """Launches wait for those behind them while somebody else computes, whatever the program
        waits for, or if it waits for nothing."""
        with Daemon(config="[tenant a]\ncompute.priority=1\n[tenant b]\n") as d:
            a = busy(d, "a")
            self.assertEqual(a.say("n 10 20"), (0, 10))

            def gathers():
                self.assertEqual(a.say("n 10 20")[0], 0)  # computes
                return [s["compute.gather"] for s in d.sessions() if s["tenant"] == "a"][0]

            self.assertEqual(gathers(), 0)
            b = busy(d, "b")
            self.tell(b, "k", 3000, 500)
            wait_for(gathers, 5, "a gathers")
            for what in ("n 500 20", "w 300 100", "s", "g 200 50", "c 100", "n 1 100"):
                with self.subTest(what):
                    self.assertEqual(a.say(what)[0], 0)
            self.assertEqual(a.say("s"), (0, 0))
            self.assertEqual(b.answer()[0], 0)
            wait_for(lambda: not gathers(), 15, "a is alone")

    def capped(self, d, what, tenants="a", least=0.1):
        """A quarter of the time, whatever it does."""
        p = [busy(d, t) for t in tenants]
        for one in p:
            self.tell(one, *what)
        share = self.shares(d, 2, "a")[0]
        self.assert_more(0.5, share)
        self.assert_more(share, least)
        for one in p:
            self.assertEqual(one.answer()[0], 0)
            one.process.stdin.close()
            one.process.wait()

    def test_cap(self):
        with Daemon(config="[tenant a]\ncompute.max=25000 100000\n[tenant b]\n") as d:
            for what in (("k", 3500, 200), ("w", 3500, 200), ("k", 3500, 8000),
                         ("g", 3500, 300)):
                with self.subTest(what):
                    self.capped(d, what)
            stat = d.ctl("get", "a", "compute.stat")["keys"]["compute.stat"]
            self.assert_more(stat["nr_throttled"], 25)
            self.assert_more(stat["throttled_usec"], 2e6)

    def test_cap_of_several(self):
        """Four processes have a quarter together; so does one beside a neighbour."""
        with Daemon(config="[tenant a]\ncompute.max=25000 100000\n[tenant b]\n") as d:
            self.capped(d, ("k", 3500, 500), "aaaa")
            b = busy(d, "b")
            self.tell(b, "k", 3500, 500)
            # Two programs and two devices on perhaps two processors.
            self.capped(d, ("k", 3500, 500), least=0.05)
            self.assertEqual(b.answer()[0], 0)

    def test_cap_of_copies(self):
        """Copies are no time of kernels: what is done is compared."""
        with Daemon(config="[tenant a]\n") as d:
            p = busy(d, "a")
            free = p.say("c 1000")[1]
            d.ctl("set", "a", "compute.max=25000 100000")
            held = p.say("c 2000")[1] / 2
            self.assert_more(0.8 * free, held)
            self.assert_more(held, 0.03 * free)
            d.ctl("set", "a", "compute.max=max")
            self.assert_more(p.say("c 1000")[1], 1.05 * held)

    def test_many_launches_at_once(self):
        """Launches wait for their time, and neither a neighbour nor weftd for them."""
        with Daemon(config="[tenant a]\ncompute.max=25000 100000\n[tenant b]\n") as d:
            a, b = busy(d, "a"), busy(d, "b")
            a.tell("n 20000 50")
            begin = time.monotonic()
            self.assertEqual(b.say("w 500 200")[0], 0)
            d.ctl("list")
            self.assertLess(time.monotonic() - begin, patient(5))
            a.process.kill()
            wait_for(lambda: len(d.sessions()) == 1, 10, "its session to end")

    def test_endless_kernel(self):
        """Others go on beside it, and it ends within a second when it is told to."""
        with Daemon(config="[tenant a]\ncompute.max=25000 100000\n[tenant b]\n") as d:
            a, b = busy(d, "a"), busy(d, "b")
            self.assertEqual(a.say("e"), (0, 0))
            a.tell("s")
            self.assertEqual(b.say("w 500 200")[0], 0)
            number = [s["session"] for s in d.sessions() if s["tenant"] == "a"][0]
            begin = time.monotonic()
            d.ctl("kill", str(number))
            wait_for(lambda: len(d.sessions()) == 1, 10, "it to end")
            self.assertLess(time.monotonic() - begin, patient(1))
            self.assertEqual(b.say("w 200 200")[0], 0)

    def test_cap_of_a_kernel_that_goes_on(self):
        """Nothing ends that a gate could wait for: the kernel is taken off."""
        with Daemon(config="[tenant a]\ncompute.max=25000 100000\n[tenant b]\n") as d:
            a, b = busy(d, "a"), busy(d, "b")
            self.assertEqual(a.say("e"), (0, 0))
            share = self.shares(d, 3, "a")[0]
            self.assert_near(share, 0.26, 0.16)
            self.tell(b, "k", 3500, 500)
            x, y = self.shares(d, 2.5, "a", "b")
            self.assert_more(0.45, x)
            self.assert_more(y, 0.4)
            self.assertEqual(b.answer()[0], 0)

    def test_over_a_restart(self):
        """One that was held is let go in time, with no weftd and with the next one."""
        with Kept(config="[tenant a]\n") as d:
            a = busy(d, "a")  # what that takes would be owed for minutes on a slow machine
            d.ctl("set", "a", "compute.max=1000 10000000")
            a.tell("k 1000 500")
            wait_for(lambda: d.ctl("get", "a", "compute.stat")["keys"]["compute.stat"]
                     ["nr_throttled"], 5, "it is held")
            d.end_broker(signal.SIGKILL)
            d.ctl("set", "a", "compute.max=max")
            self.assertEqual(a.answer()[0], 0)
            d.ctl("set", "a", "compute.max=20000 100000")
            a.tell("k 3000 500")
            self.assert_near(self.shares(d, 1.5, "a")[0], 0.2, 0.15)
            self.assertEqual(a.answer()[0], 0)

    def test_wrong_ones_change_nothing(self):
        with Daemon(config="[tenant a]\n") as d:
            for text in "0", "-1", "999", "25000 999", "25000 100000 1", "25 %", "", "10000001":
                with self.assertRaises(AssertionError) as e:
                    d.ctl("set", "a", f"compute.max={text}")
                self.assertIn("is neither max nor a quota", str(e.exception))
            self.assertEqual(d.ctl("get", "a", "compute.max")["keys"]["compute.max"], "max")
            for text, is_ in (("2000", "2000 100000"), ("max 5000", "max"),
                              ("25000   50000", "25000 50000")):
                keys = d.ctl("set", "a", f"compute.max={text}")["keys"]
                self.assertEqual(keys["compute.max"], is_)


if __name__ == "__main__":
    unittest.main()
