# SPDX-License-Identifier: Apache-2.0
"""The host's end of the guest agent's protocol; agent.c describes the frames."""
import os
import queue
import signal
import socket
import struct
import threading
import time

PORT = 22886
VERSION = 1
HEADER = struct.Struct("<IIB3x")
# Bytes kept of one program's output: a guest may print for ever.
MAX_OUTPUT = 16 << 20


class Gone(Exception):
    """The guest is not there any more, or does not keep to the protocol."""


class Job:
    """A program that runs in the guest."""

    def __init__(self, agent, number, argv):
        self.agent = agent
        self.number = number
        self.argv = argv
        self.out = bytearray()
        self.err = bytearray()
        self.status = None  # exit status, or minus the signal
        self.started = time.monotonic()
        self.seconds = None
        self.ended = threading.Event()
        self.on_output = None  # called with (stream, bytes) as it comes in

    def add(self, stream, data):
        kept = self.out if stream == "O" else self.err
        kept += data[:max(0, MAX_OUTPUT - len(kept))]
        if self.on_output:
            self.on_output(stream, data)

    def end(self, status):
        self.status = status
        self.seconds = time.monotonic() - self.started
        self.ended.set()

    def wait(self, timeout=None):
        """Returns the exit status. Raises TimeoutError, or Gone if the guest is."""
        if not self.ended.wait(timeout):
            raise TimeoutError(f"{self.argv[0]} still runs after {timeout} s")
        if self.status is None:
            raise Gone(f"the guest was gone before {self.argv[0]} ended")
        return self.status

    def kill(self, sig=signal.SIGKILL):
        self.agent.send("K", self.number, struct.pack("<I", sig))


class Agent:
    """Listens for one guest's agent. The socket belongs to one VM alone."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(socket.SOMAXCONN)
        self.jobs = {}
        self.next = 1
        self.lock = threading.Lock()
        self.sock = None
        self.ready = threading.Event()
        self.hellos = 0  # how often the guest has connected
        self.closed = False
        self.trouble = queue.SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while not self.closed:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.sock = sock
            try:
                self._read(sock)
            except (Gone, OSError) as e:
                self.trouble.put(str(e))
            # The guest connects again if it lives: jobs go on.
            with self.lock:
                self.sock = None
            self.ready.clear()
            sock.close()

    def _read(self, sock):
        f = sock.makefile("rb")
        while True:
            header = f.read(HEADER.size)
            if len(header) < HEADER.size:
                raise Gone("agent disconnected")
            size, number, kind = HEADER.unpack(header)
            if size > 1 << 20:
                raise Gone("agent sent nonsense")
            data = f.read(size)
            if len(data) < size:
                raise Gone("agent disconnected")
            self._frame(chr(kind), number, data)

    def _frame(self, kind, number, data):
        if kind == "H":
            if data != struct.pack("<I", VERSION):
                raise Gone("agent speaks another version")
            self.hellos += 1
            self.ready.set()
            return
        with self.lock:
            job = self.jobs.get(number)
            if kind == "X":
                self.jobs.pop(number, None)
        if job and kind in "OE":
            job.add(kind, data)
        elif job and kind == "X" and len(data) == 4:
            raw = struct.unpack("<I", data)[0]
            job.end(-(raw & 0x7f) if raw & 0x7f else raw >> 8 & 0xff)
        if kind == "X":
            self.send("A", number, b"")

    def send(self, kind, number, data):
        with self.lock:
            if not self.sock:
                raise Gone("agent is not connected")
            try:
                self.sock.sendall(HEADER.pack(len(data), number, ord(kind)) + data)
            except OSError as e:
                raise Gone(str(e)) from e

    def start(self, argv, env=None, cwd="/tmp", uid=1000, on_output=None):
        variables = {"PATH": "/usr/bin:/usr/sbin", "HOME": "/home/user", **(env or {})}
        strings = [cwd, *(f"{k}={v}" for k, v in variables.items()), *argv]
        payload = struct.pack("<II", uid, len(variables))
        payload += b"".join(os.fsencode(s) + b"\0" for s in strings)
        with self.lock:
            job = Job(self, self.next, argv)
            job.on_output = on_output
            self.jobs[self.next] = job
            self.next += 1
        try:
            self.send("R", job.number, payload)
        except Gone:
            with self.lock:
                self.jobs.pop(job.number, None)
            raise
        return job

    def abandon(self):
        """The VM is gone: nobody waits any longer."""
        with self.lock:
            jobs = list(self.jobs.values())
            self.jobs.clear()
        for j in jobs:
            j.ended.set()

    def close(self):
        self.closed = True
        self.listener.close()
        with self.lock:
            if self.sock:
                self.sock.close()
        self.abandon()
