#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weft-exporter: what Prometheus is told, while sessions come and go, weftd is restarted, and
guests are called what they like."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from fault import (BUILD, Daemon, FaultTest, Guest, MAGIC, VERSION, patient, program,
                   struct, until_running, wait_for)
from test_restart import Kept

TOP = os.path.join(os.path.dirname(__file__), "..", "..")
sys.path.append(f"{TOP}/vm-images")
from weftvm import debian  # noqa: E402
sys.path.append("/usr/lib/python3/dist-packages")  # where Debian's packages are
try:
    from prometheus_client.parser import text_string_to_metric_families as parse
except ImportError:
    parse = None

NOBODY = 12345
GROUP = 60  # "games": a group that is on any Debian


class Exporter:
    """A weft-exporter that asks this daemon. Used as a context manager."""

    def __init__(self, control, *options):
        self.control, self.options = control, options
        self.log = tempfile.TemporaryFile()
        self.port = None

    def __enter__(self):
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": [GROUP]} \
            if os.geteuid() == 0 else {}
        self.process = subprocess.Popen(
            [program("weft-exporter"), "--control", self.control, "--listen", "127.0.0.1:0",
             *self.options], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, **who)
        wait_for(lambda: re.search(r":(\d+)\n", self.said()) or self.process.poll() is not None,
                 10, "it listens")
        self.port = int(re.search(r"listens at 127.0.0.1:(\d+)\n", self.said())[1])
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(patient(10))
        if exc[0]:
            print(self.said())
        self.log.close()

    def said(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def get(self, path="/metrics", method="GET"):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patient(20))
        try:
            c.request(method, path)
            r = c.getresponse()
            return r.status, r.getheader("Content-Type"), r.read().decode()
        finally:
            c.close()

    def samples(self):
        """{(name, ((label, value), ...)): number}"""
        status, _, text = self.get()
        assert status == 200, text
        return samples(text)


LINE = re.compile(r'([A-Za-z_]\w*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)')


def samples(text):
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = LINE.match(line).groups()
        found[name, tuple(LABEL.findall(labels or ""))] = float(value)
    return found


def of(found, name, **labels):
    """The one sample of that name with these labels, or None."""
    hits = [v for (n, l), v in found.items() if n == name and labels.items() <= dict(l).items()]
    assert len(hits) < 2, (name, labels, hits)
    return hits[0] if hits else None


def daemon(*options, **more):
    """The group of viewers is one that the exporter has when it is not of our user."""
    group = ["--viewers", "games"] if os.geteuid() == 0 else []
    return Daemon(*group, *options, **more)


class MetricsTest(FaultTest):
    def exporter(self, d, *options):
        os.chmod(d.dir, 0o755)
        return Exporter(d.path("control"), *options)


