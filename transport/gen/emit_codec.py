# SPDX-License-Identifier: Apache-2.0
"""codec.[ch]: how bodies are filled, decoded and shown."""

from emit_ops import HEAD


def counts(lay):
    return [f"uint32_t {p.length}" for p in lay.parts]


def bytes_of(p):
    return p.length if p.elem_size == 1 else f"(uint64_t){p.length} * {p.elem_size}"


def const_type(p):
    return {"bytes": "void", "str": "char"}.get(p.kind) or p.type.c


def size_fn(name, lay):
    body = " + ".join([f"(uint32_t)sizeof(struct {name})"]
                      + [f"parts_room({bytes_of(p)})" for p in lay.parts])
    return (f"\n/* Bytes of a {name} with its parts. */\n"
            f"static inline uint32_t {name}_size({', '.join(counts(lay)) or 'void'})\n"
            f"{{\n\treturn {body};\n}}\n")


def part_fns(name, lay):
    """Where each part lies, given the lengths of those before it; they are not read back,
    since m may be memory that the other side can write."""
    out = ""
    for i, p in enumerate(lay.parts):
        before = lay.parts[:i]
        at = " + ".join(["sizeof(*m)"] + [f"parts_room({bytes_of(q)})" for q in before])
        args = ", ".join([f"struct {name} *m"] + [f"uint32_t {q.length}" for q in before])
        out += (f"\nstatic inline {const_type(p)} *{name}_{p.name}({args})\n"
                f"{{\n\treturn (void *)((uint8_t *)m + {at});\n}}\n")
    return out


def init_fn(name, lay, whole):
    """Zeroes fields (whole) or padding and, for parts, sets lengths and zeroes their tails."""
    args = ", ".join([f"struct {name} *m"] + counts(lay))
    out = f"\nstatic inline void {name}_init({args})\n{{\n"
    if whole and lay.size:
        out += "\tmemset(m, 0, sizeof(*m));\n"
    for s in [] if whole else lay.pads:
        out += (f"\tm->{s.name} = 0;\n" if s.count == 1 else
                f"\tmemset(m->{s.name}, 0, sizeof(m->{s.name}));\n")
    for i, p in enumerate(lay.parts):
        part = f"{name}_{p.name}({', '.join(['m'] + [q.length for q in lay.parts[:i]])})"
        out += f"\tm->{p.length} = {p.length};\n"
        out += f"\tparts_zero_tail({part}, {bytes_of(p)});\n"
    return out + "}\n"


def args_struct(name, lay, payload, arg):
    var = arg.rsplit("_", 1)[1]
    out = f"\nstruct {name} {{\n\tconst struct {arg} *{var};\n"
    for p in lay.parts:
        note = {"str": "with its NUL", "bytes": f"{var}->{p.length} bytes",
                "list": f"{var}->{p.length} of them"}[p.kind]
        out += f"\tconst {const_type(p)} *{p.name}; /* {note} */\n"
    if payload:
        out += "\tconst void *payload; /* may change under the reader's eyes */\n"
        out += "\tuint32_t payload_size;\n"
    return out + "};\n"


def codec_h(api):
    out = HEAD.format("how bodies are filled and decoded")
    out += """#ifndef WEFT_CODEC_H
#define WEFT_CODEC_H

#include "gen/parts.h"
#include "lane.h"
#include "ops.h"

/*
 * Filling a body: X_cmd_size() bytes, then X_cmd_init() (which zeroes the fields, since a
 * record lies where earlier ones were, and sets the lengths of the variable parts), then the
 * fields, then the parts at X_cmd_<part>(), which takes the lengths of the parts before it.
 * The same with _rep for replies, of which only padding is zeroed: the result is there before.
 *
 * Decoding: X_decode() checks sizes, padding, counts and strings of a command and returns
 * 0, -EPROTO, or -EOPNOTSUPP where a field of a newer library lies in what is padding here;
 * the pointers lead into the message. X_reply_decode() does the same for a reply with
 * variable parts, in which what a newer host adds is not looked at. Structures
 * must have the size that they have here: lane_fit_msg(), lane_fit_reply().
 */

/* Name of an operation, or "?" */
const char *codec_name(uint16_t op);

/*
 * Writes "name(field=value, ...)" for a command that has passed its decoder; longer text
 * is cut. Returns buf.
 */
const char *codec_print(const struct lane_msg *m, char *buf, size_t size);

/* Runs the decoder of m's operation: 0, -EPROTO or -EOPNOTSUPP. For tests and fuzzing. */
int codec_check(const struct lane_msg *m);

/* Bytes of the structures of an operation, as this end knows them; 0 where it does not. */
struct codec_shape {
	uint16_t cmd, rep;
	/* Bytes of the command's fields, without padding behind the last, and one more. */
	uint16_t known;
};

extern const struct codec_shape codec_shapes[WIRE_NUM_OPS];
"""
    for e in api.ops:
        name = f"{e.name}_cmd"
        out += size_fn(name, e.cmd) if e.cmd.parts else ""
        out += part_fns(name, e.cmd) + init_fn(name, e.cmd, True)
        out += args_struct(f"{e.name}_args", e.cmd, e.payload_in, name)
        out += (f"int {e.name}_decode(const struct lane_msg *m, "
                f"struct {e.name}_args *ret);\n")
        if e.rep.parts:
            name = f"{e.name}_rep"
            out += size_fn(name, e.rep) + part_fns(name, e.rep) + init_fn(name, e.rep, False)
            out += args_struct(f"{e.name}_reply", e.rep, "", name)
            out += (f"int {e.name}_reply_decode(const void *body, uint32_t size, "
                    f"struct {e.name}_reply *ret);\n")
    return out + "\n#endif\n"


