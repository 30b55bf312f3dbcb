/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that add nodes, and read and change what they do. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/mem.h"
#include "code/module.h"

struct place {
	CUgraph graph;
	const CUgraphNode *deps;
	size_t n;
	const CUgraphEdgeData *data; /* NULL: plain edges */
};

static CUresult check_place(const struct place *w, CUgraphNodeType type,
			    struct graph **ret_g)
{
	struct graph *g = graph_lookup(w->graph);
	size_t i, k;

	if (!g || (w->n && !w->deps))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < w->n; i++) {
		struct graph_node *d = graph_node_lookup(w->deps[i]);

		if (!d || d->graph != g ||
		    (w->data && !graph_edge_fits(d, type, &w->data[i])))
			return CUDA_ERROR_INVALID_VALUE;
		for (k = 0; k < i; k++) {
			if (w->deps[k] == w->deps[i])
				return CUDA_ERROR_INVALID_VALUE;
		}
	}
	*ret_g = g;
	return CUDA_SUCCESS;
}

/* Puts a node with op in its place; op is used up. r: how making op went. */
static CUresult add(CUgraphNode *ret, const struct place *w, CUresult r,
		    struct graph_op *op)
{
	struct graph_node *n = NULL;
	struct graph *g;
	size_t i;

	if (r)
		return r;
	r = ret ? check_place(w, op->type, &g) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS) {
		n = graph_node_new(g, op);
		r = n ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r) {
		graph_op_fini(op);
		return r;
	}
	for (i = 0; i < w->n && r == CUDA_SUCCESS; i++)
		r = graph_edge_add(graph_node_lookup(w->deps[i]), n,
				   w->data ? graph_edge_pack(&w->data[i]) : 0);
	if (r) {
		graph_node_free(n);
		return r;
	}
	*ret = graph_node_public(n);
	return CUDA_SUCCESS;
}

/* Defines cuGraphAdd<what>: a node whose operation MAKE describes. */
#define ADD(name, param, make)                                                           \
	CUresult CUDAAPI name(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps,  \
			      size_t n, param)                                           \
	{                                                                                \
		const struct place w = {graph, deps, n, NULL};                           \
		struct graph_op op;                                                      \
		CUresult r = guest_status();                                             \
                                                                                         \
		if (r)                                                                   \
			return r;                                                        \
		graph_scope();                                                           \
		r = make;                                                                \
		return add(ret, &w, r, &op);                                             \
	}

#define COMMA ,

ADD(cuGraphAddKernelNode_v2, const CUDA_KERNEL_NODE_PARAMS *p, graph_op_kernel(p, &op))
ADD(cuGraphAddKernelNode, const CUDA_KERNEL_NODE_PARAMS_v1 *p, graph_op_kernel_1(p, &op))
ADD(cuGraphAddMemcpyNode, const CUDA_MEMCPY3D *p COMMA CUcontext ctx,
    ((void)ctx, graph_op_copy(p, &op)))
ADD(cuGraphAddMemsetNode, const CUDA_MEMSET_NODE_PARAMS *p COMMA CUcontext ctx,
    ((void)ctx, graph_op_fill(p, &op)))
ADD(cuGraphAddHostNode, const CUDA_HOST_NODE_PARAMS *p, graph_op_host(p, &op))
ADD(cuGraphAddChildGraphNode, CUgraph child, graph_op_child(child, &op))
ADD(cuGraphAddEventRecordNode, CUevent event,
    graph_op_event(event, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &op))
ADD(cuGraphAddEventWaitNode, CUevent event,
    graph_op_event(event, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &op))

ADD(cuGraphAddBatchMemOpNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
    graph_op_mem_ops(p, &op))
ADD(cuGraphAddMemAllocNode, CUDA_MEM_ALLOC_NODE_PARAMS *p,
    graph_op_alloc(graph_lookup(graph), deps, n, p, &op))
