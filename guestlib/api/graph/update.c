/* SPDX-License-Identifier: Apache-2.0 */
/* Changing what was instantiated: later launches do it, launches under way do not. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "graph/exec.h"
#include "graph/flat.h"
#include "graph/host.h"
#include "graph/op.h"
#include "core/thread.h"

/* Gives what runs here something else to do, or (op NULL) nothing. */
static CUresult replace_host(struct guest_thread *t, struct guest_exec *x,
			     struct exec_item *it, const struct graph_op *op)
{
	static const struct graph_op nothing = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	struct graph_host *host =
		graph_host_new(op ? op : &nothing, x->ctx, it->in, it->stage);
	CUresult r;

	if (!host)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = exec_send(t, x, (uint32_t)(it - x->items), op, host);
	if (r) {
		graph_host_put(host);
		return r;
	}
	graph_host_put(it->host);
	it->host = host;
	return CUDA_SUCCESS;
}

/* A copy in two parts, of which it is the first. Launches under way have the old stage.
 */
static CUresult replace_staged(struct guest_thread *t, struct guest_exec *x,
			       struct exec_item *it, const struct graph_op *op)
{
	size_t size = graph_stage_size(op);
	CUresult r = CUDA_SUCCESS;
	unsigned i;

	if (it->stage && size > it->stage_size) {
		struct exec_stage *in = exec_stage_new(t, x, size);

		if (!in)
			return CUDA_ERROR_OUT_OF_MEMORY;
		it[0].in = it[1].in = in;
		it[0].stage = it[1].stage = in->p;
		it[0].stage_size = it[1].stage_size = size;
	}
	for (i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
		if (it[i].part == GRAPH_STAGE_COPY) {
			if (it[i].stage)
				r = exec_send(t, x, (uint32_t)(&it[i] - x->items), op,
					      NULL);
			continue;
		}
		*it[i].copy = *op;
		if (it->enabled)
			r = replace_host(t, x, &it[i], op);
	}
	return r;
}

/* Gives an item another operation of the same kind. */
static CUresult replace(struct guest_thread *t, struct guest_exec *x,
			struct exec_item *it, const struct graph_op *op)
{
	if (it->marker || it->second)
		return CUDA_SUCCESS;
	/* a copy stays on the side that carries it out */
	if (graph_op_is_host(op) != (it->host != NULL || it->part != GRAPH_WHOLE) ||
	    graph_op_stages(op) != it->part)
		return CUDA_ERROR_INVALID_VALUE;
	if (it->part != GRAPH_WHOLE)
		return replace_staged(t, x, it, op);
	if (!it->host)
		return exec_send(t, x, (uint32_t)(it - x->items), op, NULL);
	if (it->copy)
		*it->copy = *op;
	return it->enabled ? replace_host(t, x, it, op) : CUDA_SUCCESS;
}

/* A node of an exec, and an operation to give it; op is used up. r: how making op went.
 */
static CUresult set(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUresult r,
		    struct graph_op *op)
{
	struct guest_exec *x = exec_lookup(exec);
	struct exec_item *it = x ? exec_item(x, node, type) : NULL;
	struct graph_node *n = graph_node_lookup(node);
	struct guest_thread *t;

	if (r)
		return r;
	r = it && op->type == type ? guest_enter(NEED_CTX, &t) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_KERNEL) {
		r = graph_kernel_attrs_copy(op->kernel, n->op.kernel);
	}
	if (r == CUDA_SUCCESS)
		r = replace(t, x, it, op);
	graph_op_fini(op);
	return r;
}

#define SET(name, param, node_type, make)                                                \
	CUresult CUDAAPI name(CUgraphExec exec, CUgraphNode node, param)                 \
	{                                                                                \
		struct graph_op op;                                                      \
		CUresult r = guest_status();                                             \
                                                                                         \
		if (r)                                                                   \
			return r;                                                        \
		graph_scope();                                                           \
		r = make;                                                                \
		return set(exec, node, node_type, r, &op);                               \
	}

#define COMMA ,

