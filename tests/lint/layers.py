#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include rules: arrows point one way (guestlib -> transport <- hostd).

Each directory lists what it may include besides itself and the system. Includes are read
from the sources; a file that breaks a rule is named with its line. In guestlib, moreover,
driver functions are defined, called and otherwise named in api/ alone.
"""
import os
import re
import sys


def rooms(top, names, *below):
    """Rows of rooms, from the bottom: each may use itself, the ones before it and below."""
    return {f"{top}/{name}": [f"{top}/{n}" for n in names[:i + 1]] + list(below)
            for i, name in enumerate(names)}


# guestlib's, from the bottom
ROOMS = ("core", "object", "code", "copy", "graph", "api")
# directory -> prefixes of include paths or directories it may use
ALLOWED = {
    "transport/base": ["transport/base"],
    "transport": ["transport"],
    "guestlib/nvml": ["guestlib/nvml", "guestlib/core", "transport"],
    "guestlib/check": ["guestlib/check", "guestlib/gl/probe.h", "transport"],
    "guestlib/connect": ["transport"],
    "guestlib/gl": ["guestlib/gl", "transport"],
    **rooms("guestlib", ROOMS, "transport"),
    "policies": ["policies"],
    "qemu-device": ["qemu-device", "transport", "hostd/util"],
    "hostd/ptx": ["hostd/ptx", "transport/base"],
    "hostd/simt": ["hostd/simt", "hostd/ptx", "transport/base"],
    "hostd/util": ["hostd/util", "policies", "transport"],
    "hostd/ipc": ["hostd/ipc", "hostd/util", "transport"],
    "hostd/broker": ["hostd/broker", "hostd/ipc", "hostd/util", "policies", "transport"],
    "hostd/listener": ["hostd/listener", "hostd/ipc", "hostd/util", "transport"],
    "hostd/exporter": ["hostd/exporter", "hostd/tools/client.h", "hostd/util", "transport/base"],
    "hostd/libvirt": ["hostd/libvirt", "hostd/tools/client.h", "hostd/util", "transport"],
    "hostd/tools": ["hostd/tools", "hostd/libvirt", "hostd/ipc", "hostd/util", "transport"],
    # Within the program, above the driver.
    "hostd/profile": ["hostd/profile", "hostd/ptx", "guestlib/core/image.h", "transport/base"],
    "hostd/worker": ["hostd/worker", "hostd/device", "hostd/ipc", "hostd/memory",
                     "hostd/session/session.h", "hostd/session/gate.h",
                     "hostd/session/footprint.h", "hostd/util", "policies", "transport"],
    "hostd/gl": ["hostd/gl", "hostd/ipc", "hostd/util", "hostd/worker/broker_link.h",
                 "hostd/worker/window.h", "transport"],
    "hostd/device": ["hostd/device", "hostd/simt", "hostd/ptx", "hostd/ipc/runlist.h", "hostd/util", "transport"],
    "hostd/memory": ["hostd/memory", "hostd/device", "hostd/ipc", "hostd/ptx/extent/extent.h",
                     "hostd/util", "transport", "policies"],
    "hostd/graph": ["hostd/graph", "hostd/device", "transport/base"],
    "hostd/session": ["hostd/session", "hostd/memory", "hostd/device", "hostd/ipc",
                      "hostd/ptx/extent/table.h", "hostd/util", "transport"],
    "hostd/dispatch": ["hostd/dispatch", "hostd/session", "hostd/graph", "hostd/memory", "hostd/device", "hostd/ipc", "transport"],
    "hostd": ["hostd", "transport", "policies"],
}
# Inner functions neither are driver functions nor call any: those check, enter and capture.
BELOW_API = tuple("guestlib/" + name for name in ROOMS[:-1])
# Only the device that is the real driver may know it; only these may see cuda.h at all.
CUDA_H = ("guestlib", "hostd/device", "hostd/dispatch", "hostd/session", "hostd/memory",
          "hostd", "transport/gen")
NO_CUDA_H = ("hostd/broker", "hostd/listener", "hostd/ipc", "hostd/libvirt", "hostd/tools", "hostd/exporter", "hostd/util", "hostd/ptx",
             "hostd/simt", "transport", "qemu-device", "policies")


def longest(table, path):
    best = None
    for key in table:
        if (path == key or path.startswith(key + "/")) and (not best or len(key) > len(best)):
            best = key
    return best


def driver_functions(top, rel):
    """Driver functions that a file names, and on which line; messages of the same name are none."""
    with open(os.path.join(top, rel), encoding="utf-8") as f:
        text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"',
                      lambda m: re.sub(r"[^\n]", " ", m.group(0)), f.read(), flags=re.S)
    for m in re.finditer(r"\bcu[A-Z]\w*", text):
        if not re.search(r"_(?:cmd|rep|reply)(?:_|$)", m.group(0)):
            yield text.count("\n", 0, m.start()) + 1, m.group(0)


def main(top):
    sources, by_name = [], {}
    for directory in ("transport", "guestlib", "hostd", "qemu-device", "policies"):
        for root, _, files in os.walk(os.path.join(top, directory)):
            for f in files:
                if f.endswith((".c", ".h")):
                    rel = os.path.relpath(os.path.join(root, f), top)
                    sources.append(rel)
                    by_name.setdefault(f, []).append(rel)
    errors = 0
    for rel in sorted(sources):
        owner = longest(ALLOWED, os.path.dirname(rel))
        if owner in BELOW_API:
            for number, name in driver_functions(top, rel):
                print(f"{rel}:{number}: {name} is defined or called below guestlib/api")
                errors += 1
        with open(os.path.join(top, rel), encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                m = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
                if not m:
                    continue
                name = m.group(2)
                if name in ("cuda.h", "cuda_runtime.h", "cudaTypedefs.h"):
                    if owner in NO_CUDA_H:
                        print(f"{rel}:{number}: {owner} must not know {name}")
                        errors += 1
                    continue
                if m.group(1) == "<":
                    continue
                targets = [c for c in by_name.get(os.path.basename(name), [])
                           if ("/" + c).endswith("/" + name)]
                if not targets:
                    continue  # generated
                if not any(t == p or t.startswith(p + "/") for t in targets for p in ALLOWED[owner]):
                    print(f"{rel}:{number}: {owner} must not include {name} ({targets[0]})")
                    errors += 1
    if not sources:
        print("no sources found")
        return 1
    print(f"{len(sources)} files, {errors} broken include rules")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