ADD(cuGraphAddMemFreeNode, CUdeviceptr dptr,
    graph_op_free(graph_lookup(graph), dptr, &op))

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *ret, CUgraph graph,
				     const CUgraphNode *deps, size_t n)
{
	const struct place w = {graph, deps, n, NULL};
	struct graph_op op = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	return add(ret, &w, CUDA_SUCCESS, &op);
}

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *ret, CUgraph graph,
				   const CUgraphNode *deps, const CUgraphEdgeData *data,
				   size_t n, CUgraphNodeParams *p)
{
	const struct place w = {graph, deps, n, data};
	struct graph_op op;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_op_any(graph_lookup(graph), deps, n, p, &op);
	r = add(ret, &w, r, &op);
	/* the caller is told which graph the node has */
	if (r == CUDA_SUCCESS && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
		p->graph.graph = (CUgraph)(uintptr_t)op.child->handle;
	return r;
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps,
				size_t n, CUgraphNodeParams *p)
{
	return cuGraphAddNode_v2(ret, graph, deps, NULL, n, p);
}

/* ---- reading ---- */

/* The node if it is of that type and there is somewhere to put the answer. */
static struct graph_node *typed(CUgraphNode node, CUgraphNodeType type, const void *p)
{
	struct graph_node *n = graph_node_lookup(node);

	return n && p && n->op.type == type ? n : NULL;
}

static void kernel_params(const struct graph_kernel *k, CUDA_KERNEL_NODE_PARAMS *p)
{
	const struct launch *l = &k->launch;

	*p = (CUDA_KERNEL_NODE_PARAMS){
		.func = l->func,
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared_bytes,
		.kernelParams = k->n_ptrs ? k->ptrs : NULL,
	};
	if (handle_type((uintptr_t)l->func) == HANDLE_KERNEL)
		p->kern = (CUkernel)l->func;
}

CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode node,
					       CUDA_KERNEL_NODE_PARAMS *p)
{
	struct graph_node *n;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	n = typed(node, CU_GRAPH_NODE_TYPE_KERNEL, p);
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	kernel_params(n->op.kernel, p);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode node,
					    CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS p2;
	CUresult r;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuGraphKernelNodeGetParams_v2(node, &p2);
	if (r == CUDA_SUCCESS)
		memcpy(p, &p2, sizeof(*p));
	return r;
}

#define GET(name, ctype, node_type, value)                                               \
	CUresult CUDAAPI name(CUgraphNode node, ctype *p)                                \
	{                                                                                \
		struct graph_node *n;                                                    \
		CUresult r = guest_status();                                             \
                                                                                         \
		if (r)                                                                   \
			return r;                                                        \
		graph_scope();                                                           \
		n = typed(node, node_type, p);                                           \
		if (!n)                                                                  \
			return CUDA_ERROR_INVALID_VALUE;                                 \
		*p = value;                                                              \
		return CUDA_SUCCESS;                                                     \
	}

GET(cuGraphMemcpyNodeGetParams, CUDA_MEMCPY3D, CU_GRAPH_NODE_TYPE_MEMCPY, n->op.copy)
GET(cuGraphMemsetNodeGetParams, CUDA_MEMSET_NODE_PARAMS, CU_GRAPH_NODE_TYPE_MEMSET,
    n->op.fill)
GET(cuGraphHostNodeGetParams, CUDA_HOST_NODE_PARAMS, CU_GRAPH_NODE_TYPE_HOST, n->op.host)
GET(cuGraphEventRecordNodeGetEvent, CUevent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, n->op.event)
GET(cuGraphEventWaitNodeGetEvent, CUevent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, n->op.event)
GET(cuGraphChildGraphNodeGetGraph, CUgraph, CU_GRAPH_NODE_TYPE_GRAPH,
    (CUgraph)(uintptr_t)n->op.child->handle)

GET(cuGraphMemAllocNodeGetParams, CUDA_MEM_ALLOC_NODE_PARAMS,
    CU_GRAPH_NODE_TYPE_MEM_ALLOC, n->op.mem->params)
GET(cuGraphMemFreeNodeGetParams, CUdeviceptr, CU_GRAPH_NODE_TYPE_MEM_FREE,
    n->op.mem->params.dptr)

