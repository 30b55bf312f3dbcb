# SPDX-License-Identifier: Apache-2.0
"""Common part of the VM tests: TAP output, a guest image, the probe's host side."""
import os
import subprocess
import sys
import tempfile
import time
import traceback

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "vm-images"))
sys.dont_write_bytecode = True
from weftvm import image, kernel, vm  # noqa: E402

PROBE_PORT = 7001
WINDOW_BYTES = 16 << 20
# Sanitizers make everything slow.
PATIENCE = float(os.environ.get("WEFT_TEST_PATIENCE", "3"))


def patient(seconds):
    """As long as that may take on a machine that does something else as well."""
    return seconds * PATIENCE


class Tap:
    """Each check is a subtest of its own; the exit status says whether all held."""

    def __init__(self):
        self.n = 0
        self.failed = 0

    def ok(self, good, what):
        self.n += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.n} - {what}", flush=True)
        return good

    def skip(self, what, why):
        self.n += 1
        print(f"ok {self.n} - {what} # SKIP {why}", flush=True)

    def note(self, text):
        for line in str(text).splitlines():
            print(f"# {line}", flush=True)

    def case(self, what, fn, *args):
        """Runs a check that fails by an exception."""
        start = time.monotonic()
        try:
            fn(*args)
        except Exception as e:  # pylint: disable=broad-except
            self.ok(False, what)
            self.note("".join(traceback.format_exception_only(e)))
            return False
        return self.ok(True, f"{what} ({time.monotonic() - start:.1f} s)")

    def end(self):
        print(f"1..{self.n}", flush=True)
        return 1 if self.failed or not self.n else 0


def check(good, why):
    if not good:
        raise AssertionError(why)


class Bench:
    """A scratch directory, an image with the probe, and the probe serving the host side."""

    def __init__(self, build_dir, programs=()):
        self.build_dir = build_dir
        self.programs = programs
        self.probe = os.path.join(build_dir, "tests", "vm", "carrier_probe")
        self.kernel = kernel.Kernel()

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory(prefix="weft-vmtest-")
        self.dir = self.tmp.name
        self.initrd = os.path.join(self.dir, "guest.cpio")
        img = image.Image(self.kernel, self.build_dir)
        img.add_program(self.probe)
        for p in self.programs:
            img.add_program(p)
        img.write(self.initrd)
        self.window = os.path.join(self.dir, "window")
        with open(self.window, "wb") as f:
            f.truncate(WINDOW_BYTES)
        self.socket = os.path.join(self.dir, "probe.sock")
        self.host = subprocess.Popen([self.probe, "host", self.socket, self.window])
        vm.wait_for(self.socket, self.host, "carrier_probe")
        return self

    def __exit__(self, *exc):
        self.host.kill()
        self.host.wait()
        self.tmp.cleanup()

    def gpu_vm(self, d, name, cid=42, with_window=True):
        """A VM that is the daemon's tenant of that name."""
        return vm.VM(name, cid, self.kernel, self.initrd, self.build_dir,
                     forwards=d.forwards(name), window=d.window(name) if with_window else None)

    def vm(self, name="vm", cid=42, **kwargs):
        return vm.VM(name, cid, self.kernel, self.initrd, self.build_dir,
                     forwards={PROBE_PORT: self.socket},
                     window=(self.window, WINDOW_BYTES), **kwargs)
