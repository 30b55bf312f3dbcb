# SPDX-License-Identifier: Apache-2.0
"""One weftd for all programs of a run, each a tenant of its own."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from . import build, execute

START_SECONDS = 30
POOL_SECONDS = 3  # until the ready workers are


class Daemon:
    """Used as a context manager. Answers what programs did, and what they were refused."""

    def __init__(self, directory, device, swap="", time="", mps="", memory=0, pool=4,
                 blocks="", rewrite=""):
        self.build, self.device = directory, device
        self.keys = {"pool": pool, "swap": swap, "time": time, "mps": mps, "memory": memory,
                     "kernel.policy": blocks, "kernel.rewrite": rewrite}
        self.dir = self.log = self.proc = None
        self.env = {}
        lib = os.path.join(directory, "lib")
        if os.path.isdir(lib):
            self.env["LD_LIBRARY_PATH"] = ":".join(
                x for x in (lib, os.environ.get("LD_LIBRARY_PATH")) if x)

    def __enter__(self):
        # Names of sockets are short.
        self.dir = tempfile.mkdtemp(prefix="wg-")
        os.chmod(self.dir, 0o755)
        conf = os.path.join(self.dir, "weftd.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(f"[daemon]\ndevice = {self.device}\nrun-dir = {self.dir}/run\n")
            f.writelines(f"{k} = {v}\n" for k, v in self.keys.items() if v)
        self.control = os.path.join(self.dir, "run", "control")
        with open(os.path.join(self.dir, "log"), "wb") as log:
            self.proc = subprocess.Popen(
                [os.path.join(self.build, "hostd", "weftd"), "--config", conf],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=dict(os.environ, **self.env))
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self):
        deadline = time.monotonic() + START_SECONDS
        while not os.path.exists(self.control):
            if self.proc.poll() is not None or time.monotonic() > deadline:
                raise build.Error("weftd did not start: " + self.log_tail())
            time.sleep(0.05)
        if self.device == "cuda":
            time.sleep(POOL_SECONDS)

    def __exit__(self, *exc):
        if self.proc and self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def log_tail(self, size=2000):
        with open(os.path.join(self.dir, "log"), "rb") as f:
            return f.read()[-size:].decode(errors="replace")

    def side(self, tenant):
        """How a program is run as that tenant, which is made if need be."""
        return execute.Side("weft", [os.path.join(self.build, "hostd", "weft-run"),
                                     "--control", self.control, "--tenant", tenant,
                                     "--create", "--"],
                            self.env)

    def ask(self, cmd, **more):
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(20)
            c.connect(self.control)
            c.sendall(json.dumps({"cmd": cmd, **more}).encode() + b"\n")
            with c.makefile("rb") as f:
                return json.loads(f.readline())

    def workers(self):
        """Process ids of those that serve a session."""
        return [s["worker.pid"] for s in self.ask("list").get("sessions", [])]

    def refused(self, tenant):
        """["kind what xN"] of everything its programs asked for and did not get."""
        try:
            info = self.ask("info", tenant=tenant)
        except (OSError, ValueError) as e:
            return [f"weftd does not answer: {e}"]
        out = [f"{r['kind']} {r['what']} x{r['count']}" for r in info.get("refused", [])]
        others = info.get("refused_others", 0)
        return out + ([f"{others} others"] if others else [])
