# SPDX-License-Identifier: Apache-2.0
"""The guest's kernel: Debian's cloud kernel, as packaged, taken apart in a cache."""
import glob
import os
import re
import subprocess

from . import debian

META_PACKAGE = "linux-image-cloud-amd64"

# In the order in which they are loaded; initramfs-tools and udev find them by themselves.
MODULES = (
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci",
    "vsock", "vmw_vsock_virtio_transport_common", "vmw_vsock_virtio_transport",
    "fuse", "virtiofs",
)


def resolve():
    """The package that the meta package of today stands for."""
    r = subprocess.run(["apt-cache", "depends", META_PACKAGE], capture_output=True, text=True,
                       check=False)
    found = re.search(r"Depends: (linux-image-\S+)", r.stdout)
    return found.group(1) if found else None


def fetch():
    """Returns the directory of the unpacked package, downloading it once."""
    package = resolve()
    cached = debian.newest_cached("kernel", "linux-image-*")
    if not package and not cached:
        raise debian.Error(f"apt does not know {META_PACKAGE}; run apt-get update as root")
    if not package:
        return cached
    try:
        return debian.unpack("kernel", package)
    except debian.Error:
        if not cached:
            raise
        return cached


class Kernel:
    def __init__(self, root=None):
        self.root = root or fetch()
        images = glob.glob(os.path.join(self.root, "boot", "vmlinuz-*"))
        if not images:
            raise debian.Error(f"no kernel under {self.root}")
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
            raise debian.Error(f"kernel {self.version} has no module {', '.join(missing)}")
        return [(m, found[m]) for m in MODULES]
