# SPDX-License-Identifier: Apache-2.0
"""dispatch.[ch]: what the worker does with a command."""

from emit_ops import HEAD


def dispatch_h(api):
    out = HEAD.format("handlers of the worker and the table that leads to them")
    out += """#ifndef WEFT_DISPATCH_H
#define WEFT_DISPATCH_H

#include "codec.h"

struct sess_lane;

enum dispatch_flag {
	DISPATCH_CALL = 1, /* may be sent so that the guest waits for the reply */
	DISPATCH_POST = 2, /* may be sent without a reply */
	DISPATCH_RAW = 4,  /* the handler replies by itself */
};

struct dispatch_row {
	const char *name;
	unsigned flags;
	uint32_t size; /* of the command's structure */
	/* Decodes, handles, replies. Returns 0, or negative: the session ends. */
	int (*run)(struct sess_lane *sl, const struct lane_msg *m);
};

/* Row 0 is empty, and so are those of operations that are no more. */
extern const struct dispatch_row dispatch_table[];

/* For commands that a library of another age means and that are not known here: whatever
 * the size, the answer is CUDA_ERROR_NOT_SUPPORTED (sess_unknown()). */
extern const struct dispatch_row dispatch_unknown;

/* The row of a command; NULL if it may not be sent in this way. */
const struct dispatch_row *dispatch_find(const struct lane_msg *m);

/*
 * The handlers, written by hand. Return 0, a CUDA error being data in rep->res.result, or
 * negative: broken protocol or dead lane, the session ends. rep is zeroed beforehand; of a
 * command sent without a reply only rep->res.result is looked at. Where the description
 * says `need ctx` the lane has a current context. A raw handler replies with
 * sess_reply_begin() and sess_reply_end().
 */
"""
    for e in api.ops:
        rep = "" if e.raw else f", struct {e.name}_rep *rep"
        out += f"int handle_{e.name}(struct sess_lane *sl, const struct {e.name}_args *a{rep});\n"
    return out + "\n#endif\n"


def trampoline(e):
    out = (f"\nstatic int run_{e.name}(struct sess_lane *sl, const struct lane_msg *m)\n{{\n"
           f"\tstruct {e.name}_args args;\n")
    if not e.raw:
        out += f"\tstruct {e.name}_rep rep = {{0}};\n"
    out += (f"\tint r = {e.name}_decode(m, &args);\n\n\tif (r < 0)\n"
            "\t\treturn r == -EOPNOTSUPP ? sess_unknown(sl) : r;\n")
    if e.raw:
        return out + f"\treturn handle_{e.name}(sl, &args);\n}}\n"
    handle = f"r = handle_{e.name}(sl, &args, &rep);\n"
    if e.need == "ctx":
        out += ("\tif (!sess_ctx_dev(sl))\n\t\trep.res.result = CUDA_ERROR_INVALID_CONTEXT;\n"
                f"\telse\n\t\t{handle}")
    else:
        out += f"\t{handle}"
    out += "\tif (r < 0)\n\t\treturn r;\n"
    return out + "\treturn sess_done(sl, &rep, sizeof(rep));\n}\n"


FLAGS = {"call": "DISPATCH_CALL", "post": "DISPATCH_POST", "any": "DISPATCH_CALL | DISPATCH_POST"}


def dispatch_c(api):
    out = HEAD.format("trampolines from commands to handlers")
    out += '#include <errno.h>\n\n#include "dispatch.h"\n#include "session/command.h"\n'
    out += "".join(map(trampoline, api.ops))
    out += "\nconst struct dispatch_row dispatch_table[WIRE_NUM_OPS] = {\n"
    for e in api.ops:
        flags = FLAGS[e.cls] + (" | DISPATCH_RAW" if e.raw else "")
        out += f"\t[WIRE_OP_{e.name}] = {{\"{e.name}\", {flags}, {e.cmd.size}, run_{e.name}}},\n"
    return out + """};

static int run_unknown(struct sess_lane *sl, const struct lane_msg *m)
{
	return sess_unknown(sl);
}

const struct dispatch_row dispatch_unknown = {
	"?", DISPATCH_CALL | DISPATCH_POST, 0, run_unknown,
};

const struct dispatch_row *dispatch_find(const struct lane_msg *m)
{
	unsigned way = m->hdr.flags & WIRE_F_ASYNC ? DISPATCH_POST : DISPATCH_CALL;

	if (m->hdr.op == 0)
		return NULL;
	if (m->hdr.op >= WIRE_NUM_OPS || !dispatch_table[m->hdr.op].run)
		return &dispatch_unknown;
	return dispatch_table[m->hdr.op].flags & way ? &dispatch_table[m->hdr.op] : NULL;
}
"""
