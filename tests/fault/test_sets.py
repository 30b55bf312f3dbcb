#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenants whose memory does not fit together take turns (policies/sets.c), and what the next one
needs comes in meanwhile; whatever happens to one, results are right and the others go on."""
import os
import re
import signal
import tempfile
import textwrap
import time
import unittest
import unittest.mock

from fault import Daemon, FaultTest, Script, kill, patient, until_running, wait_for
from test_swap import MIB, figures

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../hostd/doc/extents.md")
SETS = "[daemon]\ntime = sets\n"
THREE = SETS + "".join(f"[tenant {t}]\nmemory.max = 1G\n" for t in "abc")
SECONDS = 4


def sharing(config=THREE, memory=64):
    return Daemon("--memory", f"{memory}M", "--swap", "512M", "--piece", "2M", "--reserve", "0M",
                  config=config)


def stat(d, tenant):
    return d.ctl("get", tenant, "compute.stat")["keys"]["compute.stat"]


def events(d, tenant):
    return d.ctl("get", tenant, "memory.events")["keys"]["memory.events"]


def moved(d):
    return sum(s["memory.moved_in"] + s["memory.moved_out"] for s in d.ctl("list")["sessions"])


class Sets(FaultTest):
    def begin(self, d, tenants, mib=26, seconds=600):
        """Programs that use so much memory, each, and know every word of it, until end()."""
        return [d.run("mixed", seconds, mib, 7 + i, tenant=t) for i, t in enumerate(tenants)]

    def end(self, *programs):
        for p in programs:
            p.terminate()
        self.ended(*programs)

    def ended(self, *programs):
        for p in programs:
            out, _ = p.communicate(timeout=patient(90))
            self.assertEqual(p.returncode, 0, out)
            self.assertRegex(out, r"right \d+ refused 0\b")

    def told(self, people, *lines):
        """Has all of them do that at a time."""
        for line in lines:
            for p in people:
                p.tell(line)
        for p in people * len(lines):
            self.assertEqual(p.answer(), (0, 0))
        return True

    def test_all_have_their_turns(self):
        """Where the configuration does not say how time is shared."""
        with sharing(THREE.replace(SETS, "")) as d:
            people = self.begin(d, "abc")
            # A turn that begins as soon as there is work has not been waited for.
            wait_for(lambda: all(stat(d, t)["nr_turns"] and stat(d, t)["waited_usec"]
                                 for t in "abc"), 20, "each has waited for a turn")
            self.assertLessEqual(figures(d)[None][0], 64)
            self.end(*people)
            wait_for(lambda: not d.sessions(), 5, "all have ended")
            self.assertEqual(set(figures(d).values()), {(0, 0)})

    def test_all_have_their_turns_by_pilots_policies(self):
        for name in "mfit", "amfit", "madvise":
            config = THREE.replace("time = sets", f"time = {name}")
            with self.subTest(name), sharing(config) as d:
                people = self.begin(d, "abc")
                if name != "madvise":
                    wait_for(lambda: all(stat(d, t)["nr_turns"] for t in "abc"), 20,
                             "each has a turn")
                time.sleep(SECONDS / 4)
                self.end(*people)
                waited = [stat(d, t)["waited_usec"] for t in "abc"]
                self.assertEqual(any(waited), name != "madvise", waited)
                wait_for(lambda: not d.sessions(), 5, "all have ended")
                self.assertEqual(set(figures(d).values()), {(0, 0)})

    def test_who_gives_for_an_allocation_does_not_compute_with_what_is_out(self):
        for name in "mfit", "amfit":
            config = THREE.replace("time = sets", f"time = {name}")
            with self.subTest(name), sharing(config) as d:
                a, b = (Script(d, "keeps", t) for t in "ab")
                self.assertEqual(a.say(f"a 0 {40 * MIB}"), (0, 0))

                def work(p, seconds):
                    until = time.monotonic() + seconds
                    while time.monotonic() < until:
                        self.assertEqual(p.say("l 0 1"), (0, 0))
                        self.assertEqual(p.say("s"), (0, 0))

                work(a, 0.5)
                b.tell(f"a 0 {40 * MIB}")
                work(a, 1.5)
                self.assertEqual(b.answer(), (0, 0))
                work(b, 0.2)
                work(a, 0.2)
                missed = {s["tenant"]: s["memory.missed"] for s in d.ctl("list")["sessions"]}
                self.assertEqual(missed["a"], 0)
                for p in a, b:
                    self.assertEqual(p.say("c 0"), (0, 0))

    def test_no_turns_while_all_fits(self):
        with sharing(memory=256) as d:
            people = self.begin(d, "abc")
            time.sleep(1.5)
            self.assertEqual(moved(d), 0)
            self.end(*people)
            self.assertEqual([stat(d, t)["nr_turns"] for t in "abc"], [0, 0, 0])

    def test_one_that_fits_beside_them_stays(self):
        """A small one is never moved out, and never waits for a turn."""
        with sharing(THREE + "[tenant small]\n", memory=84) as d:
            small = Script(d, "keeps", "small")
            self.assertEqual(small.say(f"a 0 {2 * MIB}"), (0, 0))
            people = self.begin(d, "abc")
            # Memory of one that has not computed yet is no part of its turns, and in the way.
            wait_for(lambda: all(stat(d, t)["nr_turns"] for t in "abc"), 20, "each has a turn")
            turns = stat(d, "small")["nr_turns"]
            until = time.monotonic() + SECONDS - 2
            while time.monotonic() < until:
                self.assertEqual(small.say("l 0 5"), (0, 0))
                self.assertEqual(small.say("s"), (0, 0))
                time.sleep(0.01)
            self.assertEqual(stat(d, "small")["nr_turns"], turns)
            self.assertEqual(small.say("c 0"), (0, 0))
            self.end(*people)

    def test_what_is_only_read_is_not_copied(self):
        with sharing() as d:
            people = [Script(d, "keeps", t) for t in "abc"]
            for p in people:
                self.assertEqual(p.say(f"a 0 {26 * MIB}"), (0, 0))
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                for p in people:
                    p.tell("c 0")
                for p in people:
                    self.assertEqual(p.answer(), (0, 0))
            sessions = d.ctl("list")["sessions"]
            for s in sessions:
                self.assertLessEqual(s["memory.unchanged"], s["memory.moved_out"])
            self.assertGreater(sum(s["memory.unchanged"] for s in sessions), 26 * MIB)

    def test_what_is_not_named_is_left_out(self):
        """Half of what each has is not launched with for long: the rest fits, and turns end."""
        with sharing() as d:
            people = [Script(d, "keeps", t) for t in "abc"]
            self.told(people, f"a 0 {14 * MIB}", f"a 1 {14 * MIB}")

            def work(seconds):
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    self.told(people, "l 0 1", "s")

            def cold():
                work(0.2)
                return sum(s["memory.cold"] for s in d.ctl("list")["sessions"])

            wait_for(lambda: cold() > 30 * MIB, 60, "it is known")
            work(1)
            turns = [stat(d, t)["nr_turns"] for t in "abc"]
            work(1.5)
            self.assertEqual([stat(d, t)["nr_turns"] for t in "abc"], turns)
            self.assertGreater(min(turns), 0)
            for p in people:
                self.assertEqual(p.say("l 1 2"), (0, 0))
            for p in people:
                for slot in 0, 1:
                    self.assertEqual(p.say(f"c {slot}"), (0, 0))

    def test_what_addresses_in_memory_lead_to_is_not_left_out(self):
        with sharing() as d:
            people = [Script(d, "keeps", t) for t in "abc"]
            self.told(people, f"a 0 {14 * MIB}", f"a 1 {14 * MIB}")
            wait_for(lambda: self.told(people, "l 0 1", "v 1 1", "s") and
                     min(stat(d, t)["nr_turns"] for t in "abc") > 12, 60, "many turns")
            self.assertLessEqual(sum(s["memory.cold"] for s in d.ctl("list")["sessions"]), 4 * MIB)
            self.told(people, "c 0", "c 1")

    def test_atomics_of_program_and_kernels_wait_for_their_turns(self):
        """Managed memory is one side's at a time, also while kernels wait for their turn, and
        where there is no room for it."""
        for name in "fair", "sets", "mfit":
            config = THREE.replace("time = sets", f"time = {name}")
            with self.subTest(name), sharing(config, memory=32) as d:
                people = [Script(d, "keeps", t) for t in "bc"]
                self.told(people, f"a 0 {20 * MIB}")
                both = [d.run("managed_atomics", tenant="a") for _ in range(2)]
                wait_for(lambda: self.told(people, "l 0 2", "s") and
                         all(p.poll() is not None for p in both), 60, "both have ended")
                for p in both:
                    out, _ = p.communicate()
                    self.assertEqual(p.returncode, 0, out)
                self.told(people, "c 0")

    def test_those_that_never_wait_have_turns(self):
        with sharing() as d:
            people = [Script(d, "keeps", t) for t in "abc"]
            self.told(people, f"a 0 {26 * MIB}", "l 0 20")

            def turns():
                time.sleep(0.2)
                self.told(people, "l 0 5")
                return min(stat(d, t)["nr_turns"] for t in "abc")

            wait_for(lambda: turns() > 1, 20, "turns")
            self.told(people, "c 0")

    def test_one_that_uses_something_else_each_time(self):
        """A part of one buffer for long, and then others in turn: what is out is a miss, read where it
        is, and comes back."""
        with sharing() as d:
            people = [Script(d, "keeps", t) for t in "abc"]
            self.told(people, f"a 0 {32 * MIB}")

            def missed():
                return [s["memory.missed"] for s in d.ctl("list")["sessions"]]

            wait_for(lambda: self.told(people, "p 0 2", "s") and
                     sum(s["memory.cold"] for s in d.ctl("list")["sessions"]) >= 32 * MIB, 60,
                     "the rest is cold")
            self.assertEqual(missed(), [0, 0, 0])
            until, i = time.monotonic() + SECONDS, 0
            while time.monotonic() < until:
                i += 1
                self.told(people, f"p 0 {i * 5 % 8}", f"g 0 {i * 3 % 8}", "s")
            self.assertGreater(sum(missed()), 0)
            self.told(people, "c 0")

    def test_what_is_left_out_comes_back_where_all_fits(self):
        with sharing() as d:
            people = [Script(d, "keeps", t) for t in "ab"]
            self.told(people, f"a 0 {22 * MIB}", f"a 1 {22 * MIB}")

            def out():
                self.told(people, "l 0 1", "s")
                stats = [d.ctl("get", t, "memory.stat")["keys"]["memory.stat"] for t in "ab"]
                return [s["mapped"] for s in stats], [s["swapped"] for s in stats]

            wait_for(lambda: sum(out()[0]) > 20 * MIB and not any(out()[1]), 60, "it is out")
            kill(people.pop().process.pid)
            wait_for(lambda: out() == ([0, 0], [0, 0]), 10, "it comes back")
            for slot in 0, 1:
                self.assertEqual(people[0].say(f"c {slot}"), (0, 0))

    def test_of_one_buffer_what_no_kernel_reaches_is_left_out(self):
        """Each kernel is given all of it and works with an eighth: of the rest so much is left out
        that all fit, and turns end."""
        with sharing() as d:
            people = [Script(d, "keeps", t) for t in "abc"]
            for p in people:
                self.assertEqual(p.say(f"a 0 {32 * MIB}"), (0, 0))

            def work(seconds):
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    self.told(people, "p 0 2", "g 0 5", "s")

            def cold():
                work(0.2)
                return [s["memory.cold"] for s in d.ctl("list")["sessions"]]

            wait_for(lambda: sum(cold()) >= 3 * 32 * MIB - 64 * MIB, 60, "it is known")
            self.assertLessEqual(max(cold()), 24 * MIB)
            work(1)
            turns = [stat(d, t)["nr_turns"] for t in "abc"]
            was = moved(d)
            work(1.5)
            self.assertEqual([stat(d, t)["nr_turns"] for t in "abc"], turns)
            self.assertEqual(moved(d), was)
            self.assertGreater(min(turns), 0)
            for p in people:
                self.assertEqual(p.say("c 0"), (0, 0))

    def extents(self, text):
        """A file by which the operator says where kernels reach memory."""
        f = tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".extents")
        self.addCleanup(f.close)
        os.chmod(f.name, 0o644)
        f.write(text)
        f.flush()
        return f.name

    def test_what_the_operator_says_kernels_reach_comes_in_and_no_more(self):
        """The operator says less than they reach: the rest is read where it is, and is right."""
        with open(PAGE, encoding="utf-8") as f:
            example = re.search(r"^    weft-extents 1\n(?:    .*\n|\n)*", f.read(), re.M).group()
        said = self.extents(textwrap.dedent(example) + "code *\nkernel _Z6changePjjjj\n"
                            f"at u64[0] bytes {4 * MIB}\n")
        with unittest.mock.patch.dict(os.environ, WEFT_LOG="info"), \
                sharing(THREE.replace("sets\n", f"sets\nextents = {said}\n")) as d:
            people = [Script(d, "keeps", t) for t in "abc"]
            for p in people:
                self.assertEqual(p.say(f"a 0 {32 * MIB}"), (0, 0))

            def cold():
                for p in people:
                    self.assertEqual(p.say("l 0 1"), (0, 0))
                    self.assertEqual(p.say("s"), (0, 0))
                return sum(s["memory.cold"] for s in d.ctl("list")["sessions"])

            wait_for(lambda: cold() >= 3 * 32 * MIB - 64 * MIB, 60, "the rest is cold")
            for p in people:
                self.assertEqual(p.say("c 0"), (0, 0))
            self.assertRegex(d.log(),
                             r"extents: code [0-9a-f]{32}: PTX says of \d+ of \d+ kernels")

    def test_memory_of_two_processes_comes_and_goes(self):
        """Memory that another process gave computes with what it names beside; pinned memory is
        where it was. It has turns as the others do, or, while one of these needs the whole device,
        stays."""
        with sharing() as d:
            giver, user = (Script(d, "keeps", "a") for _ in range(2))
            self.assertEqual(giver.say(f"a 0 {12 * MIB}"), (0, 0))
            self.assertEqual(giver.say("s"), (0, 0))
            giver.tell("e 0")
            handle = giver.process.stdout.readline().strip()
            self.assertEqual(giver.answer(), (0, 0))
            self.assertEqual(user.say(f"o 0 {12 * MIB} {handle}"), (0, 0))
            self.assertEqual(user.say(f"a 1 {14 * MIB}"), (0, 0))
            people = self.begin(d, "bc")
            wait_for(lambda: all(stat(d, t)["nr_turns"] for t in "bc"), 20, "others have turns")
            used, was = stat(d, "a")["usage_usec"], moved(d)
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                for line in "l 0 3", "l 1 3", "c 0", "c 1":
                    self.assertEqual(user.say(line), (0, 0))
            self.assertGreater(stat(d, "a")["usage_usec"], used)
            self.assertGreater(moved(d), was)
            self.end(*people)

    def test_a_mistake_in_what_the_operator_says_is_told(self):
        said = self.extents("weft-extents 1\ncode *\nat u64[0] bytes 4\n")
        with sharing(THREE.replace("sets\n", f"sets\nextents = {said}\n")) as d:
            p = Script(d, "keeps", "a")
            self.assertEqual(p.say(f"a 0 {MIB}"), (0, 0))
            self.assertEqual(p.say("l 0 1"), (0, 0))
            self.assertEqual(p.say("c 0"), (0, 0))
            self.assertIn(f"extents: {said}:3: expected kernel before this: none of it is used",
                          d.log())

    def test_one_dies_in_its_turn_and_on_its_way(self):
        for what in "mixed", "weft-worker":
            with self.subTest(what), sharing() as d:
                victim, = self.begin(d, "a")
                others = self.begin(d, "bc")
                wait_for(lambda: all(stat(d, t)["nr_turns"] for t in "abc"), 20, "turns")
                if what == "mixed":
                    kill(victim.pid)
                else:
                    kill(next(s["worker.pid"] for s in d.sessions("a")))
                time.sleep(1)
                self.end(*others)
                victim.wait(patient(20))

    def test_less_for_one_meanwhile(self):
        """Limits, promises and the policy of who waits may change under it."""
        with sharing() as d:
            people = self.begin(d, "abc")
            wait_for(lambda: all(stat(d, t)["nr_turns"] for t in "abc"), 20, "turns")
            d.ctl("set", "a", "memory.high=8M")
            d.ctl("set", "b", "memory.min=16M")
            time.sleep(1)
            d.ctl("set", "c", "compute.weight=300")
            d.ctl("set", "a", "memory.high=max")
            time.sleep(0.5)
            d.ctl("reclaim", "c", "4M")
            self.end(*people)

    def endless_among(self, d, tenants):
        """A program of a's whose kernel does not end, and others."""
        endless = Script(d, "keeps", "a")
        self.assertEqual(endless.say(f"a 0 {26 * MIB}"), (0, 0))
        people = self.begin(d, tenants)
        for p in people:
            until_running(p)
        self.assertEqual(endless.say("w 0 2000000000"), (0, 0))
        return endless, people

    def test_one_that_does_not_end_holds_nobody_up(self):
        """A kernel that goes on at the end of its turn is not waited for."""
        with sharing() as d:
            endless, people = self.endless_among(d, "bc")
            time.sleep(SECONDS / 2)
            self.end(*people)
            self.assertTrue(d.sessions("a"))
            endless.process.send_signal(signal.SIGKILL)
            wait_for(lambda: not d.sessions(), 10, "it has ended")

    def test_a_long_kernel_has_turns_as_others_have(self):
        """Memory leaves from under it, and it stands still until that is back."""
        with sharing() as d:
            endless, people = self.endless_among(d, "bc")
            before = stat(d, "a")["nr_turns"]
            wait_for(lambda: stat(d, "a")["nr_turns"] > before + 1, 30, "it has turns")
            self.assertGreater(events(d, "a")["frozen"], 1)
            self.end(*people)
            endless.process.send_signal(signal.SIGKILL)
            wait_for(lambda: not d.sessions(), 10, "it has ended")

    def test_one_that_was_idle_gets_its_turn(self):
        """All that it has is swapped, and it does not count as computing any more."""
        with sharing() as d:
            idle = Script(d, "keeps", "a")
            self.assertEqual(idle.say(f"a 0 {26 * MIB}"), (0, 0))
            self.assertEqual(idle.say("l 0 2"), (0, 0))
            people = self.begin(d, "bc", mib=34)
            wait_for(lambda: figures(d)["a"][0] == 0, 20, "it has left")
            time.sleep(3)
            begin = time.monotonic()
            self.assertEqual(idle.say("l 0 2"), (0, 0))
            self.assertEqual(idle.say("s"), (0, 0))
            self.assertLess(time.monotonic() - begin, patient(5))
            self.assertEqual(idle.say("c 0"), (0, 0))
            self.end(*people)

    def test_programs_that_come_and_go(self):
        with sharing() as d:
            stays = self.begin(d, "a")
            for i in range(6):
                self.ended(*self.begin(d, "bc"[i % 2], seconds=1))
            self.ended(*self.begin(d, "bbcc", mib=14, seconds=3))
            self.end(*stays)


if __name__ == "__main__":
    unittest.main()
