#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
vm-images/own-vm.md, followed word for word: its configuration, its commands on the host and
in the guest. Other are only the places of files, the accelerator, and the disk, in whose
place there is a kernel with an initial RAM disk that has none of Weft's libraries.
"""
import grp
import os
import shlex
import subprocess
import sys
import tempfile
import time

import harness
from harness import TOP, check, patient
from weftvm import accel, agent, image, vm

PAGE = os.path.join(TOP, "vm-images", "own-vm.md")
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
RULE = "70-weft-window.rules"
BOOT_SECONDS = 60
# Commands that the guest of the tests lacks. udevadm does what the rule says for the window alone.
STAND_INS = {
    "usermod": '#!/bin/sh\n[ "$*" = "-a -G video user" ]\n',
    "udevadm": r"""#!/bin/sh
[ "$*" != "control --reload" ] || exit 0
[ "$*" = "trigger --action=add --subsystem-match=pci --subsystem-match=misc" ] || exit 1
for d in /sys/bus/pci/devices/*; do
	[ "$(cat $d/vendor):$(cat $d/device)" = 0x1af4:0x1110 ] || continue
	p=$(readlink -f $d) p=${p#/sys}
	line=$(grep 'RUN+=' /etc/udev/rules.d/*.rules | sed 's/.*RUN+="\(.*\)"$/\1/')
	eval "$(echo "$line" | sed "s,%p,$p,g")"
done
""",
}


def block(text, heading, n=0):
    """The n-th indented block below a heading, lines joined where they go on."""
    part = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks, inside = [], False
    for line in part.splitlines():
        code = line.startswith("    ") or (inside and not line)
        if code and not inside:
            blocks.append([])
        inside = code
        if code:
            blocks[-1].append(line[4:])
    return "\n".join(blocks[n]).rstrip().replace("\\\n", " ")


class Host:
    """Commands below "On the host" and "QEMU", with files of a directory of its own."""

    def __init__(self, build_dir, tmp, initrd, kernel):
        self.build_dir, self.tmp, self.initrd, self.kernel = build_dir, tmp, initrd, kernel
        self.window = f"/dev/shm/weft-own-{os.getpid()}"
        with open(PAGE, encoding="utf-8") as f:
            self.text = f.read()
        self.running = []

    def local(self, text):
        group = grp.getgrgid(os.getegid()).gr_name
        for ours, theirs in ((f"{self.tmp}/", "/run/weft/"), (self.window, "/dev/shm/weft-vm1"),
                             (f"group = {group}", "group = kvm"),
                             (f"-group {group}", "-group kvm"), ("device = soft", "device = auto")):
            text = text.replace(theirs, ours)
        return text

    def start(self, command, *more, wait_for=None):
        name = shlex.split(command)[0]
        folder = {"weftd": "hostd/", "weft-vsock": "qemu-device/"}.get(name)
        program = os.path.join(self.build_dir, folder, name) if folder else name
        argv = [program, *shlex.split(command)[1:], *more]
        log = f"{self.tmp}/{name}.log"
        with open(log, "ab") as f:
            p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=f, stderr=f)
        self.running.append(p)
        if wait_for:
            vm.wait_for(wait_for, p, name, log, patient(10))
        return p

    def __enter__(self):
        conf = f"{self.tmp}/weftd.conf"
        with open(conf, "w", encoding="utf-8") as f:
            f.write(self.local(block(self.text, "On the host")))
        weftd, vsock = self.local(block(self.text, "On the host", 1)).splitlines()
        self.agent = agent.Agent(f"{self.tmp}/agent.sock")
        self.start(weftd, "--config", conf, "--run-dir", self.tmp, wait_for=self.window)
        self.start(vsock, "--forward", f"{agent.PORT}={self.tmp}/agent.sock",
                   wait_for=f"{self.tmp}/vm1.vsock")
        qemu = self.local(block(self.text, "QEMU"))
        for theirs, ours in (
                ("-accel kvm -cpu host", shlex.join(accel.ARGS[accel.pick(self.kernel)])),
                ("-drive file=vm1.qcow2,if=virtio",
                 f"-kernel {self.kernel.image} -initrd {self.initrd} -nodefaults "
                 f"-append 'console=ttyS0 quiet panic=-1 random.trust_cpu=on' -display none "
                 f"-no-reboot -serial file:{self.tmp}/console.log")):
            check(theirs in qemu, f"the page has no {theirs}")
            qemu = qemu.replace(theirs, ours)
        self.start(qemu)
        return self

    def __exit__(self, *exc):
        for p in reversed(self.running):
            p.kill()
            p.wait()
        self.agent.close()
        if os.path.exists(self.window):
            os.unlink(self.window)

    def run(self, argv, **kwargs):
        job = self.agent.start(argv, **kwargs)
        job.wait(patient(40))
        return job

    def list(self):
        command = block(self.text, "Does it?")
        check(command == "weftctl list", command)
        return subprocess.run([f"{self.build_dir}/hostd/weftctl", "--control",
                               f"{self.tmp}/control", "list"], check=True,
                              capture_output=True, text=True).stdout

    def log(self):
        for name in ("weftd", "weft-vsock", "qemu-system-x86_64"):
            with open(f"{self.tmp}/{name}.log", encoding="utf-8", errors="replace") as f:
                yield f"--- {name}:\n{f.read()[-2000:]}"


def make_image(build_dir, kernel, path):
    img = image.Image(kernel, build_dir)
    for name in LIBRARIES:
        del img.a.entries[f"{image.LIBDIR}/{name}"]
        img.add_dir(os.path.join(build_dir, "guestlib", name), f"/root/{name}")
    img.add_dir(os.path.join(TOP, "vm-images", RULE), f"/root/{RULE}")
    img.add_program("/sbin/ldconfig", "usr/sbin/ldconfig")
    for d in ("etc/ld.so.conf.d", "etc/udev/rules.d"):
        img.a.directory(d)
    img.a.text("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    for name, text in STAND_INS.items():
        img.a.text(f"usr/sbin/{name}", text, 0o755)
    img.add_program(os.path.join(build_dir, "tests/path/vector_add"))
    img.add_program(os.path.join(build_dir, "tests/vm/hold"))
    img.write(path)


def without(h):
    job = h.run(["hold"])
    check(b"libcuda.so.1" in job.err, f"there is a library: {job.err}")
    # As a distribution has it.
    job = h.run(["sh", "-c", "chmod 0600 /sys/bus/pci/devices/*/resource2*;"
                             "chgrp root /sys/bus/pci/devices/*/resource2*"], uid=0)
    check(job.status == 0, job.err)


