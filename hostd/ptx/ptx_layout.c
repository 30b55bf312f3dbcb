/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a function that need the whole module: who calls whom, whose address is
 * taken, and where shared variables lie.
 *
 * A shared variable has one offset, whichever kernel runs, so that code need not be
 * decoded once per kernel. Variables that only one kernel reaches may overlap those of
 * other kernels; what several kernels reach lies in front, in all of them. Everything
 * here is linear in the size of the module: a function changes its owner at most twice.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx_int.h"

#define NOBODY    UINT32_MAX
#define SEVERAL   (UINT32_MAX - 1)
#define DYN_ALIGN 16u /* dynamic shared memory begins at least so aligned */

struct layout {
	struct ptx_func *funcs;
	struct ptx_var *vars;
	uint32_t nfuncs, nvars;
	/* Nodes are functions, and one more that stands for every indirect call. */
	uint32_t *call_at, *call; /* [nfuncs + 2], edges: callees */
	uint32_t *by_at, *by;     /* edges: callers */
	struct ptx_vec uses;      /* struct use */
	uint32_t *owner;          /* [nfuncs + 1] entry that reaches it */
	uint32_t *var_owner;      /* [nvars] */
	uint32_t *stack;          /* [2 * (nfuncs + 1)] */
	uint8_t *seen;            /* [nfuncs + 1] */
};

/* A function touches a shared variable. */
struct use {
	uint32_t func, var;
};

static void layout_fini(struct layout *l)
{
	free(l->call_at);
	free(l->call);
	free(l->by_at);
	free(l->by);
	ptx_vec_fini(&l->uses);
	free(l->owner);
	free(l->var_owner);
	free(l->stack);
	free(l->seen);
}

static uint32_t real(const struct layout *l, uint32_t func)
{
	return l->funcs[func].alias < 0 ? func : (uint32_t)l->funcs[func].alias;
}

/* One operand: names the aliasee, notes addresses taken and shared variables. */
static int visit(struct layout *l, uint32_t func, struct ptx_opnd *o, bool callee)
{
	if (o->kind == PTX_O_FUNC) {
		o->idx = real(l, o->idx);
		l->funcs[o->idx].called = true;
		if (!callee)
			l->funcs[o->idx].addr_taken = true;
	} else if (o->kind == PTX_O_VAR && l->vars[o->idx].space == PTX_S_SHARED) {
		struct use *u = ptx_vec_push(&l->uses, sizeof(*u));

		if (!u)
			return -ENOMEM;
		*u = (struct use){func, o->idx};
	}
	return 0;
}

static int visit_func(struct layout *l, uint32_t func)
{
	const struct ptx_func *f = &l->funcs[func];

	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];

		/* The operands are of the arena that this module is being built in. */
		for (uint8_t k = 0; k < in->nopnds; k++) {
			struct ptx_opnd *o = (struct ptx_opnd *)&in->o[k];
			int r = visit(l, func, o, in->op == PTX_CALL && k == 0);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* Fills f->callees; stamp[] holds the last function that noted a callee. */
static int callees(struct ptx_arena *arena, struct ptx_func *f, uint32_t self,
		   uint32_t *stamp, uint32_t *list)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];

		if (in->op != PTX_CALL || in->o[0].kind != PTX_O_FUNC ||
		    stamp[in->o[0].idx] == self)
			continue;
		stamp[in->o[0].idx] = self;
		list[n++] = in->o[0].idx;
	}
	f->ncallees = n;
	f->callees = ptx_memdup(arena, list, n * sizeof(uint32_t));
	return f->callees ? 0 : -ENOMEM;
}

static int call_lists(struct layout *l, struct ptx_arena *arena)
{
	_cleanup_free_ uint32_t *stamp = malloc((l->nfuncs + 1) * sizeof(uint32_t));
	_cleanup_free_ uint32_t *list = malloc((l->nfuncs + 1) * sizeof(uint32_t));
	int r = 0;

	if (!stamp || !list)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->nfuncs; i++)
		stamp[i] = NOBODY;
	for (uint32_t i = 0; r == 0 && i < l->nfuncs; i++)
		r = callees(arena, &l->funcs[i], i, stamp, list);
	return r;
}

