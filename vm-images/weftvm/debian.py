# SPDX-License-Identifier: Apache-2.0
"""Files of Debian packages, downloaded and unpacked in a cache, not installed."""
import glob
import os
import subprocess
import tempfile


class Error(Exception):
    """Something outside did not work; the text says what."""


def cache_dir():
    base = os.environ.get("WEFT_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weft")
    os.makedirs(base, exist_ok=True)
    return base


def newest_cached(kind, pattern):
    """The directory of a package that was unpacked before; None: there is none."""
    dirs = glob.glob(os.path.join(cache_dir(), kind, pattern))
    return max(dirs, key=os.path.getmtime) if dirs else None


def unpack(kind, package):
    """Returns the directory of the unpacked package, below kind in the cache; downloads it once."""
    base = os.path.join(cache_dir(), kind)
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
