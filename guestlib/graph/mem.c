/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: memory that graphs allocate
 *
 * An allocation node has its address when it is added, and so it has its memory: a block
 * that the worker gives when the node is made and that stays while nodes or executable
 * graphs name it. To the worker such nodes do nothing. Within one graph a block whose
 * allocation has been freed serves a later one that is behind the free node.
 *
 * What a launch allocates and does not free is live until the program or another graph
 * frees it; launching again before that is an error, but for graphs that were
 * instantiated to free it by themselves.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "calls.h"
#include "object/extent.h"
#include "core/process.h"
#include "graph/mem.h"
#include "core/thread.h"

struct graph_block {
	struct list link; /* dying; once nobody names it */
	unsigned refs;
	CUdeviceptr addr;
	size_t size;
	uint64_t stream; /* where it was used last, as it travels; 0: nowhere */
	bool charged;    /* an exec that has it was launched */
};

static struct list mems = {&mems, &mems};
static struct list dying = {&dying, &dying};
static _Atomic unsigned n_mems, n_dying;
uint64_t graph_mem_steps;
static uint64_t used, used_high, reserved, reserved_high;

static void raise_high(void)
{
	used_high = MAX(used_high, used);
	reserved_high = MAX(reserved_high, reserved);
}

/* ---- blocks ---- */

static CUresult block_alloc(size_t size, CUdeviceptr *ret_addr)
{
	struct graph_mem_alloc_rep rep;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	r = call_graph_mem_alloc(t, size, &rep);
	if (r)
		return r;
	*ret_addr = rep.dptr;
	return CUDA_SUCCESS;
}

static CUresult block_new(size_t size, struct graph_block **ret_b)
{
	struct graph_block *b = calloc(1, sizeof(*b));
	CUresult r;

	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = block_alloc(size, &b->addr);
	if (r) {
		free(b);
		return r;
	}
	b->refs = 1;
	b->size = size;
	reserved += size;
	raise_high();
	*ret_b = b;
	return CUDA_SUCCESS;
}

/* The memory goes back later, without the lock: that may have to wait. */
static void block_put(struct graph_block *b)
{
	if (--b->refs)
		return;
	reserved -= b->size;
	if (b->charged)
		used -= b->size;
	list_append(&dying, &b->link);
	atomic_fetch_add_explicit(&n_dying, 1, memory_order_relaxed);
}

static void block_free(struct graph_block *b)
{
	bool known = guest_handle_valid(b->stream, HANDLE_STREAM);
	struct guest_thread *t;

	if (guest_enter(NEED_CTX, &t) == CUDA_SUCCESS) {
		extent_forget(t, b->addr);
		call_graph_mem_free(t, b->addr, known ? b->stream : 0,
				    b->stream && !known);
		extent_forget(t, b->addr);
	}
	free(b);
}

void graph_mem_flush(void)
{
	struct graph_block *b, *tmp;
	struct list mine;

	if (likely(!atomic_load_explicit(&n_dying, memory_order_relaxed)))
		return;
	list_init(&mine);
	graph_lock();
	list_for_each_safe (b, tmp, &dying, link) {
		list_remove(&b->link);
		list_append(&mine, &b->link);
		atomic_fetch_sub_explicit(&n_dying, 1, memory_order_relaxed);
	}
	graph_unlock();
	list_for_each_safe (b, tmp, &mine, link)
		block_free(b);
}

/* ---- allocations ---- */

static struct graph_mem *mem_ref(struct graph_mem *m)
{
	m->refs++;
	return m;
}

static void mem_look(struct graph_mem *m)
{
	if (m->refs || m->live)
		return;
	list_remove(&m->link);
	atomic_fetch_sub_explicit(&n_mems, 1, memory_order_relaxed);
	block_put(m->block);
	free(m);
}

void graph_mem_put(struct graph_mem *m)
{
	m->refs--;
	mem_look(m);
}

static struct graph_mem *find(CUdeviceptr addr)
{
	struct graph_mem *m;

	list_for_each (m, &mems, link) {
		if (m->block->addr == addr && (m->live || !m->taken_over))
			return m;
	}
	return NULL;
}

/* Nodes that a walk has come to; they are marked meanwhile. */
struct walk {
	struct graph_node **v;
	size_t n, room;
};

static bool come_to(struct walk *w, struct graph_node *n)
{
	struct graph_node **p;

	if (n->mark)
		return true;
	if (w->n == w->room) {
		size_t room = w->room ? 2 * w->room : 64;

		p = reallocarray(w->v, room, sizeof(*p));
		if (!p)
			return false;
		w->v = p;
		w->room = room;
	}
	n->mark = 1;
	w->v[w->n++] = n;
	return true;
}

static void end_walk(struct walk *w)
{
	graph_mem_steps += w->n;
	while (w->n)
		w->v[--w->n]->mark = 0;
	free(w->v);
}

/* An allocation of the graph that is freed before what depends on deps begins: the next
 * one back. Each node is looked at once. */