class Numbers(MetricsTest):
    UUID = "6d2f6a0e-4b0c-4d3a-9a5e-0f3c1c1b2a3d"

    def test_sessions_and_what_is_left_of_them(self):
        with daemon(config=f"[tenant vm1]\nvm.uuid = {self.UUID.upper()}\nmemory.max = 1G\n") \
                as d, self.exporter(d) as e:
            p = d.run("endless", tenant="vm1")
            until_running(p)

            def seconds():
                return of(e.samples(), "weft_tenant_gpu_seconds_total", tenant="vm1")

            wait_for(lambda: seconds() > 0, 10, "time of the kernel is counted")
            now = e.samples()
            vm1 = {"tenant": "vm1", "vm_uuid": self.UUID}
            self.assertEqual(of(now, "weft_up"), 1)
            self.assertEqual(of(now, "weft_tenant_memory_max_bytes", **vm1), 1 << 30)
            self.assertEqual(of(now, "weft_tenant_memory_high_bytes", **vm1), float("inf"))
            self.assertEqual(of(now, "weft_tenant_sessions", **vm1), 1)
            self.assertEqual(of(now, "weft_session_info", program="endless", **vm1), 1)
            self.assertEqual(of(now, "weft_session_lanes", session="1", **vm1), 1)
            self.assertGreater(of(now, "weft_session_gpu_seconds_total", session="1"), 0)
            self.assertGreater(of(now, "weft_tenant_launches_total", **vm1), 0)
            self.assertEqual(of(now, "DCGM_FI_DEV_FB_TOTAL"), 2048)
            a = d.ctl("list")
            for o in (a["sessions"][0], next(t for t in a["tenants"] if t["name"] == "vm1")):
                self.assertGreater(o["gpu.time"], 0)
            p.kill()
            wait_for(lambda: not d.sessions(), 5, "the session has ended")
            wait_for(lambda: of(e.samples(), "weft_tenant_sessions", **vm1) == 0, 5, "told")
            after = e.samples()
            for name in ("gpu_seconds_total", "launches_total", "sessions_total"):
                self.assertGreaterEqual(of(after, "weft_tenant_" + name, **vm1),
                                        of(now, "weft_tenant_" + name, **vm1))
            self.assertIsNone(of(after, "weft_session_info", session="1"))
            self.assertGreater(d.ctl("info")["ended"][0]["gpu.time"], 0)

    def test_short_sessions_are_counted(self):
        with daemon() as d, self.exporter(d) as e:
            for _ in range(3):
                self.assertEqual(d.run("vector_add").wait(patient(30)), 0)
            wait_for(lambda: not d.sessions(), 5, "they have ended")
            wait_for(lambda: of(e.samples(), "weft_tenant_sessions", tenant="local") == 0, 5,
                     "told")
            now = e.samples()
            self.assertEqual(of(now, "weft_tenant_sessions_total", tenant="local"), 3)
            self.assertGreater(of(now, "weft_tenant_gpu_seconds_total", tenant="local"), 0)
            self.assertGreater(of(now, "weft_tenant_copy_bytes_total", tenant="local",
                                  direction="to_device"), 0)

    def test_moves_are_counted_by_direction(self):
        with daemon("--memory", "64M", "--swap", "256M", "--reserve", "0") as d, \
                self.exporter(d) as e:
            p = d.run("steady", 60)
            wait_for(lambda: d.sessions() and d.sessions()[0]["memory.current"] > 1 << 20, 10,
                     "it has memory")
            d.ctl("reclaim", "local", "max")
            wait_for(lambda: of(e.samples(), "weft_tenant_swap_moved_bytes_total",
                                tenant="local", direction="out") > 0, 10, "out")
            wait_for(lambda: of(e.samples(), "weft_tenant_swap_moved_bytes_total",
                                tenant="local", direction="in") > 0, 10, "in")
            p.kill()


class Limits(MetricsTest):
    def test_sessions_left_out(self):
        with daemon() as d, self.exporter(d, "--sessions", "2") as e:
            for _ in range(3):
                d.run("steady", 60)
            wait_for(lambda: len(d.sessions()) == 3, 20, "three sessions")
            wait_for(lambda: of(e.samples(), "weft_sessions_left_out") == 1, 5, "one is left out")
            shown = [dict(l)["session"] for n, l in e.samples() if n == "weft_session_info"]
            self.assertEqual(shown, ["1", "2"])

    def test_more_tenants_than_a_socket_holds(self):
        names = {f"vm{i}" for i in range(300)}
        with daemon(config="".join(f"[tenant {n}]\n" for n in names)) as d, \
                self.exporter(d) as e:
            shown = {dict(l)["tenant"] for n, l in e.samples() if n == "weft_tenant_sessions"}
            self.assertEqual(shown, names | {"local"})

    def test_names_that_guests_choose(self):
        with daemon() as d, self.exporter(d) as e:
            name = b'a"} 1\nweft_up 9\\\x1b\xff'
            with Guest(d.socket()) as g:
                g.send(struct.pack("<IHHII16sII24s", MAGIC, VERSION, 0, 1, 1, bytes(16), 1, 0,
                                   name))
                self.assertEqual(g.welcome()[0], 0)
                wait_for(lambda: any(n == "weft_session_info" for n, _ in e.samples()), 5,
                         "the session is shown")
                now = e.samples()
            self.assertEqual(of(now, "weft_up"), 1)
            (shown,) = [dict(l)["program"] for n, l in now if n == "weft_session_info"]
            self.assertEqual(shown, r'a\"} 1?weft_up 9\\??')


