/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several modules into one. First every name gets an index in the new module and one
 * definition that counts; then what counts is copied, its indexes renamed, into an arena
 * of its own. Names that are local to a module stay apart.
 */
#include <errno.h>
#include <string.h>

#include "ptx/ptx_int.h"

/* Where the definition of a new index comes from. */
struct origin {
	uint32_t module, idx;
};

struct linker {
	const struct ptx_module *const *in;
	size_t n;
	struct ptx_log *log;
	struct ptx_arena *tmp, *arena;
	struct ptx_lex names[2];    /* functions, variables: word -> bind->idx */
	struct ptx_vec funcs, vars; /* struct origin */
	uint32_t **fmap, **vmap;    /* [module][old index] -> new index */
	struct ptx_func *out_funcs;
	struct ptx_var *out_vars;
};

static void linker_fini(struct linker *l)
{
	ptx_lex_fini(&l->names[0]);
	ptx_lex_fini(&l->names[1]);
	ptx_vec_fini(&l->funcs);
	ptx_vec_fini(&l->vars);
	ptx_arena_free(l->tmp);
	ptx_arena_free(l->arena);
}

static int fail(struct linker *l, const char *what, const char *name)
{
	ptx_log_line(l->log, "nvlink error   : %s '%s'", what, name);
	return -EINVAL;
}

/* The index of a name, a new one (with this origin) when it has none. *ret_old says
 * which. Local names always get a new one. */
static int name_index(struct linker *l, struct ptx_lex *names, struct ptx_vec *list,
		      const char *name, bool local, struct origin from, bool *ret_old,
		      uint32_t *ret_idx)
{
	struct ptx_sym *sym = NULL;
	struct origin *o;

	*ret_old = false;
	if (!local) {
		sym = ptx_intern(names, name, strlen(name));
		if (!sym)
			return -ENOMEM;
		if (sym->bind) {
			*ret_old = true;
			*ret_idx = sym->bind->idx;
			return 0;
		}
		sym->bind = ptx_alloc(l->tmp, sizeof(*sym->bind));
		if (!sym->bind)
			return -ENOMEM;
		sym->bind->idx = (uint32_t)list->n;
	}
	*ret_idx = (uint32_t)list->n;
	o = ptx_vec_push(list, sizeof(*o));
	if (!o)
		return -ENOMEM;
	*o = from;
	return 0;
}

static bool same_shape(const struct ptx_func *a, const struct ptx_func *b)
{
	struct ptx_proto p = {a->nrets, a->nparams, a->rets, a->params, false};

	return a->is_entry == b->is_entry && ptx_sig_match(&p, b);
}

static bool defined(const struct ptx_func *f)
{
	return f->has_body || f->alias >= 0;
}

static int merge_func(struct linker *l, struct origin *now, struct origin new)
{
	const struct ptx_func *a = &l->in[now->module]->funcs[now->idx];
	const struct ptx_func *b = &l->in[new.module]->funcs[new.idx];

	if (!same_shape(a, b))
		return fail(l, "Function is declared in two different ways:", a->name);
	if (!defined(b))
		return 0;
	if (!defined(a) || (a->linkage == PTX_LINK_WEAK && b->linkage != PTX_LINK_WEAK)) {
		*now = new;
		return 0;
	}
	if (b->linkage == PTX_LINK_WEAK)
		return 0;
	return fail(l, "Multiple definition of", a->name);
}

static int merge_var(struct linker *l, struct origin *now, struct origin new)
{
	const struct ptx_var *a = &l->in[now->module]->vars[now->idx];
	const struct ptx_var *b = &l->in[new.module]->vars[new.idx];
	bool a_soft = a->linkage == PTX_LINK_WEAK || a->linkage == PTX_LINK_COMMON;
	bool b_soft = b->linkage == PTX_LINK_WEAK || b->linkage == PTX_LINK_COMMON;

	if (a->space != b->space || a->dynamic != b->dynamic)
		return fail(l, "Variable is declared in two different ways:", a->name);
	if (a->dynamic) {
		if (b->align > a->align)
			*now = new;
		return 0;
	}
	if (b->linkage == PTX_LINK_EXTERN)
		return 0;
	if (a->linkage == PTX_LINK_EXTERN) {
		if (a->size > b->size)
			return fail(l, "Size does not match for", a->name);
		*now = new;
		return 0;
	}
	if (!a_soft && !b_soft)
		return fail(l, "Multiple definition of", a->name);
	/* A strong one wins, then the larger of two common ones, then the first. */
	if ((a_soft && !b_soft) ||
	    (a_soft && b->linkage == PTX_LINK_COMMON && b->size > a->size))
		*now = new;
	return 0;
}

