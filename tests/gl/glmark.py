#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""glmark2's scenes, off-screen, by the machine's own driver and by Weft, with a window and without:
frames a second; what a call that draws costs, and reading back 1 MiB.

    glmark.py BUILD [REPEATS]

Needs Debian's glmark2-es2-x11, mesa-utils and xvfb. The host's driver is the rasteriser, unless
DISPLAY names an X server of another. Exit status 77: something is missing, or Mesa's driver finds
another server at its place.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SOCKET = "/tmp/.virgl_test"
SCENES = ("build", "texture", "shading:shading=phong", "bump:bump-render=normals",
          "effect2d:kernel=1,1,1;1,1,1;1,1,1;", "refract", "jellyfish", "terrain")
SECONDS = 3
SIDE = "512x512"
WEFT = {"GALLIUM_DRIVER": "virpipe"}
TOOLS = ("glmark2-es2", "glxgears", "Xvfb")


class Weft:
    """weftd, and who draws by it where Mesa looks, by that carrier."""

    def __init__(self, build, carrier):
        self.build, self.carrier = build, carrier
        self.dir = tempfile.mkdtemp(prefix="wgl-")
        self.both = []

    def __enter__(self):
        conf, run = os.path.join(self.dir, "weftd.conf"), os.path.join(self.dir, "run")
        with open(conf, "w", encoding="ascii") as f:
            f.write("[tenant a]\nmemory.max = 1G\n")
        self.both.append(subprocess.Popen(
            [f"{self.build}/hostd/weftd", "--config", conf, "--run-dir", run, "--device", "soft"],
            stderr=subprocess.DEVNULL))
        env = dict(os.environ, WEFT_HOST=f"unix:{run}/a.sock", WEFT_CARRIER=self.carrier)
        self.both.append(subprocess.Popen([f"{self.build}/guestlib/weft-guest-gl"], env=env))
        while not (os.path.exists(SOCKET) and os.path.exists(f"{run}/a.sock")):
            time.sleep(0.1)
        return WEFT

    def __exit__(self, *exc):
        for p in reversed(self.both):
            p.terminate()
            p.wait()
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)
        shutil.rmtree(self.dir, ignore_errors=True)


class Host:
    def __enter__(self):
        return {}

    def __exit__(self, *exc):
        pass


def said(env, *argv):
    r = subprocess.run(argv, env=dict(os.environ, LIBGL_ALWAYS_SOFTWARE="true", **env), text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, timeout=300)
    return r.stdout


def renderer(env):
    """A name for whoever draws into windows; glxgears goes on for ever."""
    p = subprocess.Popen(["glxgears", "-info"], stdout=subprocess.PIPE, text=True,
                         stderr=subprocess.DEVNULL,
                         env=dict(os.environ, LIBGL_ALWAYS_SOFTWARE="true", **env))
    name = next((line for line in p.stdout if line.startswith("GL_RENDERER")), "= nobody")
    p.kill()
    p.communicate()
    return name.split("=", 1)[1].strip()


def frames(env):
    args = [f"-b{s}:duration={SECONDS}" for s in SCENES]
    text = said(env, "glmark2-es2", "--off-screen", "-s", SIDE, *args)
    # Milliseconds a frame are more exact than whole frames a second.
    return [1000 / float(ms) for ms in re.findall(r"FrameTime: ([0-9.]+) ms", text)]


def measure(build, way):
    with way as env:
        costs = said(dict(env, EGL_PLATFORM="surfaceless"), f"{build}/tests/gl/gl_costs")
        return renderer(env), frames(env), [float(x) for x in costs.split()]


def spread(values, digits=0):
    mid = statistics.median(values)
    return f"{mid:.{digits}f}" + (f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
                                  if len(values) > 1 else "")


def show(ways, found):
    host = found["host"]
    for way in ways:
        print(f"{way}: {found[way][0][0]}")
    print("\n| frames a second | " + " | ".join(ways) + " |\n" + "|---" * (len(ways) + 1) + "|")
    for i, scene in enumerate(SCENES):
        cells = []
        for way in ways:
            values = [run[1][i] for run in found[way]]
            ratio = statistics.median(values) / statistics.median(r[1][i] for r in host)
            cells.append(spread(values) + (f": {ratio:.2f}" if way != "host" else ""))
        print(f"| {scene.split(':', 1)[0]} | " + " | ".join(cells) + " |")
    for i, (name, digits) in enumerate((("a call that draws, us", 2), ("1 MiB back, us", 0))):
        print(f"| {name} | " + " | ".join(spread([run[2][i] for run in found[way]], digits)
                                         for way in ways) + " |")


def main(build, repeats="3"):
    lacking = [t for t in TOOLS if not shutil.which(t)]
    if lacking or os.path.exists(SOCKET):
        print(f"skipped: no {lacking[0]}" if lacking else f"skipped: {SOCKET} is there already")
        return 77
    if "DISPLAY" not in os.environ:
        return subprocess.run(["xvfb-run", "-a", sys.executable, *sys.argv], check=False).returncode
    build, found = os.path.abspath(build), {}
    for _ in range(int(repeats)):
        for way in ("host", "window", "stream"):
            got = measure(build, Host() if way == "host" else Weft(build, way))
            found.setdefault(way, []).append(got)
            if way != "host" and "virgl" not in got[0]:
                print(f"{way}: not by Weft: {got[0]}")
                return 1
    show(list(found), found)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
