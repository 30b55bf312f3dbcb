#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory: a tenant's limit, the device's size, and what comes back."""
import unittest

from fault import Daemon, FaultTest, until_running, wait_for


class Quota(FaultTest):
    def test_limits(self):
        with Daemon("--memory", "1G",
                    config="[tenant small]\nmemory.max = 256M\n[tenant big]\n") as d:
            p = d.run("endless", 200, tenant="small")
            until_running(p)
            # a second session of the same tenant shares its limit
            q = d.run("endless", 100, tenant="small")
            q.communicate(timeout=10)
            self.assertEqual(q.returncode, 2)
            # another tenant has its own, up to what the device has left
            r = d.run("endless", 700, tenant="big")
            until_running(r)
            s = d.run("endless", 200, tenant="big")
            s.communicate(timeout=10)
            self.assertEqual(s.returncode, 2)
            used = {t["name"]: t["memory_used"] for t in d.ctl("list")["tenants"]}
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


if __name__ == "__main__":
    unittest.main()
