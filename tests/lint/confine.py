#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines for AppArmor and SELinux are what their compilers take, and AppArmor's path is that of
the sockets that the hook makes for QEMU."""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def read(top, name):
    with open(os.path.join(top, "hostd/libvirt", name), encoding="utf-8") as f:
        return f.read()


def compiles(command, path):
    r = subprocess.run([*command, path], capture_output=True, text=True, check=False,
                       cwd=os.path.dirname(path))
    if r.returncode:
        print(f"{' '.join(command)} {os.path.basename(path)}\n{r.stdout}{r.stderr}")
    return r.returncode == 0


def main(top):
    run_dir = re.search(r'#define PLACE_RUN "(.*)"', read(top, "place.h"))[1]
    lines = read(top, "../install/apparmor")
    good = f"\n{run_dir}/*.vsock rw,\n" in lines
    if not good:
        print(f"install/apparmor does not allow {run_dir}/*.vsock")
    tried = 0
    with tempfile.TemporaryDirectory() as where:
        if shutil.which("apparmor_parser"):
            with open(f"{where}/profile", "w", encoding="utf-8") as f:
                f.write(f"profile weft-test {{\n{lines}{read(top, 'apparmor-libvirtd')}}}\n")
            good &= compiles(["apparmor_parser", "-Q", "-K"], f"{where}/profile")
            tried += 1
        if shutil.which("checkmodule"):
            shutil.copy(os.path.join(top, "hostd/libvirt/weft-qemu.te"), where)
            good &= compiles(["checkmodule", "-M", "-m", "-o", "weft-qemu.mod"],
                             f"{where}/weft-qemu.te")
            tried += 1
    if good and tried < 2:
        print("SKIP: no apparmor_parser or no checkmodule here (vm-images/install-packages)")
        return 77
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
