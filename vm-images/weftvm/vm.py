# SPDX-License-Identifier: Apache-2.0
"""One virtual machine: its vsock device, its window, QEMU, and the agent inside."""
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from . import accel, agent

BOOT_SECONDS = 60
VIRTIOFSD = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")


class Error(Exception):
    """The VM did not do what it should; the text says what, with the console's end."""


def wait_for(path, process, what, log=os.devnull, seconds=10):
    deadline = time.monotonic() + seconds
    while not os.path.exists(path):
        if process.poll() is not None:
            with open(log, encoding="utf-8", errors="replace") as f:
                said = f.read()[-2000:].strip()
            raise Error(f"{what} ended with status {process.returncode}: {said}")
        if time.monotonic() > deadline:
            raise Error(f"{what} did not make {path}")
        time.sleep(0.01)


class VM:
    """
    Used as a context manager, or with start() and stop().

    cid: 3 or more, one for each VM. forwards: {vsock port: path of a Unix socket}.
    window: (file, bytes) of the shared window, which must exist. share: a directory of
    the host to mount at /share by virtiofs. console: "log", or "stdio" for a shell.
    """

    def __init__(self, name, cid, kernel, initrd, build_dir, *, forwards=None, window=None,
                 memory_mib=1024, cpus=2, acceleration=None, share=None, console="log",
                 extra_initrds=(), append="", vsock_args=(), wrap=()):
        self.name = name
        self.cid = cid
        self.kernel = kernel
        self.initrds = [initrd, *extra_initrds]
        self.build_dir = build_dir
        self.forwards = dict(forwards or {})
        self.window = window
        self.memory_mib = memory_mib
        self.cpus = cpus
        self.accel = acceleration or accel.pick(kernel)
        self.share = share
        self.console = console
        self.append = append
        self.vsock_args = list(vsock_args)
        self.wrap = list(wrap)
        self.dir = None
        self.vsock = self.qemu = self.fsd = self.agent = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.stop()

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self):
        """Starts everything and returns at once; wait_ready() waits for the guest."""
        # Unix socket names are short: not below some deep build directory.
        self.dir = tempfile.mkdtemp(prefix=f"weft-{self.name}-")
        try:
            self.agent = agent.Agent(self.path("agent.sock"))
            self.forwards[agent.PORT] = self.path("agent.sock")
            self.start_vsock()
            if self.share:
                self._start_share()
            self.start_qemu()
        except BaseException:
            self.stop()
            raise

    def start_vsock(self, *args):
        cmd = [*self.wrap, os.path.join(self.build_dir, "qemu-device", "weft-vsock"),
               "--handover", self.path("handover.sock"), *self.vsock_args, *args]
        if "--takeover" not in args:
            cmd += ["--socket", self.path("vsock.sock"), "--cid", str(self.cid)]
        for port, path in self.forwards.items():
            cmd += ["--forward", f"{port}={path}"]
        with open(self.path("vsock.log"), "ab") as log:
            self.vsock = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=log)
        wait_for(self.path("vsock.sock"), self.vsock, "weft-vsock", self.path("vsock.log"))

    def _start_share(self):
        daemon = next((p for p in VIRTIOFSD if os.path.exists(p)), None)
        if not daemon:
            raise Error("no virtiofsd here; --dir copies a directory into the image instead")
        sock = self.path("fs.sock")
        with open(self.path("fs.log"), "ab") as log:
            self.fsd = subprocess.Popen(
                [daemon, f"--socket-path={sock}", "-o", f"source={self.share}",
                 "-o", "cache=auto", "-o", "sandbox=chroot"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(sock, self.fsd, "virtiofsd", self.path("fs.log"))

    def _initrd(self):
        """Archives one after the other are one archive to the kernel."""
        if len(self.initrds) == 1:
            return self.initrds[0]
        whole = self.path("initrd.cpio")
        with open(whole, "wb") as out:
            for part in self.initrds:
                with open(part, "rb") as f:
                    shutil.copyfileobj(f, out)
        return whole

    def qemu_command(self):
        append = "console=ttyS0 quiet panic=-1 random.trust_cpu=on"
        if self.console == "stdio":
            append += " weft.shell"
        if self.share:
            append += " weft.share=/share"
        cmd = [accel.QEMU, *accel.ARGS[self.accel], "-smp", str(self.cpus),
               "-machine", "q35,memory-backend=ram", "-m", f"{self.memory_mib}M",
               "-object", f"memory-backend-memfd,id=ram,size={self.memory_mib}M,share=on",
               "-kernel", self.kernel.image, "-initrd", self._initrd(),
               "-append", f"{append} {self.append}".strip(),
               "-chardev", f"socket,id=vsock,path={self.path('vsock.sock')}",
               "-device", "vhost-user-vsock-pci,chardev=vsock",
               "-nodefaults", "-display", "none", "-no-reboot",
               "-qmp", f"unix:{self.path('qmp.sock')},server=on,wait=off"]
        if self.window:
            path, size = self.window
            cmd += ["-object", f"memory-backend-file,id=window,size={size},"
                    f"mem-path={path},share=on", "-device", "ivshmem-plain,memdev=window"]
        if self.share:
            cmd += ["-chardev", f"socket,id=fs,path={self.path('fs.sock')}",
                    "-device", "vhost-user-fs-pci,chardev=fs,tag=host"]
        if self.console == "stdio":
            cmd += ["-serial", "mon:stdio"]
        else:
            cmd += ["-serial", f"file:{self.path('console.log')}"]
        return cmd

    def start_qemu(self):
        """Also boots the VM again after kill()."""
        stdio = self.console == "stdio"
        with open(self.path("qemu.log"), "ab") as log:
            self.qemu = subprocess.Popen(
                self.qemu_command(), stdin=None if stdio else subprocess.DEVNULL,
                stdout=None if stdio else log, stderr=None if stdio else log,
                # An interrupt typed into a guest's shell is the guest's.
                start_new_session=not stdio)
        threading.Thread(target=self._watch, args=(self.qemu, self.agent),
                         daemon=True).start()

    @staticmethod
    def _watch(qemu, agent_):
        qemu.wait()
        agent_.abandon()

    def log_tail(self):
        parts = []
        for name in ("console.log", "qemu.log", "vsock.log"):
            path = self.path(name)
            if os.path.exists(path):
                with open(path, "rb") as f:
                    f.seek(max(0, os.path.getsize(path) - 2000))
                    text = f.read().decode(errors="replace").strip()
                if text:
                    parts.append(f"--- {self.name} {name}:\n{text}")
        return "\n".join(parts)

    def wait_ready(self, seconds=BOOT_SECONDS):
        """Returns when the agent has reported; raises Error after that time."""
        deadline = time.monotonic() + seconds
        while not self.agent.ready.wait(0.05):
            if self.qemu.poll() is not None:
                raise Error(f"{self.name}: QEMU ended with status {self.qemu.returncode}\n"
                            + self.log_tail())
            if time.monotonic() > deadline:
                raise Error(f"{self.name}: not up after {seconds} s\n" + self.log_tail())

    def spawn(self, argv, **kwargs):
        """Starts a program; returns an agent.Job."""
        return self.agent.start(argv, **kwargs)

    def run(self, argv, timeout=120, **kwargs):
        """Runs a program to its end (killed after timeout); returns the agent.Job."""
        job = self.spawn(argv, **kwargs)
        try:
            job.wait(timeout)
        except TimeoutError:
            job.kill()
            raise
        return job

    def kill(self, sig=signal.SIGKILL):
        """Ends the VM as a crash would."""
        self.qemu.send_signal(sig)
        self.qemu.wait()

    def stop(self):
        """Powers the guest off, or kills it, and removes everything."""
        if self.qemu and self.qemu.poll() is None:
            try:
                self.agent.send("Q", 0, b"")
                self.qemu.wait(5)
            except (agent.Gone, subprocess.TimeoutExpired):
                self.qemu.kill()
                self.qemu.wait()
        for p in (self.vsock, self.fsd):
            if p and p.poll() is None:
                p.terminate()
                p.wait()
        if self.agent:
            self.agent.close()
        if self.dir:
            shutil.rmtree(self.dir, ignore_errors=True)
            self.dir = None
