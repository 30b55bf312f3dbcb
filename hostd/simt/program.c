/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: variables, functions, attributes, and the checks of a launch. */
#include <errno.h>
#include <stdlib.h>

#include "simt/program.h"

/* Bytes of a call on the stack beside its variables, as on a GPU: return address. */
#define CALL_BYTES 16u

/* Arguments are on the stack here, in areas with gaps, and in registers of a GPU: what
 * fits a stack there must fit here. */
#define STACK_FACTOR 6

/* Registers that the hardware lets a thread have. */
#define MAX_REGS 255u

struct simt_block {
	struct simt_block *next;
	uint8_t data[] __attribute__((aligned(16)));
};

void *simt_program_alloc(struct simt_program *p, size_t bytes)
{
	struct simt_block *b = calloc(1, sizeof(*b) + bytes);

	if (!b)
		return NULL;
	b->next = p->blocks;
	p->blocks = b;
	return b->data;
}

static int builtin_of(const struct ptx_func *f)
{
	static const struct {
		const char *name;
		int id;
		uint32_t nparams;
	} known[] = {
		{"vprintf", SIMT_B_VPRINTF, 2},
		{"__assertfail", SIMT_B_ASSERTFAIL, 5},
		{"malloc", SIMT_B_MALLOC, 1},
		{"free", SIMT_B_FREE, 1},
	};

	if (f->has_body)
		return SIMT_B_NONE;
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(f->name, known[i].name) && f->nparams == known[i].nparams)
			return known[i].id;
	return SIMT_B_NONE;
}

static int collect_vars(struct simt_program *p)
{
	const struct ptx_module *m = p->ptx;

	p->vars = calloc(m->nvars + 1, sizeof(*p->vars));
	p->var_addr = calloc(m->nvars + 1, sizeof(*p->var_addr));
	if (!p->vars || !p->var_addr)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->nvars; i++) {
		const struct ptx_var *v = &m->vars[i];
		struct simt_var *d = &p->vars[p->num_vars];

		if (v->space != PTX_S_GLOBAL && v->space != PTX_S_CONST)
			continue;
		d->name = v->name;
		d->ptx = v;
		d->space = v->space == PTX_S_CONST ? SIMT_SPACE_CONST : SIMT_SPACE_GLOBAL;
		d->bytes = v->size;
		d->align = v->align;
		d->has_init = v->init_bytes || v->nrelocs;
		d->managed = v->managed;
		p->num_vars++;
	}
	return 0;
}

/* ---- attributes ---- */

struct walk {
	const struct simt_program *p;
	uint8_t *state;  /* 0 new, 1 on the path, 2 done */
	uint32_t *bytes; /* of the deepest chain below, itself included */
	uint32_t *todo;  /* explicit stack: functions */
	uint32_t *at;    /* ... and the next callee of each */
	bool endless;
};

/* The deepest chain of calls below a function, by a depth-first walk without recursion.
 */
static uint32_t stack_of(struct walk *k, uint32_t root)
{
	const struct ptx_module *m = k->p->ptx;
	uint32_t depth = 0;

	if (k->state[root] == 2)
		return k->bytes[root];
	k->todo[0] = root;
	k->at[0] = 0;
	k->state[root] = 1;
	k->bytes[root] = k->p->codes[root].stack_bytes;
	for (;;) {
		uint32_t f = k->todo[depth];
		const struct ptx_func *fn = &m->funcs[f];

		if (fn->has_indirect_call)
			k->endless = true;
		if (k->at[depth] < fn->ncallees) {
			uint32_t c = fn->callees[k->at[depth]++];

			if (k->state[c] == 1) {
				k->endless = true;
			} else if (k->state[c] == 0) {
				k->state[c] = 1;
				k->bytes[c] = k->p->codes[c].stack_bytes;
				depth++;
				k->todo[depth] = c;
				k->at[depth] = 0;
			} else {
				k->bytes[f] =
					MAX(k->bytes[f],
					    k->p->codes[f].stack_bytes + k->bytes[c]);
			}
			continue;
		}
		k->state[f] = 2;
		if (depth == 0)
			return k->bytes[root];
		depth--;
		k->bytes[k->todo[depth]] =
			MAX(k->bytes[k->todo[depth]],
			    k->p->codes[k->todo[depth]].stack_bytes + k->bytes[f]);
	}
}

static uint32_t estimate_regs(const struct simt_func *f)
{
	const struct ptx_func *fn = f->code->ptx;
	uint32_t n = f->code->live_regs + 8;

	if (fn->maxnreg)
		n = MIN(n, fn->maxnreg);
	return MAX(MIN(n, MAX_REGS), 16u);
}

