#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
VMs of libvirt's with Weft's hook: real libvirtd, stock QEMU, a CUDA program in each guest;
and the commands of vm-images/own-vm.md.

Everything runs in name spaces of its own (mounts, processes, network), so that libvirtd
and weftd have their real places (/etc/libvirt, /run/weft, /dev/shm) and nothing of the
host's is touched; nothing outlives the test.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import harness
from harness import TOP, check, patient
from own_vm import PAGE, block
from weftvm import image, kernel

INSIDE = "WEFT_TEST_INSIDE"
NEEDED = ("libvirtd", "virsh", "virtlogd", "unshare", "xmllint", "virt-xml-validate")
BIN = "/run/weft-bin"
GUEST = "/run/guest"
HOOK = "/etc/libvirt/hooks/qemu.d/weft"
PROGRAMS = ("hostd/weftd", "hostd/weft-worker", "hostd/weft-listener", "hostd/weftctl",
            "hostd/libvirt/weft-hook", "qemu-device/weft-vsock")
# The VMs here, whose files have their names.
NAMES = ("vm1", "vm2", "plain", "wrong", "greedy", "other")

UUID = "4a2f9b9a-0f6f-4a5e-8a60-0d4d0a6f"  # how theirs begin
DOMAIN = """<domain type='qemu'>
  <name>{name}</name>
  <uuid>{uuid}{number:04d}</uuid>
  <memory unit='MiB'>512</memory>
  <vcpu>2</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{guest}/kernel</kernel>
    <initrd>{guest}/initrd</initrd>
    <cmdline>console=ttyS0 quiet panic=-1 random.trust_cpu=on weft.shell</cmdline>
  </os>
  <features><acpi/></features>
  <cpu mode='maximum'/>
  <on_reboot>destroy</on_reboot><on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <serial type='unix'><source mode='bind' path='{guest}/{name}.console'/></serial>
    <memballoon model='none'/>
  </devices>
</domain>
"""


def why_not():
    if os.geteuid() != 0:
        return "root's name spaces are wanted"
    missing = [p for p in NEEDED if not shutil.which(p, path="/usr/sbin:/usr/bin:/sbin:/bin")]
    if missing:
        return f"no {', '.join(missing)} (vm-images/install-packages)"
    r = subprocess.run(["unshare", "-mpnf", "--mount-proc", "true"], capture_output=True, text=True,
                       check=False)
    return "no name spaces: " + r.stderr.strip() if r.returncode else None


def run(*argv, ok=True, text=None, timeout=60):
    r = subprocess.run(argv, input=text, capture_output=True, text=True, check=False,
                       timeout=patient(timeout))
    check(not ok or r.returncode == 0, f"{' '.join(argv)}: {r.returncode}\n{r.stdout}{r.stderr}")
    return r


def virsh(*argv, **kwargs):
    return run("virsh", "-c", "qemu:///system", *argv, **kwargs)


def weftctl(*argv, **kwargs):
    return run(f"{BIN}/weftctl", *argv, **kwargs)


def until(good, what, seconds=30):
    deadline = time.monotonic() + patient(seconds)
    while not good():
        check(time.monotonic() < deadline, what() if callable(what) else what)
        time.sleep(0.05)


def page(n, *other):
    """Commands of the page, with other values: run as they stand there."""
    with open(PAGE, encoding="utf-8") as f:
        commands = block(f.read(), "libvirt", n)
    for theirs, ours in other:
        check(theirs in commands, f"the page has no {theirs}")
        commands = commands.replace(theirs, ours)
    env = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}")
    r = subprocess.run(["sh", "-exc", commands], env=env, capture_output=True, text=True,
                       timeout=patient(60), check=False)
    check(r.returncode == 0, r.stdout + r.stderr)
    return r.stdout