def install(h):
    job = h.run(["sh", "-xec", block(h.text, "In the guest")], uid=0, cwd="/root")
    check(job.status == 0, f"{job.out.decode()}{job.err.decode()}")
    found = h.run(["sh", "-c", "ldconfig -p"], uid=0).out.decode()
    for name in LIBRARIES:
        check(f"{name} (libc6,x86-64) => /usr/local/lib/weft/{name}" in found, found)


def program(h):
    job = h.run(["vector_add"])
    check(job.status == 0 and b"PASS" in job.out, f"{job.status}: {job.out}{job.err}")
    check(not job.err, job.err)


def listed(h):
    job = h.agent.start(["hold"])
    deadline = time.monotonic() + patient(20)
    while b"holding" not in job.out:
        check(time.monotonic() < deadline, f"no session: {job.out}{job.err}")
        time.sleep(0.02)
    text = h.list()
    job.kill()
    check("vsock+window" in text, text)


def main():
    tap = harness.Tap()
    build_dir = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="weft-own-") as tmp:
        k = harness.kernel.Kernel()
        initrd = f"{tmp}/guest.cpio"
        make_image(build_dir, k, initrd)
        with Host(build_dir, tmp, initrd, k) as h:
            up = tap.ok(h.agent.ready.wait(patient(BOOT_SECONDS)), "the guest is up")
            cases = (("no library, a window that is root's", without),
                     ("the guest's commands", install), ("a program", program),
                     ("weftctl list", listed))
            for what, fn in cases if up else ():
                tap.case(what, fn, h)
            if tap.failed:
                tap.note("\n".join(h.log()))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
