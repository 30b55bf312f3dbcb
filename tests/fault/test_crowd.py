#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Very many at once: threads that ask, programs that start. Nobody is lost or refused."""
import unittest

from fault import Daemon, FaultTest

THREADS = 240  # a session has 256 lanes


class Crowd(FaultTest):
    def asks_at_once(self, *options):
        with Daemon("--memory", "256M", *options) as d:
            self.assert_right(d.run("crowd", THREADS, 100, 10), 60)

    def test_threads_that_ask_at_once(self):
        self.asks_at_once()

    def test_threads_that_ask_at_once_and_wait(self):
        self.asks_at_once("--swap", "256M")


if __name__ == "__main__":
    unittest.main(verbosity=2)
