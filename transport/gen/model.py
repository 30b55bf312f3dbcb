# SPDX-License-Identifier: Apache-2.0
"""Model of the descriptions in api/, as Python objects, and their layout on the wire."""

from dataclasses import dataclass, field

BODY_MAX = 64 << 10  # WIRE_BODY_MAX in wire.h
FIXED_MAX = 4096  # WIRE_FIXED_MAX
OPS_MAX = 4096  # numbers of operations are below; the list in the reply to session_open
FN_CLASSES = ("call", "post", "hand", "local", "none", "alias")
MSG_CLASSES = ("call", "post", "any")

# Types of the wire: C type, size in bytes (also the alignment).
WIRE = {
    "u8": ("uint8_t", 1),
    "u16": ("uint16_t", 2),
    "u32": ("uint32_t", 4),
    "u64": ("uint64_t", 8),
    "i32": ("int32_t", 4),
    "i64": ("int64_t", 8),
    "f32": ("float", 4),
}


class Bad(Exception):
    """A mistake in a description; text names the file and the line."""

    def __init__(self, loc, text):
        super().__init__(f"{loc[0]}:{loc[1]}: {text}")


@dataclass
class Type:
    """How a C type of cuda.h (or a record of ours) travels."""

    name: str
    wire: str  # a key of WIRE, or "" for a record
    handles: tuple = ()  # HANDLE_* that the value may be; empty: not a handle
    record: object = None

    @property
    def c(self):
        return f"struct wire_{self.name}" if self.record else WIRE[self.wire][0]

    @property
    def size(self):
        return self.record.size if self.record else WIRE[self.wire][1]

    @property
    def align(self):
        return self.record.align if self.record else WIRE[self.wire][1]


@dataclass
class Field:
    """One value of a message: a parameter of a function or a field of a structure."""

    loc: tuple
    dir: str  # in, out, inout
    kind: str  # scalar, array (fixed), list (counted), bytes, str
    name: str
    ctype: str = ""
    type: Type = None
    count: int = 1  # of a fixed array
    max: int = 0  # most elements of a list, bytes of bytes and str (with its NUL)
    optional: bool = False
    role: str = ""  # stream, new, del

    @property
    def variable(self):
        return self.kind in ("list", "bytes", "str")

    @property
    def length(self):
        """Name of the field that counts a variable part."""
        return self.name + ("_count" if self.kind == "list" else "_size")

    @property
    def elem_size(self):
        return self.type.size if self.kind == "list" else 1


@dataclass
class Slot:
    """A member of a generated structure, padding included."""

    c: str
    name: str
    size: int
    offset: int
    count: int = 1
    pad: bool = False
    record: object = None


@dataclass
class Layout:
    """A structure: its members at their offsets, a multiple of 8 bytes in all."""

    slots: list
    size: int
    parts: list  # variable fields that follow, each 8-aligned

    @property
    def known(self):
        """Bytes up to the end of the last member."""
        return max((s.offset + s.size for s in self.slots if not s.pad), default=0)

    @property
    def pads(self):
        return [s for s in self.slots if s.pad]

    @property
    def max_size(self):
        return self.size + sum((p.max * p.elem_size + 7) & ~7 for p in self.parts)


@dataclass
class Record:
    """A structure of ours in messages and lists; no padding, no variable parts."""

    loc: tuple
    name: str
    fields: list = field(default_factory=list)
    layout: Layout = None

    @property
    def size(self):
        return self.layout.size

    @property
    def align(self):
        return max(f.type.align for f in self.fields)


@dataclass
class Entry:
    """A function of cuda.h (fn) or a message of our own (msg)."""

    loc: tuple
    kind: str  # fn, msg
    name: str
    cls: str
    group: str
    need: str = "init"  # ctx: a current context
    raw: bool = False
    pt: str = ""  # "ptsz" or "ptds": the per-thread variant exists too
    since: int = 0
    target: str = ""  # of `alias TARGET` and `as TARGET`
    fields: list = field(default_factory=list)
    unsafe: bool = False  # may not be called during a capture
    whole: bool = False  # nor this, in the context that is captured from
    refuse: list = field(default_factory=list)  # C conditions: CUDA_ERROR_INVALID_VALUE
    sets: list = field(default_factory=list)  # (field, C expression, loc)
    payload_in: str = ""  # "", "yes", "optional"
    payload_out: bool = False
    cmd: Layout = None
    rep: Layout = None
    op: int = 0

    @property
    def on_wire(self):
        """Has an operation number and structures of its own."""
        return self.kind == "msg" or (self.cls in ("call", "post") and not self.target)

    @property
    def symbols(self):
        return [self.name] + ([f"{self.name}_{self.pt}"] if self.pt else [])

    @property
    def supported(self):
        return self.cls != "none"

    def part(self, name):
        return next((f for f in self.fields if f.name == name), None)


@dataclass
class Api:
    """All descriptions together, in the order of the files."""

    types: dict = field(default_factory=dict)
    records: list = field(default_factory=list)
    entries: list = field(default_factory=list)
    groups: list = field(default_factory=list)  # (name, text of its comment)

    def find(self, name):
        return next((e for e in self.entries if e.name == name), None)

    @property
    def ops(self):
        return [e for e in self.entries if e.on_wire]

    @property
    def n_ops(self):
        """One more than the highest number; some below may be nobody's."""
        return max((e.op for e in self.ops), default=0) + 1

    @property
    def fns(self):
        return [e for e in self.entries if e.kind == "fn"]


def lay_out(fields, first, tail=True):
    """Places fields after `first` (slots already there); pads to 8 bytes if tail."""
    slots, at, n_pads, parts = list(first), sum(s.size for s in first), 0, []

    def pad_to(align):
        nonlocal at, n_pads
        gap = -at % align
        if gap:
            if gap == 4:
                slots.append(Slot("uint32_t", f"pad{n_pads}", 4, at, pad=True))
            else:
                slots.append(Slot("uint8_t", f"pad{n_pads}", gap, at, gap, pad=True))
            at += gap
            n_pads += 1

    for f in fields:
        if f.variable:
            pad_to(4)
            slots.append(Slot("uint32_t", f.length, 4, at))
            at += 4
            parts.append(f)
            continue
        pad_to(f.type.align)
        size = f.type.size * f.count
        slots.append(Slot(f.type.c, f.name, size, at, f.count, record=f.type.record))
        at += size
    if tail:
        pad_to(8)
    return Layout(slots, at, parts)
