# SPDX-License-Identifier: Apache-2.0
"""Common part of the fault tests: a private daemon, programs, a guest that says what it likes."""
import ctypes
import glob
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

BUILD = os.environ["WEFT_BUILD"]
SEED = int(os.environ.get("WEFT_SEED", "1"))
MAGIC, VERSION = 0x54464557, 3

# Orphans of what a test kills come to us, so that they can be counted.
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER

# Sanitizers make everything slow.
PATIENCE = float(os.environ.get("WEFT_TEST_PATIENCE", "3"))


def program(name):
    for sub in ("hostd", "tests/fault", "tests/path"):
        path = os.path.join(BUILD, sub, name)
        if os.path.exists(path):
            return path
    raise FileNotFoundError(name)


def patient(seconds):
    """As long as that may take on a machine that does something else as well."""
    return seconds * PATIENCE


def wait_for(condition, seconds, what):
    seconds = patient(seconds)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.01)


def processes(text):
    """Pids of all processes whose command line contains text, zombies not counted."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line and alive(pid) and int(pid) != os.getpid():
            found.append(int(pid))
    return found


def is_ours(pid):
    """Whether this test started it, or somebody whom it started; orphans are ours, too."""
    at = pid
    while at > 1 and at != os.getpid():
        above = parent(at)
        if not above and not alive(at):
            # Gone while we looked: who is above pid by now?
            above = pid if alive(pid) else 0
        at = above
    return at == os.getpid()


def built_sanitized():
    """Whether weftd has a sanitizer's run-time, which must be loaded first, takes memory, and
    needs files for its reports: such a build has no sandbox."""
    with open(program("weftd"), "rb") as f:
        return b"libasan.so" in f.read()


def rounds(n):
    """Rounds of what is done over and over: fewer where a sanitizer makes each ten times as
    slow."""
    return max(1, n // 3) if built_sanitized() else n


class Daemon:
    """A private weftd. Used as a context manager."""

    def __init__(self, *options, config="", device="soft", weftd=None, ready=True,
                 user=None):
        self.options, self.config, self.device = options, config, device
        self.user = user  # as root: whose daemon it is
        self.weftd = weftd or program("weftd")
        self.ready = ready  # else no worker will ever be
        self.dir = tempfile.mkdtemp(prefix="weft-fault-")
        self.process = None
        self.started = []

    def __enter__(self):
        with open(self.path("conf"), "w", encoding="utf-8") as f:
            f.write(self.config)
        if self.user:
            os.chown(self.dir, self.user, -1)
        r, w = os.pipe()
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.weftd, "--config", self.path("conf"), "--run-dir", self.dir,
                 "--device", self.device, "--ready-fd", str(w), *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[w],
                **({"user": self.user, "extra_groups": []} if self.user else {}))
        os.close(w)
        ok = os.read(r, 1) if self.ready else True
        os.close(r)
        if not ok:
            raise AssertionError("weftd did not start:\n" + self.log())
        return self

    def __exit__(self, *exc):
        for p in self.started:
            if p.poll() is None:
                p.kill()
                p.wait()
            p.stdout.close()
            if p.stdin:
                p.stdin.close()
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(patient(10))
        if exc[0]:
            print(self.log())
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def log(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def ctl(self, *words):
        r = subprocess.run([program("weftctl"), "--control", self.path("control"), "--json",
                            *words], capture_output=True, text=True, timeout=patient(20),
                           check=False)
        if r.returncode:
            raise AssertionError(f"weftctl {words}: {r.stdout}{r.stderr}")
        return json.loads(r.stdout) if r.stdout else {}

    def sessions(self, tenant=None):
        return [s for s in self.ctl("list")["sessions"] if tenant in (None, s["tenant"])]

    def memory_used(self):
        return self.ctl("list")["device"]["memory.current"]

    def run(self, name, *args, tenant="local", stdin=None, carrier="auto"):
        """Starts a program of this tenant's; its output is a pipe."""
        env = dict(os.environ, WEFT_HOST=f"unix:{self.socket(tenant)}", WEFT_CARRIER=carrier,
                   LD_LIBRARY_PATH=os.path.join(BUILD, "guestlib"))
        p = subprocess.Popen([program(name), *map(str, args)], env=env, text=True, stdin=stdin,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(p)
        return p

    def socket(self, tenant="local"):
        return self.path("weft.sock" if tenant == "local" else f"{tenant}.sock")

    def children(self, name=""):
        return [p for kind in ("weft-worker", "weft-listener") if name in kind
                for p in processes(kind) if parent(p) == self.process.pid]


def stat(pid):
    """Fields of /proc/PID/stat from the state on; those of a dead process if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()
    except OSError:
        return ["Z"] + ["0"] * 40


def parent(pid):
    return int(stat(pid)[1])


def alive(pid):
    return stat(pid)[0] not in "ZX"


def times_run(pid):
    """How often its threads have been given a processor."""
    times = 0
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        with open(path, encoding="utf-8") as f:
            times += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
    return times


def until_running(p):
    """Reads no more than this line: communicate() does not look into buffers."""
    text = b""
    while not ("\n" + text.decode(errors="replace")).endswith("\nrunning\n"):
        byte = os.read(p.stdout.fileno(), 1)
        if not byte:
            raise AssertionError("the program did not get to run: " +
                                 text.decode(errors="replace"))
        text += byte


def hello(lane=0, version=VERSION, magic=MAGIC, token=bytes(16), carriers=1, pid=1):
    return struct.pack("<IHHII16sII24s", magic, version, lane, pid, pid, token, carriers, 0,
                       b"hostile")


class Script:
    """A program that does what it is told, a line each, and answers with numbers."""

    def __init__(self, daemon, name, tenant, *args):
        env = dict(os.environ, WEFT_HOST=f"unix:{daemon.socket(tenant)}",
                   LD_LIBRARY_PATH=os.path.join(BUILD, "guestlib"))
        self.process = subprocess.Popen([program(name), *args], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        daemon.started.append(self.process)

    def say(self, line):
        self.tell(line)
        return self.answer()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        """Empty once the program has ended."""
        return tuple(map(int, self.process.stdout.readline().split()))


def busy(daemon, tenant):
    """Script of "busy" that knows how fast the device is: a second one, which begins meanwhile,
    would have each take it for slower."""
    p = Script(daemon, "busy", tenant)
    p.say("w 1 100")
    return p


class Guest:
    """A connection that sends whatever it is told to."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        # A busy daemon's backlog may be full for a moment.
        deadline = time.monotonic() + 10
        while True:
            try:
                self.sock.connect(path)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    def send(self, data):
        """False once the other side has closed."""
        try:
            self.sock.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def welcome(self):
        """(error, token, session), or None when the other side closed without a word."""
        data = b""
        while len(data) < 88:
            try:
                piece = self.sock.recv(88 - len(data))
            except ConnectionResetError:
                piece = b""
            if not piece:
                return None
            data += piece
        magic, _, _, error = struct.unpack_from("<IHHi", data)
        assert magic == MAGIC
        return error, data[16:32], struct.unpack_from("<Q", data, 32)[0]

    def closed(self):
        """True when the other side closes (what it still says is read)."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True


class FaultTest(unittest.TestCase):
    def setUp(self):
        random.seed(SEED)

    def assert_right(self, p, seconds=30):
        """The program ends by itself with right results."""
        out, _ = p.communicate(timeout=patient(seconds))
        self.assertEqual(p.returncode, 0, out)
        self.assertIn("right", out)

    def assert_gone(self, daemon, tenant, seconds=1):
        """The tenant's sessions and all that was charged for them."""
        wait_for(lambda: not daemon.sessions(tenant), seconds, f"sessions of {tenant} are gone")
        used = [t["memory.current"] for t in daemon.ctl("list")["tenants"] if t["name"] == tenant]
        self.assertEqual(used, [0])


def kill(pid, sig=signal.SIGKILL):
    os.kill(pid, sig)
