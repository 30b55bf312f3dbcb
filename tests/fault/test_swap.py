#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More memory than the device has: what happens when moving it goes wrong."""
import os
import random
import time
import unittest
import unittest.mock

from fault import (SEED, Daemon, FaultTest, Script, alive, kill, patient, rounds, until_running,
                   wait_for)

MIB = 1 << 20
PIECE = 2 << 20
OUT_OF_MEMORY, ILLEGAL_ADDRESS = 2, 700
# More than the device has may be had only by who was promised it.
TWO = "[tenant a]\nmemory.max = 1G\n[tenant b]\nmemory.max = 1G\n"


def swapping(memory, swap, config=TWO, reserve=0):
    """Nobody takes turns: memory is where its tenant's share says."""
    return Daemon("--memory", f"{memory}M", "--swap", f"{swap}M", "--piece", "2M",
                  "--reserve", f"{reserve}M", config="[daemon]\ntime = fair\n" + config)


def figures(d):
    """MiB on the device and in host memory, by tenant; None the device as a whole."""
    state = d.ctl("list")
    out = {t["name"]: (t["memory.current"] / MIB, t["memory.swap.current"] / MIB)
           for t in state["tenants"]}
    out[None] = (state["device"]["memory.current"] / MIB, state["device"]["memory.swap.current"] / MIB)
    return out


