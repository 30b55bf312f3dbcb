#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""A tensor handed to another process of the same tenant (IPC of memory and events)."""
import torch
import torch.multiprocessing as mp

import check


def child(q, back):
    t = q.get()
    t += 1
    torch.cuda.synchronize()
    back.put(float(t.sum()))
    del t


if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    q, back = ctx.Queue(), ctx.Queue()
    p = ctx.Process(target=child, args=(q, back), daemon=True)
    p.start()
    x = torch.ones(1 << 20, device="cuda")
    q.put(x)
    try:
        got = back.get(timeout=40)
    except Exception as e:
        check.fail(f"no answer from the child: {type(e).__name__}")
    check.that(got == 2 << 20, f"child saw {got}")
    p.join(10)
    check.that(float(x.sum()) == 2 << 20, "parent does not see what the child wrote")
    check.done()
