/* SPDX-License-Identifier: Apache-2.0 */
/* A resident block: its memory, its warps in turn, and how a launch ends by a fault. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "simt/cta.h"

#define SLAB_BYTES ((size_t)1 << 20)

/* ---- memory ---- */

void *simt_cta_alloc(struct simt_cta *c, size_t bytes)
{
	struct simt_slab *k = c->slab;

	bytes = ALIGN_UP(bytes, (size_t)64);
	while (k && k->size - k->used < bytes) {
		k = k->next;
		if (k)
			k->used = 0;
	}
	if (!k) {
		size_t size = MAX(bytes, SLAB_BYTES);

		if (c->arena_bytes + size > SIMT_ARENA_MAX)
			return NULL;
		k = aligned_alloc(64, ALIGN_UP(sizeof(*k) + size, (size_t)64));
		if (!k)
			return NULL;
		c->arena_bytes += size;
		k->size = size;
		k->used = 0;
		/* keep the list whole: behind the slab in use */
		if (c->slab) {
			k->next = c->slab->next;
			c->slab->next = k;
		} else {
			k->next = c->slabs;
			c->slabs = k;
		}
	}
	c->slab = k;
	k->used += bytes;
	return k->data + k->used - bytes;
}

/* Pages that no thread touches must cost nothing: stacks are large and rarely used. */
static int grow(uint8_t **p, size_t *cap, size_t bytes)
{
	void *n;

	if (bytes <= *cap)
		return 0;
	bytes = ALIGN_UP(bytes, (size_t)65536);
	n = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (n == MAP_FAILED)
		return -ENOMEM;
	if (*p)
		munmap(*p, *cap);
	*p = n;
	*cap = bytes;
	return 0;
}

int simt_cta_new(struct simt_cta **ret_cta)
{
	struct simt_cta *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->warps = aligned_alloc(64, ALIGN_UP(SIMT_MAX_WARPS * sizeof(*c->warps), 64ul));
	if (!c->warps) {
		free(c);
		return -ENOMEM;
	}
	memset(c->warps, 0, SIMT_MAX_WARPS * sizeof(*c->warps));
	*ret_cta = c;
	return 0;
}

static void leave_cluster(struct simt_cta *c)
{
	if (c->cluster && c->cluster->refs && --c->cluster->refs == 0)
		free(c->cluster);
	c->cluster = NULL;
}

void simt_cta_free(struct simt_cta *c)
{
	if (!c)
		return;
	leave_cluster(c);
	while (c->slabs) {
		struct simt_slab *k = c->slabs;

		c->slabs = k->next;
		free(k);
	}
	free(c->warps);
	if (c->shared)
		munmap(c->shared, c->shared_cap);
	if (c->local)
		munmap(c->local, c->local_cap);
	free(c->free_frames);
	free(c);
}

/* ---- start ---- */

/* Bytes of shared memory that threads may touch. */
static uint32_t shared_bytes(const struct simt_launch *l)
{
	return l->reserved_offset ? l->reserved_offset + SIMT_RESERVED_SHARED
				  : l->shared_bytes;
}

static int prepare_memory(struct simt_cta *c, const struct simt_launch *l,
			  uint32_t stride)
{
	size_t funcs = c->prog->ptx->nfuncs, shared = shared_bytes(l);

	if (funcs > c->free_frames_cap) {
		struct simt_frame **n = realloc(c->free_frames, funcs * sizeof(*n));

		if (!n)
			return -ENOMEM;
		c->free_frames = n;
		c->free_frames_cap = funcs;
	}
	memset(c->free_frames, 0, funcs * sizeof(*c->free_frames));
	c->free_joins = NULL;
	c->slab = c->slabs;
	if (c->slab)
		c->slab->used = 0;
	if (grow(&c->shared, &c->shared_cap, shared) < 0 ||
	    grow(&c->local, &c->local_cap, (size_t)stride * SIMT_WARP * l->num_warps) < 0)
		return -ENOMEM;
	if (l->reserved_offset)
		memset(c->shared + l->reserved_offset, 0, SIMT_RESERVED_SHARED);
	return 0;
}

