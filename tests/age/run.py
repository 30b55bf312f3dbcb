#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Libraries and hosts of different releases run programs with one another.

usage: run.py TOP BUILD NINJA VERSION ASKS RECORDED API-FILE... -- PROGRAM...

Three kinds of ends: this tree's (the build directory), those of a next release that is made up
(next.py), and those of each release that is still served: this tree's sources with the messages
that were recorded for it, or, where the sources use what it did not have, the sources of its git
tag. Ends are compiled anew only where messages matter to them.
"""

import errno
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(sys.argv[1], "transport/gen"))
import ends  # noqa: E402
import next as next_release  # noqa: E402
import older  # noqa: E402
import release  # noqa: E402

TIMEOUT = 100


def expect(cond, what):
    if not cond:
        sys.exit(f"FAIL: {what}")


class Host:
    """A weftd on the software device for one library and one worker."""

    def __init__(self, weft_run):
        self.bin = os.path.dirname(weft_run)
        self.weft_run = weft_run
        self.dir = tempfile.mkdtemp(prefix="weft-age-")
        self.log_path = os.path.join(self.dir, "log")
        self.control = os.path.join(self.dir, "control")
        ready, write = os.pipe()
        hold, self.lifeline = os.pipe()
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [os.path.join(self.bin, "weftd"), "--config", "/dev/null", "--run-dir", self.dir,
                 "--device", "soft", "--memory", "512M", "--pool", "1", "--ready-fd", str(write),
                 "--lifeline-fd", str(hold)],
                stderr=log, stdin=subprocess.DEVNULL, pass_fds=(write, hold),
                env={**os.environ, "WEFT_LOG": "warning"})
        os.close(write)
        os.close(hold)
        expect(os.read(ready, 1), f"weftd does not start: {self.log()}")
        os.close(ready)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def expect_log(self, *texts):
        """Lines of listeners and workers come through weftd, a moment later."""
        until = time.monotonic() + TIMEOUT
        while not any(all(t in line for t in texts) for line in self.log().splitlines()):
            expect(time.monotonic() < until, f"{texts} is not in the log: {self.log()}")
            time.sleep(0.05)

    def run(self, *program, **env):
        return subprocess.run([self.weft_run, "--control", self.control, "--", *program],
                              capture_output=True, text=True, timeout=TIMEOUT, check=False,
                              env={**os.environ, **env})

    def info(self, weftctl):
        out = subprocess.run([weftctl, "--control", self.control, "--json", "info"], check=True,
                             capture_output=True, text=True, timeout=TIMEOUT).stdout
        return json.loads(out)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        os.close(self.lifeline)
        self.process.wait(TIMEOUT)
        shutil.rmtree(self.dir, ignore_errors=True)


def run_programs(host, programs):
    for carrier in ("", "stream"):
        for p in programs[:None if not carrier else 2]:
            r = host.run(p, WEFT_CARRIER=carrier)
            expect(r.returncode == 0 and "PASS" in r.stdout, f"{p}: {r.stdout}{r.stderr}")
            expect("upgrade" not in r.stderr, f"{p} warns: {r.stderr}")


def warnings(text):
    return [s for s in text.splitlines() if "upgrade" in s]


def check_refused(host, r, what, ctl, versions):
    """One sentence in the program, one in the log, one line of weftctl: all with both versions."""
    lines = warnings(r.stderr)
    expect(len(lines) == 1, f"one warning: {r.stderr}")
    for text in (what, *versions, "upgrade Weft on the host"):
        expect(text in lines[0], f"'{text}' is not in: {lines[0]}")
    said = f"{what}: library {versions[0]}, host {versions[1]}"
    host.expect_log(said, "upgrade Weft on the host")
    refused = [(f["kind"], f["what"]) for f in host.info(ctl)["refused"]]
    expect(("version", said) in refused, f"{said} is not in {refused}")


def newer_guest(host, asks, ctl, versions):
    """Checks that what the host does not know is refused by name, once, and the rest works."""
    r = host.run(asks, "next", "21")
    expect("next: CUDA_ERROR_NOT_SUPPORTED 0" in r.stdout and "PASS" in r.stdout,
           r.stdout + r.stderr)
    check_refused(host, r, "cuWeftNext", ctl, versions)
    r = host.run(asks, "launch")
    expect(r.stdout.count("launch: CUDA_SUCCESS 77") == 2 and not warnings(r.stderr),
           r.stdout + r.stderr)
    r = host.run(asks, "launch", WEFT_TEST_PAINT="1")
    expect(r.stdout.count("launch: CUDA_ERROR_NOT_SUPPORTED 0") == 2 and "PASS" in r.stdout,
           r.stdout + r.stderr)
    check_refused(host, r, "launch_kernel", ctl, versions)


def newest_pair(host, asks):
    """The next release with itself: what is new there is really there."""
    r = host.run(asks, "next", "21")
    expect("next: CUDA_SUCCESS 42" in r.stdout and "PASS" in r.stdout, r.stdout + r.stderr)
    for paint, result in (("1", "CUDA_SUCCESS 77"), ("2", "CUDA_ERROR_INVALID_VALUE")):
        r = host.run(asks, "launch", WEFT_TEST_PAINT=paint)
        expect(f"launch: {result}" in r.stdout, r.stdout + r.stderr)
        expect(not warnings(r.stderr), r.stderr)


HELLO = struct.Struct("<IHHII16sII24s")
WELCOME = struct.Struct("<IHHiBBH16sQQQQQQQ")
MAGIC = 0x54464557


def older_protocol(host, ctl):
    """A library that speaks a version before the lowest is told, and so is the operator."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(TIMEOUT)
    s.connect(os.path.join(host.dir, "weft.sock"))
    s.sendall(HELLO.pack(MAGIC, 2, 0, 1, 1, bytes(16), 1, 0, b"old"))
    welcome = WELCOME.unpack(s.recv(WELCOME.size, socket.MSG_WAITALL))
    expect(welcome[0] == MAGIC and welcome[1] > 2 and welcome[3] == -errno.EPROTONOSUPPORT, welcome)
    expect(s.recv(1) == b"", "the host closes")
    said = f"a guest's library speaks version 2 of the protocol, this host {welcome[1]}"
    host.expect_log(said, "upgrade libcuda.so.1")
    refused = [(f["kind"], f["what"]) for f in host.info(ctl)["refused"]]
    line = f"library of protocol 2, host {welcome[1]} to {welcome[1]}"
    expect(("version", line) in refused, refused)


