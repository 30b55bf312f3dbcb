# SPDX-License-Identifier: Apache-2.0
"""Files of a Debian package, where it puts them, out of a build that has built no package."""
import fnmatch
import os
import shutil
import subprocess
import tempfile

from harness import TOP, check

PREFIX = "usr/"


def staged(build_dir, where):
    """Files that meson installs, by their paths below the prefix."""
    subprocess.run(["meson", "install", "-C", build_dir, "--no-rebuild", "--quiet", "--destdir",
                    where], check=True, stdin=subprocess.DEVNULL)
    for folder, _, names in os.walk(where):
        for name in names:
            path = os.path.join(folder, name)
            yield os.path.relpath(path, where).removeprefix("usr/local/"), path


def rows(package):
    """(pattern, folder or "") of the package's list, which dh_install reads."""
    name = os.path.join(TOP, "hostd/package/debian", f"{package}.install")
    with open(name, encoding="utf-8") as f:
        for line in f:
            words = line.split()
            if words:
                yield words[0].removeprefix(PREFIX), words[1] if words[1:] else ""


def targets(files, pattern, folder):
    """(path in the package, file) of what a row of the list names, folders with all in them."""
    for rel, path in files:
        if fnmatch.fnmatch(rel, pattern):
            below = os.path.basename(rel)
        elif rel.startswith(pattern + "/"):
            below = os.path.relpath(rel, os.path.dirname(pattern))
        else:
            continue
        yield os.path.join(folder, below) if folder else PREFIX + rel, path


def contents(build_dir, package, where):
    """(path in the package, file below where) of all. A row that names nothing is a mistake."""
    files = list(staged(build_dir, where))
    for pattern, folder in rows(package):
        found = list(targets(files, pattern, folder))
        check(found, f"{package}.install: {pattern} is not installed")
        for target, path in found:
            # Debian's lib is a link to usr/lib.
            yield "usr/" + target if target.startswith("lib/") else target, path


def add_to(img, build_dir, package):
    """Puts the package's files into an image."""
    with tempfile.TemporaryDirectory(prefix="weft-packaged-") as where:
        for target, path in contents(build_dir, package, where):
            img.a.file(target, path)


def unpack(build_dir, package, to):
    """Puts the package's files below a directory, units with the paths that they have there."""
    with tempfile.TemporaryDirectory(prefix="weft-packaged-") as where:
        for target, path in contents(build_dir, package, where):
            new = os.path.join(to, target)
            os.makedirs(os.path.dirname(new), exist_ok=True)
            if not target.endswith(".service"):
                shutil.copy(path, new, follow_symlinks=False)
                continue
            with open(path, encoding="utf-8") as old, open(new, "w", encoding="utf-8") as f:
                f.write(old.read().replace("/usr/local/", "/usr/"))