class Daemons(MetricsTest):
    def test_weftd_comes_and_goes(self):
        with daemon() as d, self.exporter(d) as e:
            self.assertEqual(of(e.samples(), "weft_up"), 1)
            d.process.terminate()
            d.process.wait(patient(20))
            wait_for(lambda: of(e.samples(), "weft_up") == 0, 5, "it is down")
            self.assertIsNone(of(e.samples(), "weft_sessions"))
            with d:
                os.chmod(d.dir, 0o755)
                wait_for(lambda: of(e.samples(), "weft_up") == 1, 5, "it is up")
                self.assertIn("weftd answers again", e.said())

    def test_sessions_that_outlive_weftd_count_on(self):
        group = ["--viewers", "games"] if os.geteuid() == 0 else []
        with Kept(*group) as d, self.exporter(d) as e:
            d.run("steady", 60)

            def launches():
                return of(e.samples(), "weft_tenant_launches_total", tenant="local") or 0

            wait_for(lambda: launches() > 0, 10, "it launches")
            before = e.samples()
            d.end_broker()
            name = "weft_session_launches_total"
            was = of(before, name, session="1")
            wait_for(lambda: (of(e.samples(), name, session="1") or 0) > was, 10,
                     "the session's counter goes on")
            self.assertGreaterEqual(launches(), of(before, "weft_tenant_launches_total",
                                                   tenant="local"))

    def test_weftd_that_stands_still(self):
        with daemon() as d, self.exporter(d) as e:
            self.assertEqual(of(e.samples(), "weft_up"), 1)
            d.process.send_signal(signal.SIGSTOP)
            try:
                wait_for(lambda: of(e.samples(), "weft_up") == 0, 10, "it is down")
            finally:
                d.process.send_signal(signal.SIGCONT)
            wait_for(lambda: of(e.samples(), "weft_up") == 1, 10, "it is up")
            self.assertIn("weftd does not answer", e.said())

    def test_whoever_may_not_ask_sees_it_down(self):
        if os.geteuid():
            self.skipTest("only root can run programs as others")
        with Daemon() as d, self.exporter(d) as e:  # no viewers
            self.assertEqual(of(e.samples(), "weft_up"), 0)
            self.assertIn("ermission denied", e.said())


class Http(MetricsTest):
    def test_paths_and_methods(self):
        with Exporter("/nonexistent/weft/control") as e:
            self.assertEqual(e.get()[:2], (200, "text/plain; version=0.0.4; charset=utf-8"))
            self.assertIn("/metrics", e.get("/")[2])
            self.assertEqual(e.get("/metrics/x")[0], 404)
            self.assertEqual(e.get(method="POST")[0], 405)
            self.assertEqual(e.get(method="HEAD")[0], 200)
            self.assertEqual(of(e.samples(), "weft_up"), 0)
            e.process.terminate()
            self.assertEqual(e.process.wait(patient(10)), 0)

    def test_connections_that_say_nothing_keep_nobody_out(self):
        with daemon() as d, self.exporter(d) as e:
            idle = [http.client.HTTPConnection("127.0.0.1", e.port) for _ in range(32)]
            for c in idle:
                c.connect()
            self.assertEqual(of(e.samples(), "weft_up"), 1)
            for c in idle:
                c.close()

    def refused(self, *options):
        who = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
        r = subprocess.run([program("weft-exporter"), *options], capture_output=True, text=True,
                           timeout=patient(10), check=False, **who)
        return r.returncode, r.stderr

    def test_wrong_options(self):
        for options, status, text in (
                (["--listen", "nowhere"], 1, "is no address such as 127.0.0.1:22888"),
                (["--listen", "192.0.2.1:0"], 1, "Cannot assign"),
                (["--sessions", "-1"], 64, "is no number from 0 to 65536"),
                (["--sandbox", "maybe"], 64, "is none of on, log, off"),
                (["more"], 64, "is none of the options")):
            got, said = self.refused(*options)
            self.assertEqual(got, status, said)
            self.assertIn(text, said)

    def test_root_is_refused(self):
        if os.geteuid():
            self.skipTest("this is not root")
        r = subprocess.run([program("weft-exporter")], capture_output=True, text=True,
                           timeout=patient(10), check=False)
        self.assertEqual(r.returncode, 1)
        self.assertIn("does not run as root", r.stderr)


