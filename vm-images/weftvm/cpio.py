# SPDX-License-Identifier: Apache-2.0
"""Archives that the kernel unpacks as its first root file system.

Reproducible: the same files give the same bytes. Names are sorted, everybody is root, and
every time is SOURCE_DATE_EPOCH (0 unless set).
"""
import os
import stat

# The format's header: "070701" and 13 numbers of 8 hexadecimal digits.
MAGIC = "070701"
TRAILER = "TRAILER!!!"


def pad4(data):
    return data + b"\0" * (-len(data) % 4)


class Archive:
    """Collects files, then writes them all. Later entries replace earlier ones."""

    def __init__(self):
        self.entries = {}

    def _parents(self, name):
        parts = name.split("/")[:-1]
        for i in range(1, len(parts) + 1):
            self.entries.setdefault("/".join(parts[:i]), (stat.S_IFDIR | 0o755, b"", 0))

    def _put(self, name, mode, data=b"", rdev=0):
        name = os.path.normpath(name).lstrip("/")
        if name in ("", "."):
            return
        self._parents(name)
        self.entries[name] = (mode, data, rdev)

    def directory(self, name, mode=0o755):
        self._put(name, stat.S_IFDIR | mode)

    def symlink(self, name, target):
        self._put(name, stat.S_IFLNK | 0o777, target.encode())

    def device(self, name, major, minor, mode=0o600):
        self._put(name, stat.S_IFCHR | mode, b"", (major, minor))

    def text(self, name, text, mode=0o644):
        self._put(name, stat.S_IFREG | mode, text.encode())

    def file(self, name, source, mode=None):
        """Copies a file of the host, following symbolic links."""
        with open(source, "rb") as f:
            data = f.read()
            if mode is None:
                mode = 0o755 if os.fstat(f.fileno()).st_mode & 0o111 else 0o644
        self._put(name, stat.S_IFREG | mode, data)

    def tree(self, name, source):
        """Copies a directory of the host with its links; sockets and devices are left out."""
        self.directory(name)
        for where, dirs, files in os.walk(source):
            there = os.path.join(name, os.path.relpath(where, source))
            for d in dirs:
                path = os.path.join(where, d)
                if os.path.islink(path):
                    self.symlink(os.path.join(there, d), os.readlink(path))
                else:
                    self.directory(os.path.join(there, d))
            for f in files:
                path = os.path.join(where, f)
                if os.path.islink(path):
                    self.symlink(os.path.join(there, f), os.readlink(path))
                elif os.path.isfile(path):
                    self.file(os.path.join(there, f), path)

    def write(self, out):
        mtime = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
        for ino, name in enumerate(sorted(self.entries), 1):
            mode, data, rdev = self.entries[name]
            write_entry(out, name, ino, mode, data, rdev or (0, 0), mtime)
        write_entry(out, TRAILER, 0, 0, b"", (0, 0), 0)


def write_entry(out, name, ino, mode, data, rdev, mtime):
    raw = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    numbers = (ino, mode, 0, 0, links, mtime, len(data), 0, 0, *rdev, len(raw), 0)
    header = MAGIC + "".join(f"{n:08x}" for n in numbers)
    out.write(pad4(header.encode() + raw))
    out.write(pad4(data))
