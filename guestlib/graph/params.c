/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes: errors that CUDA reports are found when a node is described, not
 * when it runs. */
#include <stdlib.h>
#include <string.h>

#include "copy/array_copy.h"
#include "object/event.h"
#include "graph/graph.h"
#include "object/hostmem.h"
#include "graph/op.h"
#include "graph/mem.h"
#include "code/module.h"
#include "object/refuse.h"

/* ---- kernels ---- */

static struct graph_kernel *kernel_ref(struct graph_kernel *k)
{
	k->refs++;
	return k;
}

static void kernel_put(struct graph_kernel *k)
{
	if (!k || --k->refs)
		return;
	free(k->hints);
	free(k->ptrs);
	free(k->buf);
	free(k);
}

static struct graph_kernel *kernel_alloc(uint32_t size, unsigned n_ptrs)
{
	struct graph_kernel *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->refs = 1;
	k->size = size;
	k->n_ptrs = n_ptrs;
	k->buf = malloc(size + 1);
	k->ptrs = calloc(n_ptrs + 1, sizeof(void *));
	if (!k->buf || !k->ptrs) {
		kernel_put(k);
		return NULL;
	}
	return k;
}

CUresult graph_kernel_new(const struct launch *l, struct graph_kernel **ret_k)
{
	struct launch_plan plan;
	struct graph_kernel *k;
	unsigned i;
	CUresult r = launch_check(l, &plan);

	if (r)
		return r;
	k = kernel_alloc(plan.func->params_size, plan.func->n_params);
	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	launch_params(l, &plan, k->buf);
	for (i = 0; i < k->n_ptrs; i++)
		k->ptrs[i] = k->buf + plan.func->params[i].offset;
	k->func = plan.func->handle;
	k->launch = *l;
	k->launch.params = k->launch.extra = NULL;
	k->launch.attrs = NULL;
	r = graph_kernel_attrs_launch(k, l->attrs);
	if (r) {
		kernel_put(k);
		return r;
	}
	*ret_k = k;
	return CUDA_SUCCESS;
}

CUresult graph_kernel_own(struct graph_op *op)
{
	const struct graph_kernel *old = op->kernel;
	struct graph_kernel *k;
	unsigned i;

	if (old->refs == 1)
		return CUDA_SUCCESS;
	k = kernel_alloc(old->size, old->n_ptrs);
	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(k->buf, old->buf, old->size);
	for (i = 0; i < k->n_ptrs; i++)
		k->ptrs[i] = k->buf + ((uint8_t *)old->ptrs[i] - old->buf);
	k->func = old->func;
	k->launch = old->launch;
	if (graph_kernel_attrs_copy(k, old)) {
		kernel_put(k);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	kernel_put(op->kernel);
	op->kernel = k;
	return CUDA_SUCCESS;
}

CUresult graph_op_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct graph_op *ret_op)
{
	struct launch l = {0};

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	l.func = p->func ? p->func : (CUfunction)p->kern;
	l.grid[0] = p->gridDimX;
	l.grid[1] = p->gridDimY;
	l.grid[2] = p->gridDimZ;
	l.block[0] = p->blockDimX;
	l.block[1] = p->blockDimY;
	l.block[2] = p->blockDimZ;
	l.shared_bytes = p->sharedMemBytes;
	l.params = p->kernelParams;
	l.extra = p->extra;
	ret_op->type = CU_GRAPH_NODE_TYPE_KERNEL;
	return graph_kernel_new(&l, &ret_op->kernel);
}

CUresult graph_op_kernel_1(const CUDA_KERNEL_NODE_PARAMS_v1 *p, struct graph_op *ret_op)
{
	CUDA_KERNEL_NODE_PARAMS p2 = {0};

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&p2, p, sizeof(*p)); /* the fields that the second version begins with */
	return graph_op_kernel(&p2, ret_op);
}

/* ---- the others ---- */