SET(cuGraphExecKernelNodeSetParams_v2, const CUDA_KERNEL_NODE_PARAMS *p,
    CU_GRAPH_NODE_TYPE_KERNEL, graph_op_kernel(p, &op))
SET(cuGraphExecKernelNodeSetParams, const CUDA_KERNEL_NODE_PARAMS_v1 *p,
    CU_GRAPH_NODE_TYPE_KERNEL, graph_op_kernel_1(p, &op))
SET(cuGraphExecMemcpyNodeSetParams, const CUDA_MEMCPY3D *p COMMA CUcontext ctx,
    CU_GRAPH_NODE_TYPE_MEMCPY, ((void)ctx, graph_op_copy(p, &op)))
SET(cuGraphExecMemsetNodeSetParams, const CUDA_MEMSET_NODE_PARAMS *p COMMA CUcontext ctx,
    CU_GRAPH_NODE_TYPE_MEMSET, ((void)ctx, graph_op_fill(p, &op)))
SET(cuGraphExecHostNodeSetParams, const CUDA_HOST_NODE_PARAMS *p, CU_GRAPH_NODE_TYPE_HOST,
    graph_op_host(p, &op))
SET(cuGraphExecBatchMemOpNodeSetParams, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, graph_op_mem_ops(p, &op))
SET(cuGraphExecEventRecordNodeSetEvent, CUevent e, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
    graph_op_event(e, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &op))
SET(cuGraphExecEventWaitNodeSetEvent, CUevent e, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
    graph_op_event(e, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &op))

/* ---- whole graphs ---- */

struct mismatch {
	CUgraphExecUpdateResult why;
	struct graph_node *node, *from;
};

/*
 * Compares a flattened graph with the items from `first` on, whose numbers are higher by
 * that much. Dependencies on what comes before (of a child graph) are not compared.
 */
static bool same_shape(const struct guest_exec *x, uint32_t first,
		       const struct graph_flat *f, struct mismatch *ret_m)
{
	uint32_t i, k, n;

	for (i = 0; i < f->n; i++) {
		const struct graph_flat_node *a = &f->nodes[i];
		const struct exec_item *b = &x->items[first + i];
		const uint64_t *deps = &x->deps[b->first_dep];

		ret_m->node = a->node;
		ret_m->why = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		if (a->node->op.type != b->type || a->marker != b->marker)
			return false;
		ret_m->why = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
		if (a->part != b->part || a->second != b->second)
			return false;
		for (n = 0, k = 0; k < b->n_deps; k++) {
			if ((uint32_t)deps[k] < first)
				continue;
			ret_m->why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
			if (n >= a->n_deps ||
			    f->deps[a->first_dep + n] != deps[k] - first)
				return false;
			n++;
		}
		ret_m->why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		if (n != a->n_deps)
			return false;
		ret_m->why = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
		if (!a->marker && a->part == GRAPH_WHOLE &&
		    graph_op_is_host(&a->node->op) != (b->host != NULL))
			return false;
	}
	return true;
}

static CUresult update_items(struct guest_thread *t, struct guest_exec *x, uint32_t first,
			     const struct graph_flat *f)
{
	CUresult r = CUDA_SUCCESS;
	size_t i;

	for (i = 0; i < f->n && r == CUDA_SUCCESS; i++)
		r = replace(t, x, &x->items[first + i], &f->nodes[i].node->op);
	return r;
}

static CUresult update(struct guest_exec *x, struct graph *g, struct mismatch *ret_m)
{
	struct graph_flat f;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r == CUDA_SUCCESS)
		r = graph_flatten(g, &f);
	if (r)
		return r;
	ret_m->why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	if (f.n != x->n || !same_shape(x, 0, &f, ret_m)) {
		r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	} else {
		*ret_m = (struct mismatch){.why = CU_GRAPH_EXEC_UPDATE_ERROR};
		r = update_items(t, x, 0, &f);
	}
	graph_flat_fini(&f);
	return r;
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
				      CUgraphExecUpdateResultInfo *info)
{
	struct mismatch m = {.why = CU_GRAPH_EXEC_UPDATE_ERROR};
	struct guest_exec *x;
	struct graph *g;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	x = exec_lookup(exec);
	g = graph_lookup(graph);
	if (!x || !g || !info)
		return CUDA_ERROR_INVALID_VALUE;
	r = update(x, g, &m);
	*info = (CUgraphExecUpdateResultInfo){
		.result = r ? m.why : CU_GRAPH_EXEC_UPDATE_SUCCESS,
		.errorNode = r ? graph_node_public(m.node) : NULL,
	};
	return r;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node,
				   CUgraphExecUpdateResult *result)
{
	CUgraphExecUpdateResultInfo info = {0};
	CUresult r = cuGraphExecUpdate_v2(exec, graph, &info);

	if (node)
		*node = info.errorNode;
	if (result)
		*result = info.result;
	return r;
}

