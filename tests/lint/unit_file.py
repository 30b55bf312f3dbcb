#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The services: systemd knows all that is in them, and weftd's says what weftd itself keeps."""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def capabilities(text, pattern):
    return set(re.findall(pattern, text))


def main(top):
    with open(os.path.join(top, "hostd/weftd.service.in"), encoding="utf-8") as f:
        unit = f.read()
    with open(os.path.join(top, "hostd/broker/main.c"), encoding="utf-8") as f:
        kept = capabilities(f.read(), r"SANDBOX_CAP\((CAP_\w+)\)")
    line = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.M).group(1)
    if set(line.split()) != kept:
        sys.exit(f"weftd.service.in: CapabilityBoundingSet is {line}, weftd keeps {sorted(kept)}")
    if not shutil.which("systemd-analyze"):
        print("SKIP: no systemd-analyze here")
        sys.exit(77)
    verify("weftd.service", unit)
    with open(os.path.join(top, "hostd/exporter/weft-exporter.service.in"),
              encoding="utf-8") as f:
        verify("weft-exporter.service", f.read())
    with open(os.path.join(top, "hostd/mps/weft-mps.service.in"), encoding="utf-8") as f:
        verify("weft-mps.service", f.read())
    for source, name in (("weft-libvirt", "weft-libvirt"), ("weft-hook@", "weft-hook@vm1")):
        with open(os.path.join(top, f"hostd/libvirt/{source}.service.in"), encoding="utf-8") as f:
            verify(f"{name}.service", f.read())


def verify(name, unit):
    with tempfile.TemporaryDirectory() as where:
        # A program that is there stands for the ones that need not be installed.
        for program in ("weftd", "nvidia-modprobe", "weft-exporter", "weft-hook", "weft-libvirt",
                        "weft-mps"):
            shutil.copy("/bin/true", os.path.join(where, program))
        path = os.path.join(where, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(unit.replace("@sbindir@", where).replace("/usr/bin/nvidia-modprobe",
                                                             where + "/nvidia-modprobe"))
        r = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True,
                           text=True, check=False)
        said = [line for line in r.stderr.splitlines() if name in line or where in line]
        if r.returncode or said:
            sys.exit("\n".join(said) or r.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
