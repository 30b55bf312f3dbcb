# SPDX-License-Identifier: Apache-2.0
"""A private weftd with one tenant, one socket and one window for each VM."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from .vm import wait_for

PORT = 22887


def window_dir():
    """Windows are memory: in /dev/shm where there is room."""
    try:
        if shutil.disk_usage("/dev/shm").free > 1 << 30:
            return "/dev/shm"
    except OSError:
        pass
    return tempfile.gettempdir()


class Daemon:
    """Used as a context manager. device: soft, cuda or auto."""

    def __init__(self, build_dir, names, *, device="auto", memory="2G", quota=None,
                 window_mib=256, pool=2):
        self.build_dir = build_dir
        self.names = list(names)
        self.device = device
        self.memory = memory
        self.quota = quota
        # A PCI BAR has a power of two of bytes.
        self.window_bytes = window_mib << 20
        self.pool = pool
        self.dir = self.windows = self.process = None

    def program(self, name):
        return os.path.join(self.build_dir, "hostd", name)

    def path(self, name):
        return os.path.join(self.dir, name)

    def socket(self, name):
        return self.path(f"{name}.sock")

    def window(self, name):
        return os.path.join(self.windows, name), self.window_bytes

    def forwards(self, name):
        return {PORT: self.socket(name)}

    def _config(self):
        lines = ["[daemon]", f"run-dir = {self.dir}", f"device = {self.device}",
                 f"pool = {self.pool}"]
        if self.memory and self.device != "cuda":
            lines.append(f"memory = {self.memory}")
        for n in self.names:
            lines += [f"[tenant {n}]", f"socket = {self.socket(n)}",
                      f"window.path = {self.window(n)[0]}",
                      f"window.size = {self.window_bytes}"]
            if self.quota:
                lines.append(f"memory.max = {self.quota}")
        return "\n".join(lines) + "\n"

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="weftd-")
        self.windows = tempfile.mkdtemp(prefix="weft-windows-", dir=window_dir())
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        with open(self.path("weftd.conf"), "w", encoding="utf-8") as f:
            f.write(self._config())
        with open(self.path("weftd.log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.program("weftd"), "--config", self.path("weftd.conf")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for n in self.names:
            wait_for(self.socket(n), self.process, "weftd", 60)

    def log_tail(self):
        with open(self.path("weftd.log"), "rb") as f:
            return f.read()[-4000:].decode(errors="replace")

    def ask(self, *words):
        """weftctl's answer, parsed."""
        r = subprocess.run([self.program("weftctl"), "--control", self.path("control"),
                            "--json", *words], capture_output=True, text=True, timeout=30,
                           check=True)
        return json.loads(r.stdout)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __exit__(self, *exc):
        self.stop()
        for d in (self.dir, self.windows):
            if d:
                shutil.rmtree(d, ignore_errors=True)

    def wait_no_sessions(self, tenant, seconds):
        """True if the tenant's sessions are gone within that time."""
        deadline = time.monotonic() + seconds
        while any(s["tenant"] == tenant for s in self.ask("list")["sessions"]):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True