def pad_check(s, var):
    return (f"{var}->{s.name}" if s.count == 1 else
            f"!parts_zero({var}->{s.name}, sizeof({var}->{s.name}))")


def pad_checks(lay, var):
    """Gaps stay gaps for ever; where the structure ends a newer end may have a field."""
    out = ""
    tail = [s for s in lay.pads if s.offset + s.size == lay.size]
    gaps = [s for s in lay.pads if s not in tail]
    for pads, code in ((gaps, "EPROTO"), (tail, "EOPNOTSUPP")):
        if pads:
            out += (f"\tif ({' || '.join(pad_check(s, var) for s in pads)})\n"
                    f"\t\treturn -{code};\n")
    return out


def take(p, var):
    if p.kind == "str":
        return f"parts_take_str(&p, {var}->{p.length}, {p.max})"
    return f"parts_take(&p, {var}->{p.length}, {p.max}, {p.elem_size})"


def decode_body(lay, var, body, size, extra):
    """The statements after the declarations of a decoder."""
    wrong = [f"{size} < sizeof(*{var})" if lay.parts else f"{size} != sizeof(*{var})"] + extra
    out = f"\n\tif ({' || '.join(wrong)})\n\t\treturn -EPROTO;\n"
    if var == "cmd":
        out += pad_checks(lay, var)
    for p in lay.parts:
        out += f"\t{p.name} = {take(p, var)};\n"
    if lay.parts:
        wrong = "!parts_end(&p)" if var == "cmd" else "p.bad"
        out += f"\tif ({wrong})\n\t\treturn -EPROTO;\n"
    out += f"\tret->{var} = {var};\n"
    return out + "".join(f"\tret->{p.name} = {p.name};\n" for p in lay.parts)


def decode_decls(lay, name, var, body, size):
    out = f"\tconst struct {name} *{var} = {body};\n"
    if lay.parts:
        out += f"\tstruct parts p = {{{body}, {size}, sizeof(*{var}), false}};\n"
    return out + "".join(f"\tconst {const_type(p)} *{p.name};\n" for p in lay.parts)


def decoder(e):
    payload = {"": ["m->payload_size"], "yes": ["!m->payload_size"]}.get(e.payload_in, [])
    out = f"\nint {e.name}_decode(const struct lane_msg *m, struct {e.name}_args *ret)\n{{\n"
    out += decode_decls(e.cmd, f"{e.name}_cmd", "cmd", "m->body", "m->body_size")
    out += decode_body(e.cmd, "cmd", "m->body", "m->body_size", payload)
    if e.payload_in:
        out += "\tret->payload = m->payload;\n\tret->payload_size = m->payload_size;\n"
    return out + "\treturn 0;\n}\n"


def reply_decoder(e):
    out = (f"\nint {e.name}_reply_decode(const void *body, uint32_t size, "
           f"struct {e.name}_reply *ret)\n{{\n")
    out += decode_decls(e.rep, f"{e.name}_rep", "rep", "body", "size")
    return out + decode_body(e.rep, "rep", "body", "size", []) + "\treturn 0;\n}\n"


