# SPDX-License-Identifier: Apache-2.0
"""ops.h: operation numbers and the structures of commands and replies."""

from emit_record import fnv, record_text

HEAD = "/* SPDX-License-Identifier: Apache-2.0 */\n/* Generated from transport/api; {}. */\n"


def member(s):
    return f"\t{s.c} {s.name}{f'[{s.count}]' if s.count > 1 else ''};\n"


def struct(name, lay, why):
    """A structure and the assertions that pin its layout."""
    out = f"\n/* {why} */\nstruct {name} {{\n" if why else f"\nstruct {name} {{\n"
    out += "".join(map(member, lay.slots)) + "};\n"
    out += f'static_assert(sizeof(struct {name}) == {lay.size}, "{name} is ABI");\n'
    for s in lay.slots:
        if s.offset and not s.pad:
            out += (f"static_assert(offsetof(struct {name}, {s.name}) == {s.offset},\n"
                    f'\t      "{name} is ABI");\n')
    return out


def followed_by(lay):
    return ", ".join(f"{p.name} ({p.kind}, at most {p.max})" for p in lay.parts)


def ops_h(api):
    out = HEAD.format("operation numbers and the bodies of commands and replies")
    out += """#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

"""
    out += f"""/* Tells whether both ends are built from the same descriptions. */
#define WIRE_API_HASH 0x{fnv(record_text(api)):08x}u

/* Numbers that never change; a new operation gets the next one. */
enum wire_op {{
"""
    out += "\tWIRE_OP_NONE = 0,\n"
    out += "".join(f"\tWIRE_OP_{e.name} = {e.op},\n" for e in sorted(api.ops, key=lambda e: e.op))
    out += f"\tWIRE_NUM_OPS = {api.n_ops}\n}};\n"
    for r in api.records:
        out += struct(f"wire_{r.name}", r.layout, "")
    for e in api.ops:
        for suffix, lay in (("cmd", e.cmd), ("rep", e.rep)):
            parts = followed_by(lay)
            why = f"{e.group}: {e.cls}" if suffix == "cmd" else ""
            if parts:
                why += ("; " if why else "") + "followed by " + parts
            out += struct(f"{e.name}_{suffix}", lay, why)
    return out + "\n#endif\n"
