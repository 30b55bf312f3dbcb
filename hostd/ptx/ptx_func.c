/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: performance directives, declarations, bodies. */
#include <errno.h>

#include "ptx/ptx_insn.h"

#define MAX_RET_ALIGN 128u /* return values begin at a multiple of it */

/* ---- directives between parameters and body ------------------------------------------
 */

static int ints(struct ptx_parser *p, unsigned max, uint32_t *v)
{
	uint64_t n;
	int r;

	for (unsigned i = 0; i < max; i++)
		v[i] = max > 1 ? 1 : 0;
	for (unsigned i = 0; i < max; i++) {
		if (i && !ptx_eat(p, ','))
			break;
		r = ptx_const_int(p, &n);
		if (r < 0)
			return r;
		if (n > INT32_MAX)
			return ptx_err(p, "Value of a directive is too large");
		v[i] = n;
	}
	return 0;
}

static int directives(struct ptx_parser *p, struct ptx_func *f)
{
	uint32_t ignored[1];
	int r = 0;

	while (r == 0 && ptx_tok(p)->kind == PTX_TOK_DOT) {
		enum ptx_dir dir = ptx_dir(p);
		struct ptx_sym *sym = ptx_tok(p)->sym;

		ptx_lex_next(&p->lx);
		switch (dir) {
		case PTX_D_noreturn:
			f->noreturn = true;
			break;
		case PTX_D_maxntid:
			r = ints(p, 3, f->maxntid);
			break;
		case PTX_D_reqntid:
			r = ints(p, 3, f->reqntid);
			break;
		case PTX_D_reqnctapercluster:
			r = ints(p, 3, f->reqnctapercluster);
			break;
		case PTX_D_minnctapersm:
			r = ints(p, 1, &f->minnctapersm);
			break;
		case PTX_D_maxnreg:
			r = ints(p, 1, &f->maxnreg);
			break;
		case PTX_D_maxclusterrank:
			r = ints(p, 1, &f->maxclusterrank);
			break;
		case PTX_D_explicitcluster:
			f->explicitcluster = true;
			break;
		case PTX_D_maxnctapersm:
		case PTX_D_abi_preserve:
		case PTX_D_abi_preserve_control:
			r = ints(p, 1, ignored);
			break;
		case PTX_D_blocksareclusters:
			break;
		case PTX_D_pragma:
			r = ptx_skip_statement(p);
			break;
		case PTX_D_attribute:
			while (!ptx_eat(p, ')')) {
				if (ptx_is(p, ';') || ptx_is(p, '{') ||
				    ptx_tok(p)->kind == PTX_TOK_EOF ||
				    ptx_tok(p)->kind == PTX_TOK_BAD)
					return ptx_syntax(p);
				ptx_lex_next(&p->lx);
			}
			break;
		default:
			return ptx_err(p, "Unknown directive '%.*s'", (int)sym->len,
				       sym->s);
		}
	}
	return r;
}

/* ---- the table of functions -----------------------------------------------------------
 */

static bool same_shape(const struct ptx_func *a, const struct ptx_func *b)
{
	if (a->is_entry != b->is_entry || a->nparams != b->nparams ||
	    a->nrets != b->nrets)
		return false;
	for (uint32_t i = 0; i < a->nparams; i++) {
		if (a->params[i].size != b->params[i].size)
			return false;
	}
	for (uint32_t i = 0; i < a->nrets; i++) {
		if (a->rets[i].size != b->rets[i].size)
			return false;
	}
	return true;
}

/* Enters a header under its name, beside an earlier declaration of the same. */
static int enter(struct ptx_parser *p, struct ptx_sym *sym, const struct ptx_func *f,
		 bool body, uint32_t *ret_idx)
{
	struct ptx_bind *b = sym->bind;
	struct ptx_func *old;
	int r;

	while (b && b->depth)
		b = b->shadowed;
	if (!b) {
		/* The parameters are declared already, one block further in. */
		uint32_t depth = p->depth;

		p->depth = 0;
		r = ptx_declare(p, sym, PTX_BD_FUNC, &b);
		p->depth = depth;
		if (r < 0)
			return r;
		b->idx = p->funcs.n;
		old = ptx_vec_push(&p->funcs, sizeof(*old));
		if (!old)
			return -ENOMEM;
		*old = *f;
		*ret_idx = b->idx;
		return 0;
	}
	if (b->kind != PTX_BD_FUNC)
		return ptx_err(p, "Duplicate definition of '%s'", f->name);
	old = &ptx_funcs(p)[b->idx];
	if (old->has_body && body)
		return ptx_err(p, "Duplicate definition of function '%s'", f->name);
	if (!same_shape(old, f))
		return ptx_err(p, "Function '%s' is declared in two different ways",
			       f->name);
	if (body || (old->linkage == PTX_LINK_EXTERN && f->linkage != PTX_LINK_EXTERN)) {
		enum ptx_linkage linkage = f->linkage;
		bool noreturn = old->noreturn || f->noreturn;

		if (body && linkage == PTX_LINK_LOCAL)
			linkage = old->linkage == PTX_LINK_EXTERN ? PTX_LINK_VISIBLE
								  : old->linkage;
		if (!old->has_body)
			*old = *f;
		old->linkage = linkage;
		old->noreturn = noreturn;
	}
	*ret_idx = b->idx;
	return 0;
}