CUresult graph_op_copy(const CUDA_MEMCPY3D *p, struct graph_op *ret_op)
{
	struct copy_box box;
	CUresult r = p ? copy_plan(p, &box) : CUDA_ERROR_INVALID_VALUE;

	if (r)
		return r;
	if (box.depth > UINT16_MAX || (box.depth && !array_copy_fits(&box)))
		return CUDA_ERROR_INVALID_VALUE;
	ret_op->type = CU_GRAPH_NODE_TYPE_MEMCPY;
	ret_op->copy = *p;
	return CUDA_SUCCESS;
}

CUresult graph_op_fill(const CUDA_MEMSET_NODE_PARAMS *p, struct graph_op *ret_op)
{
	if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) ||
	    (p->dst & (p->elementSize - 1)) || p->width > SIZE_MAX / p->elementSize ||
	    (p->height > 1 && p->pitch < p->width * p->elementSize))
		return CUDA_ERROR_INVALID_VALUE;
	ret_op->type = CU_GRAPH_NODE_TYPE_MEMSET;
	ret_op->fill = *p;
	return hostmem_device_sees(&ret_op->fill.dst) ? CUDA_SUCCESS
						      : CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_op_host(const CUDA_HOST_NODE_PARAMS *p, struct graph_op *ret_op)
{
	if (!p || !p->fn)
		return CUDA_ERROR_INVALID_VALUE;
	ret_op->type = CU_GRAPH_NODE_TYPE_HOST;
	ret_op->host = *p;
	return CUDA_SUCCESS;
}

CUresult graph_op_event(CUevent event, CUgraphNodeType type, struct graph_op *ret_op)
{
	struct guest_event *e = event_lookup(event);

	if (!e)
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		event_recorded_elsewhere(e);
	ret_op->type = type;
	ret_op->event = event;
	return CUDA_SUCCESS;
}