class Format(MetricsTest):
    """For other readers: the format, the page of documentation, the dashboard."""

    @classmethod
    def setUpClass(cls):
        with daemon(config="[tenant vm1]\n") as d, Exporter(d.path("control")) as e:
            os.chmod(d.dir, 0o755)
            d.run("steady", 60, tenant="vm1")
            wait_for(lambda: any(n == "weft_session_info" for n, _ in e.samples()), 20,
                     "a session")
            cls.text = e.get()[2]
        cls.types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", cls.text, re.M))

    def test_promtool(self):
        try:
            promtool = shutil.which("promtool") or \
                f"{debian.unpack('programs', 'prometheus')}/usr/bin/promtool"
        except (debian.Error, OSError) as e:
            self.skipTest(f"no promtool: {e}")
        # DCGM's names are not in the style that promtool wants.
        own = "".join(line + "\n" for line in self.text.splitlines() if "DCGM_FI" not in line)
        r = subprocess.run([promtool, "check", "metrics"], input=own, capture_output=True,
                           text=True, timeout=patient(20), check=False)
        self.assertEqual((r.returncode, r.stdout + r.stderr), (0, ""))

    def test_parser_of_prometheus(self):
        if not parse:
            self.skipTest("no prometheus_client (Debian: python3-prometheus-client)")
        families = list(parse(self.text))
        self.assertEqual(len(families), len(self.types))
        for f in families:
            self.assertIn(f.type, ("counter", "gauge"))
            self.assertTrue(f.samples, f.name)
            self.assertTrue(f.documentation.endswith("."), f.name)

    def test_names(self):
        for name, kind in self.types.items():
            if name.startswith("DCGM_FI_DEV_"):
                continue
            self.assertTrue(name.startswith("weft_"), name)
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
            self.assertNotRegex(name, "_(ns|us|ms|kb|mb|mib|percent)(_|$)")

    def test_dashboard_knows_these_metrics_only(self):
        with open(os.path.join(TOP, "hostd/exporter/weft.json"), encoding="utf-8") as f:
            panels = json.load(f)["panels"]
        self.assertEqual(len({p["id"] for p in panels}), len(panels))
        for p in panels:
            self.assertTrue(p["title"] and p["description"] and p["targets"], p)
            for t in p["targets"]:
                named = re.findall(r"\bweft_\w+", t["expr"])
                self.assertTrue(named, t)
                for name in named:
                    self.assertIn(name, self.types)
                    # A counter is of use by its rate.
                    self.assertEqual(f"rate({name}" in t["expr"],
                                     self.types[name] == "counter", t)

    def test_page_has_each_metric(self):
        with open(os.path.join(TOP, "hostd/doc/metrics.md"), encoding="utf-8") as f:
            rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", f.read(), re.M)
        self.assertEqual(dict(rows), self.types)
        self.assertEqual(len(rows), len(self.types))


if __name__ == "__main__":
    unittest.main()
