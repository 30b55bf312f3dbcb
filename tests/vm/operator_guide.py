#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
hostd/doc/operators-guide.md in a Debian 12 that has nothing of ours but the packages: systemd
is its first process, units are run by it, libvirtd starts the VMs, and apt installs and
upgrades on both sides. While programs run in two VMs with different quotas a quota is
changed, weftd is restarted and the host's package is upgraded; they end with right results.

    operator_guide.py BUILD

WEFT_DEBS names a folder with packages that are built already. What this machine cannot do is
in ELSEWHERE, with the reason.
"""
import base64
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import harness
import packaged_debian
from guide import OPERATORS, SYSTEMD_SAYS, blocks, of_four_tpcs
from harness import check
from libvirt_vms import Console, until
from weftvm import kernel

QUOTAS = {"vm3": 512, "vm4": 1024}  # MiB, as on the page
PLACE = "var/lib/weft-test"
ELSEWHERE = {
    "hostd/package/build": "done before the Debian is made; tests/package/debs.py",
    "qemu-system-x86_64": "tests/vm/guide.py boots the VMs that are started by hand",
}
DOMAIN = """<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>1024</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>/{place}/kernel</kernel>
    <initrd>/{place}/initrd</initrd>
    <cmdline>console=ttyS0 quiet panic=-1 random.trust_cpu=on rdinit=/weft-init</cmdline>
  </os>
  <features><acpi/></features>
  <cpu mode='maximum'/>
  <on_reboot>destroy</on_reboot><on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <serial type='unix'><source mode='bind' path='/{place}/{name}.console'/></serial>
    <memballoon model='none'/>
  </devices>
</domain>
"""
# The guest's drivers, which an initrd of Debian's would load, then its systemd.
GUEST_INIT = """#!/bin/sh
mount -t proc proc /proc
for m in $(cat /weft-modules/order); do insmod /weft-modules/$m.ko; done
exec /lib/systemd/systemd
"""
GUEST_SHELL = """[Unit]
Description=Shell on the serial line
After=multi-user.target
[Service]
ExecStart=/bin/bash --norc --noediting
Environment=PS1=prompt$ HOME=/root DEBIAN_FRONTEND=noninteractive
WorkingDirectory=/root
StandardInput=tty
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
"""

# A unit that does as weftd with its cgroup, in a kernel that has the controllers: a group with a process of
# a tenant's, with limits, which stays when the main process is killed.
DELEGATED = """[Service]
Slice={slice}
Delegate=memory pids
KillMode=process
Restart=on-failure
RestartSec=0
ExecStart=/bin/sh -c 'g=/sys/fs/cgroup$$(sed -n s/^0:://p /proc/self/cgroup); \\
  mkdir -p $$g/weftd $$g/tenant; echo $$$$ >$$g/weftd/cgroup.procs; \\
  echo "+memory +pids" >$$g/cgroup.subtree_control; \\
  sleep 600 & echo $! >$$g/tenant/cgroup.procs; exec sleep 600'
{stop_post}
"""

# In the place of NVIDIA's program, which comes with the driver.
MPS_CONTROL = """#!/bin/sh
[ "$1" = -f ] || { echo 0; exit; }
: >"$CUDA_MPS_PIPE_DIRECTORY/control"
exec sleep infinity
"""

# A driver's first words (protocol 0 of vtest), to somebody who ends the conversation.
DRIVER_BEGINS = (
    "perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new(\"/tmp/.virgl_test\") or die; "
    "print $s pack(\"L2Z*\", 2, 8, \"a\"); $s->flush; exit(defined(<$s>))'")


def why_not():
    if os.geteuid() != 0:
        return "only root makes a Debian to install in"
    missing = [p for p in packaged_debian.NEEDS if not shutil.which(p)]
    if missing:
        return f"no {', '.join(missing)} (vm-images/install-packages)"
    return packaged_debian.why_no_systemd()


def make_guest(host, build_dir, debs):
    """The VMs' image: a bare Debian, the package beside it, programs, a user."""
    k = kernel.Kernel()
    with tempfile.TemporaryDirectory(prefix="weft-guest-") as root:
        packaged_debian.unpack(packaged_debian.GUEST, root)
        for where in ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/lib/apt/lists",
                      "var/cache/apt", "usr/share/zoneinfo", "usr/lib/udev/hwdb.bin"):
            path = os.path.join(root, where)
            if os.path.isdir(path):
                shutil.rmtree(path)
                os.mkdir(path)
        os.makedirs(f"{root}/weft-modules")
        for name, path in k.modules():
            shutil.copy(path, f"{root}/weft-modules/{name}.ko")
        with open(f"{root}/weft-modules/order", "w", encoding="ascii") as f:
            f.write("\n".join(name for name, _ in k.modules()))
        shutil.copy(glob.glob(f"{debs}/weft-guest_*.deb")[0], f"{root}/root")
        for p in ("tests/path/vector_add", "tests/vm/gpu_size", "tests/fault/steady",
                  "tests/fault/grab"):
            shutil.copy(os.path.join(build_dir, p), f"{root}/usr/bin")
        for name, text in (("weft-init", GUEST_INIT),
                           ("etc/systemd/system/shell.service", GUEST_SHELL)):
            with open(f"{root}/{name}", "w", encoding="ascii") as f:
                f.write(text)
        os.chmod(f"{root}/weft-init", 0o755)
        subprocess.run(["chroot", root, "sh", "-ec",
                        "useradd -m user; systemctl -q enable shell; "
                        "systemctl -q mask serial-getty@ttyS0 systemd-networkd apt-daily.timer"],
                       check=True)
        packaged_debian.write_initrd(root, f"{host.root}/{PLACE}/initrd")
    shutil.copy(k.image, f"{host.root}/{PLACE}/kernel")


