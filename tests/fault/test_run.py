#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weft-run: which daemon and which tenant a program gets, and what it says about that.

Runs in a mount name space of its own, where /run and /tmp are empty: the system's daemon
here is the test's.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import fault
from fault import Daemon, FaultTest, patient, program

# LD_LIBRARY_PATH is for single tests to set: a worker would take the library in there for the
# driver's.
os.environ.pop("LD_LIBRARY_PATH", None)

INSIDE = "WEFT_TEST_INSIDE"
NOBODY = 12345


def run(*words, user=0, tool="weft-run", env=None, groups=()):
    """Without the guest's library in the path: a worker would take it for a driver."""
    env = {"LD_LIBRARY_PATH": "", **(env or {})}
    return subprocess.run([program(tool), *words], capture_output=True, text=True,
                          timeout=patient(20), check=False, user=user, group=user,
                          extra_groups=groups, env=dict(os.environ, **env),
                          stdin=subprocess.DEVNULL)


def host(*words, **more):
    """Where the program is sent, and what weft-run says."""
    r = run(*words, "--", "sh", "-c", "echo $WEFT_HOST", **more)
    return r.returncode, r.stdout.strip(), r.stderr


class Shared(FaultTest):
    """The system's daemon, which root runs."""

    def setUp(self):
        super().setUp()
        os.makedirs("/run/weft", exist_ok=True)
        self.daemon = Daemon("--run-dir", "/run/weft", "--operators", "games",
                             config="[tenant vm1]\nmemory.max = 1M\n")
        self.daemon.__enter__()

    def tearDown(self):
        self.daemon.__exit__(None, None, None)

    def limit(self, tenant):
        return run("get", tenant, "memory.max", "--bytes", tool="weftctl").stdout.strip()

    def test_tenants(self):
        self.assertEqual(host()[:2], (0, "unix:/run/weft/weft.sock"))
        self.assertEqual(host("--tenant", "vm1")[:2], (0, "unix:/run/weft/vm1.sock"))
        status, _, said = host("--tenant", "vm11")
        self.assertEqual(status, 125)
        self.assertIn('no tenant "vm11" (there are vm1, local): weftctl add vm11, or --create',
                      said)
        self.assertEqual(host("--tenant", "vm11", "--create")[:2],
                         (0, "unix:/run/weft/vm11.sock"))

    def test_a_limit_is_no_ones_else(self):
        for words in ([], ["--tenant", "vm1"], ["--tenant", "vm1", "--create"]):
            status, _, said = host("--memory-max", "64M", *words)
            self.assertEqual(status, 125)
            self.assertIn("weftctl set", said)
        self.assertEqual(self.limit("vm1"), str(1 << 20))
        self.assertEqual(host("--tenant", "new", "--create", "--memory-max", "64M")[0], 0)
        self.assertEqual(self.limit("new"), str(64 << 20))
        status, _, said = host("--tenant", "vm1", "--tpcs", "0-1")
        self.assertEqual(status, 125)
        self.assertIn("weftctl set vm1 tpc.set=0-1", said)
        self.assertEqual(host("--tenant", "two", "--create", "--tpcs", "0-1")[0], 0)

    def test_who_may_not_use_it(self):
        # Not around the tenant's limits.
        status, out, said = host("--tenant", "vm1", user=NOBODY)
        self.assertEqual((status, out), (125, ""))
        self.assertIn("cannot use /run/weft/control: permission denied", said)
        status, _, said = host("--memory-max", "1G", user=NOBODY)
        self.assertEqual(status, 125)
        # Nothing that the daemon shares out, and said so.
        status, out, said = host(user=NOBODY)
        self.assertEqual(status, 0, said)
        self.assertIn("/tmp/weft-private-", out)
        self.assertIn("permission denied", said)
        self.assertIn("private software GPU", said)
        self.assertNotIn("permission denied", host("--private", "--device", "soft",
                                                   user=NOBODY)[2])

    def test_who_may_use_one_socket(self):
        os.chown("/run/weft/weft.sock", NOBODY, -1)
        self.assertEqual(host(user=NOBODY), (0, "unix:/run/weft/weft.sock", ""))

    def test_operators(self):
        self.assertEqual(host("--tenant", "vm1", user=NOBODY, groups=[60])[:2],
                         (0, "unix:/run/weft/vm1.sock"))

    def test_refusal_is_not_hidden(self):
        r = run("list", user=NOBODY, tool="weftctl")
        self.assertEqual(r.returncode, 1)
        self.assertIn("permission denied", r.stderr)