def foreign_protocol(library, asks, version, who):
    """A program on a host that speaks another version says both, and who is to be upgraded."""
    with tempfile.TemporaryDirectory(prefix="weft-age-") as folder:
        path = os.path.join(folder, "s")
        s = socket.socket(socket.AF_UNIX)
        s.bind(path)
        s.listen()
        s.settimeout(TIMEOUT)
        with subprocess.Popen([asks, "launch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env={**os.environ, "LD_LIBRARY_PATH": library,
                                              "WEFT_HOST": f"unix:{path}"}) as p:
            guest = s.accept()[0]
            ours = HELLO.unpack(guest.recv(HELLO.size, socket.MSG_WAITALL))[1]
            guest.sendall(WELCOME.pack(MAGIC, ours + version, 0, -errno.EPROTONOSUPPORT, 0, 0, 0,
                                       bytes(16), *[0] * 7))
            guest.close()
            out, err = p.communicate(timeout=TIMEOUT)
        said = (f"the host speaks version {ours + version} of the protocol, this library {ours}: "
                f"upgrade {who}")
        expect("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in out and said in err, out + err)


def next_ends(build, version, api_files, folder):
    e = ends.Ends(build, os.path.join(folder, "next"), next_release.VERSION)
    api = os.path.join(folder, "next-api")
    os.makedirs(api)
    with open(os.path.join(build.build, "transport/ops.h"), encoding="utf-8") as f:
        next_op = int(re.search(r"WIRE_NUM_OPS = (\d+)", f.read()).group(1))
    e.api_files = next_release.write_api(api_files, next_op, api)
    e.generate(e.api_files)
    next_release.edit_sources(e)
    return e.guest().host()


def main(argv):
    cut = argv.index("--")
    top, build_dir, ninja, version, asks, recorded = argv[:6]
    api_files, programs = argv[6:cut], argv[cut + 1:]
    build = ends.Build(top, build_dir, ninja)
    ctl = os.path.join(build_dir, "hostd/weftctl")
    with tempfile.TemporaryDirectory(prefix="weft-age-") as folder:
        n = iter(range(100))

        def meet(guest, host):
            return Host(ends.pair(build, guest, host, os.path.join(folder, f"pair{next(n)}")))

        newer = next_ends(build, version, api_files, folder)
        with meet(newer, None) as host:
            older_protocol(host, ctl)
            newer_guest(host, asks, ctl, (next_release.VERSION, version))
            run_programs(host, programs)
        print("PASS a library of the next release, this host")
        with meet(None, newer) as host:
            run_programs(host, programs)
        print("PASS this library, a host of the next release")
        with meet(newer, newer) as host:
            newest_pair(host, asks)
        print("PASS both of the next release")
        library = os.path.join(build_dir, "guestlib")
        foreign_protocol(library, asks, 1, "libcuda.so.1 and libnvidia-ml.so.1 here")
        foreign_protocol(library, asks, -1, "Weft on the host")
        print("PASS hosts of other protocols")
        older.check_reduction(recorded, newer.api_files, os.path.join(folder, "reduced"))
        for v in release.served(recorded, version):
            e = older.ends_of(build, v, recorded, api_files, os.path.join(folder, v))
            if e is None:
                continue
            with meet(e, None) as host:
                run_programs(host, programs)
            with meet(None, e) as host:
                run_programs(host, programs)
            print(f"PASS {v}, with this library and this host")


if __name__ == "__main__":
    main(sys.argv[1:])
