# SPDX-License-Identifier: Apache-2.0
"""The guest's kernel: Debian's cloud kernel, as packaged, taken apart in a cache."""
import glob
import os
import re
import subprocess
import tempfile

META_PACKAGE = "linux-image-cloud-amd64"

# In the order in which they are loaded; initramfs-tools and udev find them by themselves.
MODULES = (
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci",
    "vsock", "vmw_vsock_virtio_transport_common", "vmw_vsock_virtio_transport",
    "fuse", "virtiofs",
)


class Error(Exception):
    """Something outside did not work; the text says what."""


def cache_dir():
    base = os.environ.get("WEFT_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weft")
    os.makedirs(base, exist_ok=True)
    return base


def resolve():
    """The package that the meta package of today stands for."""
    r = subprocess.run(["apt-cache", "depends", META_PACKAGE], capture_output=True, text=True,
                       check=False)
    found = re.search(r"Depends: (linux-image-\S+)", r.stdout)
    return found.group(1) if found else None


def newest_cached():
    dirs = glob.glob(os.path.join(cache_dir(), "kernel", "linux-image-*"))
    return max(dirs, key=os.path.getmtime) if dirs else None


def fetch():
    """Returns the directory of the unpacked package, downloading it once."""
    package = resolve()
    if not package:
        cached = newest_cached()
        if cached:
            return cached
        raise Error(f"apt does not know {META_PACKAGE}; run apt-get update as root")
    base = os.path.join(cache_dir(), "kernel")
    final = os.path.join(base, package)
    if os.path.isdir(final):
        return final
    os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base, prefix="download-") as tmp:
        # apt drops to its own user for the download where it may.
        os.chmod(tmp, 0o777)
        r = subprocess.run(["apt-get", "download", "-q", package], cwd=tmp, text=True,
                           capture_output=True, check=False)
        debs = glob.glob(os.path.join(tmp, "*.deb"))
        if r.returncode != 0 or len(debs) != 1:
            cached = newest_cached()
            if cached:
                return cached
            raise Error(f"cannot download {package}: {r.stderr.strip()}\n"
                        "apt's lists may be old: run apt-get update as root")
        root = os.path.join(tmp, "root")
        subprocess.run(["dpkg-deb", "-x", debs[0], root], check=True)
        try:
            os.rename(root, final)
        except OSError:
            if not os.path.isdir(final):  # somebody else was faster, if it is
                raise
    return final


class Kernel:
    def __init__(self, root=None):
        self.root = root or fetch()
        images = glob.glob(os.path.join(self.root, "boot", "vmlinuz-*"))
        if not images:
            raise Error(f"no kernel under {self.root}")
        self.image = images[0]
        self.version = os.path.basename(self.image).removeprefix("vmlinuz-")

    def modules(self):
        """(name, path) of each module to load, in order."""
        top = os.path.join(self.root, "lib", "modules", self.version, "kernel")
        found = {}
        for where, _, files in os.walk(top):
            for f in files:
                if f.endswith(".ko"):
                    found[f.removesuffix(".ko").replace("-", "_")] = os.path.join(where, f)
        missing = [m for m in MODULES if m not in found]
        if missing:
            raise Error(f"kernel {self.version} has no module {', '.join(missing)}")
        return [(m, found[m]) for m in MODULES]
