/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of all lower_*() functions: ops are entered here, and what cannot be is said. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "simt/lower/lower.h"

#define MAX_OPS (1u << 26)

/* ---- log ---- */

static void say(struct lower *l, const char *fmt, ...) _printf_(2, 3);

static void say(struct lower *l, const char *fmt, ...)
{
	struct ptx_log *log = l->log;
	va_list ap;
	int n;

	if (!log || !log->buf || log->len >= log->cap)
		return;
	va_start(ap, fmt);
	n = vsnprintf(log->buf + log->len, log->cap - log->len, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n >= log->cap - log->len)
		log->buf[log->len] = 0; /* a line is there as a whole or not at all */
	else
		log->len += (size_t)n;
}

int lower_refuse(struct lower *l, const char *why)
{
	const struct ptx_insn *in = l->insn;

	say(l,
	    "ptxas application ptx input, line %u; error   : Feature '%s' not supported: "
	    "%s\n",
	    in->line, ptx_op_name(in->op), why);
	return -EOPNOTSUPP;
}

int lower_unresolved(struct lower *l, const char *name)
{
	say(l,
	    "ptxas application ptx input, line %u; error   : Unresolved extern function "
	    "'%s'\n",
	    l->insn->line, name);
	return -ENOENT;
}

/* ---- ops ---- */

static int reserve_op(struct lower *l)
{
	size_t cap = l->cap_ops ? 2 * l->cap_ops : 1024;
	struct simt_op *ops;
	uint32_t *origin;

	if (l->num_ops < l->cap_ops)
		return 0;
	if (cap > MAX_OPS)
		return -ENOMEM;
	ops = realloc(l->ops, cap * sizeof(*ops));
	if (!ops)
		return -ENOMEM;
	l->ops = ops;
	origin = realloc(l->origin, cap * sizeof(*origin));
	if (!origin)
		return -ENOMEM;
	l->origin = origin;
	l->cap_ops = cap;
	return 0;
}

struct simt_op *lower_emit(struct lower *l, const char *fmt, ...)
{
	char name[64];
	simt_fn *fn;
	struct simt_op *op;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	fn = simt_handler_find(name);
	if (!fn) {
		l->error = lower_refuse(l, name);
		return NULL;
	}
	if (reserve_op(l) < 0) {
		l->error = -ENOMEM;
		return NULL;
	}
	l->origin[l->num_ops] = l->insn_at;
	op = &l->ops[l->num_ops++];
	memset(op, 0, sizeof(*op));
	op->fn = fn;
	op->guard = SIMT_NO_GUARD;
	if (l->insn->guard >= 0) {
		op->guard = l->row[l->insn->guard];
		op->guard_neg = l->insn->guard_neg;
	}
	return op;
}
