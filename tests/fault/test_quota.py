#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory: a tenant's limit, the device's size, and what comes back."""
import random
import signal
import threading
import unittest

from fault import SEED, Daemon, FaultTest, Script, kill, patient, stat, until_running, wait_for


def Grabber(daemon, tenant):
    return Script(daemon, "grab", tenant)


class Quota(FaultTest):
    def test_limits(self):
        with Daemon("--memory", "1G",
                    config="[tenant small]\nmemory.max = 256M\n[tenant big]\n") as d:
            p = d.run("endless", 200, tenant="small")
            until_running(p)
            # a second session of the same tenant shares its limit
            q = d.run("endless", 100, tenant="small")
            q.communicate(timeout=patient(10))
            self.assertEqual(q.returncode, 2)
            # another tenant has its own, up to what the device has left
            r = d.run("endless", 700, tenant="big")
            until_running(r)
            s = d.run("endless", 200, tenant="big")
            s.communicate(timeout=patient(10))
            self.assertEqual(s.returncode, 2)
            used = {t["name"]: t["memory.current"] for t in d.ctl("list")["tenants"]}
            self.assertEqual(used["small"], 200 << 20)
            self.assertEqual(used["big"], 700 << 20)
            # what a dead session held can be had at once
            p.kill()
            wait_for(lambda: not d.sessions("small"), 1, "the session is gone")
            t = d.run("endless", 250, tenant="small")
            until_running(t)
            t.kill()
            r.kill()
            wait_for(lambda: not d.sessions(), 1, "all are gone")
            self.assertEqual(d.memory_used(), 0)

    def test_worker_memory(self):
        """Memory that sessions make their workers hold is one sum for the tenant."""
        limit = 24 << 20
        with Daemon("--memory", "256M",
                    config=f"[tenant one]\nworker.memory.max = {limit}\n[tenant two]\n") as d:
            def held(what="worker.memory.current"):
                return {t["name"]: t[what] for t in d.ctl("list")["tenants"]}["one"]
            self.assertEqual(held("worker.memory.max"), limit)
            grabbers = [Grabber(d, "one") for _ in range(3)]
            for g in grabbers:
                self.assertEqual(g.say("a 0 4096")[0], 0)
            for g in grabbers:
                self.assertEqual(g.say("e 0 200000")[0], 2)
                self.assertLessEqual(held(), limit)
            self.assertGreater(held(), limit // 2)
            # nobody has ended, and what needs no more of it goes on
            for g in grabbers:
                self.assertEqual(g.say("f 0")[0], 0)
                self.assertEqual(g.say("a 0 4096")[0], 0)
            other = Grabber(d, "two")
            self.assertEqual(other.say("e 0 50000")[0], 0)
            for g in grabbers:
                g.process.kill()
            wait_for(lambda: not d.sessions("one"), 1, "all of one are gone")
            self.assertEqual(held(), 0)
            again = Grabber(d, "one")
            self.assertEqual(again.say("e 0 20000")[0], 0)

    def test_one_after_the_other(self):
        """Memory and session of a program are there for the next, however it ended."""
        for swap in ([], ["--swap", "1G"]):
            with Daemon("--memory", "300M", *swap,
                        config="[tenant one]\nmemory.max = 256M\n") as d:
                for i in range(12):
                    g = Grabber(d, "one")
                    self.assertEqual(g.say(f"a 0 {200 << 20}")[0], 0)
                    if i % 2:
                        g.process.kill()
                    g.process.stdin.close()
                    g.process.wait(patient(10))

    def test_one_after_a_slow_one(self):
        """A program may come before its predecessor's worker has noticed the end."""
        for limit in ("memory.max = 256M", "sessions.max = 1"):
            with Daemon("--memory", "300M", config=f"[tenant one]\n{limit}\n") as d:
                g = Grabber(d, "one")
                self.assertEqual(g.say(f"a 0 {200 << 20}")[0], 0)
                worker = d.sessions("one")[0]["worker.pid"]
                kill(worker, signal.SIGSTOP)
                wait_for(lambda: stat(worker)[0] == "T", 1, "it stands still")
                g.process.kill()
                g.process.wait(patient(10))
                threading.Timer(0.3, kill, (worker, signal.SIGCONT)).start()
                self.assertEqual(Grabber(d, "one").say(f"a 0 {200 << 20}")[0], 0, limit)

    def test_shared(self):
        """Shared memory is paid for once, for as long as anybody has it; other tenants have not."""
        mib = 1 << 20
        with Daemon("--memory", "1G", config="[tenant one]\nmemory.max = 256M\n[tenant two]\n") as d:
            def used():
                return {t["name"]: t["memory.current"] // mib for t in d.ctl("list")["tenants"]}["one"]

            maker, user, other = Grabber(d, "one"), Grabber(d, "one"), Grabber(d, "two")
            handle = d.path("handle")
            self.assertEqual(maker.say(f"a 0 {100 * mib}")[0], 0)
            self.assertEqual(maker.say(f"s 0 {handle}")[0], 0)
            self.assertEqual(other.say(f"o 0 {handle}")[0], 1)
            self.assertEqual(user.say(f"o 0 {handle}")[:2], (0, 156 * mib))
            self.assertEqual(user.say(f"o 1 {handle}")[0], 0)
            self.assertEqual(used(), 100)
            self.assertEqual(maker.say("f 0")[0], 0)
            wait_for(lambda: used() == 100, 1, "who has it open keeps it")
            self.assertEqual(user.say(f"a 2 {200 * mib}")[0], 2)
            self.assertEqual(maker.say(f"a 0 {120 * mib}")[:2], (0, 36 * mib))
            self.assertEqual(maker.say(f"s 0 {handle}")[0], 0)
            self.assertEqual(user.say("f 0")[0], 0)
            self.assertEqual(used(), 220)
            self.assertEqual(user.say("f 1")[0], 0)
            wait_for(lambda: used() == 120, 1, "the last one has closed it")
            # the maker dies, then who opened it
            self.assertEqual(user.say(f"o 0 {handle}")[0], 0)
            maker.process.kill()
            wait_for(lambda: len(d.sessions("one")) == 1, 2, "the maker's session is gone")
            self.assertEqual(used(), 120)
            late = Grabber(d, "one")
            self.assertEqual(late.say(f"o 0 {handle}")[0], 1)
            late.process.kill()
            user.process.kill()
            wait_for(lambda: not d.sessions("one"), 2, "all are gone")
            self.assertEqual(used(), 0)
            self.assertEqual(other.say(f"o 0 {handle}")[0], 1)

    def test_random_against_model(self):
        """Three sessions of two tenants, limits that change: every answer is the model's."""
        rng = random.Random(SEED)
        mib, step = 1 << 20, 2 << 20
        with Daemon("--memory", "1G", config="[tenant x]\n[tenant y]\n") as d:
            names = ["x", "x", "y"]
            people = [Grabber(d, n) for n in names]
            limit = {"x": 1 << 30, "y": 1 << 30}
            held = [{}, {}, {}]

            def used(name=None):
                return sum(sum(h.values()) for h, n in zip(held, names) if name in (None, n))

            for n in range(3000):
                i = rng.randrange(3)
                me, name, mine = people[i], names[i], held[i]
                if rng.random() < 0.05:
                    name = rng.choice("xy")
                    limit[name] = rng.choice([step * rng.randrange(1, 300), 1 << 30])
                    d.ctl("set", name, f"memory.max={limit[name]}")
                    continue
                slot = rng.randrange(12)
                if slot in mine:
                    result, left, total = me.say(f"f {slot}")
                    self.assertEqual(result, 0)
                    del mine[slot]
                else:
                    size = step * rng.randrange(1, 40)
                    how = rng.choice("ac")
                    fits = (used(name) + size <= limit[name] and used() + size <= 1 << 30)
                    result, left, total = me.say(f"{how} {slot} {size}")
                    self.assertEqual(result, 0 if fits else 2, f"step {n}")
                    if fits:
                        mine[slot] = size
                self.assertEqual(total, min(limit[name], 1 << 30))
                room = max(limit[name] - used(name), 0)
                if (1 << 30) - used() < room:
                    # what others leave is told in steps
                    mine_all = used(name) + (1 << 30) - used()
                    room = max(mine_all - mine_all % (16 * mib) - used(name), 0)
                self.assertEqual(left, room, f"step {n}")
                if n % 50 == 0:
                    keys = d.ctl("get", name)["keys"]
                    self.assertEqual(int(keys["memory.current"]), used(name))
                    self.assertGreaterEqual(int(keys["memory.peak"]), used(name))
                    self.assertEqual(d.memory_used(), used())
            # a session that is killed gives back exactly what it held
            people[0].process.kill()
            held[0].clear()
            wait_for(lambda: len(d.sessions("x")) == 1, 2, "one session left")
            self.assertEqual(d.memory_used(), used())
            self.assertEqual(used() % mib, 0)

    def test_pools_and_keys(self):
        with Daemon("--memory", "1G", config="[tenant x]\nmemory.max = 100M\n"
                    "memory.low = 10M\n") as d:
            me = Grabber(d, "x")
            # 32 MiB at a time where there is room for that, else what is needed
            self.assertEqual(me.say(f"p 0 {40 << 20}"), (0, 36 << 20, 100 << 20))
            self.assertEqual(me.say(f"p 1 {30 << 20}"), (0, 4 << 20, 100 << 20))
            self.assertEqual(me.say(f"p 2 {30 << 20}")[0], 2)
            self.assertEqual(me.say(f"p 2 {20 << 20}")[0], 0)
            self.assertEqual(me.say(f"a 3 {4 << 20}"), (0, 0, 100 << 20))
            self.assertEqual(me.say("a 4 2097153")[0], 2)
            for slot in range(3):
                self.assertEqual(me.say(f"f {slot}")[0], 0)
            self.assertEqual(me.say("i"), (0, 96 << 20, 100 << 20))
            keys = d.ctl("get", "x")["keys"]
            self.assertEqual(keys["memory.current"], 4 << 20)
            self.assertEqual(keys["memory.peak"], 100 << 20)
            self.assertEqual(keys["memory.low"], 10 << 20)
            self.assertEqual(keys["memory.high"], "max")
            events = keys["memory.events"]
            self.assertGreaterEqual(events["max"], 2)
            self.assertEqual(events["oom"], 0)
            d.ctl("set", "x", "memory.max=2M", "memory.high=1M", "memory.swap.max=0")
            self.assertEqual(me.say("i"), (0, 0, 2 << 20))
            self.assertEqual(me.say("a 5 100")[0], 2)
            self.assertEqual(me.say("f 3"), (0, 2 << 20, 2 << 20))
            self.assertEqual(me.say("a 5 100"), (0, 0, 2 << 20))
            self.assertEqual(d.ctl("get", "x", "memory.high")["keys"],
                             {"memory.high": 1 << 20})
            # buffers of a context's own: the heap of device malloc()
            d.ctl("set", "x", "memory.max=100M")
            left = me.say(f"l 2 {8 << 20}")[1]
            self.assertEqual(me.say(f"l 2 {40 << 20}"), (0, left - (32 << 20), 100 << 20))
            self.assertEqual(me.say(f"l 2 {200 << 20}"), (2, left - (32 << 20), 100 << 20))
            self.assertEqual(me.say(f"l 2 {8 << 20}"), (0, left, 100 << 20))
            self.assertEqual(int(d.ctl("get", "x")["keys"]["memory.current"]),
                             (100 << 20) - left)
            d.ctl("set", "x", "memory.max=2M")
            for wrong in (["x", "memory.max=zero"], ["x", "memory.mex=1"], ["z", "memory.max=1"],
                          ["x", "socket=/tmp/x"], ["x", "memory.max=1", "memory.low=x"]):
                with self.assertRaises(AssertionError):
                    d.ctl("set", *wrong)
            self.assertEqual(d.ctl("get", "x", "memory.max")["keys"]["memory.max"],
                             2 << 20)

    def test_three_times_the_device(self):
        """Two tenants use 720 MiB of 256: every word is right, every number agrees."""
        rng = random.Random(SEED)
        mib = 1 << 20
        with Daemon("--memory", "256M", "--swap", "1G", config="[daemon]\ntime = fair\n"
                    "[tenant x]\nmemory.max = 384M\n[tenant y]\nmemory.max = 384M\n") as d:
            people = {n: Script(d, "keeps", n) for n in "xy"}
            held = {n: {} for n in "xy"}

            def used(name):
                return sum(held[name].values())

            def stat(name):
                keys = d.ctl("get", name)["keys"]
                return int(keys["memory.current"]), int(keys["memory.swap.current"])

            for n in range(200):
                name = rng.choice("xy")
                me, mine, slot = people[name], held[name], rng.randrange(40)
                if slot not in mine:
                    # two are left for what is smaller than a piece
                    size = min(2 * mib * rng.randrange(1, 17), 380 * mib - used(name))
                    if size:
                        self.assertEqual(me.say(f"a {slot} {size}"), (0, 0), f"step {n}")
                        mine[slot] = size
                elif rng.random() < 0.2:
                    self.assertEqual(me.say(f"f {slot}"), (0, 0))
                    del mine[slot]
                elif rng.random() < 0.7:
                    self.assertEqual(me.say(f"l {slot} 2"), (0, 0))
                else:
                    self.assertEqual(me.say(f"c {slot}"), (0, 0))
                if n % 10 == 0:
                    self.assertIn(sum(stat(name)) - used(name), (0, 2 * mib, 4 * mib))
                    self.assertLessEqual(d.memory_used(), 256 * mib)
            self.assertGreater(used("x") + used("y"), 600 * mib)
            # what monitoring says is what the program sees, moving included
            state = {t["name"]: t for t in d.ctl("list")["tenants"]}
            for name in "xy":
                self.assertEqual(state[name]["memory.total"], 384 * mib)
                self.assertEqual(state[name]["memory.free"], 384 * mib - sum(stat(name)))
            for name, mine in held.items():
                for slot in mine:
                    self.assertEqual(people[name].say(f"c {slot}"), (0, 0))
            events = d.ctl("get", "x")["keys"]["memory.events"]
            self.assertGreater(events["reclaim"], 0)
            self.assertEqual(events["oom"], 0)
            # one ends: what the other has evicted comes back, up to what fits
            people["x"].process.kill()
            wait_for(lambda: not d.sessions("x"), 5, "x has ended")
            wait_for(lambda: stat("y")[0] >= min(used("y"), 250 * mib), 5, "it came back")
            people["y"].process.stdin.close()
            self.assertEqual(people["y"].process.wait(patient(20)), 0)
            wait_for(lambda: not d.sessions(), 5, "all have ended")
            device = d.ctl("list")["device"]
            self.assertEqual((device["memory.current"], device["memory.swap.current"]), (0, 0))

    def test_manual_reclaim(self):
        mib = 1 << 20
        with Daemon("--memory", "256M", "--swap", "64M", "--pool", "1",
                    config="[daemon]\ntime = fair\n") as d:
            me = Script(d, "keeps", "local")
            for slot in range(24):
                self.assertEqual(me.say(f"a {slot} {4 * mib}"), (0, 0))
            self.assertEqual(d.ctl("reclaim", "local", "20M")["bytes"], 20 * mib)
            keys = d.ctl("get", "local")["keys"]
            self.assertEqual(keys["memory.current"], 76 * mib)
            self.assertEqual(keys["memory.swap.current"], 20 * mib)
            stat = keys["memory.stat"]
            self.assertEqual(stat["moved_out"], 20 * mib)
            self.assertEqual(stat["mapped"] + stat["swapped"], 20 * mib)
            # no more than there is host memory for
            self.assertEqual(d.ctl("reclaim", "local", "1G")["bytes"], 44 * mib)
            for slot in range(24):
                self.assertEqual(me.say(f"c {slot}"), (0, 0))
            wait_for(lambda: d.ctl("get", "local")["keys"]["memory.swap.current"] == 0, 5,
                     "it worked, and has its memory again")
            for wrong in (["nobody", "1M"], ["local", "much"], ["local"]):
                with self.assertRaises(AssertionError):
                    d.ctl("reclaim", *wrong)
        with Daemon("--memory", "256M") as d:
            with self.assertRaises(AssertionError):
                d.ctl("reclaim", "local", "1M")


if __name__ == "__main__":
    unittest.main()