PRINTER = """
/* What codec_print() knows of a field: where it lies in the body and how to read it. */
struct shown {
	const char *name;
	uint32_t offset;
	char kind; /* u unsigned, i signed, f float */
	uint8_t size;
};

static uint64_t read_bits(const void *p, unsigned size)
{
	uint64_t v = 0;

	memcpy(&v, p, size);
	return v;
}

static void print_field(const struct shown *f, const void *body, char *buf, size_t size)
{
	uint64_t v = read_bits((const uint8_t *)body + f->offset, f->size);
	unsigned shift = 64 - 8 * f->size;
	float real;

	if (f->kind == 'f') {
		memcpy(&real, &v, sizeof(real));
		snprintf(buf, size, "%s=%g", f->name, (double)real);
	} else if (f->kind == 'i') {
		snprintf(buf, size, "%s=%lld", f->name, (long long)(v << shift) >> shift);
	} else {
		snprintf(buf, size, v < 1u << 20 ? "%s=%llu" : "%s=0x%llx", f->name,
			 (unsigned long long)v);
	}
}
"""

PRINT = """
const char *codec_name(uint16_t op)
{
	return op < WIRE_NUM_OPS && rows[op].name ? rows[op].name : "?";
}

int codec_check(const struct lane_msg *m)
{
	if (m->hdr.op >= WIRE_NUM_OPS || !rows[m->hdr.op].check)
		return -EPROTO;
	return rows[m->hdr.op].check(m);
}

const char *codec_print(const struct lane_msg *m, char *buf, size_t size)
{
	const struct row *row = m->hdr.op < WIRE_NUM_OPS ? &rows[m->hdr.op] : &rows[0];
	int at = snprintf(buf, size, "%s(", codec_name(m->hdr.op));

	for (const struct shown *f = row->shown; f && f->name; f++) {
		if (at < 0 || (size_t)at + 3 > size)
			return buf;
		if (f != row->shown)
			at += snprintf(buf + at, size - (size_t)at, ", ");
		print_field(f, m->body, buf + at, size - (size_t)at);
		at += (int)strlen(buf + at);
	}
	if (m->payload_size && at >= 0 && (size_t)at < size)
		at += snprintf(buf + at, size - (size_t)at, " + %u bytes", m->payload_size);
	if (at >= 0 && (size_t)at < size)
		snprintf(buf + at, size - (size_t)at, ")");
	return buf;
}
"""


def shown_rows(slots, prefix="", base=0):
    rows = ""
    for s in slots:
        kind = "f" if s.c == "float" else "i" if s.c.startswith("int") else "u"
        each = s.size // s.count
        if s.pad or s.count > 3:
            continue
        if s.record:
            rows += shown_rows(s.record.layout.slots, f"{prefix}{s.name}.", base + s.offset)
            continue
        for i in range(s.count):
            name = prefix + (s.name if s.count == 1 else f"{s.name}[{i}]")
            rows += f'\t{{"{name}", {base + s.offset + i * each}, \'{kind}\', {each}}},\n'
    return rows


def shown(e):
    """The table of an operation's printable fields; arrays show element by element."""
    return (f"\nstatic const struct shown {e.name}_shown[] = {{\n{shown_rows(e.cmd.slots)}"
            "\t{NULL, 0, 0, 0},\n};\n")


def checker(e):
    return (f"\nstatic int check_{e.name}(const struct lane_msg *m)\n{{\n"
            f"\tstruct {e.name}_args args;\n\n\treturn {e.name}_decode(m, &args);\n}}\n")


def codec_c(api):
    out = HEAD.format("decoding of commands and replies")
    out += "#include <errno.h>\n#include <stdio.h>\n\n#include \"codec.h\"\n"
    for e in api.ops:
        out += decoder(e)
        out += reply_decoder(e) if e.rep.parts else ""
    out += PRINTER
    for e in api.ops:
        out += checker(e) + shown(e)
    out += """
struct row {
	const char *name;
	int (*check)(const struct lane_msg *m);
	const struct shown *shown;
};

static const struct row rows[WIRE_NUM_OPS] = {
"""
    for e in api.ops:
        out += (f"\t[WIRE_OP_{e.name}] = {{\"{e.name}\", check_{e.name}, "
                f"{e.name}_shown}},\n")
    out += "};\n\nconst struct codec_shape codec_shapes[WIRE_NUM_OPS] = {\n"
    for e in api.ops:
        out += f"\t[WIRE_OP_{e.name}] = {{{e.cmd.size}, {e.rep.size}, {e.cmd.known + 1}}},\n"
    return out + "};\n" + PRINT
