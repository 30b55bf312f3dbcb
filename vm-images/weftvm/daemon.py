# SPDX-License-Identifier: Apache-2.0
"""A private weftd with one tenant, one socket and one window for each VM."""
import json
import os
import select
import shutil
import socket
import subprocess
import tempfile
import time

PORT = 22887
START_SECONDS = 60
# The kernel's name of a process, which weftd lists, is cut to this.
NAME_MAX = 15


class Error(Exception):
    """weftd did not start, or refuses; the text says why."""


def window_dir():
    """Windows are memory: in /dev/shm where there is room."""
    try:
        if shutil.disk_usage("/dev/shm").free > 1 << 30:
            return "/dev/shm"
    except OSError:
        pass
    return tempfile.gettempdir()


class Daemon:
    """Used as a context manager. device: soft, cuda or auto. window_mib: 0 for none."""

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
            lines += [f"[tenant {n}]", f"socket = {self.socket(n)}"]
            if self.window_bytes:
                lines += [f"window.path = {self.window(n)[0]}",
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
        """Returns when a device is open, so that nobody waits for one later."""
        with open(self.path("weftd.conf"), "w", encoding="utf-8") as f:
            f.write(self._config())
        ready, told = os.pipe()
        with open(self.path("weftd.log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.program("weftd"), "--foreground", "--config", self.path("weftd.conf"),
                 "--ready-fd", str(told)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(told,))
        os.close(told)
        try:
            # End of file without a word: weftd has given up.
            if not select.select([ready], [], [], START_SECONDS)[0] or not os.read(ready, 1):
                raise Error(f"weftd did not start:\n{self.log_tail()}")
        finally:
            os.close(ready)

    def log_tail(self):
        with open(self.path("weftd.log"), "rb") as f:
            return f.read()[-4000:].decode(errors="replace")

    def ask(self, cmd, **more):
        """Asks the control socket, as weftctl does."""
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(30)
            c.connect(self.path("control"))
            c.sendall(json.dumps({"cmd": cmd, **more}).encode() + b"\n")
            with c.makefile("rb") as f:
                answer = json.loads(f.readline())
        if not answer["ok"]:
            raise Error(f"weftd: {cmd}: {answer['error']}")
        return answer

    def sessions(self, tenant):
        """Sessions of one tenant that run."""
        return self.ask("list", tenant=tenant)["sessions"]

    def record(self, tenant, name, seconds=2):
        """Record of the latest ended session of a program."""
        deadline = time.monotonic() + seconds
        while True:
            found = [r for r in self.ask("info", tenant=tenant)["ended"]
                     if r["name"] == name[:NAME_MAX]]
            if found or time.monotonic() > deadline:
                return found[-1] if found else None
            time.sleep(0.02)

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
        while self.sessions(tenant):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True