class Swap(FaultTest):
    def keeps(self, d, tenant):
        """One whose session has begun: it outlives its worker from here on."""
        t = Script(d, "keeps", tenant)
        self.assertEqual(t.say("s"), (0, 0))
        return t

    def fill(self, who, slots, mib):
        for slot in slots:
            self.assertEqual(who.say(f"a {slot} {mib * MIB}"), (0, 0))
            self.assertEqual(who.say(f"l {slot} 2"), (0, 0))

    def assert_kept(self, who, slots):
        for slot in slots:
            self.assertEqual(who.say(f"c {slot}"), (0, 0))

    def assert_empty(self, d):
        wait_for(lambda: not d.sessions(), 5, "all sessions have ended")
        self.assertEqual(set(figures(d).values()), {(0, 0)})

    def end(self, *people):
        for p in people:
            p.process.stdin.close()
            self.assertEqual(p.process.wait(patient(20)), 0)

    def unequal(self, d):
        f = figures(d)
        return abs(f["a"][0] - f["b"][0])

    def test_equal_shares(self):
        """One has all; another comes and takes its half of it, piece by piece; and goes."""
        with swapping(64, 256) as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(a, range(31), 2)
            self.fill(b, range(31), 2)
            f = figures(d)
            self.assertEqual(f["a"][0] + f["a"][1], 62)
            self.assertEqual(f["b"][0] + f["b"][1], 62)
            self.assertLessEqual(f[None][0], 64)
            # at once, but for work that was in flight
            wait_for(lambda: self.unequal(d) <= PIECE / MIB, 5, "both have the same")
            self.assert_kept(a, range(31))
            self.assert_kept(b, range(31))
            self.end(b)
            wait_for(lambda: figures(d)["a"] == (62, 0), 5, "everything is back")
            self.assert_kept(a, range(31))
            self.end(a)
            self.assert_empty(d)

    def test_given_back_at_the_end(self):
        """By the worker itself, unless something runs on: then the kernel does it."""
        with unittest.mock.patch.dict(os.environ, WEFT_LOG="debug"), swapping(64, 256) as d:
            def by_itself():
                return d.log().count("gave memory back")

            a = self.keeps(d, "a")
            self.fill(a, range(31), 2)
            for _ in range(10):  # on a busy machine it may be late
                b = self.keeps(d, "b")
                self.fill(b, range(31), 2)
                self.assertEqual(b.say("s"), (0, 0))  # nothing runs on
                self.end(b)
                wait_for(lambda: figures(d)["a"] == (62, 0), 5, "everything is back")
                wait_for(lambda: len(d.sessions()) == 1, 5, "the session is gone")
                if by_itself():
                    break
            n = by_itself()
            self.assertGreater(n, 0)
            endless = d.run("endless", 4, tenant="b")
            until_running(endless)
            kill(endless.pid)
            wait_for(lambda: len(d.sessions()) == 1, 1, "the session is gone")
            self.assertEqual(by_itself(), n)
            self.assert_kept(a, range(31))
            self.end(a)
            self.assert_empty(d)

    def test_reserve(self):
        """Once there is not enough for all a little is free again and again; shares are equal
        beside it; and who is left alone has everything."""
        with swapping(64, 256, reserve=8) as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(a, range(31), 2)
            self.assertEqual(figures(d)["a"], (62, 0))
            self.fill(b, range(2), 2)
            for slot in range(2, 31):
                wait_for(lambda: figures(d)[None][0] <= 56, 5, "the reserve is there")
                self.fill(b, [slot], 2)
            wait_for(lambda: figures(d)[None][0] <= 56, 5, "the reserve is there")
            wait_for(lambda: self.unequal(d) <= PIECE / MIB, 5, "both have the same")
            f = figures(d)
            self.assertEqual((sum(f["a"]), sum(f["b"])), (62, 62))
            self.assertGreaterEqual(f[None][0], 56 - PIECE / MIB)
            self.assert_kept(a, range(31))
            self.assert_kept(b, range(31))
            # whoever allocates is evicted itself
            self.fill(a, [31], 4)
            wait_for(lambda: figures(d)[None][0] <= 56, 5, "the reserve is there again")
            wait_for(lambda: self.unequal(d) <= PIECE / MIB, 5, "both have the same")
            self.end(b)
            wait_for(lambda: figures(d)["a"] == (56, 10), 5, "a has what may be had")
            self.assertEqual(a.say("f 31"), (0, 0))
            wait_for(lambda: figures(d)["a"] == (62, 0), 10, "everything fits")
            self.assert_kept(a, range(31))
            self.end(a)
            self.assert_empty(d)

    def others_start(self, d):
        """Whether a worker beside theirs starts as soon as two have come who had to wait."""
        two = [self.keeps(d, "b") for _ in range(2)]
        n = len(d.children("weft-worker"))
        self.end(*two)
        wait_for(lambda: len(d.sessions()) == 1, 5, "they have gone")
        time.sleep(0.5)  # the pool is full again, most likely
        return n > 3

    def test_workers_wait_for_calm(self):
        """Contexts hold up the driver: only who has to wait for one has it made while
        somebody has just come, and nobody's is made for later."""
        with Daemon("--memory", "64M", "--swap", "256M", "--piece", "2M", "--reserve", "0",
                    "--pool", "1", config=TWO) as d:
            a = self.keeps(d, "a")
            # what takes long here may have been calm
            self.assertFalse(all(self.others_start(d) for _ in range(5)))
            self.fill(a, range(31), 2)
            self.assertFalse(all(self.others_start(d) for _ in range(5)))
            d.ctl("set", "a", "memory.high=20M")
            wait_for(lambda: figures(d)["a"][1] >= 40, 5, "most is evicted")
            self.assertFalse(all(self.others_start(d) for _ in range(5)))
            self.end(a)

    def test_workers_come_in_the_end(self):
        """Programs one after the other do not keep the pool from being filled for ever."""
        with Daemon("--memory", "64M", "--pool", "8", config=TWO) as d:
            wait_for(lambda: len(d.children("weft-worker")) == 8, 5, "the pool is full")
            until = time.monotonic() + patient(20)
            came = 0
            while came < 10 or len(d.children("weft-worker")) < 8:
                self.assertLess(time.monotonic(), until, "the pool is filled up")
                self.end(self.keeps(d, "b"))
                came += 1

    def fills_up(self, d, seconds):
        """Whether a pool that was used up does, while programs come and go for so long."""
        last = time.monotonic()
        until = last + seconds
        used_up = filled = False
        while last < until:
            self.end(self.keeps(d, "b"))
            n = len(d.children("weft-worker"))
            now = time.monotonic()
            used_up = n < 5 or (used_up and now < last + 0.09)  # else it may have been calm
            filled |= used_up and n >= 8
            last = now
        wait_for(lambda: len(d.children("weft-worker")) == 9, 5, "the pool is full again")
        return filled

    def test_workers_wait_while_memory_is_scarce(self):
        """There, they do as long as somebody keeps coming."""
        with Daemon("--memory", "64M", "--swap", "256M", "--piece", "2M", "--reserve", "0",
                    "--pool", "8", config=TWO) as d:
            a = self.keeps(d, "a")
            self.fill(a, range(31), 2)
            wait_for(lambda: len(d.children("weft-worker")) == 9, 5, "the pool is full")
            self.assertFalse(all(self.fills_up(d, 4) for _ in range(3)))
            self.end(a)

    def test_no_limit_is_the_device(self):
        """A tenant without a promise beyond the device is refused what the device has not."""
        with swapping(64, 256, "[tenant a]\n[tenant b]\n") as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.assertEqual(a.say(f"a 0 {66 * MIB}")[0], OUT_OF_MEMORY)
            self.fill(a, range(31), 2)
            self.assertEqual(a.say(f"a 31 {4 * MIB}")[0], OUT_OF_MEMORY)
            # together they may be promised more, and have it
            self.fill(b, range(31), 2)
            self.assertEqual(sum(figures(d)["a"]), 62)
            self.assertEqual(b.say(f"a 31 {4 * MIB}")[0], OUT_OF_MEMORY)
            for tenant in "ab":
                events = d.ctl("get", tenant, "memory.events")["keys"]["memory.events"]
                self.assertEqual(events["max"], 0)
            d.ctl("set", "a", "memory.max=66M")
            self.fill(a, [31], 4)
            self.assertEqual(a.say(f"a 32 {2 * MIB}")[0], OUT_OF_MEMORY)
            self.assert_kept(a, range(32))
            self.assert_kept(b, range(31))
            self.end(a, b)
            self.assert_empty(d)

    def test_host_memory_exhausted(self):
        """An allocation that does not fit is refused, and nobody else notices."""
        with swapping(64, 16) as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(a, range(10), 6)
            self.assertEqual(b.say(f"a 0 {30 * MIB}")[0], OUT_OF_MEMORY)
            self.assertEqual(figures(d)["a"], (60, 0))
            self.fill(b, [0], 16)
            self.assertLessEqual(figures(d)[None][1], 16)
            self.assertEqual(b.say(f"a 1 {20 * MIB}")[0], OUT_OF_MEMORY)
            self.assert_kept(a, range(10))
            self.assert_kept(b, [0])
            for slot in (8, 9):
                self.assertEqual(a.say(f"f {slot}"), (0, 0))
            self.fill(b, [1], 12)
            self.assert_kept(a, range(8))
            self.assert_kept(b, range(2))
            self.end(a, b)
            self.assert_empty(d)

    def test_swap_max(self):
        """A tenant that may not be evicted stays, and another gets what is left."""
        with swapping(64, 256, TWO.replace("]", "]\nmemory.swap.max = 0")) as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(a, range(6), 10)
            self.assertEqual(b.say(f"a 0 {20 * MIB}")[0], OUT_OF_MEMORY)
            self.fill(b, [1], 2)
            self.assertEqual(figures(d)["a"], (60, 0))
            d.ctl("set", "a", "memory.swap.max=10M")
            self.fill(b, [2], 8)
            self.assertLessEqual(figures(d)["a"][1], 10)
            self.assertEqual(b.say(f"a 0 {20 * MIB}")[0], OUT_OF_MEMORY)
            self.assert_kept(a, range(6))
            self.end(a, b)
            self.assert_empty(d)

    def test_larger_than_the_device(self):
        """One allocation: what has no room lies in host memory, and is right all the same."""
        with swapping(64, 256) as d:
            a = self.keeps(d, "a")
            self.fill(a, [0], 128)
            f = figures(d)
            self.assertEqual(sum(f["a"]), 128)
            self.assertGreaterEqual(f["a"][0], 64 - PIECE / MIB)
            self.assert_kept(a, [0])
            # and it may be refused, which leaves nothing behind
            self.assertEqual(a.say(f"a 1 {400 * MIB}")[0], OUT_OF_MEMORY)
            self.assertEqual(sum(figures(d)["a"]), 128)
            self.assertEqual(a.say("f 0"), (0, 0))
            self.assertEqual(figures(d)["a"], (0, 0))
            self.fill(a, [0], 60)
            self.assertEqual(figures(d)["a"], (60, 0))
            self.end(a)
            self.assert_empty(d)

    def test_what_is_free_can_be_had(self):
        """In one allocation, with what others are evicted and what lies in host memory."""
        config = "[tenant a]\nmemory.max = 200M\n[tenant b]\nmemory.max = 1G\n"
        with swapping(64, 160, config) as d:
            a, b = Script(d, "grab", "a"), self.keeps(d, "b")
            self.assertEqual(a.say("i"), (0, 200 * MIB, 200 * MIB))
            self.assertEqual(a.say(f"a 0 {200 * MIB}"), (0, 0, 200 * MIB))
            self.assertEqual(a.say(f"a 1 {2 * MIB}")[0], OUT_OF_MEMORY)
            self.assertEqual(a.say("f 0"), (0, 200 * MIB, 200 * MIB))
            # 64 and 160 are left by b's 60, wherever they are
            self.fill(b, [0], 60)
            left = a.say("i")[1]
            self.assertEqual(left, 164 * MIB)
            self.assertEqual(a.say(f"a 0 {left + 2 * MIB}")[0], OUT_OF_MEMORY)
            for how in "acp":
                self.assertEqual(a.say(f"{how} 0 {left}")[:2], (0, 0), how)
                self.assert_kept(b, [0])
                self.assertEqual(a.say("f 0")[0], 0)
            wait_for(lambda: figures(d)["b"] == (60, 0), 5, "b has all back")
            self.end(a, b)
            self.assert_empty(d)

    def test_larger_than_its_share(self):
        """Both want more than half in one allocation: both get it, and half on the device."""
        with swapping(64, 256) as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(a, [0], 100)
            self.fill(b, [0], 100)
            self.fill(b, [1], 1)
            wait_for(lambda: self.unequal(d) <= 2 * PIECE / MIB, 5, "both have the same")
            f = figures(d)
            self.assertEqual((sum(f["a"]), sum(f["b"])), (100, 102))
            self.assert_kept(a, [0])
            self.assert_kept(b, [0, 1])
            self.end(a)
            wait_for(lambda: figures(d)["b"][0] >= 64 - PIECE / MIB, 5, "b has what there is")
            self.assert_kept(b, [0, 1])
            self.end(b)
            self.assert_empty(d)

    def move_time(self, d, a, b, mib):
        """How long b waits until a has been evicted."""
        start = time.monotonic()
        self.assertEqual(b.say(f"a 9 {mib * MIB}"), (0, 0))
        took = time.monotonic() - start
        self.assertEqual(b.say("f 9"), (0, 0))
        wait_for(lambda: figures(d)["a"][1] == 0, 5, "a has all back")
        return took

    def in_the_middle(self, whom):
        """Rounds in which a has to be evicted to b and somebody's worker dies meanwhile."""
        rng = random.Random(SEED)
        with swapping(128, 256) as d:
            watcher = d.run("steady", 100000)
            until_running(watcher)
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(a, range(2), 60)
            took = self.move_time(d, a, b, 60)
            self.end(a, b)
            wait_for(lambda: len(d.sessions()) == 1, 5, "their sessions have ended")
            for _ in range(rounds(6)):
                people = {"a": self.keeps(d, "a"), "b": self.keeps(d, "b")}
                self.fill(people["a"], range(2), 60)
                pid = d.sessions(whom)[0]["worker.pid"]
                people["b"].tell(f"a 0 {60 * MIB}")
                time.sleep(rng.uniform(0, 1.2 * took))
                kill(pid)
                other = people.pop("b" if whom == "a" else "a")
                if whom == "a":
                    self.assertEqual(other.answer(), (0, 0))
                    self.assertEqual(other.say("c 0"), (0, 0))
                else:
                    self.assert_kept(other, range(2))
                    wait_for(lambda: figures(d)["a"] == (120, 0), 5, "all of it is back")
                dead = people.popitem()[1]
                if whom == "b":
                    dead.answer()  # it may have been in time
                self.assertNotEqual(dead.say("s")[0:1], (0,))
                self.end(other)
                dead.process.kill()
                wait_for(lambda: len(d.sessions()) == 1, 5, "their sessions have ended")
                self.assertEqual(figures(d)[None][1], 0)
            self.assertIsNone(watcher.poll())
            watcher.kill()
            watcher.wait()
            self.assert_empty(d)

    def test_worker_of_the_victim_killed(self):
        self.in_the_middle("a")

    def test_worker_of_who_waits_killed(self):
        self.in_the_middle("b")

    def test_daemon_killed(self):
        """In the middle of a move: all sessions end, the next daemon begins with nothing."""
        rng = random.Random(SEED)
        with swapping(128, 512) as d:
            for _ in range(rounds(4)):
                a, b = self.keeps(d, "a"), self.keeps(d, "b")
                self.fill(a, range(2), 60)
                b.tell(f"a 0 {100 * MIB}")
                time.sleep(rng.uniform(0, 0.1))
                children = d.children()
                kill(d.process.pid)
                d.process.wait()
                for p in (a, b):
                    p.tell("s")
                    p.answer()
                    wait_for(lambda: not any(map(alive, children)), 5, "its workers have ended")
                    self.assertNotEqual(p.say("s")[0:1], (0,))
                    p.process.kill()
                d.__enter__()
                self.assert_empty(d)
            self.assert_right(d.run("mixed", 1, 60, SEED, tenant="a"))
            self.assert_empty(d)

    def test_allocates_and_frees_as_fast_as_it_can(self):
        """Others are evicted over and over, and what they have stays right."""
        with swapping(64, 256) as d:
            a, b, c = (self.keeps(d, t) for t in ("a", "b", "b"))
            self.fill(a, range(5), 10)
            b.tell(f"t 3 {20 * MIB}")
            c.tell(f"t 3 {1 * MIB}")
            end = time.monotonic() + 3
            while time.monotonic() < end:
                for slot in range(5):
                    self.assertEqual(a.say(f"l {slot} 1"), (0, 0))
                    self.assertEqual(a.say(f"c {slot}"), (0, 0))
            for p in (b, c):
                error, times = p.answer()
                self.assertEqual(error, 0)
                self.assertGreater(times, 0)
            wait_for(lambda: figures(d)["a"] == (50, 0), 5, "a has all back")
            self.assert_kept(a, range(5))
            self.end(a, b, c)
            self.assert_empty(d)

    def test_limits_below_what_is_in_use(self):
        with swapping(64, 256) as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(a, range(4), 10)
            # above high: it is evicted while nobody waits, and goes on
            d.ctl("set", "a", "memory.high=16M")
            wait_for(lambda: figures(d)["a"][0] <= 16, 5, "a is below its high")
            self.assertEqual(sum(figures(d)["a"]), 40)
            self.assert_kept(a, range(4))
            d.ctl("set", "a", "memory.high=max")
            wait_for(lambda: figures(d)["a"] == (40, 0), 5, "it is back")
            # above max: nothing is added, nothing is lost
            d.ctl("set", "a", "memory.max=20M")
            self.assertEqual(a.say(f"a 5 {MIB}")[0], OUT_OF_MEMORY)
            self.assert_kept(a, range(4))
            self.assertEqual(sum(figures(d)["a"]), 40)
            for slot in range(3):
                self.assertEqual(a.say(f"f {slot}"), (0, 0))
            self.fill(a, [5], 6)
            self.assert_kept(a, [3, 5])
            d.ctl("set", "a", "memory.max=1G")
            # more evicted than allowed: no more goes
            self.fill(a, [6], 40)
            self.fill(b, [0], 30)
            evicted = figures(d)["a"][1]
            self.assertGreater(evicted, 0)
            for tenant in "ab":
                d.ctl("set", tenant, "memory.swap.max=1M")
            self.assertEqual(b.say(f"a 1 {40 * MIB}")[0], OUT_OF_MEMORY)
            # an extent has left whole, and the rest of it may still be on its way back
            wait_for(lambda: figures(d)["a"][1] <= evicted, 5, "no more has gone")
            self.assert_kept(a, [3, 5, 6])
            self.assert_kept(b, [0])
            self.end(a, b)
            self.assert_empty(d)

    def test_min_is_kept(self):
        with swapping(64, 256, TWO.replace("a]", "a]\nmemory.min = 40M")) as d:
            a, b = self.keeps(d, "a"), self.keeps(d, "b")
            self.fill(a, range(3), 20)
            self.fill(b, [0], 22)
            self.assertGreaterEqual(figures(d)["a"][0], 40)
            self.fill(b, [1], 30)
            self.assertGreaterEqual(figures(d)["a"][0], 40)
            self.assertGreater(figures(d)["b"][1], 0)
            self.assert_kept(a, range(3))
            self.assert_kept(b, range(2))
            self.end(a, b)
            self.assert_empty(d)

    def test_fault_in_a_kernel_whose_memory_is_to_move(self):
        """The program dies of its own fault only, and who waits for its memory gets it."""
        with swapping(64, 256) as d:
            for n in (1, 1000, rounds(20000), rounds(40000)):
                a, b = self.keeps(d, "a"), self.keeps(d, "b")
                self.fill(a, [0], 60)
                self.assertEqual(a.say("s"), (0, 0))
                self.assertEqual(a.say(f"x 0 {n}"), (0, 0))
                # what a lost context has cannot move
                error = b.say(f"a 0 {30 * MIB}")[0]
                self.assertIn(error, (0, OUT_OF_MEMORY))
                self.assertEqual(a.say("s")[0], ILLEGAL_ADDRESS)
                a.process.kill()
                wait_for(lambda: not d.sessions("a"), 5, "a's session has ended")
                self.fill(b, [1] if error == 0 else [0, 1], 30)
                self.assert_kept(b, [0, 1])
                self.end(b)
                self.assert_empty(d)

    def test_memory_leaves_from_under_a_kernel(self):
        """The kernel does not end; who wants its memory gets it, and is promised it."""
        config = TWO.replace("b]", "b]\nmemory.min = 32M")
        with swapping(64, 256, "reclaim.kill = 2\n" + config) as d:
            p = d.run("endless", 60, tenant="a")
            until_running(p)
            b = self.keeps(d, "b")
            self.fill(b, range(2), 16)
            self.assertEqual(figures(d)["b"], (32, 0))
            self.assertGreaterEqual(figures(d)["a"][1], 28)
            events = d.ctl("get", "a", "memory.events")["keys"]["memory.events"]
            self.assertGreater(events["frozen"], 0)
            self.assertEqual(events["busy"], 0)
            self.assertIsNone(p.poll())
            self.assert_kept(b, range(2))
            self.end(b)
            wait_for(lambda: figures(d)["a"] == (60, 0), 5, "a has all back")
            p.kill()
            self.assert_empty(d)

    def test_work_that_does_not_end(self):
        """The kernel is not interrupted; who wants its memory gets that of others, or waits."""
        with swapping(64, 256, TWO + "[tenant c]\nmemory.max = 1G\n") as d:
            p = d.run("endless", 40, "stays", tenant="a")
            until_running(p)
            b, c = self.keeps(d, "b"), self.keeps(d, "c")
            self.fill(b, [0], 20)
            self.fill(c, [0], 10)
            self.assertEqual(figures(d)["a"], (40, 0))
            self.assertGreater(figures(d)["b"][1], 0)
            self.assert_kept(b, [0])
            c.tell(f"a 1 {50 * MIB}")
            time.sleep(0.5)
            p.kill()
            self.assertEqual(c.answer(), (0, 0))
            self.assert_kept(b, [0])
            self.assert_kept(c, [0, 1])
            self.end(c)
            wait_for(lambda: figures(d)["b"] == (20, 0), 5, "b has all back")
            self.end(b)
            self.assert_empty(d)

    def test_work_that_never_ends(self):
        """A tenant that is promised memory waits for it once; then the one that holds it is ended."""
        config = TWO.replace("b]", "b]\nmemory.min = 32M")
        with swapping(64, 256, "reclaim.kill = 2\n" + config) as d:
            p = d.run("endless", 60, "stays", tenant="a")
            until_running(p)
            b = self.keeps(d, "b")
            self.fill(b, range(2), 8)
            wait_for(lambda: not d.sessions("a"), 40, "a's session has ended")
            self.assertIn("reclaim.kill", d.log())
            self.assertIn("reclaim.kill", d.ctl("info")["ended"][-1]["end"])
            out, _ = p.communicate(timeout=patient(10))
            self.assertEqual(p.returncode, 1, out)
            wait_for(lambda: figures(d)["b"] == (16, 0), 5, "b has what it was promised")
            self.assert_kept(b, range(2))
            self.end(b)
            self.assert_empty(d)


if __name__ == "__main__":
    unittest.main()
