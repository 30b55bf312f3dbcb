/* SPDX-License-Identifier: Apache-2.0 */
/* Instantiating sends every node once, and waits once for the worker's verdict. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "object/context.h"
#include "object/hostfunc.h"
#include "calls.h"
#include "graph/flat.h"
#include "graph/host.h"
#include "graph/op.h"
#include "graph/user.h"
#include "graph/exec.h"
#include "core/thread.h"

#define DEPS_PER_MESSAGE 4096u

struct guest_exec *exec_lookup(CUgraphExec exec)
{
	return guest_object((uintptr_t)exec, HANDLE_GRAPH_EXEC);
}

static int by_id(const void *a, const void *b)
{
	const struct exec_name *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

struct exec_item *exec_item(struct guest_exec *x, CUgraphNode node, CUgraphNodeType type)
{
	struct graph_node *n = graph_node_lookup(node);
	struct exec_name key, *found;

	if (!n)
		return NULL;
	key.id = n->id;
	found = bsearch(&key, x->names, x->n_names, sizeof(key), by_id);
	return found && x->items[found->index].type == type ? &x->items[found->index]
							    : NULL;
}

/* ---- sending ---- */

static CUresult send_body(struct guest_thread *t, uint64_t exec, uint32_t body)
{
	struct graph_body_cmd *cmd = begin_graph_body(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->body = body;
	return guest_post(t);
}

static CUresult send_deps(struct guest_thread *t, const struct guest_exec *x,
			  uint32_t index)
{
	const struct exec_item *it = &x->items[index];
	uint32_t at = 0;
	CUresult r = CUDA_SUCCESS;

	while (at < it->n_deps && r == CUDA_SUCCESS) {
		uint32_t n = MIN(it->n_deps - at, DEPS_PER_MESSAGE);
		struct graph_deps_cmd *cmd = begin_graph_deps(t, n);

		if (!cmd)
			return guest_lost(t);
		cmd->exec = x->handle;
		cmd->node = index;
		memcpy(graph_deps_cmd_edges(cmd), &x->deps[it->first_dep + at],
		       n * sizeof(uint64_t));
		at += n;
		r = guest_post(t);
	}
	return r;
}

static CUresult send_new(struct guest_thread *t, const struct guest_exec *x)
{
	struct graph_new_cmd *cmd = begin_graph_new(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = x->handle;
	cmd->shell = x->shell;
	cmd->n_nodes = (uint32_t)x->n;
	cmd->n_bodies = x->n_bodies;
	cmd->flags = x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
	return guest_post(t);
}

static CUresult send_ready(struct guest_thread *t, const struct guest_exec *x)
{
	return call_graph_ready(t, x->handle);
}

static CUresult send_destroy(struct guest_thread *t, const struct guest_exec *x)
{
	struct graph_destroy_cmd *cmd = begin_graph_destroy(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = x->handle;
	return guest_post(t);
}

/* ---- making ---- */

static void exec_free(struct guest_exec *x)
{
	struct graph *single;
	size_t i;

	if (!x)
		return;
	single = x->single ? guest_object(x->single, HANDLE_GRAPH) : NULL;
	if (single)
		single->execs--;
	for (i = 0; i < x->n_mems; i++)
		graph_mem_put(x->mems[i].mem);
	free(x->mems);
	for (i = 0; x->items && i < x->n; i++) {
		graph_host_put(x->items[i].host);
		free(x->items[i].copy);
	}
	exec_stages_drop(x);
	graph_users_drop(&x->users);
	guest_handle_free(x->handle);
	free(x->items);
	free(x->names);
	free(x->deps);
	free(x);
}

static bool is_mem(const struct graph_flat_node *n)
{
	return n->node->op.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	       n->node->op.type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

static CUresult make_mems(struct guest_exec *x, const struct graph_flat *f)
{
	size_t i, n = 0;

	for (i = 0; i < f->n; i++)
		n += is_mem(&f->nodes[i]);
	if (!n)
		return CUDA_SUCCESS;
	x->mems = calloc(n, sizeof(*x->mems));
	if (!x->mems)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (i = 0; i < f->n; i++) {
		const struct graph_op *op = &f->nodes[i].node->op;

		if (is_mem(&f->nodes[i]))
			graph_mem_role(op->mem, op->type, &x->mems[x->n_mems++]);
	}
	graph_mem_pair(x->mems, x->n_mems);
	return CUDA_SUCCESS;
}

#define STAGE_ALIGN 256u

/* One piece of memory for all stages; without it copies take the long way. */
static void make_stages(struct guest_thread *t, struct guest_exec *x,
			const struct graph_flat *f)
{
	struct exec_stage *in;
	size_t i, total = 0;
	char *p;

	for (i = 0; i < f->n; i++) {
		struct exec_item *it = &x->items[i];

		if (it->part == GRAPH_WHOLE)
			continue;
		it->stage_size = graph_stage_size(&f->nodes[i].node->op);
		if (!it->second)
			total += ALIGN_UP(it->stage_size, STAGE_ALIGN);
	}
	in = total ? exec_stage_new(t, x, total) : NULL;
	p = in ? in->p : NULL;
	for (i = 0; in && i < f->n; i++) {
		struct exec_item *it = &x->items[i];

		if (it->part == GRAPH_WHOLE)
			continue;
		it->in = in;
		it->stage = p;
		if (it->second)
			p += ALIGN_UP(it->stage_size, STAGE_ALIGN);
	}
}

/* A node, or part of one, that runs in this process. */
static CUresult make_host(struct guest_exec *x, struct exec_item *it,
			  const struct graph_op *op)
{
	if (op->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
		it->copy = malloc(sizeof(*it->copy));
		if (!it->copy)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*it->copy = *op;
	}
	it->host = graph_host_new(op, x->ctx, it->in, it->stage);
	if (!it->host)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return x->n_hosts++ ? CUDA_SUCCESS : hostfunc_start(graph_host_run);
}

static void make_item(struct guest_exec *x, const struct graph_flat *f, size_t i)
{
	const struct graph_flat_node *n = &f->nodes[i];

	x->items[i] = (struct exec_item){.id = n->id,
					 .type = n->node->op.type,
					 .marker = n->marker,
					 .part = n->part,
					 .second = n->second,
					 .enabled = true,
					 .first_dep = n->first_dep,
					 .n_deps = n->n_deps,
					 .body = n->body,
					 .first_body = n->first_body};
	if (!n->second)
		x->names[x->n_names++] = (struct exec_name){n->id, (uint32_t)i};
}

static CUresult make_items(struct guest_thread *t, struct guest_exec *x,
			   struct graph_flat *f)
{
	size_t i;
	CUresult r;

	x->items = calloc(f->n + 1, sizeof(*x->items));
	x->names = calloc(f->n + 1, sizeof(*x->names));
	if (!x->items || !x->names)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = make_mems(x, f);
	x->n = f->n;
	x->n_bodies = f->n_bodies;
	x->deps = steal(f->deps);
	for (i = 0; i < f->n; i++)
		make_item(x, f, i);
	make_stages(t, x, f);
	for (i = 0; i < f->n && r == CUDA_SUCCESS; i++) {
		const struct graph_flat_node *n = &f->nodes[i];

		if (!n->marker && n->part != GRAPH_STAGE_COPY &&
		    graph_op_is_host(&n->node->op))
			r = make_host(x, &x->items[i], &n->node->op);
	}
	qsort(x->names, x->n_names, sizeof(*x->names), by_id);
	return r;
}

static CUresult exec_make(struct guest_thread *t, struct graph_flat *f,
			  struct guest_exec **ret_x)
{
	struct guest_exec *x = calloc(1, sizeof(*x));
	CUresult r;

	if (!x)
		return CUDA_ERROR_OUT_OF_MEMORY;
	x->ctx = (CUcontext)(uintptr_t)t->top->handle;
	list_init(&x->users);
	list_init(&x->stages);
	r = make_items(t, x, f);
	if (r == CUDA_SUCCESS) {
		x->handle = guest_handle_new(HANDLE_GRAPH_EXEC, x);
		r = x->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r) {
		exec_free(x);
		return r;
	}
	*ret_x = x;
	return CUDA_SUCCESS;
}

static CUresult exec_build(struct guest_thread *t, struct guest_exec *x,
			   const struct graph_flat *f)
{
	static const struct graph_op empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	CUresult r = send_new(t, x);
	uint32_t i, body = 0;

	for (i = 0; i < x->n && r == CUDA_SUCCESS; i++) {
		if (x->items[i].body != body) {
			body = x->items[i].body;
			r = send_body(t, x->handle, body);
			if (r)
				break;
		}
		r = exec_send(t, x, i,
			      f->nodes[i].marker ? &empty : &f->nodes[i].node->op,
			      x->items[i].host);
		if (r == CUDA_SUCCESS)
			r = send_deps(t, x, i);
	}
	return r ? r : send_ready(t, x);
}

CUresult exec_new(struct guest_thread *t, struct graph *g, unsigned long long flags,
		  struct guest_exec **ret_x)
{
	struct graph_flat f;
	struct guest_exec *x;
	CUresult r = graph_flatten(g, &f);

	if (r)
		return r;
	r = exec_make(t, &f, &x);
	if (r == CUDA_SUCCESS) {
		x->flags = flags;
		x->shell = g->n_conditions ? g->handle : 0;
		if (graph_is_single(g)) {
			x->single = g->handle;
			g->execs++;
		}
		r = graph_users_copy(&x->users, &g->users);
		if (r == CUDA_SUCCESS)
			r = exec_build(t, x, &f);
		if (r) {
			send_destroy(t, x);
			exec_free(x);
		}
	}
	graph_flat_fini(&f);
	if (r == CUDA_SUCCESS)
		*ret_x = x;
	return r;
}

/* Drops the user objects of x once the last launch, which may use them, has ended. A
 * program that has destroyed the launch's stream waits for the launch itself. */
static void drop_users(struct guest_thread *t, struct guest_exec *x)
{
	uint64_t stream = atomic_load_explicit(&x->stream, memory_order_relaxed);

	if (stream == GUEST_STREAM_LEGACY || guest_handle_valid(stream, HANDLE_STREAM))
		graph_users_drop_later(t, &x->users, stream);
}

CUresult exec_destroy(struct guest_thread *t, struct guest_exec *x)
{
	CUresult r = send_destroy(t, x);

	drop_users(t, x);
	exec_free(x);
	return r;
}
