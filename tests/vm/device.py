#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weft-vsock and the shared window under a real QEMU and a real guest kernel."""
import glob
import os
import signal
import subprocess
import sys
import time

import harness
from harness import check, patient
from weftvm import agent

# A stock guest is up in 2 to 3 s under emulation; a busy test machine takes longer.
BOOT_SECONDS = 60
IDLE_WINDOWS = 10


def carriers(tap, v):
    job = v.run(["carrier_probe", "guest"], timeout=120)
    tap.note(job.out.decode())
    check(job.status == 0, f"status {job.status}: {job.err.decode()}")
    check(b"window polled" in job.out, "the window was not measured")


def program(v, argv, want=0):
    job = v.run(argv, timeout=60)
    check(job.status == want,
          f"status {job.status}: {job.out.decode()} {job.err.decode()}")
    return job


def agent_reports(v):
    check(program(v, ["sh", "-c", "echo out; echo err >&2; exit 7"], 7).err == b"err\n",
          "standard error is lost")
    check(program(v, ["sh", "-c", "kill -6 $$"], -6).out == b"", "output from nowhere")
    program(v, ["no-such-program"], 127)
    # Output that looks like the agent's own frames is output.
    check(program(v, ["printf", "X\\0\\0\\0\\0"]).out == b"X\0\0\0\0", "output was taken apart")
    job = v.spawn(["sleep", "100"])
    job.kill(signal.SIGTERM)
    check(job.wait(10) == -signal.SIGTERM, f"status {job.status}")


def running(v, argv):
    """Starts a program that says "connected" once it is."""
    job = v.spawn(argv)
    deadline = time.monotonic() + 30
    while b"connected" not in job.out:
        check(time.monotonic() < deadline and not job.ended.is_set(), "not connected")
        time.sleep(0.02)
    return job


def take_over(tap, v):
    """The device moves from process to process under a guest that keeps talking."""
    job = running(v, ["carrier_probe", "steady", "4"])
    for _ in range(3):
        old = v.vsock
        time.sleep(0.6)
        v.start_vsock("--takeover", v.path("handover.sock"))
        check(old.wait(10) == 0, f"the old process ended with {old.returncode}")
    status = job.wait(60)
    tap.note(job.out.decode())
    check(status == 0, f"status {status}: {job.out.decode()}")


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as f:
        return f.read().strip()


def server_of(supervisor):
    """The other child of the supervisor's connects for it."""
    with open(f"/proc/{supervisor}/task/{supervisor}/children", encoding="ascii") as f:
        return next(int(c) for c in f.read().split() if name_of(c) == "weft-vsock")


def crash(v):
    """The server process dies: the guest keeps its device, and loses its connections."""
    job = running(v, ["carrier_probe", "steady", "20"])
    hellos = v.agent.hellos
    os.kill(server_of(v.vsock.pid), signal.SIGSEGV)
    deadline = time.monotonic() + 20
    while v.agent.hellos == hellos:
        check(time.monotonic() < deadline, "the agent did not come back")
        time.sleep(0.02)
    check(job.wait(15) == 1, f"status {job.status}")
    check(v.vsock.poll() is None, "weft-vsock is gone")
    program(v, ["carrier_probe", "many", "20"])


def lost_report(v):
    """The connection ends between a program's last words and our knowing of them."""
    handle = v.agent._frame  # pylint: disable=protected-access

    def hang_up(kind, number, data):
        if kind == "X":
            v.agent._frame = handle
            raise agent.Gone("the test hangs up")
        handle(kind, number, data)

    v.agent._frame = hang_up
    job = v.spawn(["sh", "-c", "exit 3"])
    check(job.wait(20) == 3, f"status {job.status}")


def is_socket(path):
    try:
        return os.readlink(path).startswith("socket:")
    except FileNotFoundError:  # closed meanwhile
        return False


def descriptors(pid):
    return sum(map(is_socket, glob.glob(f"/proc/{pid}/fd/*")))


def vm_death(v):
    """QEMU is killed: the host's ends close within a second; the next QEMU may come."""
    running(v, ["carrier_probe", "steady", "60"])
    server = server_of(v.vsock.pid)
    before = descriptors(server)
    v.kill()
    deadline = time.monotonic() + patient(1)
    while descriptors(server) > before - 3:  # front end, agent, probe
        check(time.monotonic() < deadline, "connections outlive the VM")
        time.sleep(0.01)
    v.agent.ready.clear()
    v.start_qemu()
    v.wait_ready(BOOT_SECONDS)
    program(v, ["carrier_probe", "many", "5"])


def idle(v):
    def ticks():
        with open(f"/proc/{server_of(v.vsock.pid)}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    time.sleep(0.2)
    took = []
    # The guest may still have something to do; what polls has no such window.
    while not took or (took[-1] > 1 and len(took) < IDLE_WINDOWS):
        before = ticks()
        time.sleep(2)
        took.append(ticks() - before)
    check(took[-1] <= 1, f"{took} ticks of CPU time in 2 s each")


def refuses_second(v):
    """A second device on the same socket would cut the first one off."""
    r = subprocess.run([os.path.join(v.build_dir, "qemu-device", "weft-vsock"), "--socket",
                        v.path("vsock.sock"), "--cid", "43"], capture_output=True,
                       timeout=20, check=False)
    check(r.returncode == 1 and b"listens there" in r.stderr, r.stderr.decode())


def main():
    tap = harness.Tap()
    with harness.Bench(os.path.abspath(sys.argv[1])) as b, b.vm() as v:
        start = time.monotonic()
        v.wait_ready(BOOT_SECONDS)
        tap.ok(True, f"guest is up after {time.monotonic() - start:.1f} s ({v.accel})")
        good = [
            tap.case("agent reports what programs do", agent_reports, v),
            tap.case("unused port is refused at once", program, v,
                     ["carrier_probe", "refused"]),
            tap.case("many connections", program, v, ["carrier_probe", "many", "300"]),
            tap.case("carriers", carriers, tap, v),
            tap.case("a second device process is refused", refuses_second, v),
            tap.case("idle costs no CPU", idle, v),
            tap.case("takeover by a successor", take_over, tap, v),
            tap.case("an end is reported again", lost_report, v),
            tap.case("crash of the device process", crash, v),
            tap.case("death of the VM", vm_death, v),
        ]
        if not all(good):
            tap.note(v.log_tail())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
