# SPDX-License-Identifier: Apache-2.0
"""Memory that is promised twice: what tests/bench measures of it, with sizes for a GPU."""
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import time

from . import build, table

BENCH = os.path.join(build.TOP, "tests", "bench")
# As tests/bench/swap/meson.build has them: the CPU is to get the same bits.
FLAGS = ["-std=c++17", "-O3", "-fmad=false", "-Xcompiler", "-ffp-contract=off,-pthread"]
MEASURES = {
    "move": {"cuda": ["1024"], "soft": ["16"]},
    "shares": {"cuda": ["--mib", "4096", "--block", "65536", "--piece", "8192",
                        "--arrive", "20", "--together", "10"],
               "soft": ["--mib", "32", "--arrive", "0.5", "--together", "1"]},
    "delay": {"cuda": ["--mib", "4096", "--piece", "8192", "--reserve", "512M",
                       "--times", "10"],
              "soft": ["--mib", "32", "--piece", "256", "--times", "1"]},
    "slowdown": {"cuda": ["--kib", "131072", "--reserve", "0", "--pcie", "55e9",
                          "--how", "weft,native,managed"],
                 "soft": ["--kib", "1024", "--piece", "128", "--floor", "1", "--fractions", "1,0.5",
                          "--workloads", "hotspot"]},
}
SECONDS = 400


def programs(where, tools, work):
    """The workloads of a build directory, or built here."""
    built = os.path.join(where, "tests", "bench", "swap")
    if os.path.exists(os.path.join(built, "greedy")):
        return built
    if not tools.nvcc:
        raise build.Error("no nvcc here")
    out = os.path.join(work, "swap")
    os.makedirs(out, exist_ok=True)
    tasks = []
    for path in sorted(glob.glob(f"{BENCH}/swap/*.cu")):
        name = os.path.basename(path)[:-3]
        tasks.append((path, f"{out}/{name}", []))
        if name not in ("greedy", "hog"):
            tasks.append((path, f"{out}/{name}-managed", ["-DWORKLOAD_MANAGED"]))

    def compile_one(task):
        path, target, more = task
        return subprocess.run([tools.nvcc, *FLAGS, *more, "-o", target, path],
                              capture_output=True, text=True, check=False)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for task, r in zip(tasks, pool.map(compile_one, tasks)):
            if r.returncode:
                raise build.Error(f"{task[0]} does not build: {r.stderr[-300:]}")
    return out


def told_move(r):
    rate = {(p["move"], p["piece"] >> 10): p["of_pinned"] for p in r["points"]
            if p["memory"] == "pieces"}
    piece = 8192 if ("out swapped", 8192) in rate else max(p for _, p in rate)
    return f"of pinned copies, {piece} KiB: " + ", ".join(
        f"{move} {rate[move, piece]:.2f}" for move in ("out swapped", "in swapped", "out mapped",
                                                       "in mapped", "both swapped")
        if (move, piece) in rate)


def told_shares(r):
    return f"{r['apart']} bytes apart in the end, {r['refused']} refused"


def told_delay(r):
    return "ms per 100 MiB: " + "; ".join(
        f"{what} p50 {r[who]['p50']:.2f}, p99 {r[who]['p99']:.2f}"
        for who, what in (("needs", "allocation"), ("gives", "who is evicted")))


def told_slowdown(r):
    """Each workload with the least memory, by what it took with enough."""
    out = []
    for w in dict.fromkeys(p["workload"] for p in r["points"]):
        mine = [p for p in r["points"] if p["workload"] == w and p["how"] == "weft"]
        right = [p for p in mine if "error" not in p]
        if not right:
            out.append(f"{w} failed")
            continue
        enough, least = right[0], right[-1]
        text = f"{w} {max(least['seconds']) / max(enough['seconds']):.1f} x at " \
               f"{100 * least['room'] // r['total']} %"
        out.append(text + f", {len(mine) - len(right)} failed" * (len(right) < len(mine)))
    return "; ".join(out)


TOLD = {"move": told_move, "shares": told_shares, "delay": told_delay,
        "slowdown": told_slowdown}


class Row:
    def __init__(self, name, good, seconds, text, result=None):
        self.name, self.good, self.seconds = name, good, seconds
        self.text, self.result = text, result

    def as_dict(self):
        return dict(self.__dict__)


def command(name, where, device, built, out):
    args = MEASURES[name][device]
    if name == "move":
        path = os.path.join(where, "tests", "bench", "bench_move")
        return [path, device, *args, "json"] if os.path.exists(path) else None
    return [sys.executable, "-B", f"{BENCH}/swap/measure.py", name, "--build", where,
            "--programs", built, "--device", device, "-o", out, *args]


def measure(name, where, device, built, work, env, seconds):
    out = os.path.join(work, f"{name}.json")
    cmd = command(name, where, device, built, out)
    if not cmd:
        return Row(name, None, 0, f"no bench_{name} in {where}")
    start = time.monotonic()
    try:
        r = subprocess.run(cmd, env=dict(os.environ, **env), capture_output=True, text=True,
                           timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Row(name, False, seconds, "timed out")
    took = time.monotonic() - start
    if name == "move" and not r.returncode:
        with open(out, "w", encoding="utf-8") as f:
            json.dump({"kind": "rates", "device": device, "points": json.loads(r.stdout)}, f)
    if not os.path.exists(out):
        return Row(name, False, took, r.stderr.strip()[-200:])
    with open(out, encoding="utf-8") as f:
        result = json.load(f)
    subprocess.run([sys.executable, "-B", f"{BENCH}/plot.py", out, "-o", out[:-4] + "svg"],
                   check=False)
    return Row(name, r.returncode == 0, took, TOLD[name](result), result)


def run(names, where, tools, work, device, seconds):
    lib = os.path.join(where, "lib")
    env = {"LD_LIBRARY_PATH": lib} if os.path.isdir(lib) else {}
    built = programs(where, tools, work)
    return [measure(n, where, device, built, work, env, seconds or SECONDS) for n in names]


def render(rows):
    return table.render(("memory promised twice", "", "s", "result"),
                        [(r.name, {True: "ok", False: "FAIL", None: "not run"}[r.good],
                          table.number(r.seconds), r.text) for r in rows], right=(2,))
