# SPDX-License-Identifier: Apache-2.0
"""Programs that need more memory together than the device has, by turns and without: what all of
them do, of what as many do as fit."""
import mmap
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor

from . import daemon
from .looping import Looping, Row, quiet, said

GIB = 1 << 30
# GiB that each needs; how many there are where two fit, so that memory is promised one and a
# half times, twice and three times.
SIZE, COUNTS = 8, (3, 4, 6)
KINDS = {"decode": (0.95, "decoders of 8 GiB, eager"),
         "graph": (0.95, "decoders of 8 GiB, a graph each token"),
         "train": (0.85, "trainings of 8 GiB")}
# A step of training that reads the rest over PCIe takes minutes.
POLICIES = {"decode": ("sets", "fair"), "graph": ("sets",), "train": ("sets",)}
# Host memory is made once, a tenth of a second for a GiB.
SETTLE, SECONDS = 15, 10
SWAP, TURN_MS, CONTEXT = "96G", 500, 600 << 20
# Host memory that is used once beforehand: a virtual machine gets its own on first use only, which
# takes a second for a GiB.
TOUCHED = 72 * GIB


def touch(size):
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def touch_host(size=TOUCHED, parts=8):
    with open("/proc/meminfo", encoding="ascii") as f:
        free = next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable"))
    with multiprocessing.Pool(parts) as pool:
        pool.map(touch, [min(size, free * 3 // 4) // parts] * parts)


def programs(d, python, path, kind, n):
    """All of them start together."""
    with ThreadPoolExecutor(n) as ex:
        return list(ex.map(
            lambda i: Looping(d.side(f"t{i}"), [python, path, kind, str(SIZE)]), range(n)))


def measured(d, those):
    """(a second, longest in us) of each, and the bytes that moved a second."""
    for p in those:
        p.say()
    time.sleep(SETTLE)
    before, (at, _) = moved(d), said(those)
    time.sleep(SECONDS)
    now, each = said(those)
    bytes_ = moved(d) - before
    for p in those:
        p.end()
    return [(n / (now - at), longest) for n, _, longest in each], bytes_ / (now - at)


def moved(d):
    return sum(s["memory.moved_in"] + s["memory.moved_out"] for s in d.ask("list")["sessions"])


def fits(where, device, python, path, kind):
    """Steps a second of two that fit, both together; and what one has of the device."""
    with daemon.Daemon(where, device) as d:
        those = programs(d, python, path, kind, 2)
        has = max(s["memory.current"] for s in d.ask("list")["sessions"])
        each, _ = measured(d, those)
    return sum(rate for rate, _ in each), has


def rows(where, device, python, path, kinds):
    for kind in kinds:
        least, name = KINDS[kind]
        full, has = fits(where, device, python, path, kind)
        yield Row(f"{name}, two that fit", f"{full:.1f} a second; {has / GIB:.2f} GiB each")
        for policy in POLICIES[kind]:
            for n in COUNTS if policy == "sets" else COUNTS[:1]:
                # Contexts stay, also those of workers that wait for somebody.
                memory = 2 * has + (n + 2) * CONTEXT + GIB // 2
                with daemon.Daemon(where, device, SWAP, policy, memory=memory, pool=2) as d:
                    those = programs(d, python, path, kind, n)
                    each, rate = measured(d, those)
                    quiet(d)
                part = sum(r for r, _ in each) / full
                longest = max(us for _, us in each) / 1e3
                good = part >= least and longest <= (n - 1) * TURN_MS + 50
                yield Row(f"{name}, {n} of them, {policy}",
                          f"{part:.3f} of what fits, longest pause {longest:.0f} ms, "
                          f"{rate / GIB:.1f} GiB/s moved; each "
                          + " ".join(f"{r:.1f}" for r, _ in each),
                          good if policy == "sets" else None)


def run(where, device, python, path, kinds):
    touch_host()
    return list(rows(where, device, python, path, kinds))