static void number_threads(struct simt_warp *w, const uint32_t *block)
{
	uint32_t t = w->index * SIMT_WARP;

	for (unsigned i = 0; i < SIMT_WARP; i++, t++) {
		w->tid[0][i] = t % block[0];
		w->tid[1][i] = t / block[0] % block[1];
		w->tid[2][i] = t / block[0] / block[1];
	}
}

int simt_cta_start(struct simt_cta *c, const struct simt_launch *l, const uint32_t id[3],
		   uint32_t smid)
{
	const struct simt_func *f = l->func;
	uint32_t threads = l->block[0] * l->block[1] * l->block[2];
	/* lanes at odd multiples of 16, so that they do not share cache sets */
	uint32_t stride = ALIGN_UP(l->local_bytes, 32u) + 16;
	bool same_shape = !memcmp(c->block, l->block, sizeof(c->block));

	leave_cluster(c);
	c->prog = f->prog;
	c->launch = l;
	if (prepare_memory(c, l, stride) < 0)
		return -ENOMEM;
	memcpy(c->id, id, sizeof(c->id));
	memcpy(c->block, l->block, sizeof(c->block));
	c->smid = smid;
	c->rank = 0;
	c->alone = (struct simt_cluster){.num = 1, .live = threads, .cta = {c}};
	c->cluster = &c->alone;
	c->num_warps = c->live_warps = l->num_warps;
	c->next_warp = 0;
	memset(&c->fault, 0, sizeof(c->fault));
	memset(c->bar, 0, sizeof(c->bar));
	for (unsigned i = 0; i < SIMT_NUM_BARS; i++)
		c->bar[i].and = true;
	for (uint32_t i = 0; i < l->num_warps; i++) {
		struct simt_warp *w = &c->warps[i];
		uint32_t rest = threads - i * SIMT_WARP;

		w->index = i;
		w->cta = c;
		w->konst = c->prog->konst;
		w->mem_base = l->mem->base;
		w->mem_size = l->mem->size;
		w->perm = l->mem->perm;
		w->shared = c->shared;
		w->shared_bytes = shared_bytes(l);
		w->params = l->params;
		w->param_bytes = f->attr.param_bytes;
		w->local_stride = stride;
		w->local_bytes = l->local_bytes;
		w->local = c->local + (size_t)i * SIMT_WARP * stride;
		w->thread_instr = w->warp_instr = 0;
		memset(w->cluster_phase, 0, sizeof(w->cluster_phase));
		if (!same_shape)
			number_threads(w, l->block);
		for (unsigned k = 0; k < SIMT_WARP; k++)
			w->split[k].state = SIMT_SPLIT_FREE;
		if (simt_warp_start(w, f->code,
				    rest >= SIMT_WARP ? SIMT_FULL : (1u << rest) - 1) <
		    0) {
			c->launch = NULL;
			c->block[0] = 0;
			return -ENOMEM;
		}
	}
	return 0;
}

int simt_cta_cluster(struct simt_cta *const *ctas, unsigned num)
{
	struct simt_cluster *k;

	if (num == 0 || num > SIMT_MAX_CLUSTER)
		return -EINVAL;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->num = k->refs = num;
	for (unsigned i = 0; i < num; i++) {
		k->live += ctas[i]->alone.live;
		leave_cluster(ctas[i]);
		ctas[i]->cluster = k;
		ctas[i]->rank = i;
		k->cta[i] = ctas[i];
	}
	return 0;
}

/* ---- run ---- */

enum simt_status simt_cta_run(struct simt_cta *c, uint64_t max_warp_instr)
{
	const bool *stop = c->launch->stop;
	uint64_t budget = max_warp_instr;
	uint32_t idle = 0; /* warps in a row that did not get on */
	bool ran = false;  /* any did, in this call */