/* ---- functions -----------------------------------------------------------------------
 */

static void fn_fini(struct ptx_fn *fn)
{
	ptx_vec_fini(&fn->regs);
	ptx_vec_fini(&fn->insns);
	ptx_vec_fini(&fn->tables);
	ptx_vec_fini(&fn->protos);
	ptx_vec_fini(&fn->fixes);
	ptx_vec_fini(&fn->places);
	ptx_vec_fini(&fn->reg_names);
}

/* Header, directives and body, in the block that holds the parameters. */
static int function(struct ptx_parser *p, enum ptx_linkage linkage, bool entry)
{
	struct ptx_func *f = &p->fn.f;
	const struct ptx_param *rets = NULL, *params = NULL;
	uint32_t nrets = 0, nparams = 0, off = 0, align = 1, ret_off = 0, ret_bytes = 0;
	struct ptx_bind *ret_binds;
	struct ptx_sym *sym;
	bool body;
	int r = 0;

	if (ptx_dir(p) == PTX_D_attribute)
		r = directives(p, f);
	if (r == 0 && !entry && ptx_is(p, '('))
		r = ptx_params(p, true, false, &ret_bytes, &align, &rets, &nrets);
	ret_binds = p->scopes[p->depth].binds;
	p->fn.source.text.begin = (uint32_t)(p->stmt_s - p->text);
	p->fn.source.name = (struct ptx_span){ptx_at(p), ptx_at(p) + ptx_tok(p)->len};
	if (r == 0)
		r = ptx_want_word(p, &sym);
	if (r == 0 && ptx_is(p, '(')) {
		p->fn.source.has_params = true;
		r = ptx_params(p, true, entry, &off, &align, &params, &nparams);
		p->fn.source.params = p->list;
	}
	if (r < 0)
		return r;
	f->name = ptx_strndup(p->arena, sym->s, sym->len);
	if (!f->name)
		return -ENOMEM;
	if (entry && off > PTX_MAX_PARAM_BYTES)
		return ptx_err(p,
			       "Formal parameter space overflowed (%u bytes required, "
			       "max %u bytes allowed) in function '%s'",
			       off, PTX_MAX_PARAM_BYTES, f->name);
	/* Return values lie behind the parameters, which were not known before. */
	ret_off = ALIGN_UP(off, MAX_RET_ALIGN);
	for (uint32_t i = 0; i < nrets; i++) {
		struct ptx_param *q = (struct ptx_param *)&rets[i];

		if (q->align > MAX_RET_ALIGN)
			return ptx_err(p, "Alignment of a return value is too large");
		q->offset += q->reg < 0 ? ret_off : 0;
	}
	for (struct ptx_bind *b = ret_binds; b; b = b->next)
		b->off += b->kind == PTX_BD_PARAM ? ret_off : 0;
	f->params = params;
	f->rets = rets;
	f->nparams = nparams;
	f->nrets = nrets;
	f->param_bytes = off;
	f->area_align = align;
	f->local_align = 1;
	f->alias = -1;
	f->linkage = linkage;
	f->is_entry = entry;
	f->line = p->line;
	p->fn.area = entry ? 0 : ret_bytes ? ret_off + ret_bytes : off;
	f->area_bytes = p->fn.area;
	r = directives(p, f);
	if (r < 0)
		return r;
	body = ptx_is(p, '{');
	r = enter(p, sym, f, body, &p->fn.idx);
	if (r < 0)
		return r;
	if (!body)
		return ptx_eat(p, ';') ? 0 : ptx_syntax(p);
	return ptx_body(p);
}

int ptx_func_stmt(struct ptx_parser *p, enum ptx_linkage linkage)
{
	bool entry = ptx_dir(p) == PTX_D_entry;
	int r;

	p->fn = (struct ptx_fn){0};
	ptx_lex_next(&p->lx);
	r = ptx_scope_push(p);
	if (r == 0)
		r = function(p, linkage, entry);
	if (r == 0)
		r = ptx_scope_pop(p);
	fn_fini(&p->fn);
	return r;
}
