# SPDX-License-Identifier: Apache-2.0
"""A private weftd whose device is as small as one likes, and programs that report by lines."""
import json
import os
import select
import shutil
import socket
import subprocess
import tempfile
import time

WAIT_SECONDS = 60


class Failure(Exception):
    """A measurement that went wrong: no number comes of it."""


class Program:
    """A program that prints a line at each step. Used as a context manager."""

    def __init__(self, argv, env=None, seconds=WAIT_SECONDS):
        self.name = os.path.basename(next(a for a in reversed(argv) if "/" in a))
        self.seconds = seconds
        self.lines, self.rest = [], b""
        self.process = subprocess.Popen(argv, env=dict(os.environ, **(env or {})),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.stdout.close()

    def until(self, word):
        """The other words of the first line from here on that begins with this one."""
        deadline = time.monotonic() + self.seconds
        while True:
            line = self._line(deadline)
            if line is None:
                raise Failure(f"{self.name} did not say {word}: " + " | ".join(self.lines[-5:]))
            self.lines.append(line)
            words = line.split()
            if words and words[0] == word:
                return words[1:]
            if words and words[0] == "FAIL":
                raise Failure(line)

    def _line(self, deadline):
        fd = self.process.stdout.fileno()
        while b"\n" not in self.rest:
            left = max(0, deadline - time.monotonic())
            if not select.select([fd], [], [], left)[0]:
                return None
            data = os.read(fd, 1 << 16)
            if not data:
                return None
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode(errors="replace")

    def said(self, word):
        """Whether a line that is there by now begins with this word."""
        while (line := self._line(time.monotonic())) is not None:
            self.lines.append(line)
        return any(line.split()[:1] == [word] for line in self.lines)

    def end(self):
        """No more input."""
        self.process.stdin.close()

    def go(self):
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def all_of(self, word):
        """The other words, as numbers, of each line so far that begins with this one."""
        return [tuple(map(int, line.split()[1:])) for line in self.lines
                if line.split()[:1] == [word]]


class Daemon:
    """A weftd with a section [daemon] of these keys. Used as a context manager."""

    def __init__(self, build, **keys):
        self.build, self.keys = build, {"pool": 2, **keys}
        self.dir = self.process = None

    def hostd(self, name):
        return os.path.join(self.build, "hostd", name)

    def __enter__(self):
        # Names of sockets are short.
        self.dir = tempfile.mkdtemp(prefix="ws-")
        os.chmod(self.dir, 0o755)
        conf = os.path.join(self.dir, "conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write("[daemon]\n" + "".join(f"{k} = {v}\n" for k, v in self.keys.items()))
            f.write("".join(f"[tenant {t}]\nmemory.max = 1T\n" for t in "ab"))
        r, w = os.pipe()
        with open(os.path.join(self.dir, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [self.hostd("weftd"), "--config", conf, "--run-dir", self.dir,
                 "--ready-fd", str(w)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[w])
        os.close(w)
        ready = os.read(r, 1)
        os.close(r)
        if not ready:
            text = self.log()
            self.__exit__()
            raise Failure("weftd did not start: " + text)
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def log(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()[-2000:]

    def ask(self, cmd, **more):
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(20)
            c.connect(os.path.join(self.dir, "control"))
            c.sendall(json.dumps({"cmd": cmd, **more}).encode() + b"\n")
            with c.makefile("rb") as f:
                return json.loads(f.readline())

    def bytes_of(self, tenant, key):
        """A tenant's number, as weftctl get has it; 0 while there is no such tenant."""
        keys = self.ask("tenant-get", name=tenant, key=key).get("keys", {})
        return int(keys.get(key, 0))

    def stat(self, tenant):
        """{name: number} of a tenant's memory.stat."""
        keys = self.ask("tenant-get", name=tenant, key="memory.stat").get("keys", {})
        return {name: int(value) for name, value in keys.get("memory.stat", {}).items()}

    def run(self, tenant, argv, seconds=WAIT_SECONDS):
        return Program([self.hostd("weft-run"), "--control",
                        os.path.join(self.dir, "control"), "--tenant", tenant, "--", *argv],
                       seconds=seconds)
