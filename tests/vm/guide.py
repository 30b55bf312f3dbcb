#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
hostd/doc/operators-guide.md and guestlib/users-guide.md, followed command by command: what
the packages install, two VMs with a tenant each, a limit that is changed under a program,
an upgrade. All happens in mounts of its own, over this machine's /etc and /usr.

    guide.py BUILD

Other than on the page are the accelerator, the disk, in whose place there is a kernel with
an initial RAM disk, and what fetches packages or runs services: see STAND_INS. Messages that
the operator's page explains are looked for in the sources.
"""
import glob
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import harness
import packaged
from harness import TOP, check, patient
from weftvm import accel, agent, image

OPERATORS = os.path.join(TOP, "hostd/doc/operators-guide.md")
USERS = os.path.join(TOP, "guestlib/users-guide.md")
INSIDE = "WEFT_GUIDE"  # the scratch directory, once we are in mounts of our own
BOOT_SECONDS = 60
VMS = ("vm1", "vm2")
# Commands that another test runs, or that want what is not here.
ELSEWHERE = {
    "hostd/package/build": "tests/package/debs.py",
    "pip install torch": "a network; tests/gpu/compat has what PyTorch does",
    "podman run --device nvidia.com/gpu=all IMAGE": "tests/package/container.py",
    "GALLIUM_DRIVER=virpipe LIBGL_ALWAYS_SOFTWARE=true EGL_PLATFORM=surfaceless eglinfo":
        "tests/vm/graphics.py, with programs of its own",
    "systemctl enable --now weft-mps": "tests/vm/operator_guide.py, by systemd",
}
# The page has an H100's TPCs, the software GPU has four.
TPC_SETS = {"tpc.set=0-32": "tpc.set=0-1", "tpc.set=33-65": "tpc.set=2-3"}
# On the host: apt-get unpacks what was staged, makes its users, starts the daemon, as the
# packages' scripts do.
STAND_INS = {
    "apt-get": """#!/bin/sh
