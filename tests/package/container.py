#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Containers and the CDI file: Podman gives a container that asks for nvidia.com/gpu=all the
libraries and a window that can be written, and weft-guest-check in it finds a GPU.

    container.py BUILD

A file of sysfs that root may write stands for the window, weftd's own socket for the VM's.
"""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = ""
LIBRARIES = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1")
LIBDIR = "usr/lib/x86_64-linux-gnu"
SECONDS = 60


def missing():
    absent = [n for n in ("podman", "crun", "busybox") if not shutil.which(n)]
    if absent:
        return f"no {', '.join(absent)}"
    return "" if os.geteuid() == 0 else "only root can run containers here"


def make_root(root):
    """Files of a container's image: a C library and a shell."""
    for d in ("usr/bin", LIBDIR, "usr/lib64", "etc", "proc", "sys", "dev", "tmp", "run"):
        os.makedirs(f"{root}/{d}")
    for name in ("bin", "lib", "lib64"):
        os.symlink(f"usr/{name}", f"{root}/{name}")
    shutil.copy("/bin/busybox", f"{root}/usr/bin/busybox")
    os.symlink("busybox", f"{root}/usr/bin/sh")
    for name in LIBRARIES:
        shutil.copy(f"/lib/x86_64-linux-gnu/{name}", f"{root}/{LIBDIR}")
    shutil.copy("/lib64/ld-linux-x86-64.so.2", f"{root}/usr/lib64")


