/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: graphs of the real driver
 *
 * Every node becomes one of the driver's, but for host functions. Such a function may
 * last as long as a guest likes, so it is two nodes, as in a stream (stream.c): one
 * that only starts it and one that waits for a word of pinned memory to become what
 * host_func_done() writes there, and puts it back for the next launch. Launches of one
 * graph never overlap, so each such node has a word of its own.
 *
 * What a host node points to must stay while launches are under way. An event behind each
 * launch tells; a graph that is destroyed before it has come is put aside
 * (ctx.graveyard), and looked at again when another one is made or destroyed.
 */
#include <string.h>

#include "device/cuda/freeze/freeze.h"
#include "device/cuda/graph.h"
#include "device/cuda/launch.h"
#include "device/cuda/mask.h"
#include "device/cuda/module.h"
#include "device/cuda/stream.h"

#define NO_SLOT -1

struct dev_shell {
	struct dev_ctx *ctx;
	CUgraph cu;
};

struct graph_host {
	struct graph_host *next; /* of retired ones */
	struct dev_graph *graph;
	uint64_t id;
	int slot;
};

struct graph_node {
	CUgraphNode first, last; /* the same but for host functions */
	struct graph_host *host;
	struct cuda_fit fit; /* of a kernel */
	bool empty;          /* nothing to do: no node of its kind could be made */
	bool disabled;
};

struct dev_graph {
	struct list link; /* dev_ctx.graveyard */
	struct dev_ctx *ctx;
	CUgraph cu; /* of the shell, if there is one */
	CUgraphExec exec;
	struct dev_shell *shell;
	CUevent end; /* behind the last launch; if there are host functions */
	unsigned flags;
	unsigned turn; /* cuda_mask_turn(), when exec was made */
	struct graph_host *retired;
	void (*host)(void *arg, struct dev_ctx *ctx, uint64_t id, uint64_t token);
	void *host_arg;
	uint32_t n;
	bool launched;
	struct graph_node nodes[];
};

/* ---- host functions ---- */

static void CUDA_CB host_reached(void *data)
{
	struct graph_host *h = data;
	struct dev_graph *g = h->graph;
	uint64_t token = cuda_slot_stands(g->ctx, h->slot);

	if (token)
		g->host(g->host_arg, g->ctx, h->id, token);
}