class Console:
    """A guest's shell, on its serial line."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        until(lambda: self._connect(path), f"no console {path}")
        self.text = ""
        self.n = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _connect(self, path):
        try:
            self.sock.connect(path)
        except OSError:
            return False
        return True

    def _read(self):
        while data := self.sock.recv(4096):
            self.text += data.decode(errors="replace").replace("\r", "")

    def expect(self, pattern, since=0, seconds=60):
        until(lambda: re.search(pattern, self.text[since:]),
              lambda: f"no {pattern} on the console: {self.text[-800:]}", seconds)
        return re.search(pattern, self.text[since:])

    def type(self, line):
        self.sock.sendall(line.encode() + b"\n")

    def run(self, line, seconds=60):
        """Runs a command; returns its exit status and output."""
        self.n += 1
        since = len(self.text)
        # As typed it is not as it is printed.
        self.type(f"{line}; echo en''d{self.n}=$?")
        m = self.expect(rf"end{self.n}=(\d+)", since, seconds)
        return int(m[1]), self.text[since:]


class Host:
    """libvirtd, weftd and what they leave."""

    def __init__(self, build_dir):
        self.build_dir = build_dir
        self.libvirtd = self.weftd = self.follower = None

    def prepare(self):
        for where in ("/run", "/dev/shm", "/etc/libvirt", "/var/lib/libvirt", "/var/log/libvirt",
                      "/var/cache/libvirt"):
            run("mount", "-t", "tmpfs", "tmpfs", where)
        for where in (BIN, GUEST, os.path.dirname(HOOK)):
            os.makedirs(where)
        os.chmod("/dev/shm", 0o1777)
        if os.path.exists("/dev/kvm"):
            # Else libvirtd, which may open it, asks QEMU, which may not, again and again.
            os.close(os.open("/run/no-kvm", os.O_CREAT, 0))
            run("mount", "--bind", "/run/no-kvm", "/dev/kvm")
        for name in PROGRAMS:
            shutil.copy(os.path.join(self.build_dir, name), BIN)
        with open(os.path.join(self.build_dir, "hostd/libvirt/weft"), encoding="utf-8") as f:
            script = re.sub(r"^exec \S*/weft-hook", f"exec {BIN}/weft-hook", f.read(), flags=re.M)
        with open(f"{BIN}/hook", "w", encoding="utf-8") as f:
            f.write(script)
        os.chmod(f"{BIN}/hook", 0o755)
        # libvirtd has not started yet.
        page(0, (f"/usr/local{HOOK} ", f"{BIN}/hook "), ("systemctl restart libvirtd", "true"))
        with open("/etc/libvirt/qemu.conf", "w", encoding="utf-8") as f:
            # The host's groups of processes are not ours to change; and a mount in /dev
            # cannot be moved into a device directory of each VM's own.
            f.write('cgroup_controllers = []\nnamespaces = []\nstdio_handler = "file"\n')
        with open("/etc/libvirt/libvirtd.conf", "w", encoding="utf-8") as f:
            f.write('auth_unix_rw = "none"\n')
        shutil.chown(GUEST, "libvirt-qemu")

    def image(self):
        k = kernel.Kernel()
        img = image.Image(k, self.build_dir)
        img.add_program(f"{self.build_dir}/tests/path/vector_add")
        img.add_program(f"{self.build_dir}/tests/vm/gpu_size")
        img.add_program(f"{self.build_dir}/tests/fault/steady")
        img.write(f"{GUEST}/initrd")
        shutil.copy(k.image, f"{GUEST}/kernel")

    def start_libvirtd(self):
        with open("/run/libvirtd.log", "ab") as log:
            self.libvirtd = subprocess.Popen(["/usr/sbin/libvirtd"], stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log)
        until(lambda: virsh("uri", ok=False).returncode == 0, "libvirtd does not answer")

    def start_weftd(self, memory="1G"):
        with open("/run/weftd.log", "ab") as log:
            self.weftd = subprocess.Popen(
                [f"{BIN}/weftd", "--config", "/dev/null", "--device", "soft", "--memory", memory],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: self.ready_workers() > 0, "weftd does not answer")

    @staticmethod
    def ready_workers():
        r = weftctl("--json", "list", ok=False)
        return json.loads(r.stdout)["device"]["workers.ready"] if r.returncode == 0 else 0

    def start_follower(self):
        program = os.path.join(self.build_dir, "hostd/libvirt/weft-libvirt")
        if os.path.exists(program):
            with open("/run/weft-libvirt.log", "ab") as log:
                self.follower = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=log,
                                                 stderr=log)

    @staticmethod
    def follower_log():
        with open("/run/weft-libvirt.log", encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop_weftd(self):
        weftctl("shutdown")
        self.weftd.wait(patient(30))

    def log(self):
        for name in ("/run/weftd.log", "/run/libvirtd.log", "/run/weft-libvirt.log"):
            if os.path.exists(name):
                with open(name, encoding="utf-8", errors="replace") as f:
                    yield f"--- {name}:\n{f.read()[-3000:]}"


def domain(name, number):
    return DOMAIN.format(name=name, number=number, guest=GUEST, uuid=UUID)


def define(name, number, *keys, change=lambda text: text):
    text = weftctl("domain-xml", "--apply", *keys, text=domain(name, number)).stdout
    virsh("define", "/dev/stdin", text=change(text))


def tenants():
    return {t["name"]: t for t in json.loads(weftctl("--json", "list").stdout)["tenants"]}


def left_over():
    """Files, tenants and processes of VMs."""
    found = {f"{where}/{f}" for where, _, files in os.walk("/run/weft") for f in files
             if f.split(".")[0] in NAMES or f.startswith(UUID)}
    found |= {f"/dev/shm/{f}" for f in os.listdir("/dev/shm")}
    found |= set(tenants()) - {"local"}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii") as f:
                name = f.read().strip()
        except OSError:
            continue
        if name in ("weft-vsock", "weft-hook"):
            found.add(f"process {pid} {name}")
    return found


def nothing_left():
    until(lambda: not left_over(), lambda: f"left over: {left_over()}")


def refused(name, sentence):
    """The VM does not start, virsh says why in one sentence, and nothing is left."""
    was = left_over()
    r = virsh("start", name, ok=False)
    check(r.returncode != 0, f"{name} has started")
    check(re.search(r"weft: " + sentence, r.stderr), r.stderr)
    check(r.stderr.count("weft: ") == 1, r.stderr)
    check("shut off" in virsh("domstate", name).stdout, "it is not off")
    until(lambda: left_over() == was, lambda: f"left over: {left_over() - was}")


# ---- cases ----

def no_weftd(h):
    define("vm1", 1, "memory.max=256M")
    r = virsh("start", "vm1", ok=False)
    check(r.returncode != 0 and "weft: weftd does not run" in r.stderr, r.stderr)
    h.start_weftd()
    nothing_left()


def shown_xml(h):
    """Domains with our element suit libvirt's schema and ours; a second time changes nothing."""
    keys = ("memory.max=256M", "memory.min=64M", "window.size=64M", "sessions.max=8")
    text = weftctl("domain-xml", "--apply", *keys, text=domain("vm1", 1)).stdout
    with open("/run/vm1.xml", "w", encoding="utf-8") as f:
        f.write(text)
    run("virt-xml-validate", "/run/vm1.xml", "domain")
    schema = os.path.join(TOP, "hostd/libvirt/weft-domain.rng")
    run("xmllint", "--noout", "--relaxng", schema, "/run/vm1.xml")
    virsh("define", "/run/vm1.xml")
    dumped = virsh("dumpxml", "--inactive", "vm1").stdout
    again = weftctl("domain-xml", "--apply", text=dumped).stdout
    virsh("define", "/dev/stdin", text=again)
    check(virsh("dumpxml", "--inactive", "vm1").stdout == dumped, "the second time changes it")
    gone = weftctl("domain-xml", "--undo", text=dumped).stdout
    check("weft" not in gone.replace("weft.shell", ""), gone)
    # Lines shown for pasting are those that --apply puts in.
    shown = xml.etree.ElementTree.fromstring(weftctl("domain-xml", "vm1", *keys).stdout)
    for tag in ("metadata", "memoryBacking", "devices/shmem"):
        check(canonical(shown.find(tag)) ==
              canonical(xml.etree.ElementTree.fromstring(text).find(tag)), f"another {tag}")


