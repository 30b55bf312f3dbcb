# SPDX-License-Identifier: Apache-2.0
"""Ends of a release before: this tree's sources with the messages that were recorded for it. If
they use what it did not have and so do not compile, the sources of its git tag."""

import os
import re
import subprocess
import sys

import ends
import release
from emit_record import field_line, record_text
from parse import parse


def reduced(text, ops, records, api):
    """A description without what came after a release: operations, fields, records."""
    out, keep, was = [], True, None
    for line in text.splitlines(keepends=True):
        words = line.split("#")[0].split()
        if words and words[0] in ("msg", "fn", "record", "type", "group"):
            keep, was = True, None
            entry = api.find(words[1]) if words[0] in ("msg", "fn") else None
            if words[0] == "record":
                keep = words[1] in records
            elif entry and entry.on_wire:
                was = ops.get(entry.op, (None, None, None))[2]
                keep = was is not None
                if not keep and words[0] == "fn":
                    since = re.search(r"since \d+", line).group(0)
                    pt = re.search(r" (ptsz|ptds)\b", line)
                    out.append(f"fn {words[1]} none{pt.group(0) if pt else ''} {since}\n")
        elif words and was is not None and words[0].rstrip("?") in ("in", "out", "inout"):
            field = next(f for f in entry.fields
                         if re.search(rf"\b{f.name}\b", " ".join(words[2:])))
            if field_line(field).strip() not in was:
                continue
        if keep:
            out.append(line)
    return "".join(out)


def description(version, recorded, api_files, folder):
    """Writes the release's descriptions; their paths, or None if they are those given."""
    old = release.Description(release.read(os.path.join(recorded, version + ".txt")))
    api = parse(api_files)
    names = {t.split()[1] for t in old.things if t.startswith("record ")}
    out = []
    for path in api_files:
        out.append(os.path.join(folder, os.path.basename(path)))
        with open(out[-1], "w", encoding="utf-8") as f:
            f.write(reduced(release.read(path), old.ops, names, api))
    text = record_text(parse(out))
    if release.Description(text).ops != old.ops:
        raise RuntimeError(f"release {version}: what is left is not what was recorded:\n{text}")
    return None if text == record_text(api) else out


def check_reduction(recorded, api_files, folder):
    """Without what is new, a newer release's descriptions are those recorded: nothing is lost."""
    os.makedirs(folder)
    newest = release.recorded(recorded)[-1]
    if description(newest, recorded, api_files, folder) is None:
        raise RuntimeError("the newer release has nothing new")


def tagged(build, version, folder):
    """A build of the tag's own sources, as ends; None if this clone has no such tag."""
    tag = f"v{version}"
    archive = subprocess.run(["git", "-C", build.top, "archive", tag], capture_output=True,
                             check=False)
    if archive.returncode:
        return None
    source = os.path.join(folder, "source")
    os.makedirs(source)
    subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
    made = os.path.join(folder, "build")
    ends.run("meson", "setup", "-Dbuildtype=debug", made, source)
    ends.run(build.ninja, "-C", made, "guestlib/libcuda.so.1", "hostd/weft-worker")
    return type("Tagged", (), {"folder": made})


def ends_of(build, version, recorded, api_files, folder):
    """The release's library and worker; None, and why on the output, if there is nothing to be
    built: they would be this tree's."""
    api = os.path.join(folder, "api")
    os.makedirs(api)
    files = description(version, recorded, api_files, api)
    if files is None:
        print(f"{version}: its messages are this tree's, so its ends are the build's")
        return None
    e = ends.Ends(build, folder, version)
    e.generate(files)
    try:
        return e.guest().host()
    except RuntimeError as why:
        made = tagged(build, version, folder)
        if made is None:
            sys.exit(f"{version}: this tree's sources use what it did not have, and this clone "
                     f"has no tag v{version} (git fetch --tags): {str(why)[-2000:]}")
        return made