[ "$*" = "install ./packages/weft-host_*.deb" ] || exit 1
cd $WEFT_GUIDE/weft-host
find . -type f -o -type l | while read f; do
	case $f in ./etc/*) [ ! -e /$f ] || continue ;; esac
	mkdir -p /$(dirname $f) && cp -d $f /$f
done
systemd-sysusers /usr/lib/sysusers.d/weft.conf
systemctl restart weftd
""",
    "systemctl": """#!/bin/sh
exec python3 -B {me} --systemctl "$@"
""",
}
# Messages on the page that are systemd's; operator_guide.py sees it say them.
SYSTEMD_SAYS = ("Found left-over process",)
GUEST_STAND_INS = {
    "apt-get": """#!/bin/sh
[ "$*" = "install ./weft-guest_*.deb" ] || exit 1
cp -R /root/weft-guest/. / && ldconfig
""",
    "usermod": '#!/bin/sh\n[ "$*" = "-a -G video user" ]\n',
}


def of_four_tpcs(line):
    for theirs, ours in TPC_SETS.items():
        line = line.replace(theirs, ours)
    return line


def blocks(page):
    """(heading, lines) of the indented blocks of a page; lines that go on are joined."""
    with open(page, encoding="utf-8") as f:
        text = f.read().replace("\\\n", " ")
    heading, found = "", []
    for line in text.splitlines() + [""]:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("    "):
            if not found or found[-1][2]:
                found.append([heading, [], False])
            found[-1][1].append(line.strip())
        elif line.strip() and found:
            found[-1][2] = True
    return [(h, lines) for h, lines, _ in found]


# ---- systemctl, for the units that are installed ----

def unit_command(name):
    """The instance and what ExecStart is, with the unit's environment put in, and with no
    capabilities but the unit's."""
    base, _, instance = name.removesuffix(".service").partition("@")
    file = f"{base}@.service" if instance else f"{base}.service"
    env, may = {}, []
    with open(f"/usr/lib/systemd/system/{file}", encoding="utf-8") as f:
        lines = [line.strip().replace("%i", instance) for line in f]
    for line in lines:
        key, _, value = line.partition("=")
        if key == "Environment":
            env.update([value.split("=", 1)])
        elif key == "EnvironmentFile":
            with open(value, encoding="utf-8") as f:
                env.update(row.strip().split("=", 1) for row in f if "=" in row)
        elif key == "CapabilityBoundingSet":
            may = ["setpriv", "--no-new-privs", "--bounding-set",
                   ",".join(["-all"] + ["+" + c[4:].lower() for c in value.split()])]
        elif key == "ExecStart":
            command = value
    argv = shlex.split(re.sub(r"\$\{(\w+)\}", lambda m: env[m[1]], command))
    check(may, f"{name} keeps all capabilities")
    return instance, may + argv


def pid_file(name):
    return os.path.join(os.environ[INSIDE], f"{name}.pid")


def alive(pid):
    """Whether it runs; what nobody waits for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def unit_stop(name):
    if not os.path.exists(pid_file(name)):
        return
    with open(pid_file(name), encoding="ascii") as f:
        pid = int(f.read())
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + patient(20)
    while alive(pid):
        check(time.monotonic() < deadline, f"{name} does not end")
        time.sleep(0.05)
    os.unlink(pid_file(name))


def unit_start(name):
    instance, argv = unit_command(name)
    if instance:  # the way by which the test speaks with the VM
        argv += ["--forward", f"{agent.PORT}={os.environ[INSIDE]}/{instance}.agent"]
    waits_for = f"/run/weft/{instance}.vsock" if instance else "/run/weft/control"
    with open(f"{os.environ[INSIDE]}/{name}.log", "ab") as log:
        # Nobody here has to wait for its end.
        p = subprocess.Popen(["sh", "-c", '"$@" & echo $! > "$0"', pid_file(name), *argv],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                             start_new_session=True)
        p.wait()
    deadline = time.monotonic() + patient(20)
    while not os.path.exists(waits_for):
        check(time.monotonic() < deadline, f"{name}: no {waits_for}")
        time.sleep(0.05)


def systemctl(verb, *names):
    names = [n for n in names if n != "--now"]
    if verb == "reload":
        with open(pid_file(*names), encoding="ascii") as f:
            os.kill(int(f.read()), signal.SIGHUP)
        return
    check(verb in ("restart", "start", "enable"), verb)
    for n in names:
        unit_stop(n)
        unit_start(n)


# ---- the two VMs ----

def make_image(build_dir, kernel, path):
    img = image.Image(kernel, build_dir)
    for name in image.GUEST_LIBRARIES:
        del img.a.entries[f"{image.LIBDIR}/{name}"]
    with tempfile.TemporaryDirectory() as d:
        packaged.unpack(build_dir, "weft-guest", d)
        img.add_dir(d, "/root/weft-guest")
    img.add_program("/sbin/ldconfig", "usr/sbin/ldconfig")
    img.a.directory("etc/ld.so.conf.d")
    img.a.text("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    for name, text in GUEST_STAND_INS.items():
        img.a.text(f"usr/sbin/{name}", text, 0o755)
    for name in ("tests/path/vector_add", "tests/vm/hold"):
        img.add_program(os.path.join(build_dir, name))
    img.write(path)


class Guide:
    def __init__(self, tap, build_dir, scratch):
        self.tap, self.build_dir, self.scratch = tap, build_dir, scratch
        self.kernel = harness.kernel.Kernel()
        self.initrd = f"{scratch}/guest.cpio"
        make_image(build_dir, self.kernel, self.initrd)
        self.agents, self.vms = {}, []
        self.done = set()

    def host(self, command):
        """Runs a command of the page as root of the host."""
        self.done.add(command)
        r = subprocess.run(["sh", "-ec", command], cwd=self.scratch, capture_output=True,
                           text=True, check=False, stdin=subprocess.DEVNULL, timeout=patient(60))
        check(r.returncode == 0, f"{command}: {r.returncode} {r.stdout}{r.stderr}")
        return r.stdout

    def guest(self, name, command, uid=0):
        self.done.add(command)
        a = self.agents[name]
        job = a.start(["sh", "-ec", command], uid=uid)
        check(job.wait(patient(60)) == 0, f"{command}: {job.status} {job.out}{job.err}")
        return job.out.decode()

    def configure(self, lines):
        with open("/etc/weft/weftd.conf", "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        self.done.update(lines)

    def boot(self, command):
        """Starts the page's QEMU for each VM."""
        self.done.add(command)
        for theirs, ours in (
                ("-accel kvm -cpu host", shlex.join(accel.ARGS[accel.pick(self.kernel)])),
                ("-drive file=vm1.qcow2,if=virtio",
                 f"-kernel {self.kernel.image} -initrd {self.initrd} -nodefaults "
                 f"-append 'console=ttyS0 quiet panic=-1 random.trust_cpu=on' -display none "
                 f"-no-reboot -serial file:{self.scratch}/vm1.console")):
            check(theirs in command, f"the page has no {theirs}")
            command = command.replace(theirs, ours)
        for name in VMS:
            with open(f"{self.scratch}/{name}.qemu", "ab") as log:
                self.vms.append(subprocess.Popen(shlex.split(command.replace("vm1", name)),
                                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        for name in VMS:
            check(self.agents[name].ready.wait(patient(BOOT_SECONDS)), f"{name} is not up")

    def close(self):
        for p in self.vms:
            p.kill()
            p.wait()
        for a in self.agents.values():
            a.close()

    def both_compute(self):
        for name in VMS:
            check("PASS" in self.guest(name, "vector_add", uid=1000), name)

    def logs(self):
        for path in sorted(glob.glob(f"{self.scratch}/*.log") + glob.glob(f"{self.scratch}/*.qemu")
                           + glob.glob(f"{self.scratch}/*.console")):
            with open(path, encoding="utf-8", errors="replace") as f:
                yield f"--- {os.path.basename(path)}\n{f.read()[-1500:]}"


def install(g, lines):
    for line in lines:
        if line not in ELSEWHERE:
            said = g.host(line)
            check(line != "weftctl list" or "local" in said, said)


def tenants(g, lines):
    if lines[0].startswith("["):
        g.configure(lines)
        return
    for line in lines:
        said = g.host(line)
    check("vm1" in said and "vm2" in said, said)


def devices(g, lines):
    for line in lines:
        if line.startswith("qemu"):
            g.boot(line)
        else:
            g.host(line)
    if not g.vms:
        return
    check(all(os.path.exists(f"/dev/shm/weft-{n}") for n in VMS), "a window is missing")


def in_each(g, lines):
    for name in VMS:
        for line in lines:
            said = g.guest(name, line, uid=1000 if line == "weft-guest-check" else 0)
        check(re.search(r"^ok +host +vsock:2:22887 over vsock\+window", said, re.M), said)
    g.both_compute()


def libvirt(g, lines):
    """operator_guide.py runs these, with a libvirtd and its VMs."""
    g.done.update(lines)


def see(g, lines):
    if "weftctl list" not in lines:
        for line in lines:
            g.host(line)
        return
    a = g.agents["vm1"]
    job = a.start(["hold"])
    deadline = time.monotonic() + patient(20)
    while b"holding" not in job.out:
        check(time.monotonic() < deadline, f"no session: {job.err}")
        time.sleep(0.05)
    before = {}
    for line in lines:
        before[line] = g.host(line)
    check(re.search(r"vm1 .*hold.*vsock\+window", before["weftctl list"]), before)
    check(before["weftctl get vm1 memory.max"].strip() == "512 MiB", before)
    check("512 MiB" in g.guest("vm1", "weft-guest-check", uid=1000), "the guest does not see it")
    check("hold" not in g.host("weftctl list"), "what was killed is there")
    job.kill()


def shared(g, lines):
    for line in lines:
        if line not in ELSEWHERE:
            g.host(of_four_tpcs(line))
            g.done.add(line)
    for name in VMS:
        said = g.host(f"weftctl get {name} compute.class").strip()
        check(said == "shared", said)
    g.both_compute()


def upgrade(g, lines):
    for line in lines:
        g.host(line)
    with open("/etc/weft/weftd.conf", encoding="utf-8") as f:
        check("[tenant vm2]" in f.read(), "the configuration is gone")
    g.both_compute()


def user(g, lines):
    for line in lines:
        if line not in ELSEWHERE:
            g.guest("vm2", line, uid=1000)


STEPS = {"Install": install, "Two tenants": tenants, "The VMs' devices": devices,
         "Under libvirt": libvirt, "In each VM": in_each, "See, change, end": see,
         "Class shared": shared, "Upgrade": upgrade}


def messages():
    """Messages that the operator's page explains are ones that programs have."""
    text = ""
    for path in glob.glob(f"{TOP}/**/*.[ch]", recursive=True):
        if not os.path.relpath(path, TOP).startswith(("build", "tests")):
            with open(path, encoding="utf-8") as f:
                text += re.sub(r'"\s*(?:[A-Z_]+\s*)?"', "", f.read())
    with open(OPERATORS, encoding="utf-8") as f:
        table = f.read().split("\n## Messages\n")[1].split("\n## ")[0]
    said = re.findall(r"^\| `([^`]+)` \|", table, re.M)
    check(len(said) > 10, "no table")
    lost = [m for m in said if m not in text and m not in SYSTEMD_SAYS]
    check(not lost, f"no program says {lost}")


