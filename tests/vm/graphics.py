#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Programs that draw in two VMs at once, beside CUDA programs, with the Mesa of the distribution:
their pictures are those of the host's rasteriser, one VM with a window and one without.

    graphics.py BUILD
"""
import hashlib
import os
import re
import subprocess
import sys
import time

import harness
from harness import check, patient
from weftvm import daemon, image

BOOT_SECONDS = 90
DRAW_SECONDS = 240
VMS = ("one", "two")
SOCKET = "/tmp/.virgl_test"
DRAWS = ("GALLIUM_DRIVER=virpipe", "LIBGL_ALWAYS_SOFTWARE=true")
CUDA = ("tests/path/vector_add", "tests/path/reduce_scan")


def lacks(build_dir):
    """The first file that is not here, or None."""
    scenes = f"{build_dir}/tests/gl/gl_scenes"
    return image.lacks_opengl(build_dir) or (None if os.path.exists(scenes) else scenes)


def make_image(b, build_dir):
    img = image.Image(b.kernel, build_dir)
    for name in ("tests/gl/gl_scenes", "tests/gl/gl_grab", "guestlib/weft-guest-check", *CUDA):
        img.add_program(os.path.join(build_dir, name))
    img.add_opengl()
    img.write(b.initrd)


def digest_of(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def ok(job):
    text = job.out.decode(errors="replace")
    check(job.status == 0, f"{job.status}: {text[-800:]}{job.err.decode(errors='replace')[-800:]}")
    return text


def wait_all(jobs):
    for job in jobs:
        job.wait(patient(DRAW_SECONDS))
    return [ok(job) for job in jobs]


class Graphics:
    def __init__(self, d, vms, tmp, build_dir):
        self.d, self.vms, self.tmp, self.build_dir = d, vms, tmp, build_dir

    def start(self):
        for v in self.vms:
            v.spawn(["weft-guest-gl"])
            deadline = time.monotonic() + patient(20)
            while v.run(["test", "-S", SOCKET]).status:
                check(time.monotonic() < deadline, "weft-guest-gl does not listen")

    def pictures(self):
        """In both at once, with CUDA programs beside them."""
        path = os.path.join(self.tmp, "pictures")
        r = subprocess.run([f"{self.build_dir}/tests/gl/gl_scenes", path], text=True,
                           env=dict(os.environ, LIBGL_ALWAYS_SOFTWARE="true"),
                           capture_output=True, check=False, timeout=patient(60))
        check(r.returncode == 0, r.stderr)
        want = digest_of(path)
        drawn = [v.spawn(["env", *DRAWS, "gl_scenes", "/tmp/pictures"]) for v in self.vms]
        computed = [v.spawn(["sh", "-ec", " && ".join(os.path.basename(p) for p in CUDA)])
                    for v in self.vms]
        for name in wait_all(drawn):
            check("virgl" in name, name)
        for said in wait_all(computed):
            check(said.count("PASS") == len(CUDA), said)
        for v in self.vms:
            got = ok(v.run(["sha256sum", "/tmp/pictures"])).split()[0]
            check(got == want, f"{v.name}: other pictures")

    def check_says(self):
        for v in self.vms:
            said = v.run(["env", *DRAWS, "weft-guest-check"], timeout=patient(40)).out.decode()
            m = re.search(r"(?m)^ok +OpenGL +the host draws; reading back .* (\S+) ms$", said)
            check(m, said)
            print(f"# {v.name}: {m[0]}", flush=True)
            check("Mesa is not here" not in said and "nobody listens" not in said, said)

    def limit(self):
        """One VM's textures end at its limit, while the other draws."""
        one, two = self.vms
        job = one.spawn(["env", *DRAWS, "sh", "-c", "sleep 60 | gl_grab 1000"])
        deadline = time.monotonic() + patient(60)
        while job.out.count(b"\n") < 2:
            check(time.monotonic() < deadline and not job.ended.is_set(),
                  f"{job.out.decode()}{job.err.decode()}")
            time.sleep(0.05)
        check(job.out.decode().split() == ["512", "0x505", "00ff00ff"], job.out.decode())
        ok(two.run(["env", *DRAWS, "gl_scenes", "/tmp/again"], timeout=patient(DRAW_SECONDS)))
        job.kill()
        job.wait(patient(10))
        check(self.d.wait_no_sessions("one", patient(5)), "a session is left behind")


def main():
    tap = harness.Tap()
    build_dir = os.path.abspath(sys.argv[1])
    why = lacks(build_dir)
    if why:
        tap.skip("graphics", f"no {why} here")
        return tap.end()
    with harness.Bench(build_dir) as b, \
         daemon.Daemon(build_dir, VMS, device="soft", quota="512M") as d:
        make_image(b, build_dir)
        with b.gpu_vm(d, "one") as one, b.gpu_vm(d, "two", 43, with_window=False) as two:
            for v in (one, two):
                v.wait_ready(BOOT_SECONDS)
            g = Graphics(d, (one, two), b.dir, build_dir)
            tap.case("programs find somebody", g.start)
            tap.case("weft-guest-check says how fast", g.check_says)
            tap.case("pictures in two VMs beside CUDA", g.pictures)
            tap.case("textures end at the limit", g.limit)
            if tap.failed:
                tap.note(d.log_tail())
                tap.note(one.log_tail())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
