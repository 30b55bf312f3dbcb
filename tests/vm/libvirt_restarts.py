#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
weftd, libvirtd and QEMU are killed, and started again, at each step of a VM's coming and
going: real libvirtd, stock QEMU, a CUDA program in the guest. After each step nothing is left
that should not be, and the next VM starts.

    python3 -B tests/vm/libvirt_restarts.py build
"""
import collections
import json
import os
import signal
import subprocess
import sys
import time

import harness
import libvirt_vms
from harness import check, patient
from libvirt_vms import (BIN, GUEST, HOOK, Console, Host, define, left_over, run, tenants, until,
                         vector_add, virsh, weftctl)

STEPS = "/run/steps"
DIES = "/run/dies"
LIMIT = 256 << 20
# One that dies too often is the end (supervisor.c): then comes another daemon.
DEATHS = 4
# Messages between two at which weftd is killed; 1 for all of them.
STRIDE = int(os.environ.get("WEFT_STRIDE", "3"))

# Before and after our hook: does once what the file of its name and of the operation says.
STEP_HOOK = f"""#!/bin/sh
cat >/dev/null
file={STEPS}/${{0##*/}}.$2
if [ -e $file ]; then
    mv $file $file.done
    sh $file.done
fi
exit 0
"""
FIRST, LAST = "a-step", "z-step"
ATTACH = [(FIRST, "prepare"), (LAST, "prepare"), (FIRST, "start"), (LAST, "start"),
          (FIRST, "started"), (LAST, "started")]
DETACH = [(FIRST, "stopped"), (LAST, "stopped"), (FIRST, "release"), (LAST, "release")]


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return ""


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def processes():
    return list(map(int, filter(str.isdigit, os.listdir("/proc"))))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Mortal(Host):
    """A host whose weftd outlives being killed; weftd is its supervisor."""

    deaths = 0

    def prepare(self):
        super().prepare()
        os.mkdir(STEPS)
        for name in (FIRST, LAST):
            path = os.path.join(os.path.dirname(HOOK), name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(STEP_HOOK)
            os.chmod(path, 0o755)

    def start_weftd(self, memory="1G"):
        env = dict(os.environ, LD_PRELOAD=f"{self.build_dir}/tests/fault/libdies.so",
                   WEFT_DIES=DIES, WEFT_DIES_CONTROL="1")
        with open("/run/weftd.log", "ab") as log:
            self.weftd = subprocess.Popen(
                [f"{BIN}/weftd", "--keep-sessions", "--config", "/dev/null", "--device", "soft",
                 "--memory", memory, "--pool", "1"],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.deaths = 0
        until(lambda: self.ready_workers() == 1, "weftd does not answer")

    def broker(self):
        found = [p for p in processes() if parent(p) == self.weftd.pid and comm(p) == "weftd"]
        return found[0] if found else 0

    def room_for(self, n):
        """Sessions end if there has been none for weftd to die so often."""
        if self.deaths + n > DEATHS:
            self.stop_weftd()
            self.start_weftd()
            run(f"{BIN}/weft-hook", "--resume")
            self.deaths = 0

    def mortal(self, n=1):
        """Has weftd die so often, or makes place for that."""
        self.room_for(n)
        self.deaths += n

    def up(self):
        until(lambda: self.broker() and self.ready_workers() == 1, "weftd does not answer again")

    def end_broker(self, sig=signal.SIGKILL):
        self.mortal()
        was = self.broker()
        os.kill(was, sig)
        until(lambda: self.broker() not in (0, was), "no other weftd")
        self.up()

    def end_libvirtd(self, sig=signal.SIGKILL):
        self.libvirtd.send_signal(sig)
        self.libvirtd.wait(patient(30))
        self.start_libvirtd()

    def footprint(self):
        """All that weftd and VMs have, anywhere."""
        state = json.loads(weftctl("--json", "list").stdout)
        broker = self.broker()
        return {
            "weftd's descriptors": descriptors(broker) if broker else 0,
            "its supervisor's": descriptors(self.weftd.pid),
            "processes": dict(collections.Counter(
                c for c in map(comm, processes()) if c.startswith(("weft", "qemu")))),
            "files": sorted(os.path.join(where, f) for top in ("/run/weft", "/dev/shm")
                            for where, _, files in os.walk(top) for f in files
                            if f not in ("changes", "lock")),
            "tenants": [(t["name"], t["memory.current"], t["host.current"])
                        for t in state["tenants"]],
            "sessions": state["sessions"],
            "device": (state["device"]["memory.current"], state["device"]["workers.ready"]),
        }

    def as_before(self, when):
        """Nothing is left of a VM."""
        until(lambda: self.footprint() == self.clean,
              lambda: f"{when}: {self.footprint()}\nand before {self.clean}")
        check(not left_over(), left_over())


def arm(where, command):
    name, operation = where
    path = f"{STEPS}/{name}.{operation}"
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(command + "\n")
    os.rename(path + ".new", path)
    return path + ".done"


def has_happened(done, where):
    check(os.path.exists(done), f"{where}: the step was not reached")
    os.unlink(done)


def state_of_vm():
    return virsh("domstate", "vm1").stdout.strip()


def is_right():
    """The VM is a tenant with its limits."""
    t = tenants()
    check(set(t) == {"local", "vm1"} and t["vm1"]["memory.max"] == LIMIT, t)


def qemu():
    found = [p for p in processes() if comm(p).startswith("qemu-system")]
    return found[0] if found else 0


def boot():
    virsh("start", "vm1")
    c = Console(f"{GUEST}/vm1.console")
    c.expect(r"\$ ", seconds=60)
    return c


def works(h):
    """The next VM starts, a program in it is right, and it goes."""
    c = boot()
    vector_add(c)
    is_right()
    virsh("destroy", "vm1")
    h.as_before("after a whole life")


# ---- cases ----

def first(h):
    define("vm1", 1, "memory.max=256M", "window.size=64M", "cid=42")
    h.clean = h.footprint()
    works(h)
    h.end_broker()
    h.as_before("after a death of weftd's")
    works(h)


def within_the_hook(h):
    """weftd is killed at its messages while the hook makes a VM ready, and clears away."""
    text = virsh("dumpxml", "--inactive", "vm1").stdout

    def hook(op, sub):
        return run(HOOK, "vm1", op, sub, "-", text=text)

    for op, sub in (("prepare", "begin"), ("release", "end")):
        step, ended = 1, False
        while not ended:
            if op == "release":
                hook("prepare", "begin")
            h.mortal()
            with open(DIES + ".new", "w", encoding="ascii") as f:
                f.write(str(step))
            os.rename(DIES + ".new", DIES)
            r = hook(op, sub)
            ended = os.path.exists(DIES)
            if ended:
                os.unlink(DIES)
            check(not r.stderr, f"{op}, message {step}: {r.stderr}")
            h.up()
            if op == "prepare":
                is_right()
                hook("release", "end")
            h.as_before(f"{op}, message {step}")
            step += STRIDE
        check(step > 6, "weftd has had no message")


def weftd_between(h):
    """weftd dies, or is replaced, before and after each of libvirt's operations."""
    for n, where in enumerate(ATTACH + DETACH):
        h.mortal()
        sig = ("KILL", "TERM")[n % 2]
        done = arm(where, f"kill -{sig} {h.broker()}")
        virsh("start", "vm1")
        if where in ATTACH:
            has_happened(done, where)
        h.up()
        is_right()
        virsh("destroy", "vm1")
        if where in DETACH:
            has_happened(done, where)
        h.up()
        h.as_before(where)


def weftd_while_it_boots(h):
    h.mortal(3)
    virsh("start", "vm1")
    c = Console(f"{GUEST}/vm1.console")
    for sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        was = h.broker()
        os.kill(was, sig)
        until(lambda: h.broker() not in (0, was), "no other weftd")  # pylint: disable=W0640
    c.expect(r"\$ ", seconds=60)
    vector_add(c)
    is_right()
    h.c = c


def weftd_while_it_connects(h):
    """Killed at its messages while a program begins, works and ends."""
    step, ended = 1, False
    while not ended:
        h.mortal()
        with open(DIES + ".new", "w", encoding="ascii") as f:
            f.write(str(step))
        os.rename(DIES + ".new", DIES)
        vector_add(h.c)
        try:
            os.unlink(DIES)
            ended = True
        except FileNotFoundError:
            pass  # weftd took it, and has died
        h.up()
        until(lambda: not json.loads(weftctl("--json", "list").stdout)["sessions"],
              "its session stays")
        is_right()
        step += 2 * STRIDE
    check(step > 10, "weftd has had no message")


def while_a_program_runs(h):
    """weftd and libvirtd die in turn, and together."""
    h.room_for(3)
    since = len(h.c.text)
    h.c.type("steady 8; echo en''ded=$?")
    h.c.expect("running", since)
    h.end_broker(signal.SIGKILL)
    h.end_libvirtd(signal.SIGKILL)
    h.end_broker(signal.SIGTERM)
    h.end_libvirtd(signal.SIGTERM)
    h.mortal()
    os.kill(h.broker(), signal.SIGKILL)
    h.end_libvirtd()
    h.up()
    check(len(json.loads(weftctl("--json", "list").stdout)["sessions"]) == 1, "it has ended early")
    h.c.expect(r"right \d+\s+ended=0", since)
    check(state_of_vm() == "running", state_of_vm())
    vector_add(h.c)
    is_right()


def qemu_killed(h):
    """At once, while it boots, while a program runs; and while nobody is there to see it."""
    os.kill(qemu(), signal.SIGKILL)
    h.as_before("after QEMU's death")
    virsh("start", "vm1")
    os.kill(qemu(), signal.SIGKILL)
    h.as_before("QEMU has just begun")
    for where in ATTACH[4:] + DETACH:
        done = arm(where, "kill -9 $(pgrep -f '^/usr/bin/qemu-system')")
        r = virsh("start", "vm1", ok=False)
        check(where in DETACH or os.path.exists(done), f"{where}: {r.stderr}")
        virsh("destroy", "vm1", ok=False)
        has_happened(done, where)
        h.as_before(where)
    c = boot()
    since = len(c.text)
    c.type("steady 60")
    c.expect("running", since)
    os.kill(qemu(), signal.SIGKILL)
    h.as_before("QEMU's program ran")
    c = boot()
    since = len(c.text)
    c.type("steady 60")
    c.expect("running", since)
    h.mortal()
    h.libvirtd.kill()
    h.libvirtd.wait()
    os.kill(h.weftd.pid, signal.SIGSTOP)
    os.kill(h.broker(), signal.SIGKILL)
    os.kill(qemu(), signal.SIGKILL)
    os.kill(h.weftd.pid, signal.SIGCONT)
    h.start_libvirtd()
    h.up()
    h.as_before("QEMU has died while nobody was there")


def libvirtd_between(h):
    """libvirtd dies while it starts a VM, and while it ends one."""
    for where in ATTACH + DETACH:
        done = arm(where, f"kill -9 {h.libvirtd.pid}")
        virsh("start", "vm1", ok=where in DETACH)
        if where in DETACH:
            virsh("destroy", "vm1", ok=False)
        h.libvirtd.wait(patient(30))
        h.start_libvirtd()
        has_happened(done, where)
        until(lambda: state_of_vm() in ("running", "shut off"), state_of_vm)
        if state_of_vm() != "running" and not h.follower:
            # Without weft-libvirt it is the next start that goes on with what is there.
            virsh("start", "vm1")
        if state_of_vm() == "running":
            is_right()
            virsh("destroy", "vm1")
        h.as_before(where)
    works(h)


def inside(build_dir):
    tap = harness.Tap()
    h = Mortal(build_dir)
    h.prepare()
    h.image()
    h.start_libvirtd()
    h.start_weftd()
    h.start_follower()
    if tap.case("a VM comes and goes", first, h):
        for what, fn in (("weftd dies within the hook", within_the_hook),
                         ("weftd dies between libvirt's operations", weftd_between)):
            tap.case(what, fn, h)
        for what, fn in (("weftd dies while the guest boots", weftd_while_it_boots),
                         ("weftd dies while a program comes", weftd_while_it_connects),
                         ("weftd and libvirtd die while a program runs", while_a_program_runs),
                         ("QEMU dies", qemu_killed),
                         ("libvirtd dies between its operations", libvirtd_between)):
            if not tap.case(what, fn, h):
                break
    if tap.failed:
        tap.note("\n".join(h.log()))
    return tap.end()


if __name__ == "__main__":
    sys.exit(libvirt_vms.main(__file__, inside))