def canonical(element):
    return xml.etree.ElementTree.canonicalize(xml.etree.ElementTree.tostring(element),
                                              strip_text=True)


def without(h):
    """A domain without our element is none of our business: it starts without weftd, too."""
    virsh("define", "/dev/stdin", text=domain("plain", 9))
    virsh("start", "plain")
    virsh("destroy", "plain")
    virsh("undefine", "plain")


def wrong_xml(h):
    def edited(old, new):
        return lambda text: text.replace(old, new)
    for change, sentence in (
            (edited('max="256"', 'maximum="256"'),
             r"<weft:memory> has no attribute maximum \(there are unit, min, .*\)"),
            (edited('max="256"', 'max="256M"'), r"<weft:memory max='256M'>: a whole number"),
            (edited('unit="MiB" max="256"', 'unit="MIB" max="1"'), r"<weft:memory unit='MIB'>"),
            (edited("<weft:memory", "<weft:compute percent='25'/><weft:memory"),
             r"<weft:compute> has no attribute percent"),
            (edited("<weft:memory", "<weft:tpc set='5-3'/><weft:memory"),
             r"<weft:tpc set='5-3'>: .*is no list of TPCs"),
            (edited("<weft:memory", "<weft:vsock cid='2'/><weft:memory"), r"<weft:vsock cid='2'>"),
            (edited('id=weft-vsock,path=/run/weft/wrong', 'id=other,path=/run/weft/wrong'),
             r"no device of the domain's connects to /run/weft/wrong.vsock"),
            (edited('mode="shared"', 'mode="private"'), r"the domain's memory is not shared"),
            (edited('size="256"', 'size="128"'), r"the window has 134217728 bytes"),
    ):
        define("wrong", 8, "memory.max=256M", "window.size=256M", change=change)
        refused("wrong", sentence)
    virsh("undefine", "wrong")


