# SPDX-License-Identifier: Apache-2.0
"""Decoding with a GPT-2-sized model beside training of ResNet-50, by priority."""
import time

from .looping import SETTLE, Looping, Row, quiet, said

# How a token comes: its name, and the program's words.
KINDS = (("a graph each 10 ms", ("decode", "10")),
         ("graphs, one behind the other", ("decode", "0")),
         ("eager, each 10 ms", ("eager", "10")))
SECONDS = 4


def measured(those):
    """(a second, median, 99th percentile) of each."""
    for p in those:
        p.say()
    time.sleep(SETTLE)
    at, _ = said(those)
    time.sleep(SECONDS)
    now, each = said(those)
    for p in those:
        p.end()
    return [(n / (now - at), *times) for n, *times in each]


def rows(d, python, path, kinds=KINDS, by=""):
    """by: how the daemon divides time, for the rows' names."""
    def program(tenant, *args):
        return Looping(d.side(tenant), [python, path, *args])

    def keys(tenant, **more):
        d.ask("tenant-set", name=tenant, set={f"compute.{k}": str(v) for k, v in more.items()})

    (steps, *_), = measured([program("train", "train")])
    yield Row(f"training alone{by}", f"{steps:.1f} steps a second")
    # A token's part of the device: a graph has nothing between its kernels.
    (_, token_us, _), = measured([program("decode", "decode", "0")])
    for name, args in kinds:
        quiet(d)
        (rate, p50, p99), = measured([program("decode", *args)])
        yield Row(f"decoding alone, {name}{by}",
                  f"{rate:.0f} a second, p50 {p50:.0f}, p99 {p99:.0f} us")
        left = max(steps * (1 - rate * token_us / 1e6), steps / 100)
        quiet(d)
        both = [program("decode", *args), program("train", "train")]
        keys("decode", priority=1)
        (beside, b50, b99), (trained, *_) = measured(both)
        yield Row(f"... beside training, {name}{by}",
                  f"{beside:.0f} a second, p50 {b50:.0f}, p99 {b99:.0f} us: "
                  f"{b99 / p99:.2f} x alone; training has {trained / left:.2f} of what is left",
                  b99 <= 1.25 * p99 and trained >= 0.85 * left)
