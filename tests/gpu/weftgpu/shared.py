# SPDX-License-Identifier: Apache-2.0
"""Class shared: tenants side by side under an MPS server, each on its TPCs, and what a fault and
the server's end do to them; beside MPS's own percentages on the same programs."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

from . import build, compute, daemon, execute
from .looping import Looping, Row, quiet, said

CONTROL = "nvidia-cuda-mps-control"
START = 10  # seconds
PRODUCT, WALK = 4096, 2 << 30  # rows; bytes
SECONDS = 4
ROWS = 8192  # of cuBLAS's product at each number of TPCs


class Server:
    """weft-mps in a directory of its own; used as a context manager."""

    def __init__(self, where):
        self.program = os.path.join(where, "hostd", "weft-mps")

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="wm-")
        self.dir = os.path.join(self.top, "mps")
        self.env = {"CUDA_MPS_PIPE_DIRECTORY": os.path.join(self.dir, "pipe"),
                    "CUDA_MPS_LOG_DIRECTORY": os.path.join(self.dir, "log")}
        self.proc = subprocess.Popen([self.program, self.dir], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START
        while not os.path.exists(os.path.join(self.dir, "pipe", "control")):
            if self.proc.poll() is not None or time.monotonic() > deadline:
                raise build.Error("weft-mps did not start")
            time.sleep(0.05)
        return self

    def servers(self):
        """Process ids of NVIDIA's servers."""
        r = subprocess.run([CONTROL], input="get_server_list\n", capture_output=True, text=True,
                           env=dict(os.environ, **self.env), check=True)
        return [int(p) for p in r.stdout.split()]

    def side(self, percent):
        """How a program is run as a client of its own, without Weft."""
        return execute.Side("mps", [], dict(
            self.env, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(percent)))

    def __exit__(self, *exc):
        self.proc.terminate()
        self.proc.wait()
        shutil.rmtree(self.top, ignore_errors=True)


def measured(those):
    """(a second, median, 99th percentile) of each; ends them."""
    for p in those:
        p.say()
    time.sleep(1)
    at, _ = said(those)
    time.sleep(SECONDS)
    now, each = said(those)
    for p in those:
        p.end()
    return [(n / (now - at), *times) for n, *times in each]


def set_class(d, tenant, tpcs="all"):
    said_ = d.ask("tenant-set", name=tenant,
                  set={"compute.class": "shared", "tpc.set": tpcs})
    if not said_["ok"]:
        raise build.Error(said_["error"])
    return int(said_["keys"]["tpc.current"].split("-")[-1].split(",")[-1])


def where_rows(d, path):
    """A client's SMs have numbers of its own, from 0 on: so how many there are is compared."""
    w = compute.Where(d, path)
    n = int(w.say("sms")) // 2
    for what in ("kernel", "graph", "batch"):
        wrong = []
        for text in compute.sets_of(n):
            want = w.set(text)
            got = int(w.say(what), 16)
            if got.bit_count() != want.bit_count():
                wrong.append(f"{text}: {got:x}")
        yield Row(f"TPCs of {what}",
                  "; ".join(wrong) or f"as many, for {len(compute.sets_of(n))} sets", not wrong)
    costs = [float(w.say(what)) for what in ("launch", "wait")]
    yield Row("launch; and wait", f"{costs[0]:.2f}, {costs[1]:.2f} us")
    w.end()


def beside_rows(d, server, path, per_ms, n):
    """A product on half of the TPCs, and what a neighbour on the other half costs it."""
    halves = [f"0-{n // 2 - 1}", f"{n // 2}-{n - 1}"]
    product = ["matmul", str(PRODUCT)]
    for tenant, half in zip(("c0", "c1"), halves):
        set_class(d, tenant, half)
    sides = (("TPC sets", lambda i: d.side(f"c{i}")), ("MPS, 50 %", lambda i: server.side(50)))
    for kind, side in sides:
        quiet(d)
        (_, a50, a99), = measured([Looping(side(0), [path, *product])])
        yield Row(f"{kind}: a product alone", f"p50 {a50 / 1e3:.2f}, p99 {a99 / 1e3:.2f} ms")
        for what, args in (("that computes", ["loop", str(per_ms)]),
                           ("that reads at random", ["walk", str(WALK)])):
            quiet(d)
            (_, b50, b99), (rate, *_) = measured([Looping(side(0), [path, *product]),
                                                  Looping(side(1), [path, *args])])
            good = None if kind != "TPC sets" or args[0] == "walk" else b50 <= 1.01 * a50
            yield Row(f"{kind}: beside one {what}",
                      f"p50 {b50 / a50:.3f}, p99 {b99 / a99:.3f} x alone; it does {rate:.0f} a "
                      "second", good)


