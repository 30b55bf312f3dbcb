# SPDX-License-Identifier: Apache-2.0
"""A real systemd keeps what sessions stand on: weftd is killed, restarted and stopped under it."""
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from fault import (BUILD, Daemon, FaultTest, alive, is_ours, kill, parent, patient, processes, program,
                   until_running, wait_for)
from test_restart import books

SYSTEMD = "/lib/systemd/systemd"
# A manager in namespaces of its own, where it must not be the first process, and below a
# cgroup, for it moves itself.
START = """
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system || exit 1
for top in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
    if [ -e $top/cgroup.procs ]; then
        mkdir -p $top/$1 && echo $$ >$top/$1/cgroup.procs
    fi
done
{} --user --log-target=console
""".format(SYSTEMD)


class Systemd:
    """The manager of one user, with our unit but for its programs and rights."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.cgroup = f"weft-test-{os.getpid()}"
        self.env = dict(os.environ, XDG_RUNTIME_DIR=folder, HOME=folder)
        os.makedirs(os.path.join(folder, "systemd", "user"))
        os.chmod(folder, 0o700)
        with open(os.path.join(folder, "systemd", "user", "weftd.service"), "w",
                  encoding="utf-8") as f:
            f.write(self.unit(options))
        with open(os.path.join(folder, "log"), "wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                 "sh", "-c", START, "sh", self.cgroup],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def unit(self, options):
        lines = ["[Service]"]
        with open(os.path.join(BUILD, "hostd", "weftd.service"), encoding="utf-8") as f:
            for line in f:
                key = line.split("=")[0]
                if key in ("Type", "Restart", "FileDescriptorStoreMax", "KillMode"):
                    lines.append(line.strip())
                elif key == "ExecStart":
                    lines.append(" ".join(["ExecStart=" + program("weftd"),
                                           *line.split()[1:], *options]))
        return "\n".join(lines) + "\n"

    def ctl(self, *words):
        """systemctl, in the manager's name spaces."""
        inside = [p for p in map(int, filter(str.isdigit, os.listdir("/proc")))
                  if parent(p) == self.process.pid]
        return subprocess.run(["nsenter", "--mount", "--pid", "--target",
                               str(inside[0] if inside else self.process.pid),
                               "systemctl", "--user", *words], env=self.env,
                              capture_output=True, text=True, timeout=patient(30),
                              check=False)

    def show(self, key):
        return self.ctl("show", "--value", "-p", key, "weftd").stdout.strip()

    def is_up(self):
        return self.process.poll() is None and self.ctl("is-system-running").stdout.strip() in (
            "running", "degraded")

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def end(self):
        self.process.kill()
        self.process.wait()
        wait_for(self.is_clean, 10, "its cgroups are empty")

    def is_clean(self):
        """Removes its cgroups; processes that were killed take a moment to leave them."""
        for top in "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd":
            for path, _, _ in os.walk(os.path.join(top, self.cgroup), topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    return False
        return True


class Unit(Daemon):
    """A weftd that systemd has started; what tests ask of a daemon."""

    def __init__(self, folder):
        super().__init__()
        shutil.rmtree(self.dir)
        self.dir = folder


class UnderSystemd(FaultTest):
    def setUp(self):
        super().setUp()
        if os.geteuid() or not os.path.exists(SYSTEMD) or not shutil.which("unshare"):
            self.skipTest("needs root, systemd and unshare")
        if not os.path.exists(os.path.join(BUILD, "hostd", "weftd.service")):
            self.skipTest("this build has no unit")
        self.run_dir = tempfile.mkdtemp(prefix="weft-systemd-")
        self.systemd = Systemd(tempfile.mkdtemp(prefix="weft-user-"), "--device", "soft",
                               "--run-dir", self.run_dir, "--cgroup", "none")
        self.addCleanup(self.clean)
        until = time.monotonic() + patient(5)
        while not self.systemd.is_up():
            if time.monotonic() > until or self.systemd.process.poll() is not None:
                self.skipTest("no systemd can be started here: " + self.systemd.log()[-200:])
            time.sleep(0.1)

    def clean(self):
        self.systemd.end()
        shutil.rmtree(self.run_dir, ignore_errors=True)
        shutil.rmtree(self.systemd.folder, ignore_errors=True)

    def test_killed_restarted_stopped(self):
        s, d = self.systemd, Unit(self.run_dir)
        self.assertEqual(s.ctl("start", "weftd").returncode, 0, s.log())
        p = d.run("steady", "-", stdin=subprocess.PIPE)
        until_running(p)
        before = books(d)
        pid = s.show("MainPID")
        kill(self.outside(), signal.SIGKILL)
        wait_for(lambda: s.show("MainPID") not in ("0", pid), 10, "another weftd")
        wait_for(lambda: s.show("ActiveState") == "active", 10, "it is ready")
        wait_for(lambda: books(d) == before, 10, "its books are the same")
        self.assertEqual(s.ctl("restart", "weftd").returncode, 0, s.log())
        wait_for(lambda: books(d) == before, 10, "its books are the same")
        n = int(s.show("NFileDescriptorStore"))
        self.assert_right(p)
        self.assert_gone(d, "local")
        wait_for(lambda: int(s.show("NFileDescriptorStore")) == n - 4, 10,
                 "nothing of the session is kept")
        # A stop is the end of all.
        p = d.run("steady", "-", stdin=subprocess.PIPE)
        until_running(p)
        workers = list(filter(is_ours, processes("weft-worker")))
        self.assertEqual(s.ctl("stop", "weftd").returncode, 0, s.log())
        wait_for(lambda: not any(map(alive, workers)), 10, "its workers end")
        out, _ = p.communicate(timeout=patient(20))
        self.assertNotIn("right", out)

    def outside(self):
        """The pid of weftd here, not in the manager's name space."""
        return next(p for p in processes(self.run_dir) if self.is_weftd(p))

    def is_weftd(self, pid):
        try:
            return os.readlink(f"/proc/{pid}/exe").endswith("/weftd")
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
