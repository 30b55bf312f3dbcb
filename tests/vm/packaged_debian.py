# SPDX-License-Identifier: Apache-2.0
"""A Debian 12 with systemd as its first process, in name spaces of its own, and packages that
the tree has built."""
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

from harness import TOP, check, patient
from weftvm import cpio
from weftvm.debian import cache_dir

NEEDS = ("dpkg-buildpackage", "dh", "mmdebstrap", "unshare", "nsenter")
NEWER = "0.1.0+newer"
# Packages that the guide takes for granted: libvirt and QEMU, and what ours depend on.
HOST = ("systemd,systemd-sysv,dbus,udev,procps,libvirt-daemon-system,libvirt-clients,"
        "libvirt-daemon-driver-qemu,qemu-system-x86,libinih1,libjson-c5,libncursesw6,libxml2")
GUEST = "systemd,systemd-sysv,udev,kmod,procps"
CGROUPS = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
       "DEBIAN_FRONTEND": "noninteractive"}
BOOT = r"""
mount --bind "$0" "$0" && cd "$0"
mount -t proc proc proc && mount -t sysfs sysfs sys
for d in run dev tmp; do mount -t tmpfs -o mode=0755 tmpfs $d; done
chmod 1777 tmp
for d in null zero full random urandom tty; do : >dev/$d; mount --bind /dev/$d dev/$d; done
mkdir dev/shm dev/pts old
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts && ln -s pts/ptmx dev/ptmx
mount -t cgroup2 cgroup2 sys/fs/cgroup
pivot_root . old && umount -l /old
exec env -i container=weft PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
"""


def cgroup_top():
    return next((c for c in CGROUPS if os.path.exists(f"{c}/cgroup.procs")), None)


def why_no_systemd():
    if not cgroup_top():
        return "no cgroups of version 2"
    r = subprocess.run(["unshare", "-mpnCiu", "--fork", "--mount-proc", "true"],
                       capture_output=True, text=True, check=False)
    return f"no name spaces: {r.stderr.strip()}" if r.returncode else None


def unpack(packages, where):
    """A Debian with these packages below a directory; made once, then kept."""
    name = hashlib.sha256(packages.encode()).hexdigest()[:8]
    path = os.path.join(cache_dir(), f"bookworm-{name}.tar")
    if not os.path.exists(path):
        tmp = f"{path}.{os.getpid()}.tar"
        subprocess.run(["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase",
                        "--aptopt=APT::Install-Recommends \"false\"", f"--include={packages}",
                        "bookworm", tmp], check=True, timeout=900, stdin=subprocess.DEVNULL,
                       stdout=sys.stderr)
        os.rename(tmp, path)
    subprocess.run(["tar", "-C", where, "-xf", path], check=True)


def write_initrd(root, path):
    a = cpio.Archive()
    a.tree(".", root)
    a.directory("tmp", 0o1777)
    a.directory("home/user", 0o777)
    a.device("dev/console", 5, 1)
    a.device("dev/null", 1, 3, 0o666)
    with open(path, "wb") as f:
        a.write(f)


class Host:
    def __init__(self, build_dir):
        self.build_dir = build_dir
        self.tmp = tempfile.mkdtemp(prefix="weft-operator-")
        self.root = f"{self.tmp}/root"
        self.debs = os.environ.get("WEFT_DEBS") or f"{self.tmp}/packages"
        self.process = self.pid = None
        self.cgroup = f"{cgroup_top()}/weft-operator-{os.getpid()}"

    def __enter__(self):
        try:
            os.mkdir(self.root)
            if "WEFT_DEBS" not in os.environ:
                r = subprocess.run([f"{TOP}/hostd/package/build", "--tree", "--out", self.debs],
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                   check=False, timeout=1200)
                check(r.returncode == 0, r.stderr[-3000:])
            unpack(HOST, self.root)
            os.makedirs(f"{self.root}/root/packages")
            for deb in glob.glob(f"{self.debs}/*.deb"):
                if "dbgsym" not in deb:
                    shutil.copy(deb, f"{self.root}/root/packages")
        except BaseException:
            self.__exit__()
            raise
        return self

    def boot(self):
        os.mkdir(self.cgroup)
        join = 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"'
        with open(f"{self.tmp}/log", "wb") as log:
            self.process = subprocess.Popen(
                ["sh", "-ec", join, "sh", self.cgroup, "unshare", "-mpnCiu", "--fork",
                 "--kill-child", "--mount-proc", "sh", "-ec", BOOT, self.root],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait(self.first, "no first process")
        self.wait(lambda: self.run("systemctl is-system-running").stdout.strip() in
                  ("running", "degraded"), "systemd does not come up")

    def wait(self, good, what, seconds=60):
        deadline = time.monotonic() + patient(seconds)
        while not good():
            check(self.process.poll() is None and time.monotonic() < deadline,
                  f"{what}: {self.log()}")
            time.sleep(0.1)

    def first(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="ascii") as f:
            pids = f.read().split()
        self.pid = pids[0] if pids else None
        return bool(pids) and os.readlink(f"/proc/{self.pid}/exe").endswith("/systemd")

    def run(self, line, seconds=120):
        """A line of a root's shell, in root's home."""
        return subprocess.run(["nsenter", "-t", self.pid, "-m", "-p", "-n", "-C", "-i", "-u", "-r",
                               "-w", "sh", "-c", f"cd /root; {line}"], env=ENV,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=patient(seconds))

    def sh(self, line, seconds=120):
        r = self.run(line, seconds)
        check(r.returncode == 0, f"{line}: {r.returncode}\n{r.stdout}{r.stderr}")
        return r.stdout

    def write(self, name, text):
        with open(f"{self.root}/{name}", "w", encoding="utf-8") as f:
            f.write(text)

    def newer(self):
        """In the place of the host's package one with a higher version."""
        old = glob.glob(f"{self.root}/root/packages/weft-host_*.deb")[0]
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["dpkg-deb", "-R", old, f"{d}/p"], check=True)
            with open(f"{d}/p/DEBIAN/control", encoding="utf-8") as f:
                text = f.read()
            version = text.split("\nVersion: ")[1].split("\n")[0]
            with open(f"{d}/p/DEBIAN/control", "w", encoding="utf-8") as f:
                f.write(text.replace(f"\nVersion: {version}\n", f"\nVersion: {NEWER}\n"))
            os.unlink(old)
            subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", f"{d}/p",
                            f"{os.path.dirname(old)}/weft-host_{NEWER}_amd64.deb"], check=True,
                           stdout=subprocess.DEVNULL)

    def log(self):
        said = ""
        if self.pid:
            said = self.run("journalctl --no-pager -n 60 -o cat; systemctl --failed").stdout
        with open(f"{self.tmp}/log", encoding="utf-8", errors="replace") as f:
            return f.read()[-1500:] + said[-6000:]

    def __exit__(self, *exc):
        if self.process:
            self.process.kill()
            self.process.wait()
            deadline = time.monotonic() + patient(20)
            while os.path.exists(self.cgroup) and time.monotonic() < deadline:
                for where, _, _ in os.walk(self.cgroup, topdown=False):
                    try:
                        os.rmdir(where)
                    except OSError:
                        time.sleep(0.1)
        shutil.rmtree(self.tmp)