/* Makes a function of the graph, with the slot of the one that it replaces, if any. */
static CUresult host_new(struct dev_graph *g, uint64_t id, int slot,
			 struct graph_host **ret_h)
{
	struct graph_host *h = calloc(1, sizeof(*h));

	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*h = (struct graph_host){.graph = g, .id = id, .slot = slot};
	if (slot == NO_SLOT)
		h->slot = cuda_slot_take(g->ctx);
	if (h->slot < 0) {
		free(h);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_h = h;
	return CUDA_SUCCESS;
}

static bool is_idle(const struct dev_graph *g)
{
	return !g->end || !g->launched || cu.cuEventQuery(g->end) != CUDA_ERROR_NOT_READY;
}

static void free_retired(struct dev_graph *g)
{
	struct graph_host *h;

	while ((h = g->retired)) {
		g->retired = h->next;
		free(h);
	}
}

/* ---- building ---- */

/* The dependencies of a node in the driver's words. */
struct edges {
	CUgraphNode *from;
	CUgraphEdgeData *data; /* NULL: all are plain */
	uint32_t n;
};

static void edges_fini(struct edges *e)
{
	free(e->from);
	free(e->data);
}

static CUresult edges_make(const struct dev_graph *g, const struct dev_edge *v,
			   uint32_t n, struct edges *ret_e)
{
	struct edges e = {.n = n};
	bool plain = true;

	e.from = calloc(n + 1, sizeof(*e.from));
	e.data = calloc(n + 1, sizeof(*e.data));
	if (!e.from || !e.data) {
		edges_fini(&e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (uint32_t i = 0; i < n; i++) {
		e.from[i] = g->nodes[v[i].from].last;
		e.data[i].from_port = v[i].from_port;
		e.data[i].to_port = v[i].to_port;
		e.data[i].type = v[i].type;
		plain &= !v[i].from_port && !v[i].to_port && !v[i].type;
	}
	if (plain) {
		free(e.data);
		e.data = NULL;
	}
	*ret_e = e;
	return CUDA_SUCCESS;
}

static CUresult add_host(struct dev_graph *g, CUgraph to, struct graph_node *nd,
			 uint64_t id, const struct edges *e)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST};
	struct cuda_node_room room;
	CUresult res = host_new(g, id, NO_SLOT, &nd->host);

	if (res)
		return res;
	p.host.fn = host_reached;
	p.host.userData = nd->host;
	res = cu.cuGraphAddNode(&nd->first, to, e->from, e->data, e->n, &p);
	if (res)
		return res;
	memset(&p, 0, sizeof(p));
	cuda_slot_params(g->ctx, nd->host->slot, &room, &p);
	return cu.cuGraphAddNode(&nd->last, to, &nd->first, NULL, 1, &p);
}

/* Attributes that are not among a kernel node's parameters. */
static CUresult set_attributes(CUgraphNode node, const struct dev_launch *l)
{
	CUlaunchAttribute attrs[DEV_LAUNCH_ATTRS_MAX + 2];
	unsigned n = cuda_launch_attrs(attrs, l);
	CUresult res = CUDA_SUCCESS;

	for (unsigned i = 0; i < n && !res; i++)
		res = cu.cuGraphKernelNodeSetAttribute(node, attrs[i].id,
						       &attrs[i].value);
	return res;
}

static CUresult add_other(struct dev_graph *g, CUgraph *graphs, struct graph_node *nd,
			  const struct dev_node *op, const struct edges *e)
{
	struct cuda_node_room room;
	CUgraphNodeParams p;
	CUresult res = cuda_node_params(g->ctx, op, &room, &p);

	nd->empty = p.type == CU_GRAPH_NODE_TYPE_EMPTY;
	if (!res)
		res = cu.cuGraphAddNode(&nd->first, graphs[op->graph], e->from, e->data,
					e->n, &p);
	free(room.more);
	nd->last = nd->first;
	if (!res && op->kind == DEV_NODE_KERNEL)
		res = set_attributes(nd->first, &op->kernel);
	if (!res && op->kind == DEV_NODE_KERNEL)
		res = cuda_fit_of(&op->kernel, &nd->fit);
	if (!res && op->kind == DEV_NODE_CONDITIONAL)
		memcpy(&graphs[op->cond.first_body], p.conditional.phGraph_out,
		       op->cond.n_bodies * sizeof(*graphs));
	return res;
}

static CUresult add_node(struct dev_graph *g, CUgraph *graphs,
			 const struct dev_graph_desc *d, uint32_t i)
{
	const struct dev_node *op = &d->nodes[i];
	struct graph_node *nd = &g->nodes[i];
	struct edges e;
	CUresult res = edges_make(g, d->edges[i], d->n_edges[i], &e);

	if (res)
		return res;
	if (op->kind == DEV_NODE_HOST)
		res = add_host(g, graphs[op->graph], nd, op->host_id, &e);
	else
		res = add_other(g, graphs, nd, op, &e);
	edges_fini(&e);
	return res;
}

/* A shell may hold what an earlier graph was made of. */
static CUresult shell_clear(struct dev_shell *shell)
{
	size_t n = 0;
	CUresult res = cu.cuGraphGetNodes(shell->cu, NULL, &n);
	_cleanup_free_ CUgraphNode *v = res ? NULL : calloc(n + 1, sizeof(*v));

	if (!res && !v)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!res && n)
		res = cu.cuGraphGetNodes(shell->cu, v, &n);
	for (size_t i = 0; !res && i < n; i++)
		res = cu.cuGraphDestroyNode(v[i]);
	return res;
}

static CUresult instantiate(struct dev_graph *g, CUgraphExec *ret_exec)
{
	CUgraphExec exec;
	CUresult res;

	g->turn = cuda_mask_turn();
	res = cu.cuGraphInstantiateWithFlags(&exec, g->cu, g->flags);
	if (res)
		return res;
	for (uint32_t i = 0; !res && i < g->n; i++) {
		if (g->nodes[i].disabled)
			res = cu.cuGraphNodeSetEnabled(exec, g->nodes[i].first, 0);
	}
	if (res)
		cu.cuGraphExecDestroy(exec);
	else
		*ret_exec = exec;
	return res;
}

static CUresult build(struct dev_graph *g, const struct dev_graph_desc *d)
{
	_cleanup_free_ CUgraph *graphs = calloc(d->n_bodies + 1u, sizeof(*graphs));
	bool hosts = false;
	CUresult res;

	if (!graphs)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (d->shell) {
		g->cu = d->shell->cu;
		res = shell_clear(d->shell);
	} else {
		res = cu.cuGraphCreate(&g->cu, 0);
	}
	graphs[0] = g->cu;
	for (uint32_t i = 0; !res && i < d->n; i++) {
		res = add_node(g, graphs, d, i);
		hosts |= d->nodes[i].kind == DEV_NODE_HOST;
	}
	if (!res && hosts)
		res = cu.cuEventCreate(&g->end, CU_EVENT_DISABLE_TIMING);
	for (uint32_t i = 0; i < d->n; i++)
		g->nodes[i].disabled = d->nodes[i].disabled && !g->nodes[i].empty;
	return res ? res : instantiate(g, &g->exec);
}

