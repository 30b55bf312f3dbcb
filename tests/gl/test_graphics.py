# SPDX-License-Identifier: Apache-2.0
"""Programs that draw: their pictures are those of the host, their memory is their tenant's."""
import os
import subprocess
import tempfile
import time
import unittest

from fault import BUILD, Daemon, FaultTest, busy, kill, patient, wait_for
from weftgpu.graphics import SOCKET, pictures

DRAWS = {"GALLIUM_DRIVER": "virpipe", "LIBGL_ALWAYS_SOFTWARE": "true"}


def gl(name):
    return os.path.join(BUILD, "tests/gl", name)


class Guest:
    """A weft-guest-gl of a tenant's."""

    def __init__(self, daemon, tenant, **env):
        self.env = dict(os.environ, WEFT_HOST=f"unix:{daemon.socket(tenant)}", **env)
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen([os.path.join(BUILD, "guestlib/weft-guest-gl")],
                                        env=self.env, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: os.path.exists(SOCKET), 5, "it listens")
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)

    def start(self, *argv):
        return subprocess.Popen(argv, env=dict(os.environ, **DRAWS), text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)


class Graphics(FaultTest):
    CONFIG = "[tenant a]\nmemory.max = 64M\n[tenant b]\n[tenant c]\ngraphics = on\n"

    def setUp(self):
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)  # of a test that was killed

    def drawn(self, tmp, **env):
        path = os.path.join(tmp, "pictures")
        r = subprocess.run([gl("gl_scenes"), path], env=dict(os.environ, **env), text=True,
                           capture_output=True, check=False, timeout=patient(60))
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return r.stdout.strip(), pictures(path)

    def test_picture_of_the_docs(self):
        """The demo's picture: what the host draws, a guest draws, and the docs show."""
        docs = os.path.join(os.path.dirname(__file__), "../../hostd/doc/cloth.svg")
        with tempfile.TemporaryDirectory() as tmp, Daemon(config=self.CONFIG) as d, \
             Guest(d, "a"):
            path, said = os.path.join(tmp, "cloth.svg"), []
            for env in ({"LIBGL_ALWAYS_SOFTWARE": "true"}, DRAWS):
                r = subprocess.run([gl("gl_picture"), path], env=dict(os.environ, **env),
                                   text=True, capture_output=True, check=False,
                                   timeout=patient(30))
                self.assertEqual((r.returncode, r.stderr), (0, ""), r.stdout)
                said.append(r.stdout.split(", by")[0])
                with open(path, encoding="ascii") as f, open(docs, encoding="ascii") as g:
                    self.assertEqual(f.read(), g.read())
            self.assertEqual(said[0], said[1])

    def grab(self, guest, mib):
        p = guest.start(gl("gl_grab"), str(mib))
        n, error = p.stdout.readline().split()
        self.assertEqual(p.stdout.readline().strip(), "00ff00ff")
        return p, int(n), int(error, 16)

    def end(self, p):
        p.communicate("\n", timeout=patient(10))
        self.assertEqual(p.returncode, 0)

    def test_pictures_are_the_hosts(self):
        """Pixel by pixel, on each carrier: both are drawn by the same rasteriser."""
        with tempfile.TemporaryDirectory() as tmp, Daemon(config=self.CONFIG) as d:
            host, here = self.drawn(tmp, LIBGL_ALWAYS_SOFTWARE="true")
            self.assertGreater(len(here), 30)
            for carrier in ("window", "stream"):
                with Guest(d, "a", WEFT_CARRIER=carrier):
                    name, there = self.drawn(tmp, **DRAWS)
                self.assertIn("virgl", name)
                self.assertIn(host.split(" (")[0].upper(), name.upper())
                self.assertEqual([n for n in here if here[n] != there.get(n)], [])

    def test_limit(self):
        """A program has its tenant's memory to the last texture, and others go on."""
        with Daemon(config=self.CONFIG) as d, Guest(d, "a") as g:
            p, n, error = self.grab(g, 1000)
            self.assertEqual((n, error), (64, 0x505))
            b = busy(d, "b")
            self.assertEqual(b.say("n 3 300"), (0, 3))
            [s] = d.sessions("a")
            self.assertEqual((s["name"], s["pid"], s["kind"]), ("gl_grab", p.pid, "graphics"))
            self.assertEqual([s["kind"] for s in d.sessions("b")], ["compute"])
            self.assertEqual(s["memory.current"], 64 << 20)
            d.ctl("set", "a", "memory.max=80M")
            q, n, error = self.grab(g, 1000)
            self.assertEqual((n, error), (16, 0x505))
            self.end(p)
            self.end(q)
            wait_for(lambda: not d.sessions("a"), 5, "both have ended")

    def test_killed(self):
        """A weft-gl dies by the operator's word: all is free within a second."""
        with Daemon(config=self.CONFIG) as d, Guest(d, "a") as g:
            p = self.grab(g, 40)[0]
            q = self.grab(g, 10)[0]
            session = next(s for s in d.sessions("a") if s["pid"] == p.pid)
            began = time.monotonic()
            d.ctl("kill", str(session["session"]))
            wait_for(lambda: len(d.sessions("a")) == 1, 5, "one is left")
            self.assertLess(time.monotonic() - began, patient(1))
            kill(p.pid)
            p.communicate()
            self.end(q)
            # The program is killed, and its weft-gl goes.
            r = self.grab(g, 64)[0]
            kill(r.pid)
            r.communicate()
            wait_for(lambda: not d.sessions("a"), 5, "it has ended")
            self.end(self.grab(g, 64)[0])

    def test_endless(self):
        """A shader without an end is its program's own affair: others draw, and what it had is
        free within a second of its end."""
        with Daemon(config=self.CONFIG) as d, Guest(d, "a") as g:
            p = g.start(gl("gl_frames"), "1", "1000000000")
            self.assertEqual(p.stdout.readline(), "begun\n")
            wait_for(lambda: d.sessions("a")[0]["gpu.utilization"] == 100, 10, "it draws")
            q = g.start(gl("gl_frames"), "3")
            self.assertEqual(q.communicate("", timeout=patient(30))[0], "begun\n3 frames, 0x0\n")
            b = busy(d, "b")
            self.assertEqual(b.say("n 3 300"), (0, 3))
            self.assertIsNone(p.poll())
            began = time.monotonic()
            d.ctl("kill", str(d.sessions("a")[0]["session"]))
            wait_for(lambda: not d.sessions("a"), 5, "it has ended")
            self.assertLess(time.monotonic() - began, patient(1))
            self.end(self.grab(g, 64)[0])
            kill(p.pid)
            p.communicate()
            # Left to itself, it is ended after 10 seconds.
            p = g.start(gl("gl_frames"), "1", "1000000000")
            self.assertEqual(p.stdout.readline(), "begun\n")
            wait_for(lambda: d.sessions("a"), 5, "it draws")
            wait_for(lambda: not d.sessions("a"), 15, "it has ended by itself")
            kill(p.pid)
            p.communicate()

    def test_programs_are_told(self):
        """The variables are there as long as the host draws; weft-guest-check says how fast."""
        with tempfile.TemporaryDirectory() as tmp, Daemon(config=self.CONFIG) as d:
            file = os.path.join(tmp, "environment.d", "weft.conf")
            env = dict(os.environ, WEFT_HOST=f"unix:{d.socket('a')}")

            def write():
                return subprocess.run([os.path.join(BUILD, "guestlib/weft-guest-gl"),
                                       "--environment", file], env=env, text=True,
                                      capture_output=True, check=False, timeout=patient(30))

            def check():
                r = subprocess.run([os.path.join(BUILD, "guestlib/weft-guest-check")], env=env,
                                   text=True, capture_output=True, check=False,
                                   timeout=patient(30))
                self.assertEqual(r.returncode, 0, r.stdout)
                return r.stdout
            self.assertEqual(write().returncode, 0)
            with open(file, encoding="ascii") as f:
                said = dict(line.strip().split("=") for line in f if not line.startswith("#"))
            self.assertEqual(said, DRAWS)
            self.assertEqual(os.listdir(os.path.dirname(file)), ["weft.conf"])
            self.assertRegex(check(), r"(?m)^ok +OpenGL +the host draws; .* 1 MiB takes [0-9.]+ ms$")
            d.ctl("set", "a", "graphics=off")
            r = write()
            self.assertEqual(r.returncode, 1)
            self.assertIn("this tenant has no graphics", r.stderr)
            self.assertFalse(os.path.exists(file))
            self.assertRegex(check(), r"(?m)^- +OpenGL +not by the host: .* has no graphics")

    def test_time(self):
        """Drawing is the tenant's time: counted, over when nothing is drawn, held by a cap."""
        def stat(d):
            return d.ctl("get", "a", "compute.stat")["keys"]["compute.stat"]

        def unchanged(d):
            was = stat(d)["usage_usec"]
            time.sleep(0.5)
            return stat(d)["usage_usec"] == was
        with Daemon(config=self.CONFIG) as d, Guest(d, "a") as g:
            p = g.start(gl("gl_frames"), "20")
            self.assertEqual(p.stdout.readline(), "begun\n")
            self.assertEqual(p.stdout.readline(), "20 frames, 0x0\n")
            wait_for(lambda: stat(d)["usage_usec"] > 0, 5, "its time is counted")
            wait_for(lambda: d.sessions("a")[0]["gpu.time"] > 0, 5, "it has been measured")
            wait_for(lambda: d.sessions("a")[0]["gpu.utilization"] == 0, 10, "it is idle")
            wait_for(lambda: unchanged(d), 10, "it takes no time")
            self.assertEqual(stat(d)["nr_throttled"], 0)
            d.ctl("set", "a", "compute.max=5000 100000")

            def held():
                p.stdin.write("\n")
                p.stdin.flush()
                self.assertEqual(p.stdout.readline(), "20 frames, 0x0\n")
                return stat(d)["nr_throttled"] > 0
            wait_for(held, 10, "it is held")
            p.communicate(timeout=patient(10))
            self.assertEqual(p.returncode, 0)

    def test_off(self):
        """Without a limit of memory a tenant has no graphics, unless it is said."""
        with Daemon(config=self.CONFIG) as d:
            with Guest(d, "b") as g:
                p = g.start(gl("gl_grab"), "1")
                p.communicate("\n", timeout=patient(20))
                self.assertNotEqual(p.returncode, 0)
                self.assertIn("this tenant has no graphics", g.process.stderr.readline())
                d.ctl("set", "b", "graphics=on")
                self.end(self.grab(g, 1)[0])
            with Guest(d, "c") as g:
                self.end(self.grab(g, 1)[0])
            d.ctl("set", "a", "graphics=off")
            with Guest(d, "a") as g:
                p = g.start(gl("gl_grab"), "1")
                p.communicate("\n", timeout=patient(20))
                self.assertNotEqual(p.returncode, 0)


if __name__ == "__main__":
    unittest.main()
