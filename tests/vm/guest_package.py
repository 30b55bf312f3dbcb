#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A guest with the files of the package weft-guest: programs find the libraries, containers
would get the window, and weft-guest-check says in each case what there is, or why not.
"""
import json
import os
import re
import sys
import tempfile
import time

import harness
import packaged
from harness import check, patient
from weftvm import daemon, image, vm

BOOT_SECONDS = 60
CDI = "/run/cdi/weft.json"


def make_image(build_dir, kernel, path):
    img = image.Image(kernel, build_dir)
    for name in image.GUEST_LIBRARIES:
        del img.a.entries[f"{image.LIBDIR}/{name}"]
    packaged.add_to(img, build_dir, "weft-guest")
    img.add_program("/sbin/ldconfig", "usr/sbin/ldconfig")
    img.a.directory("etc/ld.so.conf.d")
    img.a.text("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    for name in ("tests/path/vector_add", "tests/vm/hold", "tests/vm/no_vsock"):
        img.add_program(os.path.join(build_dir, name))
    img.write(path)


class Says:
    """Words of weft-guest-check in a guest, and its exit status."""

    def __init__(self, v, status, *before):
        job = v.run([*before, "weft-guest-check"], timeout=patient(40))
        self.text = job.out.decode()
        check(job.status == status, f"status {job.status}: {self.text}{job.err.decode()}")
        check(not job.err, job.err.decode())

    def has(self, *rows):
        """Rows as expressions; "word what text"."""
        for r in rows:
            check(re.search("^" + r.replace(" ", " +", 1), self.text, re.M),
                  f"no row {r}:\n{self.text}")


def all_well(v):
    libraries = [f"ok {n} +/(usr/)?lib/x86_64-linux-gnu/{n}$" for n in image.GUEST_LIBRARIES]
    Says(v, 0).has(*libraries, "ok vsock device +CID 42", "ok window +256 MiB",
                   r"ok host +vsock:2:22887 over vsock\+window, [0-9.]+ us a call",
                   "ok GPU +Weft software GPU, 512 MiB, CUDA 13.0", "Programs here have a GPU\\.$")


def program(v):
    job = v.run(["vector_add"], timeout=patient(40))
    check(job.status == 0 and b"PASS" in job.out, f"{job.status}: {job.out}{job.err}")


def chmod_window(v, mode, group):
    job = v.run(["sh", "-c", f"chmod {mode} /sys/bus/pci/devices/*/resource2*;"
                             f"chgrp {group} /sys/bus/pci/devices/*/resource2*"], uid=0)
    check(job.status == 0, job.err)


def no_rule(v):
    chmod_window(v, "0600", "root")
    Says(v, 2).has("slow window +permission denied on .*resource2.*: install the udev rule",
                   "slow host +vsock:2:22887 over vsock,", "ok GPU", ".*which is slow to reach")
    chmod_window(v, "0660", "video")


def no_group(v):
    chmod_window(v, "0660", "5")  # a group of which the user is none
    Says(v, 2).has("slow window +permission denied on .*resource2.*: add the user to group video")
    chmod_window(v, "0660", "video")


def no_vsock(v):
    """While the device has no driver; the agent comes back to tell."""
    driver = "/sys/bus/virtio/drivers/vmw_vsock_virtio_transport"
    script = f"""cd {driver}
