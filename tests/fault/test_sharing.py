#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that has been evicted and is then given to another process: it becomes resident, or is
shared where it is, and both see the same bytes."""
import time
import unittest

from fault import Daemon, FaultTest, Script, patient, wait_for

MIB = 1 << 20
# Time after which idle memory is moved out of reach.
IDLE_SECONDS = 5.2
TENANTS = "[tenant a]\nmemory.max = 1G\n[tenant b]\nmemory.max = 1G\n"


def swapping(memory, *options, config=TENANTS):
    """Nobody takes turns: what has been evicted is mapped."""
    return Daemon("--memory", f"{memory}M", "--swap", "256M", *options,
                  config="[daemon]\ntime = fair\n" + config)


class Sharing(FaultTest):
    def setUp(self):
        super().setUp()
        self.people = []

    def keeps(self, d, tenant):
        t = Script(d, "keeps", tenant)
        self.assertEqual(t.say("s"), (0, 0))
        self.people.append(t)
        return t

    def stat(self, d, tenant="a"):
        """MiB, by the keys of memory.stat."""
        keys = d.ctl("get", tenant, "memory.stat")["keys"]
        return {k: v / MIB for k, v in keys["memory.stat"].items()}

    def evicted(self, d, tenant="a"):
        return next(t["memory.swap.current"] / MIB for t in d.ctl("list")["tenants"]
                    if t["name"] == tenant)

    def move_out(self, d, mib, tenant="a"):
        """An operator does; it stays evicted until the program works again."""
        d.ctl("reclaim", tenant, f"{mib}M")

    def give(self, who, slot):
        """The handle, or None and the error."""
        who.tell(f"e {slot}")
        line = who.process.stdout.readline().strip()
        self.assertEqual(len(line), 128, line)
        self.assertEqual(who.answer(), (0, 0))
        return line

    def take(self, who, slot, mib, handle):
        self.assertEqual(who.say(f"o {slot} {mib * MIB} {handle}"), (0, 0))

    def assert_kept(self, who, *slots):
        for slot in slots:
            self.assertEqual(who.say(f"c {slot}"), (0, 0))

    def assert_same(self, maker, taker, slot):
        """The taker sees all that the maker writes, and the maker what the taker does."""
        self.assert_kept(maker, slot)
        self.assert_kept(taker, slot)
        self.assertEqual(maker.say(f"l {slot} 1"), (0, 0))
        self.assertEqual(maker.say("s"), (0, 0))
        self.assertNotEqual(taker.say(f"c {slot}")[1], 0)
        self.assertEqual(taker.say(f"l {slot} 1"), (0, 0))
        self.assertEqual(taker.say("s"), (0, 0))
        self.assertNotEqual(maker.say(f"c {slot}")[1], 0)

    def end_all(self, d):
        for p in self.people:
            p.process.stdin.close()
            self.assertEqual(p.process.wait(patient(20)), 0)
        wait_for(lambda: not d.sessions(), 5, "all sessions have ended")
        device = d.ctl("list")["device"]
        self.assertEqual((device["memory.current"], device["memory.swap.current"]), (0, 0))

    def end(self, d, one, tenant):
        self.people.remove(one)
        one.process.stdin.close()
        self.assertEqual(one.process.wait(patient(20)), 0)
        wait_for(lambda: all(s["tenant"] != tenant for s in d.ctl("list")["sessions"]), 5,
                 "its session has ended")

    def share_evicted(self, d, mib, **kept):
        """a has memory, it goes away, and is shared."""
        a, other = self.keeps(d, "a"), self.keeps(d, "a")
        self.assertEqual(a.say(f"a 0 {mib * MIB}"), (0, 0))
        self.assertEqual(a.say("s"), (0, 0))
        self.move_out(d, mib)
        self.assertEqual(self.evicted(d), mib)
        self.take(other, 0, mib, self.give(a, 0))
        for key, value in kept.items():
            self.assertEqual(self.stat(d)[key], value, key)
        self.assert_same(a, other, 0)
        return a, other

    def test_becomes_resident(self):
        with swapping(64, "--piece", "2M") as d:
            a, other = self.share_evicted(d, 10, pinned=10, mapped=0, movable=0)
            self.assertEqual(self.evicted(d), 0)
            # and stays
            self.move_out(d, 10)
            self.assertEqual(self.stat(d)["pinned"], 10)
            # what its maker has freed is paid for until the other lets go
            self.assertEqual(a.say("f 0"), (0, 0))
            self.assertEqual(other.say("l 0 1"), (0, 0))
            self.assertEqual(other.say("q 0"), (0, 0))
            self.end_all(d)

    def test_of_several_extents(self):
        with swapping(64, "--piece", "128K") as d:
            a, other = self.keeps(d, "a"), self.keeps(d, "a")
            self.assertEqual(a.say(f"a 0 {50 * MIB}"), (0, 0))
            self.take(other, 0, 50, self.give(a, 0))
            self.assert_same(a, other, 0)
            self.assertEqual(a.say("f 0"), (0, 0))
            self.assertEqual(other.say("q 0"), (0, 0))
            self.end_all(d)

    def test_in_many_pieces(self):
        """Extents of 16 MiB, of which there was room for a part."""
        with swapping(64, "--piece", "128K") as d:
            a, b, other = self.keeps(d, "a"), self.keeps(d, "b"), self.keeps(d, "a")
            self.assertEqual(a.say(f"a 0 {50 * MIB}"), (0, 0))
            self.assertEqual(a.say("s"), (0, 0))
            self.move_out(d, 50)
            self.assertEqual(b.say(f"a 0 {54 * MIB}"), (0, 0))
            self.assertEqual(b.say("s"), (0, 0))

            def came_back():
                self.assertEqual(a.say("w 0 1"), (0, 0)) # it works
                return self.evicted(d) <= 42
            wait_for(came_back, 5, "some of it has come back")
            # Memory that b frees it keeps for a moment, and a's would be shared where it lies.
            self.end(d, b, "b")
            self.assertEqual(a.say("s"), (0, 0)) # so they would if it worked
            self.take(other, 0, 50, self.give(a, 0))
            self.assertEqual(self.stat(d)["pinned"], 50)
            self.assert_same(a, other, 0)
            self.end_all(d)

    def test_out_of_reach(self):
        """Sessions that have done nothing for long give memory back before they do."""
        config = (TENANTS + "[tenant c]\nmemory.max = 1G\n").replace("b]", "b]\nmemory.min = 64M")
        with swapping(64, "--piece", "2M", config=config) as d:
            a, c = self.keeps(d, "a"), self.keeps(d, "c")
            for who in (a, c):
                for slot in (0, 1):
                    self.assertEqual(who.say(f"a {slot} {10 * MIB}"), (0, 0))
                self.assertEqual(who.say("s"), (0, 0))
            time.sleep(IDLE_SECONDS)
            for tenant in "ac":
                self.move_out(d, 20, tenant)
                self.assertEqual(self.stat(d, tenant)["swapped"], 20)
            others = self.keeps(d, "a"), self.keeps(d, "c")
            self.take(others[0], 0, 10, self.give(a, 0))
            self.assertEqual(self.stat(d, "a")["pinned"], 10)
            b = self.keeps(d, "b")
            self.assertEqual(b.say(f"a 0 {50 * MIB}"), (0, 0)) # no room is left for c's
            self.take(others[1], 0, 10, self.give(c, 0))
            self.assertEqual(self.stat(d, "c")["pinned"], 0)
            self.assertEqual(self.stat(d, "c")["mapped"], 20)
            self.assert_same(a, others[0], 0)
            self.assert_same(c, others[1], 0)
            self.assert_kept(a, 1)
            self.assert_kept(c, 1)
            self.assert_kept(b, 0)
            self.end_all(d)

    def test_others_give_way_for_it(self):
        with swapping(64, "--piece", "2M") as d:
            a, b, other = self.keeps(d, "a"), self.keeps(d, "b"), self.keeps(d, "a")
            self.assertEqual(a.say(f"a 0 {20 * MIB}"), (0, 0))
            self.assertEqual(a.say("s"), (0, 0))
            self.move_out(d, 20)
            self.assertEqual(b.say(f"a 0 {60 * MIB}"), (0, 0))
            self.assertEqual(b.say("s"), (0, 0))
            self.take(other, 0, 20, self.give(a, 0))
            self.assertEqual(self.stat(d)["pinned"], 20)
            self.assertGreaterEqual(self.evicted(d, "b"), 16)
            self.assert_same(a, other, 0)
            self.assert_kept(b, 0)
            self.end_all(d)

    def test_no_room(self):
        """Memory that has no room is shared in host memory, and paid for there."""
        config = TENANTS.replace("b]", "b]\nmemory.min = 64M")
        with swapping(64, "--piece", "2M", config=config) as d:
            a, b, other = self.keeps(d, "a"), self.keeps(d, "b"), self.keeps(d, "a")
            self.assertEqual(a.say(f"a 0 {20 * MIB}"), (0, 0))
            self.assertEqual(a.say("s"), (0, 0))
            self.move_out(d, 20)
            self.assertEqual(b.say(f"a 0 {60 * MIB}"), (0, 0))
            self.take(other, 0, 20, self.give(a, 0))
            self.assertEqual(self.stat(d)["mapped"], 20)
            self.assert_same(a, other, 0)
            # room now, but it stays where both have it
            self.assertEqual(b.say("f 0"), (0, 0))
            self.assertEqual(self.evicted(d), 20)
            self.assertEqual(a.say("f 0"), (0, 0))
            self.assertEqual(self.evicted(d), 20)
            self.assertEqual(other.say("l 0 1"), (0, 0))
            self.assertEqual(other.say("q 0"), (0, 0))
            wait_for(lambda: self.evicted(d) == 0, 5, "nobody has it")
            self.end_all(d)

    def share_under_a_kernel(self, d, stays, **kept):
        """a has memory, it goes away, and is shared while a kernel works on other memory."""
        a, other = self.keeps(d, "a"), self.keeps(d, "a")
        self.assertEqual(a.say(f"a 0 {10 * MIB}"), (0, 0))
        self.assertEqual(a.say(f"a 1 {2 * MIB}"), (0, 0))
        self.assertEqual(a.say("s"), (0, 0))
        self.move_out(d, 12)
        if stays:
            self.assertEqual(a.say("h"), (0, 0))
        self.assertEqual(a.say("w 1 2000000000"), (0, 0))
        self.take(other, 0, 10, self.give(a, 0))
        self.assert_kept(other, 0)
        for key, value in kept.items():
            self.assertEqual(self.stat(d)[key], value, key)
        a.process.kill()
        self.people.remove(a)
        wait_for(lambda: len(d.sessions()) == 1, 5, "a's session has ended")
        # the other still has it
        self.assert_kept(other, 0)
        self.assertEqual(self.evicted(d), kept.get("mapped", 2) - 2)
        self.assertEqual(other.say("l 0 1"), (0, 0))
        self.assert_kept(other, 0)
        self.end_all(d)

    def test_while_a_kernel_runs(self):
        """A kernel that does not end, and cannot stand still, is not waited for."""
        with swapping(64, "--piece", "2M") as d:
            self.share_under_a_kernel(d, True, mapped=12)

    def test_while_a_kernel_stands_still(self):
        with swapping(64, "--piece", "2M") as d:
            self.share_under_a_kernel(d, False, pinned=10)


if __name__ == "__main__":
    unittest.main()