class Guest(Console):
    """Commands in a VM, as root or as its user."""

    def ok(self, line, user=None, seconds=300):
        if user:
            line = f"runuser -u {user} -- {line}"
        status, out = self.run(line, seconds)
        check(status == 0, f"{line}: {status} {out}")
        return out


class Walk:
    """The page, block by block, in the order in which it stands there."""

    def __init__(self, host, tap):
        self.host, self.tap = host, tap
        self.guests, self.later, self.done = {}, [], 0

    def command(self, line):
        for words, why in ELSEWHERE.items():
            if line.startswith(words):
                self.tap.note(f"not run here: {line[:60]}: {why}")
                return ""
        self.done += 1
        return self.host.sh(line)

    def block(self, heading, lines):
        if lines[0].startswith("["):
            with open(f"{self.host.root}/etc/weft/weftd.conf", "w", encoding="utf-8") as f:
                f.write("\n".join(lines) + "\n")
        elif heading == "In each VM":
            self.in_each(lines)
        else:
            getattr(self, {"Under libvirt": "libvirt", "Upgrade": "upgrade",
                           "Class shared": "shared"}.get(heading, "plain"))(lines)

    def plain(self, lines):
        said = {line: self.command(line) for line in lines}
        if "weftctl list" in said:
            check("TENANT" in said["weftctl list"], said)
        if "weftctl get vm1 memory.max" in said:
            check(said["weftctl get vm1 memory.max"].strip() == "512 MiB", said)

    def libvirt(self, lines):
        """The domains are there before the page gives them a share; self.later is for when
        programs run that see it."""
        if lines[0].startswith("systemctl"):
            self.plain(lines)
        elif lines[0].startswith("virsh dumpxml"):
            for name in QUOTAS:
                self.host.write(f"{PLACE}/{name}.xml", DOMAIN.format(name=name, place=PLACE))
                self.host.sh(f"virsh define /{PLACE}/{name}.xml")
            self.plain(lines)
            for name in QUOTAS:
                self.guests[name] = Guest(f"{self.host.root}/{PLACE}/{name}.console")
            for g in self.guests.values():
                g.expect(r"prompt\$", seconds=120)
        else:
            self.later = lines

    def shared(self, lines):
        control = "usr/bin/nvidia-cuda-mps-control"
        self.host.write(control, MPS_CONTROL)
        self.host.sh(f"chmod 755 /{control}")
        self.plain([of_four_tpcs(line) for line in lines])
        for name in "vm1", "vm2":
            check(self.host.sh(f"weftctl get {name} compute.class").strip() == "shared", name)

    def in_each(self, lines):
        def one(g):
            for line in lines:
                said = g.ok(line, user="user" if line == "weft-guest-check" else None)
            check(re.search(r"ok +host +vsock:2:22887 over vsock\+window", said), said)

        with ThreadPoolExecutor() as pool:
            list(pool.map(one, self.guests.values()))

    def programs(self):
        """A program in each, which stays until its input ends."""
        for name, g in self.guests.items():
            check("PASS" in g.ok("vector_add", user="user"), name)
            g.ok("mkfifo -m 666 /tmp/end")
            g.type("exec 9<>/tmp/end; (runuser -u user -- steady - < /tmp/end; "
                   "echo steady''_ended=$?) 9>&- &")
            g.expect(r"running")

    def drawing(self):
        """systemd has the place where Mesa looks, and starts who answers there; whether the host
        draws was asked at boot. It does not: it has no EGL."""
        for g in self.guests.values():
            g.ok("systemctl is-active weft-guest-gl.socket weft-guest-gl-environment")
            g.ok("test ! -e /run/environment.d/70-weft-gl.conf")
            status, said = g.run("systemctl is-active weft-guest-gl.service")
            check(status and "inactive" in said, said)
            g.ok(DRIVER_BEGINS, user="user")
            g.ok("systemctl is-active weft-guest-gl.service")

    def quotas(self):
        """768 MiB are too much for one and not for the other."""
        for name, g in self.guests.items():
            said = g.ok("sh -c 'echo a 0 805306368 | grab'", user="user")
            error = re.search(r"^(\d+) ", said, re.M)
            check(error and error[1] == ("2" if QUOTAS[name] < 768 else "0"), said)

    def live(self):
        """Changes by virsh metadata and weftctl set, seen by a program."""
        for name, g in self.guests.items():
            since = len(g.text)
            g.type("runuser -u user -- gpu_size &")
            g.expect(rf"gpu_size: {QUOTAS[name]} MiB", since)
        since = len(self.guests["vm3"].text)
        self.plain(self.later)
        self.guests["vm3"].expect(r"gpu_size: 768 MiB", since)
        self.host.sh("weftctl set vm3 memory.max=640M")
        self.guests["vm3"].expect(r"gpu_size: 640 MiB", since)
        for g in self.guests.values():
            g.ok("pkill gpu_size")

    def restart(self):
        before = self.host.sh("systemctl show -P MainPID weftd")
        self.host.sh("systemctl restart weftd")
        check(self.host.sh("systemctl show -P MainPID weftd") != before, "the same weftd")
        log = self.host.sh("journalctl -u weftd")
        for said in SYSTEMD_SAYS:
            check(said in log, log[-2000:])
        self.still()

    def cgroups(self):
        """The unit's line lets systemd start weftd again above groups of tenants, whatever its
        slice; in a VM, whose kernel has the controllers here and now."""
        unit = self.host.sh("cat /lib/systemd/system/weftd.service")
        line = re.search(r"^ExecStopPost=.*$", unit, re.M)[0]
        g = self.guests["vm3"]
        for name, slice_, stop_post in (("one", "system.slice", line),
                                        ("two", "other.slice", line),
                                        ("three", "system.slice", "")):
            text = DELEGATED.format(slice=slice_, stop_post=stop_post)
            coded = base64.b64encode(text.encode()).decode()
            g.ok(f"echo {coded} | base64 -d >/run/systemd/system/{name}.service")
            g.ok(f"systemctl start {name}")
            g.ok(f"for i in $(seq 100); do grep -q . /sys/fs/cgroup/{slice_}/{name}.service/"
                 "tenant/cgroup.procs && break; sleep 0.1; done; systemctl kill -s KILL "
                 f"--kill-who=main {name}; sleep 1")
            status, said = g.run(f"for i in $(seq 50); do systemctl is-active {name} && break; "
                                 f"systemctl is-failed {name} && break; sleep 0.2; done; "
                                 f"systemctl show -P NRestarts {name}; "
                                 f"systemctl is-active {name}")
            check((status == 0) == bool(stop_post), f"{name}: {said}")
            g.ok(f"systemctl kill -s KILL {name}; systemctl stop {name}")

    def upgrade(self, lines):
        before = self.host.sh("systemctl show -P MainPID weftd")
        self.host.newer()
        self.plain(lines)
        check(self.host.sh("dpkg-query -W -f '${Version}' weft-host") == packaged_debian.NEWER,
              "not upgraded")
        check(self.host.sh("systemctl show -P MainPID weftd") != before, "the old weftd runs")
        check("[tenant vm2]" in self.host.sh("cat /etc/weft/weftd.conf"), "configuration is gone")
        self.still()

    def still(self):
        said = self.host.sh("weftctl list")
        check(said.count("steady") == 2, said)

    def end(self):
        """Programs have noticed nothing."""
        for g in self.guests.values():
            g.ok("vector_add", user="user")
            since = len(g.text)
            g.type("exec 9>&-")
            g.expect(r"right \d+", since)
            g.expect(r"steady_ended=0", since)
        self.host.sh("virsh destroy vm3; virsh destroy vm4")
        until(lambda: "vm3" not in self.host.sh("weftctl list"), "vm3's tenant stays")


def follow(tap, host):
    w = Walk(host, tap)
    for heading, lines in blocks(OPERATORS):
        if not tap.case(f"{heading}: {lines[0][:50]}", w.block, heading, lines):
            return False
        if heading == "In each VM":
            for what, fn in (("programs in both", w.programs), ("who draws", w.drawing),
                             ("their quotas", w.quotas),
                             ("a live change", w.live), ("weftd restarts", w.restart),
                             ("above tenants' cgroups", w.cgroups)):
                if not tap.case(what, fn):
                    return False
    tap.case("programs end with right results", w.end)
    return True


def main(build_dir):
    why = why_not()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tap = harness.Tap()
    with packaged_debian.Host(build_dir) as host:
        os.makedirs(f"{host.root}/{PLACE}")
        make_guest(host, build_dir, host.debs)
        host.boot()
        host.sh(f"chown -R libvirt-qemu /{PLACE}")
        if not follow(tap, host) or tap.failed:
            tap.note(host.log())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