static struct graph_mem *freed_before(struct graph *g, const CUgraphNode *deps, size_t n,
				      size_t size)
{
	struct graph_mem *found = NULL;
	struct walk w = {0};
	struct graph_node *d;
	bool room = g->n_freed;
	size_t i, at;

	for (i = 0; i < n && room; i++) {
		d = graph_node_lookup(deps[i]);
		if (d->graph == g)
			room = come_to(&w, d);
	}
	for (at = 0; at < w.n && room && !found; at++) {
		d = w.v[at];
		if (graph_mem_reusable(d) && d->op.mem->block->size >= size)
			found = d->op.mem;
		for (i = 0; i < d->n_deps && room; i++)
			room = come_to(&w, d->deps[i].node);
	}
	end_walk(&w);
	return found;
}

static CUresult check_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	const CUmemPoolProps *props = &p->poolProps;

	if (!p->bytesize || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    props->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
	    !guest_has_device(props->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult graph_op_alloc(struct graph *g, const CUgraphNode *deps, size_t n,
			CUDA_MEM_ALLOC_NODE_PARAMS *p, struct graph_op *ret_op)
{
	struct graph_mem *m, *before;
	size_t i;
	CUresult r = p && g ? check_alloc(p) : CUDA_ERROR_INVALID_VALUE;

	for (i = 0; i < n && r == CUDA_SUCCESS; i++) {
		if (!deps || !graph_node_lookup(deps[i]))
			r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r)
		return r;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	before = freed_before(g, deps, n, p->bytesize);
	if (before) {
		m->block = before->block;
		m->block->refs++;
		before->taken_over = true;
		g->n_freed--;
	} else {
		r = block_new(p->bytesize, &m->block);
	}
	if (r) {
		free(m);
		return r;
	}
	p->dptr = m->block->addr;
	m->refs = 1;
	m->graph_id = g->id;
	m->params = *p;
	m->params.accessDescs = NULL; /* the one device has access */
	m->params.accessDescCount = 0;
	list_append(&mems, &m->link);
	atomic_fetch_add_explicit(&n_mems, 1, memory_order_relaxed);
	ret_op->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	ret_op->mem = m;
	return CUDA_SUCCESS;
}

/* Once in each graph; of what another graph allocates, too. */
CUresult graph_op_free(struct graph *g, CUdeviceptr addr, struct graph_op *ret_op)
{
	struct graph_mem *m = find(addr);
	struct graph_node *n;

	if (!g || !m)
		return CUDA_ERROR_INVALID_VALUE;
	list_for_each (n, &g->nodes, link) {
		if (n->op.type == CU_GRAPH_NODE_TYPE_MEM_FREE && n->op.mem == m)
			return CUDA_ERROR_INVALID_VALUE;
	}
	ret_op->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
	ret_op->mem = mem_ref(m);
	return CUDA_SUCCESS;
}

/* ---- launches ---- */

void graph_mem_role(struct graph_mem *m, CUgraphNodeType type, struct exec_mem *ret)
{
	*ret = (struct exec_mem){.mem = mem_ref(m),
				 .role = type == CU_GRAPH_NODE_TYPE_MEM_ALLOC
						 ? EXEC_MEM_GIVES
						 : EXEC_MEM_TAKES};
}

/* Finds allocations that the graph itself frees, which concern nobody else. */
void graph_mem_pair(struct exec_mem *v, size_t n)
{
	size_t i, k;

	for (i = 0; i < n; i++) {
		for (k = 0; k < n && v[i].role == EXEC_MEM_GIVES; k++) {
			if (v[k].mem == v[i].mem && v[k].role == EXEC_MEM_TAKES)
				v[k].role = v[i].role = EXEC_MEM_HELD;
		}
	}
}

CUresult graph_mem_launch(struct exec_mem *v, size_t n, bool auto_free, uint64_t stream)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if ((v[i].role == EXEC_MEM_GIVES && v[i].mem->live && !auto_free) ||
		    (v[i].role == EXEC_MEM_TAKES && !v[i].mem->live))
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (i = 0; i < n; i++) {
		struct graph_block *b = v[i].mem->block;

		if (v[i].role != EXEC_MEM_HELD)
			v[i].mem->live = v[i].role == EXEC_MEM_GIVES;
		b->stream = stream;
		if (!b->charged)
			used += b->size;
		b->charged = true;
	}
	raise_high();
	return CUDA_SUCCESS;
}

/* ---- the program frees it ---- */

static bool free_locked(CUdeviceptr addr, uint64_t stream, CUresult *ret_r)
{
	struct graph_mem *m = find(addr);

	if (!m)
		return false;
	*ret_r = m->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (!m->live)
		return true;
	m->live = false;
	if (stream)
		m->block->stream = stream;
	mem_look(m);
	return true;
}

bool graph_mem_take(CUdeviceptr addr, uint64_t stream, CUresult *ret_r)
{
	bool found;

	if (likely(!atomic_load_explicit(&n_mems, memory_order_relaxed)))
		return false;
	graph_lock();
	found = free_locked(addr, stream, ret_r);
	graph_unlock();
	graph_mem_flush();
	return found;
}

/* ---- how much there is ---- */

CUresult graph_mem_attribute(CUgraphMem_attribute attr, uint64_t *ret_bytes)
{
	switch ((int)attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		*ret_bytes = used;
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		*ret_bytes = used_high;
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		*ret_bytes = reserved;
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		*ret_bytes = reserved_high;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_mem_reset_high(CUgraphMem_attribute attr)
{
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		used_high = used;
	else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		reserved_high = reserved;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