static void graph_free(struct dev_graph *g)
{
	if (g->exec)
		cu.cuGraphExecDestroy(g->exec);
	if (g->cu && !g->shell)
		cu.cuGraphDestroy(g->cu);
	if (g->end)
		cu.cuEventDestroy(g->end);
	for (uint32_t i = 0; i < g->n; i++) {
		if (!g->nodes[i].host)
			continue;
		cuda_slot_drop(g->ctx, g->nodes[i].host->slot);
		free(g->nodes[i].host);
	}
	free_retired(g);
	free(g);
}

/* all: the context has been waited for. */
static void graves_look(struct dev_ctx *ctx, bool all)
{
	struct list over;
	struct dev_graph *g, *tmp;

	list_init(&over);
	pthread_mutex_lock(&ctx->dev->lock);
	list_for_each_safe (g, tmp, &ctx->graveyard, link) {
		if (!all && !is_idle(g))
			continue;
		list_remove(&g->link);
		list_append(&over, &g->link);
	}
	pthread_mutex_unlock(&ctx->dev->lock);
	list_for_each_safe (g, tmp, &over, link)
		graph_free(g);
}

void cuda_graphs_drop(struct dev_ctx *ctx)
{
	graves_look(ctx, true);
}

CUresult cuda_graph_create(struct dev_ctx *ctx, const struct dev_graph_desc *d,
			   struct dev_graph **ret_graph)
{
	cuda_scoped_thawed(ctx->dev);
	struct dev_graph *g;
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	graves_look(ctx, false);
	g = calloc(1, sizeof(*g) + d->n * sizeof(g->nodes[0]));
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	g->ctx = ctx;
	g->n = d->n;
	g->shell = d->shell;
	g->flags = d->flags;
	g->host = d->host;
	g->host_arg = d->host_arg;
	res = build(g, d);
	if (res) {
		graph_free(g);
		return cuda_note(ctx, res);
	}
	*ret_graph = g;
	return CUDA_SUCCESS;
}

void cuda_graph_destroy(struct dev_graph *g)
{
	cuda_scoped_thawed(g->ctx->dev);
	struct dev_ctx *ctx = g->ctx;

	if (!cuda_enter(ctx) && !is_idle(g)) {
		scoped_lock(&ctx->dev->lock);
		list_append(&ctx->graveyard, &g->link);
		return;
	}
	graph_free(g);
	graves_look(ctx, false);
}

/* ---- changing ---- */

/* Nodes that it was made of follow, for when it is made anew. */
static CUresult set_params(struct dev_graph *g, struct graph_node *nd,
			   CUgraphNodeParams *p)
{
	CUresult res = cu.cuGraphExecNodeSetParams(g->exec, nd->first, p);

	if (!res && !g->shell)
		(void)cu.cuGraphNodeSetParams(nd->first, p);
	return res;
}

static CUresult set_host(struct dev_graph *g, struct graph_node *nd, uint64_t id)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST};
	struct graph_host *h;
	CUresult res = host_new(g, id, nd->host->slot, &h);

	if (res)
		return res;
	p.host.fn = host_reached;
	p.host.userData = h;
	res = set_params(g, nd, &p);
	if (res) {
		free(h);
		return res;
	}
	if (is_idle(g))
		free_retired(g);
	nd->host->next = g->retired;
	g->retired = nd->host;
	nd->host = h;
	return CUDA_SUCCESS;
}

CUresult cuda_graph_set(struct dev_graph *g, uint32_t node, const struct dev_node *to)
{
	struct graph_node *nd = &g->nodes[node];
	struct cuda_node_room room;
	CUgraphNodeParams p;
	CUresult res = cuda_enter(g->ctx);

	if (res)
		return res;
	if (to->kind == DEV_NODE_HOST)
		return cuda_note(g->ctx, set_host(g, nd, to->host_id));
	res = cuda_node_params(g->ctx, to, &room, &p);
	if (!res && nd->empty != (p.type == CU_GRAPH_NODE_TYPE_EMPTY))
		res = CUDA_ERROR_INVALID_VALUE; /* something for nothing */
	if (!res && !nd->empty)
		res = set_params(g, nd, &p);
	if (!res && to->kind == DEV_NODE_KERNEL)
		res = cuda_fit_of(&to->kernel, &nd->fit);
	free(room.more);
	return cuda_note(g->ctx, res);
}

