#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a C program that prints what of transport's headers both ends agree on: constants,
enumerations, and structures that are marked "X is ABI", member by member.

usage: layout.py HEADER... > layout.c
"""

import os
import re
import sys

# Numbers of one end alone: room that it has, or a count of what the header lists.
LOCAL = {"RING_REST_MAX", "WIRE_FIXED_MAX", "REFUSAL_MAX", "HANDLE_LIVE_MAX"}
COUNT = re.compile(r"(^|_)NUM(_|$)")

DEFINE = re.compile(r"^#define[ \t]+([A-Z]\w+)[ \t]+\S", re.M)
ENUM = re.compile(r"^enum (\w+) \{(.*?)^\};", re.M | re.S)
STRUCT = re.compile(r"^struct (\w+) \{(.*?)^\};", re.M | re.S)
ABI = re.compile(r'^static_assert\(sizeof\(struct (\w+)\) == \d+, "\1 is ABI"\);', re.M)
BYTES = re.compile(r"^static const uint8_t (\w+)\[(\d+)\]", re.M)
MEMBER = re.compile(r"^(?:_Alignas\(\d+\) )?(?:_Atomic )?(struct )?(\w+) (.+)$")

HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from transport's headers: prints what both ends agree on. */
#include <stddef.h>
#include <stdio.h>

"""

# Examples of what is computed.
EXAMPLES = """
static void show_ring(uint64_t size)
{
	struct ring_layout y;

	if (ring_layout(size, &y) < 0)
		return;
	printf("ring_layout(%#llx) %#llx %#llx %#llx %#llx %#llx\\n", (unsigned long long)size,
	       (unsigned long long)y.cmd, (unsigned long long)y.reply,
	       (unsigned long long)y.cmd_bulk, (unsigned long long)y.reply_bulk,
	       (unsigned long long)y.bulk_size);
}

static void show_examples(void)
{
	printf("handle_make(6, 0xabc, 0x12345) %#llx\\n",
	       (unsigned long long)handle_make(HANDLE_STREAM, 0xabc, 0x12345));
	show_ring(RING_LANE_MIN);
	show_ring(RING_LANE_MIN + (6 << 20) + 4096);
}
"""


def plain(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


class Headers:
    def __init__(self, paths):
        self.defines, self.enums, self.bytes, self.structs, self.abi = [], [], [], {}, []
        for path in paths:
            with open(path, encoding="utf-8") as f:
                text = plain(f.read())
            self.defines += [d for d in DEFINE.findall(text) if d not in LOCAL]
            self.enums += [(n, self.values(body)) for n, body in ENUM.findall(text)]
            self.bytes += BYTES.findall(text)
            self.structs.update((n, self.members(body)) for n, body in STRUCT.findall(text))
            self.abi += ABI.findall(text)

    @staticmethod
    def values(body):
        names = [v.split("=")[0].strip() for v in body.split(",")]
        return [n for n in names if n and not COUNT.search(n)]

    @staticmethod
    def members(body):
        """(name of a structure or "", name of the member) of each."""
        out = []
        for line in body.split(";"):
            m = MEMBER.match(" ".join(line.split()))
            for name in m.group(3).split(",") if m else ():
                name = name.strip().lstrip("*").split("[")[0]
                out.append((m.group(2) if m.group(1) else "", name))
        return out

    def leaves(self, struct):
        for inner, name in self.structs[struct]:
            if inner:
                yield from (f"{name}.{leaf}" for leaf in self.leaves(inner))
            else:
                yield name


def program(paths):
    h = Headers(paths)
    out = HEAD + "".join(f'#include "{os.path.basename(p)}"\n' for p in paths) + EXAMPLES
    out += "\nint main(void)\n{\n"
    for d in h.defines:
        out += f'\tprintf("const {d} %#llx\\n", (unsigned long long)({d}));\n'
    for name, n in h.bytes:
        out += (f'\tprintf("bytes {name} ");\n\tfor (unsigned i = 0; i < {n}; i++)\n'
                f'\t\tprintf("%02x", {name}[i]);\n\tputs("");\n')
    for name, values in h.enums:
        out += f'\tprintf("enum {name}\\n");\n'
        out += "".join(f'\tprintf("    {v} %lld\\n", (long long)({v}));\n' for v in values)
    for s in h.abi:
        out += f'\tprintf("struct {s} %zu\\n", sizeof(struct {s}));\n'
        for leaf in h.leaves(s):
            out += (f'\tprintf("    {leaf} %zu %zu\\n", offsetof(struct {s}, {leaf}), '
                    f"sizeof(((struct {s} *)0)->{leaf}));\n")
    return out + "\tshow_examples();\n\treturn 0;\n}\n"


if __name__ == "__main__":
    sys.stdout.write(program(sys.argv[1:]))