static int resolve_module(struct linker *l, uint32_t m)
{
	const struct ptx_module *in = l->in[m];
	int r = 0;
	bool old;

	l->fmap[m] = ptx_alloc(l->tmp, in->nfuncs * sizeof(uint32_t));
	l->vmap[m] = ptx_alloc(l->tmp, in->nvars * sizeof(uint32_t));
	if (!l->fmap[m] || !l->vmap[m])
		return -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < in->nfuncs; i++) {
		const struct ptx_func *f = &in->funcs[i];
		struct origin from = {m, i};

		r = name_index(l, &l->names[0], &l->funcs, f->name,
			       f->linkage == PTX_LINK_LOCAL && f->has_body, from, &old,
			       &l->fmap[m][i]);
		if (r == 0 && old)
			r = merge_func(l, (struct origin *)l->funcs.p + l->fmap[m][i],
				       from);
	}
	for (uint32_t i = 0; r == 0 && i < in->nvars; i++) {
		const struct ptx_var *v = &in->vars[i];
		struct origin from = {m, i};

		r = name_index(l, &l->names[1], &l->vars, v->name,
			       v->linkage == PTX_LINK_LOCAL || v->func >= 0, from, &old,
			       &l->vmap[m][i]);
		if (r == 0 && old)
			r = merge_var(l, (struct origin *)l->vars.p + l->vmap[m][i],
				      from);
	}
	return r;
}

/* ---- copies
 * ---------------------------------------------------------------------------- */

static const struct ptx_param *copy_params(struct linker *l, const struct ptx_param *p,
					   uint32_t n)
{
	struct ptx_param *q = ptx_memdup(l->arena, p, n * sizeof(*q));

	for (uint32_t i = 0; q && i < n; i++) {
		q[i].name = ptx_strndup(l->arena, p[i].name, strlen(p[i].name));
		if (!q[i].name)
			return NULL;
	}
	return q;
}

static void rename_opnd(struct linker *l, uint32_t m, struct ptx_opnd *o)
{
	if (o->kind == PTX_O_FUNC)
		o->idx = l->fmap[m][o->idx];
	else if (o->kind == PTX_O_VAR)
		o->idx = l->vmap[m][o->idx];
}

static int copy_insns(struct linker *l, uint32_t m, struct ptx_func *f)
{
	struct ptx_insn *insns =
		ptx_memdup(l->arena, f->insns, f->ninsns * sizeof(struct ptx_insn));

	if (!insns)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->ninsns; i++) {
		struct ptx_opnd *o =
			ptx_memdup(l->arena, insns[i].o, insns[i].nopnds * sizeof(*o));

		if (!o)
			return -ENOMEM;
		for (uint8_t k = 0; k < insns[i].nopnds; k++) {
			rename_opnd(l, m, &o[k]);
			if (o[k].kind != PTX_O_VEC)
				continue;
			o[k].elem = ptx_memdup(l->arena, o[k].elem, o[k].n * sizeof(*o));
			if (!o[k].elem)
				return -ENOMEM;
		}
		insns[i].o = o;
	}
	f->insns = insns;
	return 0;
}

static int copy_tables(struct linker *l, struct ptx_func *f)
{
	struct ptx_table *t =
		ptx_memdup(l->arena, f->tables, f->ntables * sizeof(struct ptx_table));
	struct ptx_proto *p =
		ptx_memdup(l->arena, f->protos, f->nprotos * sizeof(struct ptx_proto));

	if (!t || !p)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->ntables; i++) {
		t[i].target =
			ptx_memdup(l->arena, t[i].target, t[i].n * sizeof(uint32_t));
		if (!t[i].target)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < f->nprotos; i++) {
		p[i].rets = copy_params(l, p[i].rets, p[i].nrets);
		p[i].params = copy_params(l, p[i].params, p[i].nparams);
		if (!p[i].rets || !p[i].params)
			return -ENOMEM;
	}
	f->tables = t;
	f->protos = p;
	return 0;
}

