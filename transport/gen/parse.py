# SPDX-License-Identifier: Apache-2.0
"""Reads the descriptions. Every mistake is a Bad that names file and line."""

import re

from model import (BODY_MAX, FIXED_MAX, FN_CLASSES, MSG_CLASSES, OPS_MAX, WIRE, Api, Bad,
                   Entry, Field, Record, Slot, Type, lay_out)

IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
NEEDS = ("init", "ctx")
# Variables of generated functions (emit_guest.py), so no names of parameters or fields.
RESERVED = ("t", "cmd", "rep", "ret_rep", "reply", "r", "wire_stream", "new_handle",
            "per_thread")


class Parser:
    def __init__(self):
        self.api = Api()
        self.names = {}
        for w in WIRE:
            self.api.types[w] = Type(w, w)

    def file(self, path, shown):
        self.group = None
        self.cur = None  # the Entry or Record that following lines belong to
        with open(path, encoding="utf-8") as f:
            for n, line in enumerate(f, 1):
                words = line.split("#", 1)[0].split()
                if words:
                    self.line((shown, n), words)

    def line(self, loc, words):
        top = {"group": self.group_line, "type": self.type_line, "record": self.record_line,
               "fn": self.fn_line, "msg": self.msg_line}.get(words[0])
        if top:
            self.cur = None
            top(loc, words[1:])
        elif self.cur is None:
            raise Bad(loc, f"'{words[0]}' belongs to no entry")
        elif isinstance(self.cur, Record):
            self.record_field(loc, words)
        else:
            self.entry_line(loc, words)

    def claim(self, loc, name):
        if not IDENT.match(name):
            raise Bad(loc, f"'{name}' is not a name")
        if name in self.names:
            at = self.names[name]
            raise Bad(loc, f"'{name}' is already described at {at[0]}:{at[1]}")
        self.names[name] = loc

    # ---- lines that begin something ----

    def group_line(self, loc, w):
        if len(w) != 1:
            raise Bad(loc, "group NAME")
        if w[0] in self.api.groups:
            raise Bad(loc, f"group '{w[0]}' has a file already")
        self.group = w[0]
        self.api.groups.append(w[0])

    def type_line(self, loc, w):
        """type C TYPE WIRE  or  type C TYPE handle KIND [KIND]"""
        if "handle" in w[1:]:
            i = w.index("handle")
            name, wire, handles = " ".join(w[:i]), "u64", tuple(w[i + 1:])
            if not handles:
                raise Bad(loc, "handle of what kind?")
        else:
            name, wire, handles = " ".join(w[:-1]), w[-1], ()
            if wire not in WIRE:
                raise Bad(loc, f"'{wire}' is no type of the wire")
        if not name:
            raise Bad(loc, "type C-TYPE WIRE-TYPE")
        if name in self.api.types:
            raise Bad(loc, f"type '{name}' is known already")
        self.api.types[name] = Type(name, wire, handles)

    def record_line(self, loc, w):
        if len(w) != 1:
            raise Bad(loc, "record NAME")
        self.claim(loc, w[0])
        self.cur = Record(loc, w[0])
        self.api.records.append(self.cur)
        self.api.types[w[0]] = Type(w[0], "", record=self.cur)

    def begin(self, loc, kind, w, classes):
        if not self.group:
            raise Bad(loc, f"{kind} before any group")
        if len(w) < 2:
            raise Bad(loc, f"{kind} NAME CLASS")
        if w[1] not in classes:
            raise Bad(loc, f"class '{w[1]}' is none of {', '.join(classes)}")
        self.claim(loc, w[0])
        e = Entry(loc, kind, w[0], w[1], self.group)
        self.api.entries.append(e)
        self.cur = e
        return e

    def fn_line(self, loc, w):
        e = self.begin(loc, "fn", w, FN_CLASSES)
        e.need = "ctx"
        w = w[2:]
        if e.cls == "alias":
            if not w:
                raise Bad(loc, "alias of what?")
            e.target = w.pop(0)
        while w:
            k = w.pop(0)
            if k in ("ptsz", "ptds"):
                e.pt = k
                self.claim(loc, f"{e.name}_{k}")
            elif k == "need" and w and w[0] in NEEDS and e.cls in ("call", "post"):
                e.need = w.pop(0)
            elif k == "op" and w and e.cls in ("call", "post"):
                e.op = self.op_number(loc, w.pop(0))
            elif k == "unsafe" and e.cls in ("call", "post"):
                e.unsafe = True
            elif k == "whole" and e.cls in ("call", "post"):
                e.whole = True
            elif k == "since" and w and w[0].isdigit():
                e.since = int(w.pop(0))
            elif k == "as" and w and e.cls in ("call", "post"):
                e.target = w.pop(0)
            else:
                raise Bad(loc, f"'{k}' is not understood here")
        if not e.since:
            raise Bad(loc, f"'{e.name}' lacks since VERSION")

    def msg_line(self, loc, w):
        e = self.begin(loc, "msg", w, MSG_CLASSES)
        w = w[2:]
        while w:
            k = w.pop(0)
            if k == "need" and w[:1] == ["ctx"]:
                e.need = w.pop(0)
            elif k == "op" and w:
                e.op = self.op_number(loc, w.pop(0))
            elif k != "raw":
                raise Bad(loc, f"'{k}' is not understood here")
            elif e.cls != "call":
                raise Bad(loc, "only a call can be raw: a raw handler replies")
            else:
                e.raw = True
        if e.raw and e.need == "ctx":
            raise Bad(loc, "a raw handler replies, so it looks for the context as well")

    # ---- lines inside an entry ----

    def entry_line(self, loc, w):
        e, k = self.cur, w[0]
        if e.kind == "fn" and e.cls in ("hand", "local", "none"):
            raise Bad(loc, f"'{e.name}' is {e.cls}: its prototype is cuda.h's")
        if k in ("in", "in?", "out", "out?", "inout"):
            self.add(e, self.field(loc, k.rstrip("?"), k.endswith("?"), w[1:]))
        elif k == "payload" and len(w) == 2 and w[1] in ("in", "in?", "out"):
            self.payload(loc, e, w[1])
        elif e.kind == "msg":
            raise Bad(loc, f"'{k}' is not understood in a message")
        elif k in ("new", "del", "stream"):
            f = self.special(loc, k, w[1:])
            self.add(e, f)
        elif k == "refuse" and len(w) > 1 and e.cls != "alias":
            e.refuse.append(" ".join(w[1:]))
        elif k == "set" and len(w) > 3 and w[2] == "=" and e.target:
            e.sets.append((w[1], " ".join(w[3:]), loc))
        else:
            raise Bad(loc, f"'{k}' is not understood in a function")

    def payload(self, loc, e, what):
        if e.kind != "msg":
            raise Bad(loc, "only messages carry a payload")
        if what == "out":
            if not e.raw:
                raise Bad(loc, "payload out needs a raw handler")
            e.payload_out = True
        else:
            e.payload_in = "optional" if what == "in?" else "yes"

    def add(self, e, f):
        if f.name in RESERVED:
            raise Bad(f.loc, f"'{f.name}' is a name of the generator's own")
        if e.part(f.name):
            raise Bad(f.loc, f"'{f.name}' appears twice in '{e.name}'")
        if e.kind == "msg" and f.optional:
            raise Bad(f.loc, "fields of a message are never optional")
        if e.kind == "fn" and (f.kind in ("array", "list", "bytes") or
                               (f.type and f.type.record) or
                               (f.kind == "str" and f.dir != "in")):
            raise Bad(f.loc, f"'{f.name}': write the stub by hand around a message")
        if f.dir != "in" and e.cls in ("post", "any"):
            raise Bad(f.loc, f"'{e.name}' can be sent without waiting, so it has no outputs")
        if f.dir != "in" and f.variable and not e.raw:
            raise Bad(f.loc, "a reply of variable size needs a raw handler")
        if f.dir == "inout" and f.kind != "scalar":
            raise Bad(f.loc, "only scalars are inout")
        e.fields.append(f)

    def special(self, loc, k, w):
        f = self.field(loc, "in", False, w)
        if f.kind != "scalar" or not f.type.handles:
            raise Bad(loc, f"{k} wants a handle")
        f.role = k
        return f

    def type(self, loc, name):
        t = self.api.types.get(name)
        if not t:
            raise Bad(loc, f"unknown type '{name}'")
        return t

    def number(self, loc, text):
        if not text.isdigit() or int(text) == 0:
            raise Bad(loc, f"'{text}' is not a positive number")
        return int(text)

    def field(self, loc, dir, optional, w):
        if len(w) >= 2 and w[0] in ("bytes", "str"):
            if len(w) != 4 or w[2] != "max":
                raise Bad(loc, f"{w[0]} NAME max BYTES")
            return Field(loc, dir, w[0], self.ident(loc, w[1]), type=self.api.types["u8"],
                         max=self.number(loc, w[3]), optional=optional)
        m = re.match(r"(.+[ *])([A-Za-z_]\w*)(\[(\d*)\])?( max (\d+))?$", " ".join(w))
        if not m:
            raise Bad(loc, "DIRECTION TYPE NAME")
        ctype, name, arr, n, has_max, most = m.groups()
        ctype = ctype.strip()
        f = Field(loc, dir, "scalar", name, ctype, optional=optional)
        if isinstance(self.cur, Entry) and self.cur.cls == "alias":
            return f
        f.type = self.type(loc, ctype)
        if arr and not n:
            if not has_max:
                raise Bad(loc, f"'{name}[]' needs max COUNT")
            f.kind, f.max = "list", self.number(loc, most)
        elif has_max:
            raise Bad(loc, f"max is for {name}[], bytes and str")
        elif arr:
            f.kind, f.count = "array", self.number(loc, n)
        if f.type.record and f.kind == "array":
            raise Bad(loc, f"records travel alone or in a list: {ctype} {name}[] max COUNT")
        return f

    def op_number(self, loc, text):
        op = self.number(loc, text)
        if op >= OPS_MAX:
            raise Bad(loc, f"operation {op} is not below {OPS_MAX}")
        return op

    def ident(self, loc, name):
        if not IDENT.match(name):
            raise Bad(loc, f"'{name}' is not a name")
        return name

    def record_field(self, loc, w):
        f = self.field(loc, "in", False, w)
        if f.variable:
            raise Bad(loc, "a record has fixed size")
        if f.type.record:
            raise Bad(loc, "a record has no records in it")
        self.cur.fields.append(f)

    # ---- when all files have been read ----

    def finish(self):
        for r in self.api.records:
            self.finish_record(r)
        for e in self.api.ops:
            self.finish_layout(e)
        for e in self.api.entries:
            if e.kind == "fn" and e.cls in ("call", "post"):
                self.finish_fn(e)
            if e.target:
                self.finish_target(e)
        self.finish_numbers()
        return self.api

    def finish_numbers(self):
        """Numbers are given once and for ever, so whoever adds an operation writes one."""
        taken = {}
        for e in self.api.entries:
            if e.op and not e.on_wire:
                raise Bad(e.loc, f"'{e.name}' is sent as '{e.target}', whose number it has")
            if e.op in taken:
                raise Bad(e.loc, f"operation {e.op} is '{taken[e.op].name}'")
            if e.op:
                taken[e.op] = e
        for e in self.api.ops:
            if not e.op:
                raise Bad(e.loc, f"'{e.name}' has no number: the next one is op "
                                 f"{self.api.n_ops}")

    def finish_record(self, r):
        if not r.fields:
            raise Bad(r.loc, f"record '{r.name}' is empty")
        r.layout = lay_out(r.fields, [])
        if r.layout.pads:
            raise Bad(r.loc, f"record '{r.name}' has gaps or is no multiple of 8 bytes")

    def finish_layout(self, e):
        ins = [f for f in e.fields if f.dir != "out"]
        outs = [f for f in e.fields if f.dir != "in"]
        e.cmd = lay_out(ins, [])
        e.rep = lay_out(outs, [Slot("struct wire_result", "res", 8, 0)])
        for lay in (e.cmd, e.rep):
            if lay.size > FIXED_MAX:
                raise Bad(e.loc, f"'{e.name}' has {lay.size} bytes of fixed fields, "
                                 f"more than {FIXED_MAX}")
            if lay.max_size > BODY_MAX:
                raise Bad(e.loc, f"'{e.name}' may take {lay.max_size} bytes, "
                                 f"more than {BODY_MAX}")

    def finish_fn(self, e):
        for role in ("new", "stream"):
            if len([f for f in e.fields if f.role == role]) > 1:
                raise Bad(e.loc, f"'{e.name}' has more than one {role}")
        streams = [f for f in e.fields if f.role == "stream"]
        if e.pt and not streams:
            raise Bad(e.loc, f"'{e.name}' has {e.pt} but no stream")
        if e.need != "ctx" and streams:
            raise Bad(e.loc, f"'{e.name}' takes a stream and so needs a context")

    def finish_target(self, e):
        t = self.api.find(e.target)
        if not t:
            raise Bad(e.loc, f"there is no '{e.target}'")
        if e.cls == "alias":
            if t.kind != "fn" or not t.supported or t.cls == "alias":
                raise Bad(e.loc, f"'{e.target}' cannot have an alias")
            if e.pt != t.pt:
                raise Bad(e.loc, f"'{e.target}' has {t.pt or 'no per-thread variant'}")
            return
        if t.kind != "msg" or t.raw or t.payload_in:
            raise Bad(e.loc, f"'{e.target}' is not a message that a stub can send")
        if t.cls not in (e.cls, "any"):
            raise Bad(e.loc, f"'{e.target}' is {t.cls}, not {e.cls}")
        self.match_target(e, t)

    def match_target(self, e, t):
        """Every field of the message is given once, by a parameter or by `set`."""
        given = {}
        for name, loc in [(f.name, f.loc) for f in e.fields] + [(s[0], s[2]) for s in e.sets]:
            f = t.part(name)
            if not f:
                raise Bad(loc, f"'{e.target}' has no field '{name}'")
            if name in given:
                raise Bad(loc, f"'{name}' is given twice")
            given[name] = loc
        for f in t.fields:
            mine = e.part(f.name)
            if f.dir != "out" and f.name not in given:
                raise Bad(e.loc, f"'{e.name}' does not give '{f.name}' of '{e.target}'")
            if mine and (mine.dir, mine.kind) != (f.dir, f.kind):
                raise Bad(mine.loc, f"'{f.name}' is {f.dir} {f.kind} in '{e.target}'")


def parse(paths, shown=None):
    """Reads description files in order. `shown` names them in errors (default: paths)."""
    p = Parser()
    for path, name in zip(paths, shown or paths):
        p.file(path, name)
    return p.finish()
