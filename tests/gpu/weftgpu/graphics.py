# SPDX-License-Identifier: Apache-2.0
"""OpenGL of a guest program on the host's GPU: pictures, what calls cost, limits, and what ends by
itself, beside the same programs by the host's own driver."""
import glob
import os
import statistics
import subprocess
import time

from . import build, daemon, looping

NAMES = ["gl-pictures", "gl-costs", "gl-limit", "gl-endless", "gl-beside"]
SOCKET = "/tmp/.virgl_test"  # Mesa's driver knows no other place
SIDE = 64
CARRIERS = ("window", "stream")
# NVIDIA's loader of vendors, where its driver is not among the machine's own.
VENDORS = ("/usr/share/glvnd/egl_vendor.d", "/etc/glvnd/egl_vendor.d",
           "/usr/local/nvidia/share/glvnd/egl_vendor.d")
LIMIT = 1024  # MiB
RUNS, SECONDS = 3, 60
READBACK = 0.5e3  # microseconds for a MiB: 2 GB/s


class Row(looping.Row):
    """must: what is not so is wrong, and not only slow."""

    def __init__(self, name, text, good=None, must=True):
        super().__init__(name, text, good, must=must)


def vendor(pattern):
    return next((f for d in VENDORS for f in sorted(glob.glob(os.path.join(d, pattern)))), None)


def host_env(device, where):
    """How a program, or weftd, draws by the host's own driver."""
    lib = os.path.join(where, "lib")
    env = {"LD_LIBRARY_PATH": lib} if os.path.isdir(lib) else {}
    if device == "soft":
        return dict(env, LIBGL_ALWAYS_SOFTWARE="true")
    path = vendor("*nvidia.json")
    if not path:
        raise build.Error("no EGL of NVIDIA's here")
    return dict(env, __EGL_VENDOR_LIBRARY_FILENAMES=path)


def guest_env(where):
    """How one draws by Weft: Mesa's driver, the machine's or that of a bundle."""
    env, mesa = {"GALLIUM_DRIVER": "virpipe", "LIBGL_ALWAYS_SOFTWARE": "true"}, f"{where}/mesa"
    if os.path.isdir(mesa):
        return dict(env, LD_LIBRARY_PATH=f"{mesa}/lib:{where}/lib",
                    LIBGL_DRIVERS_PATH=f"{mesa}/dri",
                    __EGL_VENDOR_LIBRARY_FILENAMES=f"{mesa}/vendor.json")
    path = vendor("*mesa.json")
    if not path:
        raise build.Error("no Mesa here; tests/gpu/bundle --gl has one")
    return dict(env, __EGL_VENDOR_LIBRARY_FILENAMES=path)


def pictures(path):
    found = {}
    with open(path, "rb") as f:
        while name := f.readline():
            found[name.decode().strip()] = f.read(4 * SIDE * SIDE)
    return found


class Weft:
    """weftd, and who draws by it where Mesa looks."""

    def __init__(self, g, carrier="window"):
        self.g, self.carrier = g, carrier
        self.d = self.guest = None

    def __enter__(self):
        if os.path.exists(SOCKET):
            raise build.Error(f"{SOCKET} is there already")
        self.d = daemon.Daemon(self.g.where, self.g.device, pool=1)
        self.d.env.update(self.g.host)
        self.d.__enter__()
        try:
            self._listen()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _listen(self):
        self.d.ask("tenant-add", name="gl", set={"memory.max": f"{LIMIT}M"})
        env = dict(os.environ, WEFT_HOST=f"unix:{self.d.dir}/run/gl.sock",
                   WEFT_CARRIER=self.carrier)
        self.guest = subprocess.Popen([f"{self.g.where}/guestlib/weft-guest-gl"], env=env)
        deadline = time.monotonic() + 10
        while not os.path.exists(SOCKET):
            if time.monotonic() > deadline:
                raise build.Error("weft-guest-gl does not listen")
            time.sleep(0.02)

    def __exit__(self, *exc):
        if self.guest:
            self.guest.kill()
            self.guest.wait()
        self.d.__exit__(*exc)
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)

    def sessions(self):
        return [s for s in self.d.ask("list")["sessions"] if s["kind"] == "graphics"]

    def gone(self, seconds):
        """Seconds until no session is left; None: there still is one."""
        began = time.monotonic()
        while self.sessions():
            if time.monotonic() > began + seconds:
                return None
            time.sleep(0.01)
        return time.monotonic() - began


