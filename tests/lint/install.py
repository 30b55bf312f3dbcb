#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installation by `meson install` is complete, holds nothing of the tests, and works.

    install.py BUILD PROGRAM

BUILD is installed to a directory of its own, and weft-run runs PROGRAM from there: with a
daemon of its own, and with one that was started.
"""
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

# Under the prefix; LIB is the one of the architecture.
WANTED = {
    "bin/weft-guest-check", "bin/weft-run", "bin/weft-vsock", "bin/weftctl", "sbin/weftd",
    "libexec/weft/weft-listener", "libexec/weft/weft-worker", "LIB/weft/libweft-profile.so",
    "libexec/weft/weft-guest-cdi", "libexec/weft/weft-guest-connect",
    "libexec/weft/weft-guest-gl",
    "libexec/weft/docker/nvidia-cdi-hook",
    "LIB/weft/libcuda.so", "LIB/weft/libcuda.so.1",
    "LIB/weft/libnvidia-ml.so", "LIB/weft/libnvidia-ml.so.1",
    "lib/systemd/system/weftd.service", "lib/systemd/system/weft-mps.service",
    "lib/systemd/system/weft-vsock@.service",
    "lib/systemd/system/weft-guest-cdi.service",
    "lib/systemd/system/weft-guest-connect.service",
    "lib/systemd/system/weft-guest-connect.socket",
    "lib/systemd/system/weft-guest-gl.service", "lib/systemd/system/weft-guest-gl.socket",
    "lib/systemd/system/weft-guest-gl-environment.service", "etc/profile.d/weft-guest-gl.sh",
    "lib/systemd/system/docker.service.d/weft-guest.conf",
    "lib/sysusers.d/weft.conf", "lib/tmpfiles.d/weft.conf",
    "lib/udev/rules.d/70-weft-window.rules",
    "sbin/weft-hook", "sbin/weft-mps", "etc/libvirt/hooks/qemu.d/weft",
    "lib/systemd/system/weft-hook@.service",
    *(f"share/weft/{name}" for name in ("weft-domain.rng", "apparmor-libvirtd", "policies/time.h",
                                         "weft-qemu.te")),
    "share/doc/weft/LICENSE", "share/doc/weft/apparmor", "share/doc/weft/weftd.conf",
    *(f"share/bash-completion/completions/{name}" for name in (
        "weft-guest-check", "weft-run", "weft-vsock", "weftctl", "weftd")),
    "share/zsh/site-functions/_weft",
    *(f"share/man/man{page[-1]}/{page}" for page in (
        "weft-guest-check.1", "weft-guest-connect.8", "weft-guest-gl.8", "weft-run.1", "weft-vsock.1", "weftctl.1",
        "weftd.conf.5", "weft-hook.8", "weft-mps.8", "weft-worker.8", "weftd.8")),
}
# Where there is libmicrohttpd.
EXPORTER = {"sbin/weft-exporter", "share/doc/weft/weft.json", "share/doc/weft/prometheus.yml",
            "share/man/man8/weft-exporter.8"}
# Where there is virglrenderer.
GL = {"libexec/weft/weft-gl"}
# Files that others add: service files; and one that is built where libvirt-dev is.
MORE = ("sbin/weft-libvirt", "lib/systemd/*", "lib/sysusers.d/*", "lib/tmpfiles.d/*")


def setting(build, name):
    out = subprocess.run(["meson", "introspect", build, "--buildoptions"], check=True,
                         capture_output=True, text=True).stdout
    return next(o["value"] for o in json.loads(out) if o["name"] == name)


def run(where, *argv, **env):
    """Nothing of the build or of this process's environment is there to help."""
    r = subprocess.run(argv, cwd=where, check=False, capture_output=True, text=True,
                       stdin=subprocess.DEVNULL, timeout=60,
                       env={"PATH": "/usr/bin:/bin", "HOME": where, **env})
    print(f"{r.returncode}: {' '.join(argv)}\n{r.stdout}{r.stderr}")
    return r


def check_files(prefix, lib):
    found = set()
    for folder, _, names in os.walk(prefix):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), prefix)
            found.add(path.replace(lib + "/", "LIB/", 1) if path.startswith(lib + "/weft/")
                      else path)
    more = {p for p in found - WANTED - EXPORTER - GL if any(fnmatch.fnmatch(p, m) for m in MORE)}
    wanted = WANTED | (EXPORTER if found & EXPORTER else set()) | (found & GL)
    broken = [p for p in found
              if not os.path.exists(os.path.join(prefix, p.replace("LIB/", lib + "/", 1)))]
    for path in broken:
        print(f"{path}: a link to nowhere")
    for path in sorted(wanted ^ (found - more)):
        print(f"{path}: {'not installed' if path in wanted else 'what is it for?'}")
    return found - more == wanted and not broken


def check_runs(prefix, program, where):
    weft_run = f"{prefix}/bin/weft-run"
    own = run(where, weft_run, "--device", "soft", "--", program)
    nvml = run(where, weft_run, "--device", "soft", "--", "/bin/sh", "-c",
               "echo $LD_LIBRARY_PATH")
    check = run(where, weft_run, "--device", "soft", "--", f"{prefix}/bin/weft-guest-check")
    conf = run(where, f"{prefix}/sbin/weftd", "--check-config", "--config",
               f"{prefix}/share/doc/weft/weftd.conf")
    return own.returncode == 0 and "PASS" in own.stdout and conf.returncode == 0 and \
        check.returncode == 0 and \
        os.path.exists(nvml.stdout.strip() + "/libnvidia-ml.so.1")


def check_daemon(prefix, program, where):
    control = f"{where}/d/control"
    with subprocess.Popen([f"{prefix}/sbin/weftd", "--config", "/dev/null", "--run-dir",
                           f"{where}/d", "--device", "soft"],
                          env={"PATH": "/usr/bin:/bin"}) as d:
        try:
            deadline = time.monotonic() + 30
            while not os.path.exists(control) and time.monotonic() < deadline:
                time.sleep(0.05)
            r = run(where, f"{prefix}/bin/weft-run", "--control", control, "--", program)
            down = run(where, f"{prefix}/bin/weftctl", "--control", control, "shutdown")
            return r.returncode == 0 and down.returncode == 0 and d.wait(30) == 0
        finally:
            if d.poll() is None:
                d.send_signal(signal.SIGKILL)


def main(build, program):
    program = os.path.abspath(program)
    with tempfile.TemporaryDirectory(prefix="weft-install-") as where:
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet",
                        "--destdir", where], check=True)
        prefix = where + setting(build, "prefix")
        checks = (check_files(prefix, setting(build, "libdir")),
                  check_runs(prefix, program, where),
                  check_daemon(prefix, program, where))
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
