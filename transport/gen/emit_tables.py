# SPDX-License-Identifier: Apache-2.0
"""procs.c for cuGetProcAddress, coverage.md for the documentation."""

import re

from emit_ops import HEAD

PT_SINCE = 7000  # per-thread default streams came with CUDA 7.0


def base_name(name):
    """The name under which programs ask for a version of a function."""
    return re.sub(r"_v\d+$", "", name)


def proc_rows(api):
    rows = [(base_name(e.name), e.since, e) for e in api.fns]
    return sorted(rows, key=lambda r: (r[0], r[1], r[2].name))


def procs_c(api):
    out = HEAD.format("what cuGetProcAddress finds")
    out += '#include "gen/proc.h"\n#include "core/guest.h"\n\n'
    out += "const struct proc proc_table[] = {\n"
    rows = proc_rows(api)
    for name, since, e in rows:
        plain = pt = "NULL"
        if e.supported:
            plain = f"(void *){e.name}"
            pt = f"(void *){e.name}_{e.pt}" if e.pt else "NULL"
        out += f"\t{{\"{name}\", {since}, {plain}, {pt}}},\n"
    return out + f"}};\n\nconst unsigned proc_count = {len(rows)};\n"


ANSWERED = {
    "call": "message, waits",
    "post": "message, does not wait",
    "hand": "by hand, with messages",
    "local": "in the guest",
    "none": "not supported",
}


def coverage_md(api):
    out = "# Functions of the driver API\n\nGenerated from transport/api.\n\n"
    n = {c: 0 for c in ANSWERED}
    body = ""
    for g in api.groups:
        fns = [e for e in api.fns if e.group == g]
        if not fns:
            continue
        body += f"\n## {g}\n\n| function | since | answered |\n|---|---|---|\n"
        for e in fns:
            how = ANSWERED.get(e.cls) or f"as {e.target}"
            cls = e.cls if e.cls in n else api.find(e.target).cls
            n[cls] += len(e.symbols)
            more = f", _{e.pt}" if e.pt else ""
            body += f"| {e.name}{more} | {e.since // 1000}.{e.since % 1000 // 10} | {how} |\n"
    total = sum(n.values())
    out += "| answered | functions |\n|---|---|\n"
    out += "".join(f"| {ANSWERED[c]} | {k} |\n" for c, k in n.items())
    return out + f"| all | {total} |\n" + body