/* The items of a child graph lie before its marker, as many as it has when flattened. */
static CUresult set_child(struct guest_exec *x, struct exec_item *marker, struct graph *g)
{
	uint32_t end = (uint32_t)(marker - x->items);
	struct mismatch m = {0};
	struct graph_flat f;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r == CUDA_SUCCESS)
		r = graph_flatten(g, &f);
	if (r)
		return r;
	if (f.n > end || !same_shape(x, end - (uint32_t)f.n, &f, &m))
		r = CUDA_ERROR_INVALID_VALUE;
	else
		r = update_items(t, x, end - (uint32_t)f.n, &f);
	graph_flat_fini(&f);
	return r;
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
						    CUgraph child)
{
	struct exec_item *it;
	struct guest_exec *x;
	struct graph *g;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	x = exec_lookup(exec);
	g = graph_lookup(child);
	it = x ? exec_item(x, node, CU_GRAPH_NODE_TYPE_GRAPH) : NULL;
	return it && g ? set_child(x, it, g) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
					  CUgraphNodeParams *p)
{
	struct graph_op op;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return cuGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
	graph_scope();
	r = graph_op_any(NULL, NULL, 0, p, &op);
	return set(exec, node, p->type, r, &op);
}

/* ---- switching nodes off ---- */

static struct exec_item *switchable(struct guest_exec *x, CUgraphNode node)
{
	struct exec_item *it = exec_item(x, node, CU_GRAPH_NODE_TYPE_KERNEL);

	if (!it)
		it = exec_item(x, node, CU_GRAPH_NODE_TYPE_MEMSET);
	return it ? it : exec_item(x, node, CU_GRAPH_NODE_TYPE_MEMCPY);
}

static CUresult send_enable(struct guest_thread *t, const struct guest_exec *x,
			    const struct exec_item *it, bool enabled)
{
	struct graph_enable_cmd *cmd = begin_graph_enable(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = x->handle;
	cmd->node = (uint32_t)(it - x->items);
	cmd->enabled = enabled;
	return guest_post(t);
}

/* Switches a node on or off. A node that runs in this process is not skipped when off: it
 * runs and does nothing. */
static CUresult enable(struct guest_thread *t, struct guest_exec *x, struct exec_item *it,
		       bool enabled)
{
	unsigned i, n = it->part == GRAPH_WHOLE ? 1 : 2;
	CUresult r = CUDA_SUCCESS;

	for (i = 0; i < n && r == CUDA_SUCCESS; i++) {
		if (it[i].host)
			r = replace_host(t, x, &it[i], enabled ? it[i].copy : NULL);
		else if (it[i].part == GRAPH_WHOLE || it[i].stage)
			r = send_enable(t, x, &it[i], enabled);
	}
	if (r == CUDA_SUCCESS)
		it->enabled = enabled;
	return r;
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node,
				       unsigned int enabled)
{
	struct guest_thread *t;
	struct exec_item *it;
	struct guest_exec *x;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	graph_scope();
	x = exec_lookup(exec);
	it = x ? switchable(x, node) : NULL;
	return it ? enable(t, x, it, enabled != 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node,
				       unsigned int *enabled)
{
	struct exec_item *it;
	struct guest_exec *x;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	x = exec_lookup(exec);
	it = x ? switchable(x, node) : NULL;
	if (!it || !enabled)
		return CUDA_ERROR_INVALID_VALUE;
	*enabled = it->enabled;
	return CUDA_SUCCESS;
}
