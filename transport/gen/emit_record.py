# SPDX-License-Identifier: Apache-2.0
"""The messages as a release has them: what both ends must go on agreeing on (release.py)."""


def field_line(f):
    kind = {"str": "str ", "bytes": "bytes "}.get(f.kind) or \
        (f.type.name if f.type.record else f.type.wire) + " "
    count = {"array": f"[{f.count}]", "list": "[]"}.get(f.kind, "")
    most = f" max {f.max}" if f.variable else ""
    return f"    {f.dir} {kind}{f.name}{count}{most}\n"


def op_lines(e):
    out = f"op {e.op} {e.name} {e.cls}\n" + "".join(map(field_line, e.fields))
    if e.payload_in:
        out += f"    payload in{'?' if e.payload_in == 'optional' else ''}\n"
    return out + ("    payload out\n" if e.payload_out else "")


def record_text(api):
    out = ""
    for r in sorted(api.records, key=lambda r: r.name):
        out += f"record {r.name}\n" + "".join(map(field_line, r.fields))
    return out + "".join(map(op_lines, sorted(api.ops, key=lambda e: e.op)))


def fnv(text, h=0x811C9DC5):
    """FNV-1a, 32 bits."""
    for b in text.encode():
        h = (h ^ b) * 0x01000193 & 0xFFFFFFFF
    return h