static int copy_func(struct linker *l, struct origin from, struct ptx_func *f)
{
	int r;

	*f = l->in[from.module]->funcs[from.idx];
	f->source = NULL;
	f->name = ptx_strndup(l->arena, f->name, strlen(f->name));
	f->params = copy_params(l, f->params, f->nparams);
	f->rets = copy_params(l, f->rets, f->nrets);
	f->regs = ptx_memdup(l->arena, f->regs, f->nregs * sizeof(struct ptx_reg));
	if (!f->name || !f->params || !f->rets || !f->regs)
		return -ENOMEM;
	f->addr_taken = f->called = false;
	if (f->alias >= 0)
		f->alias = (int32_t)l->fmap[from.module][f->alias];
	r = copy_insns(l, from.module, f);
	return r < 0 ? r : copy_tables(l, f);
}

static int copy_var(struct linker *l, struct origin from, struct ptx_var *v)
{
	struct ptx_reloc *rel;

	*v = l->in[from.module]->vars[from.idx];
	v->name = ptx_strndup(l->arena, v->name, strlen(v->name));
	rel = ptx_memdup(l->arena, v->relocs, v->nrelocs * sizeof(*rel));
	if (!v->name || !rel)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->nrelocs; i++)
		rel[i].target = rel[i].is_func ? l->fmap[from.module][rel[i].target]
					       : l->vmap[from.module][rel[i].target];
	v->relocs = rel;
	if (v->init_bytes) {
		v->init = ptx_memdup(l->arena, v->init, v->init_bytes);
		if (!v->init)
			return -ENOMEM;
	}
	if (v->func >= 0)
		v->func = (int32_t)l->fmap[from.module][v->func];
	return 0;
}

static int copy_all(struct linker *l)
{
	const struct origin *ff = l->funcs.p, *vf = l->vars.p;
	int r = 0;

	l->out_funcs = ptx_alloc(l->arena, l->funcs.n * sizeof(struct ptx_func));
	l->out_vars = ptx_alloc(l->arena, l->vars.n * sizeof(struct ptx_var));
	if (!l->out_funcs || !l->out_vars)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < l->funcs.n; i++)
		r = copy_func(l, ff[i], &l->out_funcs[i]);
	for (size_t i = 0; r == 0 && i < l->vars.n; i++) {
		r = copy_var(l, vf[i], &l->out_vars[i]);
		if (r == 0 && l->out_vars[i].linkage == PTX_LINK_EXTERN &&
		    !l->out_vars[i].dynamic)
			r = fail(l, "Undefined reference to", l->out_vars[i].name);
	}
	return r;
}

static int link_all(struct linker *l, struct ptx_module *m)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < l->n; i++) {
		m->version = MAX(m->version, l->in[i]->version);
		if (l->in[i]->sm >= m->sm) {
			m->sm = l->in[i]->sm;
			m->sm_suffix = l->in[i]->sm_suffix;
		}
		r = resolve_module(l, i);
	}
	if (r == 0)
		r = copy_all(l);
	if (r < 0)
		return r;
	m->funcs = l->out_funcs;
	m->vars = l->out_vars;
	m->nfuncs = (uint32_t)l->funcs.n;
	m->nvars = (uint32_t)l->vars.n;
	m->address_bits = 64;
	return ptx_finish(l->arena, l->out_funcs, m->nfuncs, l->out_vars, m->nvars);
}

int ptx_link(const struct ptx_module *const *modules, size_t n, struct ptx_log *log,
	     struct ptx_module **ret_module)
{
	_cleanup_(linker_fini) struct linker l = {.in = modules, .n = n, .log = log};
	struct ptx_module *m;
	int r;

	l.tmp = ptx_arena_new();
	l.arena = ptx_arena_new();
	if (!l.tmp || !l.arena)
		return -ENOMEM;
	m = ptx_alloc(l.arena, sizeof(*m));
	l.fmap = ptx_alloc(l.tmp, n * sizeof(*l.fmap));
	l.vmap = ptx_alloc(l.tmp, n * sizeof(*l.vmap));
	if (!m || !l.fmap || !l.vmap || ptx_lex_init(&l.names[0], "", 0, l.tmp) < 0 ||
	    ptx_lex_init(&l.names[1], "", 0, l.tmp) < 0)
		return -ENOMEM;
	r = link_all(&l, m);
	if (r < 0)
		return r;
	m->arena = steal(l.arena);
	*ret_module = m;
	return 0;
}