@unittest.skipUnless(shutil.which("systemd-socket-activate"), "no systemd-socket-activate here")
class Connector(unittest.TestCase):
    """weft-guest-connect as its socket unit starts it. tests/vm has the way to a host."""

    def test_one_answer_for_each_connection(self):
        with tempfile.TemporaryDirectory() as d, subprocess.Popen(
                ["systemd-socket-activate", f"--listen={d}/s",
                 f"{BUILD}/guestlib/weft-guest-connect"], stderr=subprocess.DEVNULL) as p:
            try:
                deadline = time.monotonic() + SECONDS
                while not os.path.exists(f"{d}/s"):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                for words in (b"", b"x", b"x" * 100000):
                    self.ask(f"{d}/s", words)
            finally:
                p.kill()

    def ask(self, path, words):
        """Nobody listens for us at the host, if there is one; words are not read."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(SECONDS)
            s.connect(path)
            try:
                s.sendall(words)
            except (BrokenPipeError, ConnectionResetError):
                pass
            status, fds, _, _ = socket.recv_fds(s, 100, 4)
            self.assertEqual(len(status), 4)
            self.assertEqual(len(fds), 0 if struct.unpack("<i", status)[0] else 1)
            for fd in fds:
                os.close(fd)


class Containers(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="weft-container-")
        make_root(self.path("root"))
        self.window = self.fake_window()
        self.make_spec()

    def tearDown(self):
        shutil.rmtree(self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def fake_window(self):
        """A directory of PCI devices with one window, whose BAR is a real file of sysfs."""
        dev = self.path("pci/dev")
        os.makedirs(dev)
        for name, text in (("vendor", "0x1af4"), ("device", "0x1110")):
            with open(f"{dev}/{name}", "w", encoding="ascii") as f:
                f.write(text + "\n")
        with open(f"{dev}/resource2", "wb"):
            pass
        return os.path.realpath("/sys/module/kernel/parameters/panic")

    def make_spec(self):
        os.mkdir(self.path("bin"))
        shutil.copy(f"{BUILD}/guestlib/weft-guest-check", self.path("bin"))
        with open(self.path("bin/ldconfig"), "w", encoding="ascii") as f:
            f.write("#!/bin/sh\n")
            for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
                f.write(f'echo "	{name} (libc6,x86-64) => {BUILD}/guestlib/{name}"\n')
        os.chmod(self.path("bin/ldconfig"), 0o755)
        os.makedirs(self.path("cdi"))
        subprocess.run([f"{TOP}/guestlib/install/weft-guest-cdi", self.path("cdi/weft.json")],
                       check=True, env={"PATH": f"{self.path('bin')}:/usr/bin:/bin:/usr/sbin:/sbin",
                                        "WEFT_CONNECT": self.path("connect"),
                                        "WEFT_SYSFS": self.path("pci")})
        with open(self.path("cdi/weft.json"), encoding="utf-8") as f:
            spec = f.read()
        bar = os.path.realpath(self.path("pci/dev/resource2"))
        self.assertIn(bar, spec)
        with open(self.path("cdi/weft.json"), "w", encoding="utf-8") as f:
            f.write(spec.replace(bar, self.window))

    def container(self, *argv):
        """Runs a command in a container with the GPU. Podman looks for specs in /run/cdi,
        and crun does without cgroups of both versions at once. In processes of its own,
        Podman leaves the limits that root may not raise everywhere."""
        script = ('mkdir -p /run/cdi && mount --bind "$0" /run/cdi; '
                  'umount -l /sys/fs/cgroup/unified 2>/dev/null; exec "$@"')
        podman = ["podman", "--root", self.path("storage"), "--runroot", self.path("run"),
                  "--tmpdir", self.path("tmp"), "--storage-driver", "vfs",
                  "--cgroup-manager=cgroupfs", "--runtime", "crun", "run", "--rm",
                  "--log-driver=none", "--cgroups=disabled", "--network=none",
                  "--device", "nvidia.com/gpu=all", "--volume", f"{self.dir}:{self.dir}",
                  "--env", f"WEFT_HOST=unix:{self.path('d/weft.sock')}",
                  "--rootfs", self.path("root"), *argv]
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return subprocess.run([*apart, "sh", "-c", script, self.path("cdi"), *podman],
                              capture_output=True, text=True, check=False, timeout=SECONDS,
                              stdin=subprocess.DEVNULL,
                              env=dict(os.environ, XDG_RUNTIME_DIR=self.dir))

    def test_schema(self):
        """Version, kind, names and mounts as CDI 0.5.0 has them; no field that it has not."""
        with open(self.path("cdi/weft.json"), encoding="utf-8") as f:
            spec = json.load(f)
        self.assertEqual(sorted(spec), ["cdiVersion", "containerEdits", "devices", "kind"])
        self.assertEqual((spec["cdiVersion"], spec["kind"]), ("0.5.0", "nvidia.com/gpu"))
        for d in spec["devices"]:
            self.assertEqual(sorted(d), ["containerEdits", "name"])
            self.assertRegex(d["name"], r"^[A-Za-z0-9]+$")
        for edits in [spec["containerEdits"], *(d["containerEdits"] for d in spec["devices"])]:
            self.assertTrue(edits and set(edits) <= {"env", "mounts"}, edits)
            for m in edits["mounts"]:
                self.assertEqual(sorted(m), ["containerPath", "hostPath", "options"])
                for path in (m["hostPath"], m["containerPath"]):
                    self.assertTrue(path.startswith("/"), path)

    def test_a_gpu_in_a_container(self):
        os.mkdir(self.path("d"))
        with subprocess.Popen([f"{BUILD}/hostd/weftd", "--config", "/dev/null", "--run-dir",
                               self.path("d"), "--device", "soft"],
                              stderr=subprocess.DEVNULL) as d:
            try:
                deadline = time.monotonic() + SECONDS
                while not os.path.exists(self.path("d/weft.sock")):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                r = self.container("weft-guest-check")
                self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
                self.assertIn("Programs here have a GPU.", r.stdout)
                self.assertRegex(r.stdout, r"ok +libcuda.so.1 +(/usr)?/lib/x86_64-linux-gnu/")
            finally:
                d.terminate()
                d.wait(SECONDS)

    def test_only_the_window_can_be_written(self):
        other = os.path.join(os.path.dirname(self.window), "panic_on_warn")
        r = self.container("sh", "-c", f": <> {self.window} && echo window;"
                                       f": <> {other} && echo other")
        self.assertEqual(r.stdout, "window\n", r.stderr)


def main(build):
    global BUILD  # pylint: disable=global-statement
    BUILD = os.path.abspath(build)
    why = missing()
    if why:
        print(f"SKIP: {why}")
        return 77
    result = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