def follow(tap, build_dir, scratch):
    g = Guide(tap, build_dir, scratch)
    for name in VMS:
        g.agents[name] = agent.Agent(f"{scratch}/{name}.agent")
    try:
        pages = [(h, lines, STEPS.get(h)) for h, lines in blocks(OPERATORS)]
        pages += [(h, lines, user) for h, lines in blocks(USERS)]
        for heading, lines, step in pages:
            check(step, f"no step for {heading}: {lines}")
            if not tap.case(f"{heading}: {lines[0][:50]}", step, g, lines):
                tap.note("\n".join(g.logs()))
                return
        left = {line for _, lines, _ in pages for line in lines} - g.done - set(ELSEWHERE)
        tap.ok(not left, f"every command was run {left or ''}")
    finally:
        g.close()


def enter(build_dir):
    """Goes on in mounts and processes of its own."""
    with tempfile.TemporaryDirectory(prefix="weft-guide-") as scratch:
        script = """mount -t tmpfs tmpfs "$0" && cd "$0"
mkdir etc etc.w usr usr.w
mount -t overlay overlay -o lowerdir=/etc,upperdir=etc,workdir=etc.w /etc
mount -t overlay overlay -o lowerdir=/usr,upperdir=usr,workdir=usr.w /usr
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm
exec "$@" """
        return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child",
                               "--mount-proc", "sh", "-ec", script, scratch, sys.executable, "-B",
                               os.path.abspath(__file__), build_dir],
                              env=dict(os.environ, **{INSIDE: scratch}), check=False).returncode


def main(build_dir):
    if os.geteuid() != 0:
        print("1..0 # SKIP only root has mounts of its own over /etc")
        return 0
    if INSIDE not in os.environ:
        return enter(build_dir)
    scratch = os.environ[INSIDE]
    tap = harness.Tap()
    packaged.unpack(build_dir, "weft-host", f"{scratch}/weft-host")
    os.mkdir(f"{scratch}/bin")
    for name, text in STAND_INS.items():
        with open(f"{scratch}/bin/{name}", "w", encoding="utf-8") as f:
            f.write(text.replace("{me}", os.path.abspath(__file__)))
        os.chmod(f"{scratch}/bin/{name}", 0o755)
    # The page's words are the packages': no program of the build is on the way.
    os.environ["PATH"] = f"{scratch}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    os.environ.pop("LD_LIBRARY_PATH", None)
    tap.case("messages are what programs say", messages)
    follow(tap, build_dir, scratch)
    return tap.end()


if __name__ == "__main__":
    if sys.argv[1] == "--systemctl":
        systemctl(*sys.argv[2:])
    else:
        sys.exit(main(os.path.abspath(sys.argv[1])))
