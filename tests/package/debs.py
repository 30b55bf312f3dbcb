#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Debian packages: hostd/package/build makes them, lintian finds nothing, they go into a bare
Debian 12, what is installed there runs, they take the place of NVIDIA's libraries, an
upgrade keeps what was configured, and nothing is left when they are purged.

    debs.py BUILD PROGRAM     PROGRAM: a CUDA program

WEFT_DEBS names a folder with packages that are built already.
"""
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "vm-images"))
from weftvm.debian import cache_dir  # noqa: E402

NEEDS = ("dpkg-buildpackage", "dh", "lintian", "mmdebstrap")
# Packages that ours depend on, beside those that every Debian has.
INCLUDE = "libinih1,libjson-c5,libmicrohttpd12,libseccomp2,libvirt0,libxml2,procps,systemd,udev"
# Kept by policy or by dpkg when a package is purged.
STAYS = ("etc/group", "etc/gshadow", "etc/passwd", "etc/shadow", "etc/subuid", "etc/subgid",
         "etc/ld.so.cache", "var/lib/dpkg/", "var/log/", "var/cache/", "var/lib/systemd/",
         "proc/", "dev/", "tmp/", "run/", "etc/.pwd.lock", "root/")
BUILD = PROGRAM = ""


def missing():
    """Why this cannot run here; "" if it can."""
    absent = [n for n in NEEDS if not shutil.which(n)]
    if absent:
        return f"no {', '.join(absent)} (vm-images/install-packages)"
    return "" if os.geteuid() == 0 else "only root makes a Debian to install in"


def run(*argv, **kwargs):
    r = subprocess.run(argv, capture_output=True, text=True, check=False,
                       stdin=subprocess.DEVNULL, **kwargs)
    if r.returncode:
        raise AssertionError(f"{' '.join(argv)}: status {r.returncode}\n"
                             f"{r.stdout[-6000:]}{r.stderr[-6000:]}")
    return r.stdout


def base():
    """A bare Debian, made once."""
    name = hashlib.sha256(INCLUDE.encode()).hexdigest()[:8]
    path = os.path.join(cache_dir(), f"bookworm-{name}.tar")
    if not os.path.exists(path):
        tmp = f"{path}.{os.getpid()}.tar"
        run("mmdebstrap", "--mode=root", "--variant=minbase", f"--include={INCLUDE}", "bookworm",
            tmp, timeout=600)
        os.rename(tmp, path)
    return path


def dummy(where, name, **fields):
    """A package with nothing in it."""
    root = os.path.join(where, name)
    os.makedirs(os.path.join(root, "DEBIAN"))
    fields = {"Package": name, "Version": "535.1", "Architecture": "amd64",
              "Maintainer": "tests", "Description": "test", **fields}
    with open(os.path.join(root, "DEBIAN/control"), "w", encoding="utf-8") as f:
        f.writelines(f"{k.replace('_', '-')}: {v}\n" for k, v in fields.items())
    run("dpkg-deb", "--build", root, os.path.join(where, f"{name}.deb"))
    return os.path.join(where, f"{name}.deb")


class Debian:
    """A directory with a Debian in it."""

    def __init__(self):
        self.tmp = tempfile.mkdtemp(prefix="weft-debian-")
        self.root = os.path.join(self.tmp, "root")
        os.mkdir(self.root)
        run("tar", "-C", self.root, "-xf", base())

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.tmp)

    def path(self, name):
        return os.path.join(self.root, name)

    def run(self, *argv):
        """Runs a program there, with processes and mounts of its own."""
        script = ('mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/tmp" && '
                  'mount -t tmpfs tmpfs "$0/run" && mount --rbind /dev "$0/dev" && '
                  'mount -t tmpfs tmpfs "$0/dev/shm" && exec chroot "$0" "$@"')
        return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                   "sh", "-ec", script, self.root, *argv, timeout=300,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                        "DEBIAN_FRONTEND": "noninteractive"})

    def install(self, *debs):
        for d in debs:
            shutil.copy(d, self.path("root"))
        return self.run("dpkg", "--install", *(f"/root/{os.path.basename(d)}" for d in debs))

    def files(self):
        """Path: what it is, of all that a package may leave behind."""
        found = {}
        for folder, dirs, names in os.walk(self.root):
            for name in dirs + names:
                path = os.path.join(folder, name)
                rel = os.path.relpath(path, self.root)
                if (rel + "/").startswith(STAYS) or rel.startswith(STAYS):
                    continue
                st = os.lstat(path)
                found[rel] = (st.st_mode, os.readlink(path) if os.path.islink(path) else
                              st.st_size if os.path.isfile(path) else 0)
        return found


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.out = os.environ.get("WEFT_DEBS")
        if cls.out:
            return
        cls.out = tempfile.mkdtemp(prefix="weft-debs-")
        run(os.path.join(TOP, "hostd/package/build"), "--tree", "--lint", "--out", cls.out,
            timeout=1500)

    @classmethod
    def tearDownClass(cls):
        if "WEFT_DEBS" not in os.environ:
            shutil.rmtree(cls.out)

    def deb(self, name):
        return glob.glob(f"{self.out}/{name}_*.deb")[0]

    def purge(self, d, before, package):
        d.run("dpkg", "--purge", package)
        after = d.files()
        changed = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
        self.assertEqual(changed, [], f"left behind by {package}")

    def test_host(self):
        with Debian() as d:
            before = d.files()
            d.install(self.deb("weft-host"))
            self.assertIn("no mistakes", d.run("weftd", "--check-config"))
            shutil.copy(PROGRAM, d.path("root/program"))
            self.assertIn("PASS", d.run("weft-run", "--device", "soft", "--", "/root/program"))
            self.assertIn("weft", d.run("getent", "passwd", "weft"))
            self.assertIn("weft-operators", d.run("getent", "group", "weft-operators"))
            self.assertEqual(d.run("systemctl", "is-enabled", "weftd").strip(), "enabled")
            d.run("systemd-analyze", "verify", "--man=no", "weftd.service",
                  "weft-vsock@vm1.service")
            d.run("systemd-tmpfiles", "--create", "weft.conf")
            # An upgrade keeps what was configured.
            with open(d.path("etc/weft/weftd.conf"), "a", encoding="utf-8") as f:
                f.write("[tenant vm1]\n")
            d.install(self.deb("weft-host"))
            with open(d.path("etc/weft/weftd.conf"), encoding="utf-8") as f:
                self.assertIn("[tenant vm1]", f.read())
            self.purge(d, before, "weft-host")

    def test_exporter(self):
        with Debian() as d:
            before = d.files()
            d.install(self.deb("weft-exporter"))
            self.assertIn("weft-exporter", d.run("weft-exporter", "--version"))
            self.assertIn("weft-exporter", d.run("getent", "passwd", "weft-exporter"))
            self.assertEqual(d.run("systemctl", "is-enabled", "weft-exporter").strip(),
                             "enabled")
            d.run("systemd-analyze", "verify", "--man=no", "weft-exporter.service")
            self.purge(d, before, "weft-exporter")

    def test_guest(self):
        with Debian() as d:
            d.install(dummy(d.tmp, "libcuda1"), dummy(d.tmp, "libnvidia-ml1"),
                      dummy(d.tmp, "program", Depends="libcuda1 (>= 525), libnvidia-ml1"))
            # Both go, and a package that needs them stays.
            d.run("dpkg", "--install", "--auto-deconfigure", *self.copied(d, "weft-guest"))
            d.run("dpkg", "--audit")
            states = d.run("dpkg-query", "--show", "--showformat=${Package} ${db:Status-Abbrev}\n")
            self.assertIn("program ii", states)
            self.assertNotIn("libcuda1 ii", states)
            libraries = d.run("ldconfig", "-p")
            for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
                self.assertIn(f"{name} (libc6,x86-64)", libraries)
            self.assertIn("weft-guest-check", d.run("weft-guest-check", "--version"))
            self.assertEqual(d.run("systemctl", "is-enabled", "weft-guest-cdi").strip(),
                             "enabled")
            d.run("systemd-analyze", "verify", "--man=no", "weft-guest-cdi.service",
                  "weft-guest-connect.service", "weft-guest-connect.socket",
                  "weft-guest-gl.service", "weft-guest-gl.socket",
                  "weft-guest-gl-environment.service")
            d.run("/usr/libexec/weft/weft-guest-cdi")

    def test_guest_leaves_nothing(self):
        with Debian() as d:
            before = d.files()
            d.install(self.deb("weft-guest"))
            self.purge(d, before, "weft-guest")

    def test_both(self):
        """For a machine that tries Weft: programs run with and without weft-run."""
        with Debian() as d:
            before = d.files()
            d.install(self.deb("weft-host"), self.deb("weft-guest"))
            shutil.copy(PROGRAM, d.path("root/program"))
            said = d.run("sh", "-c", "weftd --device soft --background && /root/program && "
                                     "weft-guest-check && weftctl shutdown")
            self.assertIn("PASS", said)
            self.assertIn("Programs here have a GPU.", said)
            d.run("dpkg", "--purge", "weft-host")
            self.purge(d, before, "weft-guest")

    def copied(self, d, *names):
        for n in names:
            shutil.copy(self.deb(n), d.path("root"))
            yield f"/root/{os.path.basename(self.deb(n))}"


def main(build, program):
    global BUILD, PROGRAM  # pylint: disable=global-statement
    BUILD, PROGRAM = build, program
    why = missing()
    if why:
        print(f"SKIP: {why}")
        return 77
    return 0 if unittest.main(argv=sys.argv[:1], verbosity=2, exit=False).result.wasSuccessful() \
        else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