def too_much(h):
    """Promises that cannot be kept, and limits that contradict each other."""
    define("greedy", 7, "memory.min=2G")
    refused("greedy", r"memory.min of all tenants is 2 GiB, the device has 1 GiB")
    define("greedy", 7, "memory.min=512M", "memory.max=256M")
    refused("greedy", r"tenant greedy: memory.min 512 MiB is above memory.max 256 MiB")
    virsh("undefine", "greedy")


def virt_install(h):
    """vm2 as virt-install makes it."""
    r = run("virt-install", "--connect", "qemu:///system", "--print-xml", "1", "--name", "vm2",
            "--memory", "512", "--vcpus", "2", "--virt-type", "qemu", "--machine", "q35",
            "--osinfo", "detect=off,require=off", "--disk", "none", "--network", "none",
            "--graphics", "none", "--import", "--boot",
            f"kernel={GUEST}/kernel,initrd={GUEST}/initrd,"
            "kernel_args=console=ttyS0 quiet panic=-1 random.trust_cpu=on weft.shell",
            "--serial", f"unix,source.mode=bind,source.path={GUEST}/vm2.console",
            "--console", "none", "--controller", "usb,model=none", "--memballoon", "none",
            "--rng", "none", "--cpu", "mode=maximum")
    text = weftctl("domain-xml", "--apply", "memory.max=512M", "cid=42", text=r.stdout).stdout
    virsh("define", "/dev/stdin", text=text)


def start(h, tap):
    virsh("define", "/dev/stdin", text=domain("vm1", 1))
    listed = page(1, ("memory.max=4G", "memory.max=256M"))
    check(re.search(r"^vm1 .* 256 MiB$", listed, re.M), listed)
    virsh("start", "vm2")
    consoles = {}
    for name in ("vm1", "vm2"):
        consoles[name] = Console(f"{GUEST}/{name}.console")
    for name, c in consoles.items():
        c.expect(r"\$ ", seconds=60)
    check({"vm1", "vm2"} <= set(tenants()), tenants())
    tap.consoles = consoles