static void set_threads(struct simt_func_attr *a, const struct ptx_func *fn)
{
	const uint32_t *lim = fn->reqntid[0] ? fn->reqntid : fn->maxntid;
	uint64_t n = 1;

	for (unsigned k = 0; k < 3; k++) {
		a->reqntid[k] = fn->reqntid[k];
		a->cluster[k] = fn->reqnctapercluster[k];
		n *= lim[k] ? lim[k] : 1;
		n = MIN(n, (uint64_t)SIMT_MAX_BLOCK_THREADS);
	}
	a->max_threads = lim[0] ? (uint32_t)n : SIMT_MAX_BLOCK_THREADS;
	a->max_cluster_rank = fn->maxclusterrank;
	a->explicit_cluster = fn->explicitcluster;
}

static int set_attr(struct simt_program *p, struct simt_func *f, struct walk *k)
{
	const struct ptx_func *fn = f->code->ptx;
	struct simt_func_attr *a = &f->attr;

	k->endless = false;
	memset(k->state, 0, p->ptx->nfuncs);
	a->local_bytes = stack_of(k, f->code->index);
	a->unbounded_stack = k->endless;
	a->shared_bytes = fn->static_shared_bytes;
	a->param_bytes = fn->param_bytes;
	a->regs = estimate_regs(f);
	for (size_t i = 0; i < p->num_vars; i++)
		if (p->vars[i].space == SIMT_SPACE_CONST)
			a->const_bytes += (uint32_t)p->vars[i].bytes;
	set_threads(a, fn);
	f->params = calloc(fn->nparams + 1, sizeof(*f->params));
	if (!f->params)
		return -ENOMEM;
	for (uint32_t i = 0; i < fn->nparams; i++) {
		f->params[i].offset = fn->params[i].offset;
		f->params[i].bytes = fn->params[i].size;
		f->params[i].align = fn->params[i].align;
	}
	a->num_params = fn->nparams;
	a->params = f->params;
	return 0;
}

int simt_program_attrs(struct simt_program *p)
{
	uint32_t n = p->ptx->nfuncs + 1;
	struct walk k = {
		.p = p,
		.state = calloc(n, 1),
		.bytes = calloc(n, sizeof(*k.bytes)),
		.todo = calloc(n, sizeof(*k.todo)),
		.at = calloc(n, sizeof(*k.at)),
	};
	int r = k.state && k.bytes && k.todo && k.at ? 0 : -ENOMEM;

	for (size_t i = 0; i < p->num_kernels && r == 0; i++)
		r = set_attr(p, &p->kernels[i], &k);
	free(k.state);
	free(k.bytes);
	free(k.todo);
	free(k.at);
	return r;
}

/* ---- construction ---- */

static void layout_frame(struct simt_code *c)
{
	const struct ptx_func *f = c->ptx;
	uint32_t align = MAX(f->local_align, 16u);

	c->area_off = 0;
	c->depot_off = ALIGN_UP(f->area_bytes, align);
	c->stack_bytes = ALIGN_UP(c->depot_off + f->local_bytes, 16u) + CALL_BYTES;
}

static int collect_funcs(struct simt_program *p)
{
	const struct ptx_module *m = p->ptx;

	p->codes = calloc(m->nfuncs + 1, sizeof(*p->codes));
	p->kernels = calloc(m->nfuncs + 1, sizeof(*p->kernels));
	if (!p->codes || !p->kernels)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->nfuncs; i++) {
		struct simt_code *c = &p->codes[i];

		c->ptx = &m->funcs[i];
		c->index = i;
		c->builtin = builtin_of(c->ptx);
		if (c->ptx->local_bytes > SIMT_MAX_STACK_BYTES ||
		    c->ptx->area_bytes > SIMT_MAX_STACK_BYTES)
			return -E2BIG;
		layout_frame(c);
		if (c->ptx->is_entry && c->ptx->has_body) {
			p->kernels[p->num_kernels].prog = p;
			p->kernels[p->num_kernels++].code = c;
		}
	}
	return 0;
}

int simt_program_new(const struct ptx_module *m, struct ptx_log *log,
		     struct simt_program **ret_prog)
{
	struct simt_program *p = calloc(1, sizeof(*p));
	int r;

	(void)log;
	if (!p)
		return -ENOMEM;
	p->ptx = m;
	r = collect_vars(p);
	if (r == 0)
		r = collect_funcs(p);
	if (r < 0) {
		simt_program_free(p);
		return r;
	}
	*ret_prog = p;
	return 0;
}

void simt_program_free(struct simt_program *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->num_kernels; i++)
		free(p->kernels[i].params);
	while (p->blocks) {
		struct simt_block *b = p->blocks;

		p->blocks = b->next;
		free(b);
	}
	free(p->vars);
	free(p->var_addr);
	free(p->codes);
	free(p->kernels);
	free(p->ops);
	free(p->origin);
	free(p->konst);
	free(p);
}

struct simt_var *simt_program_vars(struct simt_program *p, size_t *ret_num)
{
	*ret_num = p->num_vars;
	return p->vars;
}

static uint64_t reloc_value(const struct simt_program *p, const struct ptx_reloc *rel)
{
	uint64_t v;

	if (rel->is_func) {
		v = simt_code_addr(rel->target);
	} else {
		const struct ptx_var *t = &p->ptx->vars[rel->target];

		v = t->space == PTX_S_SHARED
			    ? t->shared_off + (rel->generic ? SIMT_SHARED_BASE : 0)
			    : p->var_addr[rel->target];
	}
	return ((v + (uint64_t)rel->addend) & rel->mask) >> rel->shift;
}

