#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A path that names somebody else's file: the daemons refuse it, and it stays as it was."""
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

from fault import BUILD, Daemon, FaultTest, patient, program

TEXT = "important data\n"


class Files(FaultTest):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="weft-files-")
        self.file = os.path.join(self.dir, "file")
        with open(self.file, "w", encoding="utf-8") as f:
            f.write(TEXT)

    def tearDown(self):
        shutil.rmtree(self.dir)

    def assert_untouched(self):
        with open(self.file, encoding="utf-8") as f:
            self.assertEqual(f.read(), TEXT)

    def weftd(self, config):
        conf = os.path.join(self.dir, "conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(config)
        return subprocess.run(
            [program("weftd"), "--config", conf, "--run-dir", self.dir, "--device", "soft"],
            capture_output=True, text=True, timeout=patient(10), check=False)

    def assert_refused(self, config, words):
        r = self.weftd(config)
        self.assertIn(r.returncode, (1, 78), r.stderr)
        self.assertIn(words, r.stderr)
        self.assertIn(self.file, r.stderr)
        self.assert_untouched()

    def test_sockets(self):
        for config in (f"[tenant vm1]\nsocket = {self.file}\n",
                       f"[daemon]\nsocket = {self.file}\n",
                       f"[daemon]\ncontrol = {self.file}\n"):
            self.assert_refused(config, "is no socket")

    def test_window(self):
        config = f"[tenant vm1]\nwindow.path = {self.file}\nwindow.size = 16M\n"
        self.assert_refused(config, "is no window")
        os.chmod(self.file, 0o666)
        self.assert_refused(config, "everybody may write it")

    def test_added_tenants(self):
        with Daemon() as d:
            for keys in ([f"socket={self.file}"],
                         [f"window.path={self.file}", "window.size=16M"]):
                with self.assertRaises(AssertionError):
                    d.ctl("add", "vm9", *keys)
                self.assert_untouched()
            self.assertNotIn("vm9", [t["name"] for t in d.ctl("list")["tenants"]])

    def test_what_replaced_a_socket_stays(self):
        with Daemon() as d:
            os.unlink(d.path("weft.sock"))
            shutil.copy(self.file, d.path("weft.sock"))
            d.process.terminate()
            self.assertEqual(d.process.wait(patient(10)), 0)
            with open(d.path("weft.sock"), encoding="utf-8") as f:
                self.assertEqual(f.read(), TEXT)

    def vsock(self, *options):
        p = subprocess.Popen([os.path.join(BUILD, "qemu-device", "weft-vsock"), "--cid", "77",
                              *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
        try:
            return p.communicate(timeout=patient(5))[1]
        finally:
            p.kill()
            p.wait()

    def test_vsock_device(self):
        self.assertIn("is no socket", self.vsock("--socket", self.file))
        self.assert_untouched()
        self.assertIn("is no socket", self.vsock("--socket", os.path.join(self.dir, "s"),
                                                 "--handover", self.file))
        self.assert_untouched()

    def test_a_living_socket_stays(self):
        other = os.path.join(self.dir, "other")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(other)
            s.listen()
            self.assertIn("listens there", self.vsock("--socket", other))
            r = self.weftd(f"[tenant vm1]\nsocket = {other}x/../other\n")
            self.assertEqual(r.returncode, 1, r.stderr)
            os.mkdir(other + "x")
            r = self.weftd(f"[tenant vm1]\nsocket = {other}x/../other\n")
            self.assertIn("listens there", r.stderr)
            s.settimeout(5)
            with socket.socket(socket.AF_UNIX) as c:
                c.connect(other)


if __name__ == "__main__":
    unittest.main()