/* Edges of node v, the one for indirect calls included, through fn. */
static void edges(const struct layout *l, uint32_t v, uint32_t *count, uint32_t *out)
{
	if (v == l->nfuncs) {
		for (uint32_t i = 0; i < l->nfuncs; i++) {
			if (!l->funcs[i].addr_taken)
				continue;
			if (out)
				out[*count] = i;
			++*count;
		}
		return;
	}
	if (out && l->funcs[v].ncallees)
		memcpy(out + *count, l->funcs[v].callees,
		       l->funcs[v].ncallees * sizeof(uint32_t));
	*count += l->funcs[v].ncallees;
	if (l->funcs[v].has_indirect_call) {
		if (out)
			out[*count] = l->nfuncs;
		++*count;
	}
}

static int build_graph(struct layout *l)
{
	uint32_t n = l->nfuncs + 1, total = 0;

	l->call_at = calloc(n + 1, sizeof(uint32_t));
	l->by_at = calloc(n + 2, sizeof(uint32_t));
	if (!l->call_at || !l->by_at)
		return -ENOMEM;
	for (uint32_t v = 0; v < n; v++)
		edges(l, v, &total, NULL);
	l->call = malloc((total + 1) * sizeof(uint32_t));
	l->by = malloc((total + 1) * sizeof(uint32_t));
	if (!l->call || !l->by)
		return -ENOMEM;
	total = 0;
	for (uint32_t v = 0; v < n; v++) {
		l->call_at[v] = total;
		edges(l, v, &total, l->call);
	}
	l->call_at[n] = total;
	for (uint32_t i = 0; i < total; i++)
		l->by_at[l->call[i] + 2]++;
	for (uint32_t i = 2; i <= n + 1; i++)
		l->by_at[i] += l->by_at[i - 1];
	for (uint32_t v = 0; v < n; v++) {
		for (uint32_t i = l->call_at[v]; i < l->call_at[v + 1]; i++)
			l->by[l->by_at[l->call[i] + 1]++] = v;
	}
	return 0;
}

/* Marks what entry e reaches: its own, or of several entries. A node is expanded when
 * its owner changes, so at most twice. */
static void own(struct layout *l, uint32_t e)
{
	uint32_t top = 0;

	l->owner[e] = l->owner[e] == NOBODY ? e : SEVERAL;
	l->stack[top++] = e;
	while (top) {
		uint32_t v = l->stack[--top];

		for (uint32_t i = l->call_at[v]; i < l->call_at[v + 1]; i++) {
			uint32_t w = l->call[i];
			uint32_t now = l->owner[w] == NOBODY && l->owner[v] == e ? e
				       : l->owner[w] == e && l->owner[v] == e    ? e
									      : SEVERAL;

			if (l->owner[w] == now)
				continue;
			l->owner[w] = now;
			l->stack[top++] = w;
		}
	}
}

/* Marks in seen[] all functions from which a marked one is reached. */
static void callers(struct layout *l)
{
	uint32_t top = 0;

	for (uint32_t v = 0; v <= l->nfuncs; v++) {
		if (l->seen[v])
			l->stack[top++] = v;
	}
	while (top) {
		uint32_t v = l->stack[--top];

		for (uint32_t i = l->by_at[v]; i < l->by_at[v + 1]; i++) {
			if (!l->seen[l->by[i]]) {
				l->seen[l->by[i]] = 1;
				l->stack[top++] = l->by[i];
			}
		}
	}
}

static int place(struct ptx_var *v, uint64_t *used)
{
	uint64_t off = ALIGN_UP(*used, (uint64_t)v->align);

	if (off + v->size > INT32_MAX)
		return -E2BIG;
	v->shared_off = (uint32_t)off;
	*used = off + v->size;
	return 0;
}