for d in virtio*; do [ ! -e $d ] || echo $d > unbind; done
weft-guest-check > /tmp/said; echo $? >> /tmp/said
for d in /sys/bus/virtio/devices/*; do echo ${{d##*/}} > bind; done 2> /dev/null
cat /tmp/said"""
    hellos = v.agent.hellos
    job = v.spawn(["sh", "-c", script], uid=0)
    job.wait(patient(60))
    check(v.agent.hellos > hellos, "the device was there all the time")
    said = job.out.decode()
    check(re.search(r"^no +vsock device +this machine has none\n +-> .*modprobe", said, re.M), said)
    check("no GPU.\n1\n" in said and "host" not in said.split("->")[0].split("window")[0], said)


def cdi(v):
    job = v.run(["sh", "-c", "/usr/libexec/weft/weft-guest-cdi && cat " + CDI], uid=0)
    check(job.status == 0, job.err.decode())
    spec = json.loads(job.out)
    mounts = {d["name"]: [m["hostPath"] for m in d["containerEdits"]["mounts"]]
              for d in spec["devices"]}
    check(sorted(mounts) == ["0", "all"] and mounts["0"] == mounts["all"], mounts)
    check([p.rsplit("/", 1)[1] for p in mounts["all"]] == ["resource2", "resource2_wc"], mounts)
    check(all(p.startswith("/sys/devices/pci") for p in mounts["all"]), mounts)


def in_a_container(v):
    """As its filter leaves a program."""
    Says(v, 1, "no_vsock").has("no vsock device +no vsock sockets: Operation not permitted",
                               " -> +a filter of this container")
    job = v.spawn(["sh", "-c", "mkdir -p /run/weft-guest; umask 0; exec /usr/libexec/weft/"
                               "weft-guest-connect"], uid=0)
    wait = v.run(["sh", "-c", "until [ -e /run/weft-guest/vsock ]; do sleep 0.1; done"])
    check(wait.status == 0 and not job.ended.is_set(), job.err.decode())
    Says(v, 0, "no_vsock").has("ok vsock device +by weft-guest-connect", "ok window +256 MiB",
                               r"ok host +vsock:2:22887 over vsock\+window", "ok GPU")
    ran = v.run(["no_vsock", "vector_add"], timeout=patient(40))
    check(ran.status == 0 and b"PASS" in ran.out, ran.err.decode())
    job.kill()
    job.wait(patient(10))


def full(d, v):
    d.ask("tenant-set", name="vm", set={"sessions.max": "1"})
    job = v.spawn(["hold"])
    deadline = time.monotonic() + patient(20)
    while b"holding" not in job.out:
        check(time.monotonic() < deadline, "no session")
        time.sleep(0.02)
    Says(v, 1).has("no host +vsock:2:22887: all sessions .*sessions.max",
                   "Programs here have no GPU")
    job.kill()
    job.wait(patient(10))
    d.ask("tenant-set", name="vm", set={"sessions.max": "64"})


def out_of_memory(d, v):
    d.ask("tenant-set", name="vm", set={"memory.max": "0"})
    Says(v, 1).has("ok host", "no GPU +.*CUDA_ERROR_OUT_OF_MEMORY", " -> .*all of its share")
    d.ask("tenant-set", name="vm", set={"memory.max": "512M"})


def no_daemon(d, v):
    d.stop()
    Says(v, 1).has("ok window", "no host +vsock:2:22887: the host has nothing at this port",
                   "Programs here have no GPU")


def with_window(tap, v, d):
    for what, fn, args in (("all is well", all_well, (v,)), ("a program", program, (v,)),
                           ("no udev rule", no_rule, (v,)), ("not in the group", no_group, (v,)),
                           ("containers get the window", cdi, (v,)),
                           ("in a container", in_a_container, (v,)),
                           ("no vsock device", no_vsock, (v,)),
                           ("all well again", all_well, (v,)), ("refused", full, (d, v)),
                           ("no memory", out_of_memory, (d, v)), ("no weftd", no_daemon, (d, v))):
        tap.case(what, fn, *args)


def without_window(v):
    Says(v, 2).has("slow window +this VM has no such device: ivshmem-plain",
                   "slow host +vsock:2:22887 over vsock,", " -> +no shared window: this VM has no",
                   "ok GPU")


def main():
    tap = harness.Tap()
    build_dir = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="weft-package-") as tmp:
        k = harness.kernel.Kernel()
        initrd = f"{tmp}/guest.cpio"
        make_image(build_dir, k, initrd)
        with daemon.Daemon(build_dir, ["vm"], device="soft", quota="512M") as d:
            for window in (False, True):
                with vm.VM("vm", 42, k, initrd, build_dir, forwards=d.forwards("vm"),
                           window=d.window("vm") if window else None) as v:
                    v.wait_ready(BOOT_SECONDS)
                    v.run(["ldconfig"], uid=0)  # as the package's trigger does
                    if window:
                        with_window(tap, v, d)
                    else:
                        tap.case("no window", without_window, v)
                    if tap.failed:
                        tap.note(d.log_tail() + v.log_tail())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
