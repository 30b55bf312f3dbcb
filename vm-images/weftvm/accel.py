# SPDX-License-Identifier: Apache-2.0
"""KVM where it works, emulation where it does not: found out by trying.

/dev/kvm may be there and a stock kernel still hang on it (a host that is itself a guest of
some hypervisors), so a few seconds of a real boot decide. The verdict is kept until the
host boots again. WEFT_ACCEL=kvm or WEFT_ACCEL=tcg decides by hand.
"""
import os
import subprocess
import tempfile

from . import cpio
from .debian import cache_dir

QEMU = "qemu-system-x86_64"
PROBE_SECONDS = 6
PROBE_TEXT = b"weft-probe-ok"
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

ARGS = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max"],
}


def probe_image(path):
    a = cpio.Archive()
    for d in ("proc", "sys", "dev", "tmp", "run"):
        a.directory(d)
    a.device("dev/console", 5, 1)
    a.file("bin/busybox", "/bin/busybox", 0o755)
    for name in ("cat", "mkdir", "mount", "poweroff", "sh"):
        a.symlink(f"bin/{name}", "busybox")
    a.file("init", os.path.join(HERE, "init"), 0o755)
    with open(path, "wb") as f:
        a.write(f)


def kvm_boots(kernel):
    with tempfile.TemporaryDirectory(prefix="weft-probe-") as tmp:
        initrd = os.path.join(tmp, "probe.cpio")
        probe_image(initrd)
        cmd = [QEMU, *ARGS["kvm"], "-machine", "q35", "-m", "256M", "-kernel", kernel.image,
               "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 weft.probe",
               "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]
        try:
            r = subprocess.run(cmd, stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=PROBE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False
        return PROBE_TEXT in r.stdout


def pick(kernel):
    """Returns "kvm" or "tcg"."""
    forced = os.environ.get("WEFT_ACCEL")
    if forced in ARGS:
        return forced
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        verdict = os.path.join(cache_dir(), f"accel-{f.read().strip()}")
    try:
        with open(verdict, encoding="ascii") as f:
            known = f.read().strip()
        if known in ARGS:
            return known
    except FileNotFoundError:
        pass
    found = "kvm" if kvm_boots(kernel) else "tcg"
    with open(f"{verdict}.{os.getpid()}", "w", encoding="ascii") as f:
        f.write(found)
    os.rename(f"{verdict}.{os.getpid()}", verdict)
    return found
