# SPDX-License-Identifier: Apache-2.0
"""Policies of time: those that take turns, and the operator's own, right and wrong."""
import os
import re
import subprocess
import tempfile
import time
import unittest

from fault import Daemon, FaultTest, Script, built_sanitized, busy, program, wait_for

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(TOP, "hostd/doc/write-a-policy.md")

SLICES = """
#include "policies/time.h"
static void slices(const struct time_device *d, const struct time_tenant *t, uint32_t n,
		   bool *eager, uint32_t *us)
{
	%s
}
static void turns(const struct time_device *d, const struct time_tenant *t, uint32_t n,
		  struct time_turn *turn)
{
	%s
}
const struct time_policy weft_time_policy = {%s, "wrong", slices, %s};
"""


def source(slices="", turns="", abi="TIME_ABI", table="NULL"):
    return SLICES % (slices, turns, abi, table)


class Policy(FaultTest):
    def assert_more(self, is_, than, why=None):
        """Nothing is measured of a sanitized device."""
        if not built_sanitized():
            self.assertGreater(is_, than, why)

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        os.chmod(self.dir.name, 0o755)

    def tearDown(self):
        self.dir.cleanup()

    def build(self, text, command=None):
        """Returns the path of an object that is built outside the tree."""
        command = command or ("cc -std=gnu11 -O2 -fPIC -shared -nostdlib -I. -o longest-wait.so "
                              "longest-wait.c")
        path = os.path.join(self.dir.name, "longest-wait.c")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        for was, there in (("-I.", f"-I{TOP}"), ("longest-wait.so", path[:-1] + "so"),
                           ("longest-wait.c", path)):
            command = re.sub(rf"(?<![\w/]){re.escape(was)}(?=\s|$)", there, command)
        subprocess.run(command, shell=True, check=True, cwd=self.dir.name)
        return path[:-1] + "so"

    def daemon(self, policy, more="[tenant a]\n[tenant b]\n"):
        return Daemon(config=f"[daemon]\ntime = {policy}\n{more}")

    def busy(self, d, *tenants, ms=1500, us=300):
        """How much each gets done, side by side."""
        programs = [busy(d, t) for t in tenants]
        for p in programs:
            p.tell(f"k {ms} {us}")
        answers = [p.answer() for p in programs]
        for status, _ in answers:
            self.assertEqual(status, 0)
        return [n for _, n in answers]

    def in_use(self, d):
        return d.ctl("info")["device"]["time.policy"]

    def test_all_of_our_own(self):
        for name in "fair", "equal", "best-effort", "priority", "exclusive", "fixed", "deadline", "sets", "mfit", "amfit", "madvise":
            with self.subTest(name), self.daemon(name) as d:
                self.assertEqual(self.in_use(d), name)
                a, b = self.busy(d, "a", "b", ms=800)
                self.assert_more(min(a, b), 0.1 * max(a, b), (a, b))

    def test_exclusive_by_weight(self):
        with self.daemon("exclusive", "[tenant a]\ncompute.weight=300\n[tenant b]\n") as d:
            self.busy(d, "a", "b", ms=2500, us=3000)  # none runs dry on a busy machine
            a, b = self.used(d, "a"), self.used(d, "b")
            self.assert_more(a / b, 1.2, (a, b))
            self.assert_more(9, a / b, (a, b))

    def test_exclusive_beside_a_kernel_that_goes_on(self):
        """When its turn ends the kernel is taken off, until the next one."""
        with self.daemon("exclusive") as d:
            a = busy(d, "a")
            self.assertEqual(a.say("e"), (0, 0))
            before = self.used(d, "a"), self.used(d, "b")
            self.busy(d, "b", ms=3000, us=3000)
            of_a, of_b = (self.used(d, t) - was for t, was in zip("ab", before))
            self.assert_more(of_b, 0.3 * (of_a + of_b), (of_a, of_b))
            wait_for(lambda: self.used(d, "a") > before[0] + of_a, 10, "that it goes on")

    def used(self, d, tenant):
        return d.ctl("get", tenant, "compute.stat")["keys"]["compute.stat"]["usage_usec"]

    def test_one_that_works_alone(self):
        """Turns cost a tenant little while nobody else wants one."""
        with self.daemon("exclusive") as d:
            alone = self.busy(d, "a")[0]
        with self.daemon("fair") as d:
            self.assert_more(alone, 0.3 * self.busy(d, "a")[0])

    def test_the_one_of_the_page(self):
        with open(PAGE, encoding="utf-8") as f:
            text = f.read()
        code = re.search(r"```c\n(.*?)```", text, re.S)[1]
        command = re.search(r"^    (cc .*)$", text, re.M)[1]
        path = self.build(code, command)
        with self.daemon(path) as d:
            self.assertEqual(self.in_use(d), "longest-wait")
            a, b = self.busy(d, "a", "b")
            self.assert_more(min(a, b), 0.2 * max(a, b), (a, b))
            self.assertNotIn("time policy", d.log())

    def check(self, policy):
        """Returns what weftd --check-config says of it."""
        conf = os.path.join(self.dir.name, "weftd.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(f"[daemon]\ntime = {policy}\n")
        r = subprocess.run([program("weftd"), "--check-config", "-c", conf], check=False,
                           capture_output=True, text=True)
        return r.returncode, r.stderr

    def refused(self, policy, says):
        status, text = self.check(policy)
        self.assertEqual(status, 78, text)
        self.assertIn(says, text)
        with self.daemon(policy) as d:
            self.assertIn(says, d.log())
            self.assertIn("fair decides in its place", d.log())
            self.assertEqual(self.in_use(d), "fair")
            self.busy(d, "a", "b", ms=300)

    def test_that_cannot_be_loaded(self):
        self.refused("/nonexistent/policy.so", "cannot open shared object file")
        self.refused(self.build(source(abi="1")), "is for version 1 of policies/time.h, not 3")
        self.refused(self.build("int nothing;"), "weft_time_policy")
        self.refused(self.build(source().replace("slices, NULL}", "NULL, NULL}")),
                     "has no slices()")
        self.refused(self.build(source().replace('"wrong"', '"fair"')),
                     "has the name of one of weftd's own")
        self.refused(self.build("void exit(int);" + source("exit(1);")), "undefined symbol")
        self.assertIn("is none of sets, fair, equal", self.check("unfair")[1])

    def failed(self, text, says):
        with self.daemon(self.build(text)) as d:
            self.busy(d, "a", "b", ms=300)
            wait_for(lambda: "fair decides in its place" in d.log(), 5, "it has failed")
            self.assertIn(says, d.log())
            self.assertEqual(self.in_use(d), "fair")
            self.busy(d, "a", "b", ms=300)
            self.assertEqual(d.log().count("fair decides in its place"), 1)

    def test_that_crashes(self):
        self.failed(source("*(volatile int *)8 = 1;"), "Segmentation fault")
        self.failed(source("volatile char deep[64 << 20]; for (int i = sizeof(deep) - 1; i; "
                           "i -= 64) deep[i] = 1;"), "Segmentation fault")
        self.failed(source("us[0] = n / (n - n);".replace("n - n", "(volatile uint32_t){0}")),
                    "Floating point")
        self.failed(source("__builtin_trap();"), "Illegal instruction")
        self.failed(source(turns="*(volatile int *)8 = 1;", table="turns"), "Segmentation fault")

    def test_that_never_answers(self):
        self.failed(source("for (volatile int i = 0;; i++);"), "did not answer in time")

    def test_that_answers_nonsense(self):
        text = source("for (uint32_t i = 0; i < n; i++) us[i] = i % 2 ? 1 : 4000000000u;")
        with self.daemon(self.build(text)) as d:
            a, b = self.busy(d, "a", "b", ms=1000)
            self.assertGreater(min(a, b), 0)
            wait_for(lambda: "a slice was too short or too long" in d.log(), 5, "is said")
            self.assertEqual(d.log().count("too short or too long"), 1)
            self.assertEqual(self.in_use(d), "wrong")

    def test_that_starves_somebody_on_purpose(self):
        """No tenant but the first goes while that has work, says the policy; each does, now
        and then."""
        text = source("for (uint32_t i = 0; i < n; i++) us[i] = 1000;",
                      "for (uint32_t i = 0; i < n; i++) "
                      "turn[i].go = t[i].weight == 1 || n < 2 || t[0].idle_us > 50000;", table="turns")
        with self.daemon(self.build(text), "[tenant a]\ncompute.weight=1\n[tenant b]\n") as d:
            a, b = busy(d, "a"), busy(d, "b")
            self.assertNotIn("had not gone", d.log())
            a.tell("k 600000 300")

            def starved():
                self.assertEqual((b.say("n 1 300"), b.say("s")), ((0, 1), (0, 0)))
                return "a tenant with work had not gone for 5 s" in d.log()

            wait_for(starved, 10, "b has not gone for 5 s")


if __name__ == "__main__":
    unittest.main()