class Graphics:
    def __init__(self, where, device, work):
        self.where, self.device, self.work = where, device, work
        self.host, self.guest = host_env(device, where), guest_env(where)

    def start(self, env, name, *args):
        return subprocess.Popen([f"{self.where}/tests/gl/{name}", *args],
                                env=dict(os.environ, **env), text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def said(self, env, name, *args):
        p = self.start(env, name, *args)
        out, _ = p.communicate("", timeout=SECONDS)
        if p.returncode:
            raise build.Error(f"{name} ends with status {p.returncode}: {out}")
        return out.strip()

    def draw(self, env, to):
        path = os.path.join(self.work, to)
        return self.said(env, "gl_scenes", path), pictures(path)

    def pictures(self):
        """Pixel by pixel: both are drawn by the same driver."""
        name, here = self.draw(self.host, "host")
        yield Row("the host draws by", name)
        for carrier in CARRIERS:
            with Weft(self, carrier):
                name, there = self.draw(self.guest, carrier)
            others = [k for k in here if here[k] != there.get(k)]
            yield Row(f"pictures, {carrier}",
                      f"{len(here) - len(others)} of {len(here)} are the host's, by {name}" +
                      (f"; not: {' '.join(others)}" if others else ""), not others)

    def costs_of(self, env):
        runs = [[float(x) for x in self.said(env, "gl_costs").split()] for _ in range(RUNS)]
        return [statistics.median(x) for x in zip(*runs)]

    def costs(self):
        rows = [("host", self.costs_of(self.host))]
        for carrier in CARRIERS:
            with Weft(self, carrier):
                rows.append((carrier, self.costs_of(self.guest)))
        for way, (draw, back) in rows:
            yield Row(f"costs, {way}",
                      f"a call that draws {draw:.2f} us, 1 MiB back {back:.0f} us "
                      f"({1.048576e3 / back:.2f} GB/s)",
                      back <= READBACK if way == "window" else None, must=False)

    def grab(self, mib):
        """A program that takes textures: itself, how many MiB it has, and the error."""
        p = self.start(self.guest, "gl_grab", str(mib))
        n, error = p.stdout.readline().split()
        p.stdout.readline()
        return p, int(n), int(error, 16)

    def limit(self):
        with Weft(self) as w:
            p, n, error = self.grab(10 * LIMIT)
            [s] = w.sessions()
            yield Row("textures without end",
                      f"{n} MiB of {LIMIT}, error 0x{error:x}; {s['memory.current'] >> 20} MiB "
                      "are charged", (n, error) == (LIMIT, 0x505))
            w.d.ask("kill", session=s["session"])
            took = w.gone(10)
            p.kill()
            p.communicate()
            yield Row("killed", "never" if took is None else f"all is free in {took * 1e3:.0f} ms",
                      took is not None and took <= 1)

    def endless(self):
        """A shader that never ends; somebody else draws meanwhile."""
        with Weft(self) as w:
            p = self.start(self.guest, "gl_frames", "1", "1000000000")
            p.stdout.readline()
            time.sleep(1)
            began = time.monotonic()
            q = self.start(self.guest, "gl_frames", "20")
            other, _ = q.communicate("", timeout=SECONDS)
            took = time.monotonic() - began
            yield Row("beside a frame without end",
                      f"{other.splitlines()[-1]}, status {q.returncode}, in {took:.2f} s",
                      other.endswith("20 frames, 0x0\n"))
            left = w.gone(20)
            p.kill()
            p.communicate()
            yield Row("left to itself", "goes on" if left is None else
                      f"is ended at most {1 + took + left:.1f} s after it began",
                      left is not None)
            again = self.said(self.guest, "gl_frames", "20").splitlines()[-1]
            yield Row("the next program", again, again == "20 frames, 0x0")

    def frames(self, env, beside=None):
        """Frames a second of something that the GPU is busy with."""
        p = self.start(env, "gl_frames", "20", "1" if self.device == "soft" else "200")
        p.stdout.readline()
        p.stdout.readline()
        began, n = time.monotonic(), 0
        while time.monotonic() < began + 3:
            p.stdin.write("\n")
            p.stdin.flush()
            p.stdout.readline()
            n += 20
        rate = n / (time.monotonic() - began)
        seen = beside() if beside else None
        p.communicate()
        return rate, seen

    def beside(self):
        alone, _ = self.frames(self.host)
        with Weft(self) as w:
            rate, s = self.frames(self.guest, w.sessions)
            yield Row("frames that take the GPU a while",
                      f"{rate:.0f} a second, the host {alone:.0f}: {rate / alone:.2f}; it says "
                      f"{s[0]['gpu.utilization']} % of the GPU", rate >= 0.5 * alone, must=False)


def run(where, device, _tools, work, wanted):
    if not os.path.exists(f"{where}/hostd/weft-gl"):
        print("gl skipped: no weft-gl here: built without virglrenderer, or tests/gpu/bundle "
              "without --gl")
        return []
    g = Graphics(where, device, work)
    parts = {"gl-pictures": g.pictures, "gl-costs": g.costs, "gl-limit": g.limit,
             "gl-endless": g.endless, "gl-beside": g.beside}
    out = []
    for name in wanted:
        for row in parts[name]():
            print(f"gl {row.name}: {row.text}", flush=True)
            out.append(row)
    return out