def vector_add(c):
    status, out = c.run("vector_add")
    check(status == 0 and "PASS" in out and "window" not in out, out)


def compute(h, tap):
    for c in tap.consoles.values():
        vector_add(c)


def watching(h, tap):
    """Programs stay, and see the device as large as their VM may have of it."""
    for name, mib in (("vm1", 256), ("vm2", 512)):
        tap.consoles[name].type("gpu_size &")
        tap.consoles[name].expect(rf"gpu_size: {mib} MiB")
    text = weftctl("list").stdout
    check(text.count("vsock+window") == 2, text)


def taken(h):
    """A CID, a tenant's name, and a name that weftd.conf has."""
    define("other", 6, "cid=42")
    refused("other", "CID 42 is domain vm2's")
    define("other", 6, "tenant=vm1")
    refused("other", "tenant vm1 is domain vm1's")
    weftctl("add", "hand")
    define("other", 6, "tenant=hand")
    refused("other", "tenant hand is there already, for something else")
    check("hand" in tenants(), "the other's tenant is gone")
    weftctl("remove", "hand")
    virsh("undefine", "other")


def set_live(h, tap):
    c = tap.consoles["vm1"]
    since = len(c.text)
    weftctl("set", "vm1", "memory.max=384M")
    c.expect(r"gpu_size: 384 MiB", since)


def again(h, tap):
    """The hook once more, as libvirt or somebody else might: nothing changes."""
    text = virsh("dumpxml", "vm1").stdout
    vsock = holders()
    for op in ("started", "reconnect", "start"):
        r = run(HOOK, "vm1", op, "begin", "-", text=text)
        check(not r.stderr, r.stderr)
    check(tenants()["vm1"]["memory.max"] == 384 << 20, "what was set is lost")
    check(holders() == vsock, "weft-vsock is another one")
    vector_add(tap.consoles["vm1"])


def holders():
    return run("pgrep", "-x", "weft-vsock").stdout


def restart_libvirtd(h, tap):
    for sig in (signal.SIGKILL, signal.SIGTERM):
        h.libvirtd.send_signal(sig)
        h.libvirtd.wait(patient(30))
        h.start_libvirtd()
        check("running" in virsh("domstate", "vm1").stdout, "vm1 is lost")
    since = len(tap.consoles["vm1"].text)
    vector_add(tap.consoles["vm1"])
    check("gone" not in tap.consoles["vm1"].text[since:], "its program has lost the GPU")


def metadata_live(h, tap):
    """weft-libvirt, which has seen libvirtd go and come."""
    if not h.follower:
        return tap.note("SKIP: no weft-libvirt was built (libvirt-dev)")
    c = tap.consoles["vm1"]

    def change(element):
        virsh("metadata", "vm1", "urn:weft:domain:1", "--key", "weft", "--live", "--config", "--set",
              element)

    since = len(c.text)
    page(2, ("unit='GiB' max='6'", "unit='MiB' max='448'"))
    c.expect(r"gpu_size: 448 MiB", since)
    change("<gpu><memory unit='MiB' max='-1'/></gpu>")
    until(lambda: "limits stay as they are: <weft:memory max='-1'>" in h.follower_log(),
          "a mistake is not told")
    check(tenants()["vm1"]["memory.max"] == 448 << 20, "a mistake has changed something")
    change("<gpu><memory unit='MiB' max='256'/></gpu>")
    c.expect(r"gpu_size: 256 MiB", since)
    return None


def restart_weftd(h, tap):
    """The tenants come back, and the VMs' windows are what they were."""
    h.stop_weftd()
    h.start_weftd()
    run(f"{BIN}/weft-hook", "--resume")
    check({"vm1", "vm2"} <= set(tenants()), tenants())
    for c in tap.consoles.values():
        vector_add(c)