def product_rows(d, server, python, path, n):
    """cuBLAS at every number of TPCs, and under MPS's percentages."""
    set_class(d, "c0")

    def ms(proc):
        proc.stdin.write(f"{ROWS}\n")
        proc.stdin.flush()
        return float(proc.stdout.readline())

    def start(side):
        proc = subprocess.Popen([*side.prefix, python.path, path], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True,
                                env=dict(os.environ, **side.env))
        if proc.stdout.readline() != "ready\n":
            raise build.Error("matmul did not start")
        return proc

    proc, times = start(d.side("c0")), {}
    for k in range(1, n + 1):
        set_class(d, "c0", f"0-{k - 1}")
        time.sleep(0.01)
        times[k] = ms(proc)
    proc.stdin.close()
    proc.wait(30)
    yield Row(f"cuBLAS, {ROWS} rows, on 1 to {n} TPCs",
              " ".join(f"{t:.1f}" for t in times.values()) + " ms")
    parts = {}
    for percent in (5, 10, 25, 50, 75, 100):
        proc = start(server.side(percent))
        parts[percent] = ms(proc)
        proc.stdin.close()
        proc.wait(30)
    yield Row("... MPS, per cent: ms", ", ".join(f"{p}: {t:.1f}" for p, t in parts.items()))


def begins(d, tenant, path, per_ms):
    """Seconds until a program of the tenant's computes."""
    begin = time.monotonic()
    while True:
        try:
            p = Looping(d.side(tenant), [path, "loop", str(per_ms)])
            p.say()
            p.say()
            p.read()
            return p, time.monotonic() - begin
        except build.Error:
            if time.monotonic() - begin > 60:
                raise


def ends(p):
    """Seconds until a program that computes has ended, and what it says then."""
    begin = time.monotonic()
    p.proc.wait(30)
    return time.monotonic() - begin


def end_rows(d, server, path, fault, per_ms):
    """Ends of one with work in flight are its own; a fault, and the end of the server, are the
    end of all of class shared, and of nobody else."""
    def guest(p, _):
        p.proc.kill()

    def kill(_, tenant):
        number, = [s["session"] for s in d.ask("list")["sessions"] if s["tenant"] == tenant]
        d.ask("kill", session=number)

    def fall(*_):
        side = d.side("c0")
        subprocess.run([*side.prefix, fault], env=dict(os.environ, **side.env), check=False,
                       capture_output=True)

    def end_server(*_):
        for pid in server.servers():
            os.kill(pid, signal.SIGKILL)

    for tenant in ("c0", "c1"):
        set_class(d, tenant)
    quiet(d)
    other = begins(d, "c1", path, per_ms)[0]
    for kind in ("loop", "long"):
        for name, what in (("a program killed", guest), ("a session killed", kill)):
            p = Looping(d.side("c0"), [path, kind, str(per_ms)])
            p.say()
            time.sleep(0.5)
            what(p, "c0")
            time.sleep(1)
            p.proc.kill()
            said([other])
            time.sleep(1)
            rate = said([other])[1][0][0]
            yield Row(f"{name}, {kind}", f"another of the class does {rate:.0f} in the second "
                      "after", rate > 900)
    other.end()
    for name, what in (("a fault", fall), ("the server's end", end_server)):
        quiet(d)
        other = begins(d, "c2", path, per_ms)[0]
        beside = begins(d, "c1", path, per_ms)[0]
        what()
        gone = ends(beside)
        said([other])
        time.sleep(1)
        rate = said([other])[1][0][0]
        again, took = begins(d, "c0", path, per_ms)
        again.end()
        other.end()
        yield Row(name, f"others of the class end {gone:.2f} s later, status "
                  f"{beside.proc.returncode}; one begins anew after {took:.2f} s; an isolated one "
                  f"does {rate:.0f} a second", gone < 3 and took < 10 and rate > 100)


def run(where, device, tools, work, python, programs_):
    if device == "soft" or not shutil.which(CONTROL):
        print("shared skipped: " + ("tests/fault/test_shared.py has the software GPU's"
                                    if device == "soft" else f"no {CONTROL} here"))
        return []
    built = {}
    for program in programs_:
        if program.suffix == ".cu":
            tools.build(program, work)
            built[program.name] = program.argv[0]
    out = []
    with Server(where) as server, daemon.Daemon(where, device, mps=server.dir) as d:
        run_ = compute.Run(d, built["looping"])
        for tenant in ("c0", "c1"):
            side = d.side(tenant)  # makes the tenant
            subprocess.run([*side.prefix, "true"], env=dict(os.environ, **side.env), check=True)
            n = set_class(d, tenant) + 1
        matmul = os.path.join(compute.HERE, "matmul.py")
        for made in (where_rows(d, built["where"]),
                     beside_rows(d, server, built["looping"], run_.per_ms, n),
                     product_rows(d, server, python, matmul, n),
                     end_rows(d, server, built["looping"], built["fault"], run_.per_ms)):
            for row in made:
                print(f"shared {row.name}: {row.text}", flush=True)
                out.append(row)
    return out