CUresult graph_op_child(CUgraph child, struct graph_op *ret_op)
{
	struct graph *g = graph_lookup(child);

	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	if (graph_is_single(g))
		return CUDA_ERROR_NOT_SUPPORTED;
	ret_op->type = CU_GRAPH_NODE_TYPE_GRAPH;
	ret_op->child = graph_clone(g);
	return ret_op->child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The graph itself becomes part of another. */
static CUresult op_child_moved(struct graph *to, CUgraph child, struct graph_op *ret_op)
{
	struct graph *g = graph_lookup(child);

	if (!g || !to || g->owner || g->captures || g->execs || g->n_conditions ||
	    graph_outermost(to) == g)
		return CUDA_ERROR_INVALID_VALUE;
	ret_op->type = CU_GRAPH_NODE_TYPE_GRAPH;
	ret_op->child = g;
	return CUDA_SUCCESS;
}

static CUresult op_child_any(struct graph *to, const CUDA_CHILD_GRAPH_NODE_PARAMS *p,
			     struct graph_op *ret_op)
{
	if (p->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
		return op_child_moved(to, p->graph, ret_op);
	return p->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE
		       ? graph_op_child(p->graph, ret_op)
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult op_memset_any(const CUDA_MEMSET_NODE_PARAMS_v2 *p,
			      struct graph_op *ret_op)
{
	const CUDA_MEMSET_NODE_PARAMS plain = {
		.dst = p->dst,
		.pitch = p->pitch,
		.value = p->value,
		.elementSize = p->elementSize,
		.width = p->width,
		.height = p->height,
	};

	return graph_op_fill(&plain, ret_op);
}

CUresult graph_op_any(struct graph *g, const CUgraphNode *deps, size_t n,
		      CUgraphNodeParams *p, struct graph_op *ret_op)
{
	const CUDA_HOST_NODE_PARAMS host = {p->host.fn, p->host.userData};

	static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) ==
			      sizeof(CUDA_KERNEL_NODE_PARAMS_v3),
		      "one layout under two names");
	static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) ==
			      sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2),
		      "one layout under two names");
	static_assert(sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS) ==
			      sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS_v2),
		      "one layout under two names");
	switch ((int)p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return graph_op_kernel((const CUDA_KERNEL_NODE_PARAMS *)&p->kernel,
				       ret_op);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return graph_op_copy(&p->memcpy.copyParams, ret_op);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return op_memset_any(&p->memset, ret_op);
	case CU_GRAPH_NODE_TYPE_HOST:
		return graph_op_host(&host, ret_op);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return op_child_any(g, &p->graph, ret_op);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		ret_op->type = CU_GRAPH_NODE_TYPE_EMPTY;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return graph_op_event(p->eventWait.event, p->type, ret_op);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return graph_op_event(p->eventRecord.event, p->type, ret_op);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return graph_op_alloc(g, deps, n, (CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc,
				      ret_op);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return graph_op_free(g, p->free.dptr, ret_op);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return graph_op_mem_ops((const CUDA_BATCH_MEM_OP_NODE_PARAMS *)&p->memOp,
					ret_op);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return graph_op_conditional(g, &p->conditional, ret_op);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return guest_refuse(REFUSAL_FEATURE, "graph node: type");
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* ---- ownership ---- */

CUresult graph_op_dup(const struct graph_op *op, struct graph_op *ret_op)
{
	struct graph_op copy = *op;

	if (op->type == CU_GRAPH_NODE_TYPE_KERNEL)
		kernel_ref(op->kernel);
	if (op->type == CU_GRAPH_NODE_TYPE_GRAPH) {
		copy.child = graph_clone(op->child);
		if (!copy.child)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (op->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
		copy.mem_ops = graph_mem_ops_dup(op->mem_ops);
		if (!copy.mem_ops)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_op = copy;
	return CUDA_SUCCESS;
}

void graph_op_fini(struct graph_op *op)
{
	if (op->type == CU_GRAPH_NODE_TYPE_KERNEL)
		kernel_put(op->kernel);
	if (op->type == CU_GRAPH_NODE_TYPE_GRAPH)
		graph_free(op->child);
	if (op->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	    op->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		graph_mem_put(op->mem);
	if (op->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
		free(op->mem_ops);
	if (op->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		graph_cond_free(op->cond);
	op->type = CU_GRAPH_NODE_TYPE_EMPTY;
}

static uint64_t span(const struct copy_side *side, size_t slice, const struct copy_box *b)
{
	return (b->depth - 1) * slice + (b->rows.height - 1) * side->pitch +
	       b->rows.width;
}

/* Pinned memory that the device sees is the device's, as for copies in streams. */
CUresult graph_copy_box(const CUDA_MEMCPY3D *p, struct copy_box *ret_box)
{
	CUresult r = copy_plan(p, ret_box);
	struct copy *c = &ret_box->rows;

	if (r || !ret_box->depth || (c->dst.device && c->src.device))
		return r;
	c->async = true;
	return copy_share(c, span(&c->dst, ret_box->dst_slice, ret_box),
			  span(&c->src, ret_box->src_slice, ret_box));
}

enum graph_part graph_op_stages(const struct graph_op *op)
{
	struct copy_box box;

	if (op->type != CU_GRAPH_NODE_TYPE_MEMCPY || graph_copy_box(&op->copy, &box) ||
	    !box.depth || box.rows.dst.device == box.rows.src.device)
		return GRAPH_WHOLE;
	return box.rows.dst.device ? GRAPH_STAGE_HOST : GRAPH_STAGE_COPY;
}

size_t graph_stage_size(const struct graph_op *op)
{
	struct copy_box box;

	if (graph_copy_box(&op->copy, &box))
		return 0;
	return box.rows.width * box.rows.height * box.depth;
}

bool graph_op_is_host(const struct graph_op *op)
{
	struct copy_box box;

	if (op->type == CU_GRAPH_NODE_TYPE_HOST)
		return true;
	if (op->type != CU_GRAPH_NODE_TYPE_MEMCPY || graph_copy_box(&op->copy, &box))
		return false;
	return box.depth && !(box.rows.dst.device && box.rows.src.device);
}
