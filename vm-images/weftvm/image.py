# SPDX-License-Identifier: Apache-2.0
"""The guest's root file system: busybox, the host's C library, drivers, and what you add."""
import os
import shutil
import subprocess

from . import cpio
from .debian import Error

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBDIR = "usr/lib/x86_64-linux-gnu"
# Mesa, of which a guest needs what speaks to weft-guest-gl, and the file by which EGL finds it.
MESA = (f"{LIBDIR}/libEGL_mesa.so.0", f"{LIBDIR}/dri/swrast_dri.so")
EGL_VENDOR = "usr/share/glvnd/egl_vendor.d/50_mesa.json"

# Libraries that programs built on the host need; guest and host are the same Debian.
LIBRARIES = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
             "libutil.so.1", "libgcc_s.so.1", "libstdc++.so.6")

# From the build directory: our CUDA driver and management libraries.
GUEST_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")

# Programs run as this user: as on a real machine, no CUDA program needs root.
UID = 1000
PASSWD = f"""root:x:0:0:root:/root:/bin/sh
user:x:{UID}:{UID}:user:/home/user:/bin/sh
"""
GROUP = f"""root:x:0:
video:x:44:user
user:x:{UID}:
"""
MOTD = """
Weft guest. CUDA programs use the GPU that the host shares; type "exit" or ^D to leave.
"""
MOTD_PROGRAMS = "CUDA programs here: {}.\n"


def library_path(name):
    for d in ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu"):
        path = os.path.join(d, name)
        if os.path.exists(path):
            return path
    raise Error(f"the host has no {name}")


def cuda_library_path():
    """Where the toolkit beside nvcc has its shared libraries; "" without one."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        return ""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "lib64")


def needed_libraries(program):
    """Shared objects a program of the host needs, as (name, path)."""
    env = dict(os.environ, LD_LIBRARY_PATH=cuda_library_path())
    r = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, env=env)
    found = []
    for line in r.stdout.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1] == "=>" and words[2].startswith("/"):
            found.append((words[0], words[2]))
    return found


def lacks_opengl(build_dir):
    """The first file that programs which draw need and is not here, or None."""
    needs = [f"{build_dir}/hostd/weft-gl", f"{build_dir}/guestlib/weft-guest-gl",
             *(f"/{path}" for path in (*MESA, EGL_VENDOR))]
    return next((path for path in needs if not os.path.exists(path)), None)


def find_guest_library(build_dir, name):
    for d in (os.path.join(build_dir, "guestlib"), build_dir):
        path = os.path.join(d, name)
        if os.path.exists(path):
            return path
    return None


class Image:
    """Add files, then write()."""

    def __init__(self, kernel, build_dir=None):
        self.build_dir = build_dir
        self.kernel = kernel
        self.a = cpio.Archive()
        self.programs = []
        self._base()
        self._drivers()
        if build_dir:
            self._weft(build_dir)

    def _base(self):
        a = self.a
        for d in ("dev", "proc", "sys", "run", "root", "etc", "usr/bin", "usr/sbin", LIBDIR):
            a.directory(d)
        a.directory("tmp", 0o1777)
        for link in ("bin", "sbin", "lib"):
            a.symlink(link, f"usr/{link}")
        a.symlink("lib64", LIBDIR)
        a.device("dev/console", 5, 1)
        a.device("dev/null", 1, 3, 0o666)
        a.directory("home/user", 0o777)
        a.text("etc/passwd", PASSWD)
        a.text("etc/group", GROUP)
        a.text("etc/hosts", "127.0.0.1 localhost\n")
        a.file("init", os.path.join(HERE, "init"), 0o755)
        busybox = "/bin/busybox"
        try:
            applets = subprocess.run([busybox, "--list"], capture_output=True, text=True,
                                     check=True).stdout.split()
        except OSError as e:
            raise Error(f"busybox-static is missing: {e}") from e
        a.file("usr/bin/busybox", busybox)
        for name in applets:
            if name != "busybox":
                a.symlink(f"usr/bin/{name}", "busybox")
        for name in LIBRARIES:
            a.file(f"{LIBDIR}/{name}", library_path(name))
        a.file(f"{LIBDIR}/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2", 0o755)

    def _drivers(self):
        names = []
        for name, path in self.kernel.modules():
            self.a.file(f"usr/lib/modules/{name}.ko", path)
            names.append(name)
        self.a.text("usr/lib/modules/order", "\n".join(names) + "\n")

    def _weft(self, build_dir):
        agent = os.path.join(build_dir, "vm-images", "weft-guest-agent")
        if not os.path.exists(agent):
            raise Error(f"{agent} is not built")
        self.a.file("usr/sbin/weft-guest-agent", agent)
        for name in GUEST_LIBRARIES:
            path = find_guest_library(build_dir, name)
            if path:
                self.a.file(f"{LIBDIR}/{name}", path)

    def add_dir(self, source, where):
        """Puts a directory of the host, or one file, into the guest."""
        if os.path.isdir(source):
            self.a.tree(where, source)
        else:
            self.a.file(where, source)

    def add_program(self, path, where=None):
        """Puts a program in with the shared objects that it needs."""
        self.a.file(where or f"usr/bin/{os.path.basename(path)}", path, 0o755)
        self.programs.append(os.path.basename(where or path))
        for name, source in needed_libraries(path):
            target = f"{LIBDIR}/{name}"
            if target not in self.a.entries and name not in GUEST_LIBRARIES:
                self.a.file(target, source)

    def add_opengl(self):
        """Puts Mesa in, and weft-guest-gl of the build."""
        self.add_program(os.path.join(self.build_dir, "guestlib/weft-guest-gl"))
        for path in MESA:
            self.add_program(f"/{path}", path)
        self.a.file(EGL_VENDOR, f"/{EGL_VENDOR}")

    def write(self, path):
        listed = MOTD_PROGRAMS.format(", ".join(self.programs)) if self.programs else ""
        self.a.text("etc/motd", MOTD + listed)
        tmp = f"{path}.{os.getpid()}"
        with open(tmp, "wb") as f:
            self.a.write(f)
        os.rename(tmp, path)
