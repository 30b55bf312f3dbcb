/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of parameters and their layout, of functions and of prototypes. */
#include <errno.h>

#include "ptx/ptx_insn.h"

static int param_reg(struct ptx_parser *p, struct ptx_sym *sym, const struct ptx_decl *d,
		     bool declare, struct ptx_param *q)
{
	struct ptx_bind *b;
	uint32_t idx;
	int r;

	q->size = d->type == PTX_T_PRED ? 1 : ptx_decl_size(d);
	q->align = q->size;
	if (!declare)
		return 0;
	r = ptx_new_reg(p, d->type, NULL, 0, &idx);
	if (r == 0)
		r = ptx_declare(p, sym, PTX_BD_REG, &b);
	if (r < 0)
		return r;
	b->idx = idx;
	b->type = d->type;
	b->n = 1;
	q->reg = (int32_t)idx;
	return 0;
}

static int param_mem(struct ptx_parser *p, struct ptx_sym *sym, const struct ptx_decl *d,
		     bool declare, bool entry, uint32_t *off, struct ptx_param *q)
{
	uint64_t count, inner, size;
	struct ptx_bind *b;
	bool open;
	int r = ptx_dims(p, &count, &q->is_array, &open, &inner);

	if (r < 0)
		return r;
	if (open || __builtin_mul_overflow(count, (uint64_t)ptx_decl_size(d), &size) ||
	    size > PTX_MAX_LOCAL)
		return ptx_err(p, "Size of parameter '%.*s' is not supported",
			       (int)sym->len, sym->s);
	q->size = size;
	q->align = ptx_decl_align(d);
	q->offset = ALIGN_UP(*off, q->align);
	if ((uint64_t)q->offset + size > PTX_MAX_LOCAL)
		return ptx_err(p, "Parameters are too large");
	*off = q->offset + size;
	if (!declare)
		return 0;
	r = ptx_declare(p, sym, entry ? PTX_BD_KPARAM : PTX_BD_PARAM, &b);
	if (r < 0)
		return r;
	b->off = q->offset;
	b->size = q->size;
	return 0;
}

static int param(struct ptx_parser *p, bool declare, bool entry, uint32_t *off,
		 struct ptx_param *q)
{
	enum ptx_dir space = ptx_dir(p);
	struct ptx_decl d;
	struct ptx_sym *sym;
	int r;

	if (space != PTX_D_param && (space != PTX_D_reg || entry))
		return ptx_syntax(p);
	ptx_lex_next(&p->lx);
	r = ptx_decl(p, space, &d);
	if (r == 0)
		r = ptx_want_word(p, &sym);
	if (r < 0)
		return r;
	*q = (struct ptx_param){.reg = -1, .type = d.type};
	if (sym->len == 1 && *sym->s == '_') {
		declare = false;
		q->name = "";
	} else {
		q->name = ptx_strndup(p->arena, sym->s, sym->len);
	}
	if (!q->name)
		return -ENOMEM;
	if (space == PTX_D_reg && (d.vec > 1 || (declare && !p->depth)))
		return ptx_syntax(p);
	return space == PTX_D_reg ? param_reg(p, sym, &d, declare, q)
				  : param_mem(p, sym, &d, declare, entry, off, q);
}

int ptx_params(struct ptx_parser *p, bool declare, bool entry, uint32_t *off,
	       uint32_t *align, const struct ptx_param **ret_params, uint32_t *ret_n)
{
	struct ptx_vec v = {0};
	int r = ptx_want(p, '(');

	*ret_params = NULL;
	*ret_n = 0;
	if (r < 0)
		return r;
	p->list.begin = ptx_at(p);
	while (r == 0 && !ptx_is(p, ')')) {
		struct ptx_param *q;

		if (v.n && (r = ptx_want(p, ',')) < 0)
			break;
		if (!entry && v.n == PTX_MAX_ARGS) {
			r = ptx_err(p, "Too many parameters");
			break;
		}
		q = ptx_vec_push(&v, sizeof(*q));
		r = q ? param(p, declare, entry, off, q) : -ENOMEM;
		if (r == 0)
			*align = MAX(*align, q->align);
	}
	if (r == 0) {
		p->list.end = ptx_at(p);
		ptx_lex_next(&p->lx);
		*ret_params = ptx_memdup(p->arena, v.p, v.n * sizeof(struct ptx_param));
		*ret_n = v.n;
		if (!*ret_params)
			r = -ENOMEM;
	}
	ptx_vec_fini(&v);
	return r;
}
