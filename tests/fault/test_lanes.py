#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lanes.max: one tenant's threads are bounded, and its programs run on with those they have."""
import unittest

from fault import Daemon, FaultTest, Guest, hello, wait_for

ALWAYS = 3  # what a session has, whatever others have


class Lanes(FaultTest):
    def session(self, d):
        g = Guest(d.socket("vm1"))
        self.addCleanup(g.__exit__)
        g.send(hello())
        return g, g.welcome()[1]

    def join(self, d, token):
        g = Guest(d.socket("vm1"))
        self.addCleanup(g.__exit__)
        g.send(hello(lane=1, token=token))
        return g

    def lanes(self, d):
        return int(d.ctl("get", "vm1", "lanes.current")["keys"]["lanes.current"])

    def test_many_at_once(self):
        """All ask before the worker has made the first."""
        with Daemon(config="[tenant vm1]\nlanes.max = 20\n") as d:
            _, token = self.session(d)
            answers = [g.welcome()[0] for g in [self.join(d, token) for _ in range(60)]]
            self.assertEqual(sorted(set(answers)), [-28, 0])
            self.assertEqual(answers.count(0), 19)
            self.assertEqual(self.lanes(d), 20)
            self.assertIn("tenant vm1 has its 20 lanes (lanes.max)", d.log())

    def test_what_each_has_always(self):
        with Daemon(config="[tenant vm1]\nlanes.max = 6\n") as d:
            _, greedy = self.session(d)
            self.assertEqual([self.join(d, greedy).welcome()[0] for _ in range(6)],
                             [0] * 5 + [-28])
            _, other = self.session(d)
            self.assertEqual([self.join(d, other).welcome()[0] for _ in range(3)],
                             [0] * (ALWAYS - 1) + [-28])

    def test_given_back(self):
        with Daemon(config="[tenant vm1]\nlanes.max = 4\n") as d:
            _, token = self.session(d)
            held = [self.join(d, token) for _ in range(3)]
            self.assertEqual([g.welcome()[0] for g in held], [0] * 3)
            self.assertEqual(self.join(d, token).welcome()[0], -28)
            d.ctl("set", "vm1", "lanes.max=5")
            held.append(self.join(d, token))
            self.assertEqual(held[-1].welcome()[0], 0)
            for g in held:
                g.sock.close()
            wait_for(lambda: self.lanes(d) == 1, 5, "the lanes are gone")
            self.assertEqual(self.join(d, token).welcome()[0], 0)

    def test_programs_share(self):
        with Daemon(config="[tenant vm1]\nlanes.max = 3\n") as d:
            for name in ("drv_threads", "drv_host_calls"):
                p = d.run(name, tenant="vm1")
                out, _ = p.communicate(timeout=60)
                self.assertEqual(p.returncode, 0, (name, out))


if __name__ == "__main__":
    unittest.main()