class Alone(FaultTest):
    def test_the_guests_library_is_no_driver(self):
        """LD_LIBRARY_PATH of a program that runs in Weft, and starts weft-run itself."""
        env = {"LD_LIBRARY_PATH": os.path.join(fault.BUILD, "guestlib")}
        said = host("--private", "--device", "auto", env=env)[2]
        self.assertIn("libcuda.so.1 is Weft's guest library", said)
        self.assertNotIn("no GPU: unix:", said)

    def test_no_daemon(self):
        status, out, said = host()
        self.assertEqual(status, 0, said)
        self.assertIn("/tmp/weft-private-", out)
        self.assertIn("no weftd at /run/weft/control", said)
        self.assertIn("private daemon", said)
        self.assertEqual(host("--private")[2], "")
        self.assertEqual(host("--device", "soft", "--tenant", "a", "--memory-max", "1M")[2], "")
        self.assertEqual(host("--tenant", "vm1")[0], 125)
        self.assertEqual(host("--control", "/nonexistent")[0], 125)
        said = run("list", tool="weftctl", user=NOBODY).stderr
        self.assertIn(f"no weftd at /run/weft/control nor /tmp/weft-{NOBODY}/control", said)

    def test_nobody_else_is_the_users_daemon(self):
        """/tmp/weft-UID of somebody who was first."""
        name = f"/tmp/weft-{NOBODY}"
        for owner, mode in ((NOBODY + 1, 0o755), (NOBODY, 0o777)):
            os.mkdir(name)
            os.chmod(name, mode)
            os.chown(name, owner, owner)
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(name + "/control")
                os.chmod(name + "/control", 0o777)
                s.listen()
                s.settimeout(0)
                r = run("list", tool="weftctl", user=NOBODY)
                self.assertIn("cannot trust", r.stderr)
                self.assertEqual(host("--tenant", "local", user=NOBODY)[0], 125)
                with self.assertRaises(BlockingIOError):
                    s.accept()
            r = subprocess.run([program("weftd"), "--config", "/dev/null", "--device", "soft"],
                               capture_output=True, text=True, timeout=patient(10),
                               check=False, user=NOBODY, group=NOBODY, extra_groups=[])
            self.assertEqual(r.returncode, 1)
            self.assertIn("others may write it", r.stderr)
            shutil.rmtree(name)

    def test_a_listener_of_another_user(self):
        """In a directory of ours, a socket that somebody else listens on."""
        name = f"/tmp/weft-{NOBODY}"
        os.mkdir(name, 0o755)
        os.chown(name, NOBODY + 1, NOBODY + 1)
        up, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.setresuid(NOBODY + 1, NOBODY + 1, NOBODY + 1)
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(name + "/control")
                os.chmod(name + "/control", 0o777)
                s.listen()
                os.write(told, b"1")
                signal.pause()
        try:
            self.assertEqual(os.read(up, 1), b"1")
            os.chown(name, NOBODY, NOBODY)
            self.assertIn("cannot trust", run("list", tool="weftctl", user=NOBODY).stderr)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(up)
            os.close(told)
            shutil.rmtree(name)


def main():
    if os.environ.get(INSIDE):
        tree = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
        kept = os.open(tree, os.O_PATH)
        for place in ("/run", "/tmp"):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", place],
                           check=True)
            if tree.startswith(place + "/"):  # it stays where it is
                os.makedirs(tree)
                subprocess.run(["mount", "-c", "--rbind", f"/proc/{os.getpid()}/fd/{kept}", tree],
                               check=True)
                os.chdir(tree)
        os.environ.pop("XDG_RUNTIME_DIR", None)
        os.environ.pop("TMPDIR", None)
        os.environ.pop("LD_LIBRARY_PATH", None)
        return unittest.main()
    inside = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() or subprocess.run([*inside, "mount", "-t", "tmpfs", "tmpfs", "/run"],
                                      capture_output=True, check=False).returncode:
        print("SKIP: needs root and a mount name space")
        return 77
    try:
        run("--version", user=NOBODY)
    except PermissionError:
        print("SKIP: other users cannot reach the build directory")
        return 77
    return subprocess.run([*inside, sys.executable, "-B", *sys.argv],
                          env=dict(os.environ, **{INSIDE: "1"}), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