CUresult CUDAAPI cuGraphBatchMemOpNodeGetParams(CUgraphNode node,
						CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	struct graph_node *n;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	n = typed(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, p);
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	*p = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = n->op.mem_ops->ctx,
					     .count = n->op.mem_ops->n,
					     .paramArray = n->op.mem_ops->ops};
	return CUDA_SUCCESS;
}

/* ---- changing ---- */

/* Replaces what a node of a type does; op is used up. r: how making op went. */
static CUresult set(CUgraphNode node, CUgraphNodeType type, CUresult r,
		    struct graph_op *op)
{
	struct graph_node *n = graph_node_lookup(node);

	if (r)
		return r;
	if (!n || n->op.type != type || op->type != type) {
		graph_op_fini(op);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
		r = graph_kernel_attrs_copy(op->kernel, n->op.kernel);
		if (r) {
			graph_op_fini(op);
			return r;
		}
	}
	graph_op_fini(&n->op);
	n->op = *op;
	return CUDA_SUCCESS;
}

#define SET(name, param, node_type, make)                                                \
	CUresult CUDAAPI name(CUgraphNode node, param)                                   \
	{                                                                                \
		struct graph_op op;                                                      \
		CUresult r = guest_status();                                             \
                                                                                         \
		if (r)                                                                   \
			return r;                                                        \
		graph_scope();                                                           \
		r = make;                                                                \
		return set(node, node_type, r, &op);                                     \
	}

SET(cuGraphKernelNodeSetParams_v2, const CUDA_KERNEL_NODE_PARAMS *p,
    CU_GRAPH_NODE_TYPE_KERNEL, graph_op_kernel(p, &op))
SET(cuGraphKernelNodeSetParams, const CUDA_KERNEL_NODE_PARAMS_v1 *p,
    CU_GRAPH_NODE_TYPE_KERNEL, graph_op_kernel_1(p, &op))
SET(cuGraphMemcpyNodeSetParams, const CUDA_MEMCPY3D *p, CU_GRAPH_NODE_TYPE_MEMCPY,
    graph_op_copy(p, &op))
SET(cuGraphMemsetNodeSetParams, const CUDA_MEMSET_NODE_PARAMS *p,
    CU_GRAPH_NODE_TYPE_MEMSET, graph_op_fill(p, &op))
SET(cuGraphHostNodeSetParams, const CUDA_HOST_NODE_PARAMS *p, CU_GRAPH_NODE_TYPE_HOST,
    graph_op_host(p, &op))
SET(cuGraphBatchMemOpNodeSetParams, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, graph_op_mem_ops(p, &op))
SET(cuGraphEventRecordNodeSetEvent, CUevent e, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
    graph_op_event(e, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &op))
SET(cuGraphEventWaitNodeSetEvent, CUevent e, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
    graph_op_event(e, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &op))

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p)
{
	struct graph_op op;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	if (!p || p->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_op_any(NULL, NULL, 0, p, &op);
	return set(node, p->type, r, &op);
}

/* ---- attributes of kernel nodes ---- */

static struct graph_node *kernel_node(CUgraphNode node)
{
	struct graph_node *n = graph_node_lookup(node);

	return n && n->op.type == CU_GRAPH_NODE_TYPE_KERNEL ? n : NULL;
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
					       CUkernelNodeAttrValue *value)
{
	struct graph_node *n;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	n = kernel_node(node);
	if (!n || !value || !graph_kernel_attr_ok(attr))
		return CUDA_ERROR_INVALID_VALUE;
	graph_kernel_attr_read(n->op.kernel, attr, value);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
					       const CUkernelNodeAttrValue *value)
{
	struct graph_node *n;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	n = kernel_node(node);
	if (!n || !value || !graph_kernel_attr_ok(attr))
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_kernel_own(&n->op);
	return r ? r : graph_kernel_attr_write(n->op.kernel, attr, value);
}

CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	struct graph_node *d, *s;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	d = kernel_node(dst);
	s = kernel_node(src);
	if (!d || !s)
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_kernel_own(&d->op);
	return r ? r : graph_kernel_attrs_copy(d->op.kernel, s->op.kernel);
}
