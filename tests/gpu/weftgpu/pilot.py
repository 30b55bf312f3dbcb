# SPDX-License-Identifier: Apache-2.0
"""PILOT's experiments (its figures 4 and 5): programs with managed memory beside one that sweeps
through all of its own, and in pairs, on a device that has room for all, just so, and not."""
import shutil
import time

from . import compute, daemon, programs
from .looping import Looping, Row, quiet, said
from .shared import CONTROL

NAMES = ["pilot-dos", "pilot-pairs"]
# Bytes of each program's memory, medium size (compute/pilot.cu).
MIB = 1 << 20
APPS = {"backprop": 137, "bfs": 769, "hs3d": 768, "partfilter": 161, "lavamd": 382, "nn": 458,
        "gaussian": 512, "corr": 192, "gesummv": 512, "2dconvol": 512}
PAIRS = (("corr", "backprop"), ("hs3d", "2dconvol"), ("bfs", "nn"))
PARTS = (75, 100, 150)  # per cent of the device
# "mfit:500": the program waits half a second at most, the one that sweeps a second, as ever.
POLICIES = ("fair", "mfit", "mfit:500", "amfit", "amfit:500", "madvise")
DATA, SPARE, SWAP = 2048 * MIB, 32 * MIB, "24G"
SETTLE, SECONDS, MOST = 0.8, 1.2, 2.0
# By these one of the two waits for up to a second.
TURNS, TURNS_SECONDS = ("mfit", "amfit"), 8.0


def device_for(data, context, sessions=2, pool=1):
    """Bytes of a device that has so much room beside contexts, those of waiting workers too."""
    return data + (sessions + pool) * context + SPARE


class Programs:
    def __init__(self, path):
        self.path = path

    def start(self, d, tenant, name, size="medium"):
        p = Looping(d.side(tenant), [self.path, name, str(size), "managed", "loop"])
        p.say()
        return p

    def rates(self, those, settle=SETTLE, seconds=SECONDS):
        time.sleep(settle)
        at, _ = said(those)
        time.sleep(seconds)
        now, each = said(those)
        return [n / (now - at) for n, *_ in each]

    def context(self, where, device, name="corr"):
        """Bytes of the device that a session has beside what its program allocates."""
        with daemon.Daemon(where, device, SWAP, "fair", pool=1) as d:
            p = self.start(d, "app", name)
            self.rates([p])
            is_, = (s["memory.current"] for s in d.ask("list")["sessions"])
            p.end()
            return is_ - APPS[name] * MIB


def window(policy, part):
    return TURNS_SECONDS if policy.split(":")[0] in TURNS and part >= 100 else SECONDS


def be_quick(d, policy):
    """Sets what the program may wait, if the policy says so."""
    _, _, ms = policy.partition(":")
    if ms:
        d.ask("tenant-set", name="app", set={"compute.latency": str(int(ms) * 1000)})


def dos_rows(made, where, device, policies, keys, context):
    """Slowdown of each program, by policy and by how much memory both have together."""
    worst = {}
    for policy in policies:
        with daemon.Daemon(where, device, SWAP, policy.split(":")[0],
                           memory=device_for(DATA, context), pool=1, **keys) as d:
            for name, mib in APPS.items():
                app = made.start(d, "app", name)
                be_quick(d, policy)
                alone, = made.rates([app])
                text, slow = [], {}
                for part in PARTS:
                    dos = made.start(d, "dos", "pageDoS", DATA * part // 100 // MIB - mib)
                    mine, other = made.rates([app, dos], seconds=window(policy, part))
                    dos.end()
                    quiet(d, 1)  # the next one has to have its room
                    slower = alone / max(mine, 1e-9)
                    text.append(f"{slower:.2f} ({other:.0f})")
                    slow[str(part)] = slower
                    worst.setdefault(policy, {}).setdefault(part, []).append(slower)
                app.end()
                quiet(d)
                yield Row(f"{policy}: {name}", "; ".join(text), app=name, policy=policy,
                          slower=slow)
    for policy, parts in worst.items():
        yield Row(f"{policy}: worst at " + ", ".join(f"{p} %" for p in parts),
                  ", ".join(f"{max(v):.2f}" for v in parts.values()),
                  max(parts[PARTS[-1]]) <= MOST)


def pair_rows(made, where, device, policies, keys, context):
    """Slowdown of both programs of each pair."""
    alone = {}
    with daemon.Daemon(where, device, SWAP, "fair", pool=1) as d:
        for name in {n for pair in PAIRS for n in pair}:
            p = made.start(d, "app", name)
            alone[name], = made.rates([p])
            p.end()
    for a, b in PAIRS:
        for part in PARTS:
            memory = device_for((APPS[a] + APPS[b]) * MIB * 100 // part, context)
            text = []
            for policy in (p for p in policies if ":" not in p):
                with daemon.Daemon(where, device, SWAP, policy, memory=memory, pool=1,
                                   **keys) as d:
                    those = [made.start(d, t, n) for t, n in (("x", a), ("y", b))]
                    x, y = made.rates(those, 2 * SETTLE, window(policy, part))
                    for p in those:
                        p.end()
                text.append(f"{policy} {alone[a] / max(x, 1e-9):.2f}, "
                            f"{alone[b] / max(y, 1e-9):.2f}")
            yield Row(f"{a} + {b}, {part} %", "; ".join(text))


def run(where, device, tools, work, names, policies=POLICIES, rewrite=""):
    if device == "soft" or not shutil.which(CONTROL):
        print("pilot skipped: " + ("tests/path and tests/fault have the software GPU's"
                                   if device == "soft" else f"no {CONTROL} here"))
        return []
    program = next(p for p in programs.find(compute.HERE) if p.name == "pilot")
    tools.build(program, work)
    made, out = Programs(program.argv[0]), []
    context = made.context(where, device)
    for name, rows in (("pilot-dos", dos_rows), ("pilot-pairs", pair_rows)):
        if name not in names:
            continue
        for row in rows(made, where, device, policies, {"rewrite": rewrite}, context):
            print(f"pilot {row.name}: {row.text}", flush=True)
            out.append(row)
    return out