CUresult cuda_graph_enable(struct dev_graph *g, uint32_t node, bool enabled)
{
	struct graph_node *nd = &g->nodes[node];
	CUresult res = cuda_enter(g->ctx);

	if (res || nd->empty)
		return res;
	nd->disabled = !enabled;
	return cuda_note(g->ctx, cu.cuGraphNodeSetEnabled(g->exec, nd->first, enabled));
}

/* ---- on other TPCs ---- */

/* The next launch comes after all that the one before may still do. */
static CUresult come_after(struct dev_ctx *ctx, CUstream st)
{
	CUevent all;
	CUresult res = cu.cuEventCreate(&all, CU_EVENT_DISABLE_TIMING);

	if (res)
		return res;
	res = cu.cuCtxRecordEvent(ctx->cu, all);
	if (!res)
		res = cu.cuStreamWaitEvent(st, all, 0);
	cu.cuEventDestroy(all);
	return res;
}

/* Descriptors are written once, with the TPCs of then: they are written anew. */
static CUresult renew(struct dev_graph *g, struct dev_stream *st)
{
	CUgraphExec before = g->exec;
	CUresult res;

	if (likely(g->turn == cuda_mask_turn()))
		return CUDA_SUCCESS;
	/* The shell's nodes may be another graph's by now: it stays where it is. */
	if (g->shell)
		return CUDA_SUCCESS;
	res = g->launched ? come_after(g->ctx, cuda_stream_of(st)) : CUDA_SUCCESS;
	if (!res)
		res = instantiate(g, &g->exec);
	if (!res)
		cu.cuGraphExecDestroy(before);
	return res;
}

static CUresult fits(const struct dev_graph *g)
{
	CUresult res = CUDA_SUCCESS;

	if (likely(!atomic_load_explicit(&g->ctx->dev->tpcs, memory_order_relaxed)))
		return CUDA_SUCCESS;
	for (uint32_t i = 0; i < g->n && !res; i++) {
		if (!g->nodes[i].disabled)
			res = cuda_fits(g->ctx->dev, &g->nodes[i].fit);
	}
	return res;
}

/* ---- launching ---- */

CUresult cuda_graph_launch(struct dev_graph *g, struct dev_stream *st)
{
	CUresult res = cuda_enter(g->ctx);

	if (!res)
		res = fits(g);
	if (res)
		return res;
	res = renew(g, st);
	cuda_is_other(g->ctx, st);
	if (!res)
		res = cu.cuGraphLaunch(g->exec, cuda_stream_of(st));
	cuda_was_other(g->ctx, st);
	if (!res) {
		g->launched = true;
		if (g->end)
			res = cu.cuEventRecord(g->end, cuda_stream_of(st));
	}
	return cuda_note(g->ctx, res);
}

CUresult cuda_graph_upload(struct dev_graph *g, struct dev_stream *st)
{
	CUresult res = cuda_enter(g->ctx);

	if (!res)
		res = cuda_note(g->ctx, renew(g, st));
	if (res)
		return res;
	return cuda_note(g->ctx, cu.cuGraphUpload(g->exec, cuda_stream_of(st)));
}

/* ---- conditions ---- */

CUresult cuda_shell_create(struct dev_ctx *ctx, struct dev_shell **ret_shell)
{
	CUresult res = cuda_enter(ctx);
	struct dev_shell *shell;

	if (res)
		return res;
	shell = calloc(1, sizeof(*shell));
	if (!shell)
		return CUDA_ERROR_OUT_OF_MEMORY;
	shell->ctx = ctx;
	res = cu.cuGraphCreate(&shell->cu, 0);
	if (res) {
		free(shell);
		return cuda_note(ctx, res);
	}
	*ret_shell = shell;
	return CUDA_SUCCESS;
}

void cuda_shell_destroy(struct dev_shell *shell)
{
	if (!cuda_enter(shell->ctx))
		cuda_note(shell->ctx, cu.cuGraphDestroy(shell->cu));
	free(shell);
}

CUresult cuda_shell_condition(struct dev_shell *shell, unsigned initial, unsigned flags,
			      uint64_t *ret_handle)
{
	CUgraphConditionalHandle h;
	CUresult res = cuda_enter(shell->ctx);

	if (!res)
		res = cu.cuGraphConditionalHandleCreate(&h, shell->cu, shell->ctx->cu,
							initial, flags);
	if (res)
		return cuda_note(shell->ctx, res);
	*ret_handle = h;
	return CUDA_SUCCESS;
}