static int place_shared(struct layout *l)
{
	const struct use *uses = l->uses.p;
	uint64_t common = 0, used;
	uint32_t dyn_align = DYN_ALIGN;
	int r = 0;

	for (size_t i = 0; i < l->uses.n; i++) {
		uint32_t who = l->owner[uses[i].func], *now = &l->var_owner[uses[i].var];

		if (who != NOBODY)
			*now = *now == NOBODY || *now == who ? who : SEVERAL;
	}
	for (uint32_t i = 0; r == 0 && i < l->nvars; i++) {
		struct ptx_var *v = &l->vars[i];

		if (v->space == PTX_S_SHARED && v->dynamic)
			dyn_align = MAX(dyn_align, v->align);
		else if (v->space == PTX_S_SHARED && l->var_owner[i] == SEVERAL)
			r = place(v, &common);
	}
	if (r < 0)
		return r;
	memset(l->seen, 0, l->nfuncs + 1);
	for (size_t i = 0; i < l->uses.n; i++) {
		if (l->var_owner[uses[i].var] == SEVERAL)
			l->seen[uses[i].func] |= !l->vars[uses[i].var].dynamic;
	}
	callers(l);
	for (uint32_t i = 0; i < l->nfuncs; i++)
		l->funcs[i].static_shared_bytes = l->seen[i] ? (uint32_t)common : 0;
	for (uint32_t i = 0; i < l->nvars; i++) {
		struct ptx_var *v = &l->vars[i];
		uint32_t who = l->var_owner[i];

		if (v->space != PTX_S_SHARED || v->dynamic || who >= SEVERAL)
			continue;
		used = l->funcs[who].static_shared_bytes;
		r = place(v, &used);
		if (r < 0)
			return r;
		l->funcs[who].static_shared_bytes = (uint32_t)used;
	}
	for (uint32_t i = 0; i < l->nfuncs; i++) {
		struct ptx_func *f = &l->funcs[i];

		f->static_shared_bytes = f->is_entry ? f->static_shared_bytes : 0;
		f->dyn_shared_off = ALIGN_UP(f->static_shared_bytes, dyn_align);
	}
	return 0;
}

static void dyn_users(struct layout *l)
{
	const struct use *uses = l->uses.p;

	memset(l->seen, 0, l->nfuncs + 1);
	for (size_t i = 0; i < l->uses.n; i++)
		l->seen[uses[i].func] |= l->vars[uses[i].var].dynamic;
	callers(l);
	for (uint32_t i = 0; i < l->nfuncs; i++)
		l->funcs[i].uses_dyn_shared = l->seen[i];
}

static int layout(struct layout *l, struct ptx_arena *arena)
{
	int r = 0;

	for (uint32_t i = 0; i < l->nvars; i++) {
		const struct ptx_var *v = &l->vars[i];

		for (uint32_t k = 0; k < v->nrelocs; k++) {
			struct ptx_reloc *rel = (struct ptx_reloc *)&v->relocs[k];

			if (!rel->is_func)
				continue;
			rel->target = real(l, rel->target);
			l->funcs[rel->target].addr_taken = true;
			l->funcs[rel->target].called = true;
		}
	}
	for (uint32_t i = 0; r == 0 && i < l->nfuncs; i++)
		r = visit_func(l, i);
	if (r == 0)
		r = call_lists(l, arena);
	if (r == 0)
		r = build_graph(l);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i <= l->nfuncs; i++)
		l->owner[i] = NOBODY;
	for (uint32_t i = 0; i < l->nvars; i++)
		l->var_owner[i] = NOBODY;
	for (uint32_t i = 0; i < l->nfuncs; i++) {
		if (l->funcs[i].is_entry && l->funcs[i].has_body)
			own(l, i);
	}
	r = place_shared(l);
	if (r == 0)
		dyn_users(l);
	return r;
}

int ptx_finish(struct ptx_arena *arena, struct ptx_func *funcs, uint32_t nfuncs,
	       struct ptx_var *vars, uint32_t nvars)
{
	_cleanup_(layout_fini) struct layout l = {
		.funcs = funcs,
		.vars = vars,
		.nfuncs = nfuncs,
		.nvars = nvars,
	};

	l.owner = malloc((nfuncs + 1) * sizeof(uint32_t));
	l.var_owner = malloc((nvars + 1) * sizeof(uint32_t));
	l.stack = malloc(2 * (nfuncs + 1) * sizeof(uint32_t));
	l.seen = malloc(nfuncs + 1);
	if (!l.owner || !l.var_owner || !l.stack || !l.seen)
		return -ENOMEM;
	return layout(&l, arena);
}