	while (c->live_warps) {
		struct simt_warp *w = &c->warps[c->next_warp];

		if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED)) {
			c->fault.code = SIMT_FAULT_KILLED;
			memcpy(c->fault.block, c->id, sizeof(c->id));
			return SIMT_FAULT;
		}
		if (!budget)
			return SIMT_MORE;
		if (w->live) {
			switch (simt_warp_run(w, &budget)) {
			case WARP_RAN:
				idle = 0;
				ran = true;
				break;
			case WARP_STUCK:
				idle++;
				break;
			case WARP_FAULT:
				return SIMT_FAULT;
			}
		} else {
			idle++;
		}
		if (++c->next_warp == c->num_warps)
			c->next_warp = 0;
		if (idle >= c->num_warps && c->live_warps) {
			bool any = false;

			/* lanes may hold each other up across warps */
			for (uint32_t i = 0; i < c->num_warps; i++)
				any |= c->warps[i].joins &&
				       simt_warp_unjoin(&c->warps[i]);
			if (!any)
				return ran ? SIMT_PAUSE : SIMT_WAIT;
			idle = 0;
		}
	}
	return SIMT_DONE;
}

void simt_cta_stats(const struct simt_cta *c, struct simt_stats *ret_stats)
{
	struct simt_stats s = {0};

	for (uint32_t i = 0; i < c->num_warps; i++) {
		s.warp_instr += c->warps[i].warp_instr;
		s.thread_instr += c->warps[i].thread_instr;
	}
	*ret_stats = s;
}

/* ---- faults ---- */

const struct simt_fault *simt_cta_fault(const struct simt_cta *c)
{
	return &c->fault;
}

const struct simt_op *simt_raise_mem(struct simt_warp *w, const struct simt_op *op,
				     enum simt_fault_code code, unsigned lane,
				     uint64_t addr, uint32_t bytes, bool write)
{
	struct simt_cta *c = w->cta;
	const struct simt_program *p = c->prog;
	struct simt_fault *f = &c->fault;
	size_t at = (size_t)(op - p->ops);

	f->code = code;
	if (at < p->num_ops) {
		const struct ptx_func *fn = w->cur->frame->code->ptx;

		f->pc = p->origin[at];
		f->func = fn->name;
		if (f->pc < fn->ninsns)
			f->line = fn->insns[f->pc].line;
	}
	f->addr = addr;
	f->bytes = bytes;
	f->write = write;
	memcpy(f->block, c->id, sizeof(f->block));
	for (unsigned k = 0; k < 3; k++)
		f->thread[k] = w->tid[k][lane % SIMT_WARP];
	w->event = SIMT_EV_FAULT;
	return NULL;
}

const struct simt_op *simt_raise(struct simt_warp *w, const struct simt_op *op,
				 enum simt_fault_code code, unsigned lane)
{
	return simt_raise_mem(w, op, code, lane, 0, 0, false);
}

const char *simt_fault_name(enum simt_fault_code code)
{
	static const char *const names[] = {
		[SIMT_FAULT_NONE] = "none",
		[SIMT_FAULT_ADDRESS] = "illegal address",
		[SIMT_FAULT_MISALIGNED] = "misaligned address",
		[SIMT_FAULT_SPACE] = "invalid address space",
		[SIMT_FAULT_PC] = "invalid program counter",
		[SIMT_FAULT_INSTR] = "illegal instruction",
		[SIMT_FAULT_STACK] = "stack overflow",
		[SIMT_FAULT_TRAP] = "trap",
		[SIMT_FAULT_ASSERT] = "assertion failed",
		[SIMT_FAULT_MEMORY] = "out of host memory",
		[SIMT_FAULT_KILLED] = "killed",
	};

	return (size_t)code < ARRAY_SIZE(names) ? names[code] : "unknown";
}