def ends(h, tap):
    """virsh destroy, and a QEMU that is killed."""
    virsh("destroy", "vm1")
    until(lambda: "vm1" not in tenants(), "vm1's tenant stays")
    check("vm2" in tenants(), "vm2's has gone as well")
    with open("/run/libvirt/qemu/vm2.pid", encoding="ascii") as f:
        os.kill(int(f.read()), signal.SIGKILL)
    nothing_left()


def killed(h):
    """The hook dies at any step of coming and going: the next one finds its way."""
    text = virsh("dumpxml", "--inactive", "vm1").stdout
    with open(f"/run/weft/libvirt/{UUID}0001.new", "w", encoding="ascii"):
        pass  # a note that it has not finished writing
    run(HOOK, "vm1", "release", "end", "-", text=text)
    nothing_left()
    for op, sub in (("prepare", "begin"), ("release", "end")):
        for ms in (1, 3, 6, 10, 15, 20, 30, 50):
            run(HOOK, "vm1", "prepare", "begin", "-", text=text)
            if op == "prepare":
                run(HOOK, "vm1", "release", "end", "-", text=text)
            with subprocess.Popen([HOOK, "vm1", op, sub, "-"], stdin=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL) as p:
                p.stdin.write(text.encode())
                p.stdin.close()
                time.sleep(ms / 1000)
                p.kill()
            run(HOOK, "vm1", "release", "end", "-", text=text)
            nothing_left()


def once_more(h):
    """A VM that ends while weftd does not run leaves nothing either, and starts again."""
    virsh("start", "vm1")
    h.stop_weftd()
    virsh("destroy", "vm1")
    check(not os.listdir("/dev/shm"), "its window is left")
    h.start_weftd()
    run(f"{BIN}/weft-hook", "--resume")
    nothing_left()
    virsh("start", "vm1")
    virsh("destroy", "vm1")
    nothing_left()
    # Nor with a weftd that has not heard of it.
    virsh("start", "vm1")
    h.stop_weftd()
    h.start_weftd()
    virsh("destroy", "vm1")
    nothing_left()


def inside(build_dir):
    tap = harness.Tap()
    h = Host(build_dir)
    h.prepare()
    h.image()
    h.start_libvirtd()
    h.start_follower()
    cases = [("weftd does not run: no start", no_weftd), ("a domain without a share", without),
             ("what domain-xml writes", shown_xml), ("wrong XML", wrong_xml),
             ("too much is wanted", too_much)]
    for what, fn in cases:
        tap.case(what, fn, h)
    if shutil.which("virt-install"):
        tap.case("virt-install", virt_install, h)
    else:
        tap.skip("virt-install", "no virt-install here")
        define("vm2", 2, "memory.max=512M", "cid=42")
    if tap.case("two VMs start", start, h, tap):
        for what, fn in (("a program in each", compute), ("their limits", watching)):
            tap.case(what, fn, h, tap)
        tap.case("what others have", taken, h)
        for what, fn in (("weftctl set, seen by a running program", set_live),
                         ("the hook once more", again), ("libvirtd restarts", restart_libvirtd),
                         ("virsh metadata --live", metadata_live), ("weftd restarts", restart_weftd), ("VMs end", ends)):
            tap.case(what, fn, h, tap)
        tap.case("once more", once_more, h)
        tap.case("the hook is killed at each step", killed, h)
    if tap.failed:
        tap.note("\n".join(h.log()))
    return tap.end()


def as_init(fn, *args):
    """The first process of a name space: it has the children of those who have gone."""
    child = os.fork()
    if not child:
        os._exit(fn(*args))
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def main(script=__file__, test=inside):
    build_dir = os.path.abspath(sys.argv[1])
    if os.environ.get(INSIDE):
        return as_init(test, build_dir)
    why = why_not()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    env = dict(os.environ, **{INSIDE: "1"}, PATH="/usr/sbin:/usr/bin:/sbin:/bin")
    return subprocess.run(["unshare", "-mpnf", "--kill-child", "--mount-proc", sys.executable,
                           "-B", os.path.abspath(script), build_dir], env=env,
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