void simt_var_init(const struct simt_program *p, size_t i, void *dst)
{
	const struct ptx_var *v = p->vars[i].ptx;
	uint8_t *d = dst;

	for (size_t k = 0; k < p->num_vars; k++)
		p->var_addr[p->vars[k].ptx - p->ptx->vars] = p->vars[k].addr;
	memset(d, 0, v->size);
	if (v->init_bytes)
		memcpy(d, v->init, MIN(v->init_bytes, v->size));
	for (uint32_t k = 0; k < v->nrelocs; k++) {
		const struct ptx_reloc *rel = &v->relocs[k];
		uint64_t value = reloc_value(p, rel);

		if (rel->off <= v->size && v->size - rel->off >= rel->size)
			memcpy(d + rel->off, &value, rel->size);
	}
}

const struct simt_code *simt_code_at(const struct simt_program *p, uint64_t addr)
{
	uint64_t off = addr - SIMT_CODE_BASE;
	const struct simt_code *c;

	if (addr < SIMT_CODE_BASE || off % 16 || off / 16 >= p->ptx->nfuncs)
		return NULL;
	c = &p->codes[off / 16];
	return c->ptx->has_body || c->builtin ? c : NULL;
}

size_t simt_program_num_kernels(const struct simt_program *p)
{
	return p->num_kernels;
}

const struct simt_func *simt_program_kernel(const struct simt_program *p, size_t i)
{
	return i < p->num_kernels ? &p->kernels[i] : NULL;
}

const struct simt_func *simt_program_find(const struct simt_program *p, const char *name)
{
	for (size_t i = 0; i < p->num_kernels; i++)
		if (!strcmp(p->kernels[i].code->ptx->name, name))
			return &p->kernels[i];
	return NULL;
}

const char *simt_func_name(const struct simt_func *f)
{
	return f->code->ptx->name;
}

const struct simt_func_attr *simt_func_attr(const struct simt_func *f)
{
	return &f->attr;
}

/* ---- launches ---- */

static int check_cluster(struct simt_launch *l, const struct simt_func_attr *a)
{
	uint64_t n = 1;

	if (!l->cluster[0])
		memcpy(l->cluster, a->cluster, sizeof(l->cluster));
	l->is_cluster = l->cluster[0] != 0;
	l->cluster_size = 1;
	if (!l->is_cluster)
		return 0;
	for (unsigned k = 0; k < 3; k++) {
		if (!l->cluster[k] || l->grid[k] % l->cluster[k])
			return -EINVAL;
		if (a->cluster[0] && a->cluster[k] != l->cluster[k])
			return -EINVAL;
		n *= l->cluster[k];
		if (n > SIMT_MAX_CLUSTER)
			return -EINVAL;
	}
	if (a->max_cluster_rank && n > a->max_cluster_rank)
		return -EINVAL;
	l->cluster_size = (uint32_t)n;
	return 0;
}

int simt_launch_prepare(struct simt_launch *l)
{
	const struct simt_func_attr *a = &l->func->attr;
	const struct ptx_func *fn = l->func->code->ptx;
	uint64_t threads = 1, stack;
	int r;

	for (unsigned k = 0; k < 3; k++) {
		if (!l->grid[k] || !l->block[k] || l->block[k] > SIMT_MAX_BLOCK_THREADS)
			return -EINVAL;
		if (a->reqntid[0] && l->block[k] != (a->reqntid[k] ? a->reqntid[k] : 1))
			return -EINVAL;
		threads *= l->block[k];
	}
	if (threads > a->max_threads)
		return -EINVAL;
	r = check_cluster(l, a);
	if (r < 0)
		return r;
	l->num_warps = (uint32_t)(threads + SIMT_WARP - 1) / SIMT_WARP;
	l->dyn_shared_offset = fn->dyn_shared_off;
	if ((uint64_t)l->dyn_shared_bytes + MAX(fn->dyn_shared_off, a->shared_bytes) >
	    SIMT_MAX_SHARED_BYTES)
		return -E2BIG;
	l->shared_bytes = MAX(a->shared_bytes, fn->dyn_shared_off + l->dyn_shared_bytes);
	l->reserved_offset = 0;
	if (l->func->prog->has_reserved)
		l->reserved_offset = ALIGN_UP(MAX(l->shared_bytes, 1u), SIMT_SHARED_UNIT);
	stack = a->local_bytes;
	if (a->unbounded_stack)
		stack += (uint64_t)STACK_FACTOR * l->stack_bytes;
	if (a->local_bytes > SIMT_MAX_STACK_BYTES)
		return -E2BIG;
	l->local_bytes =
		(uint32_t)MIN(ALIGN_UP(stack, 16), (uint64_t)SIMT_MAX_STACK_BYTES);
	return 0;
}
