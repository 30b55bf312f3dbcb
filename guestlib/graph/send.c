/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of an executable graph's nodes, as messages. */
#include <string.h>

#include "copy/array_copy.h"
#include "calls.h"
#include "graph/exec.h"
#include "graph/host.h"
#include "graph/op.h"
#include "core/thread.h"

static CUresult send_empty(struct guest_thread *t, uint64_t exec, uint32_t index)
{
	struct graph_empty_cmd *cmd = begin_graph_empty(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->node = index;
	return guest_post(t);
}

static CUresult send_kernel(struct guest_thread *t, uint64_t exec, uint32_t index,
			    const struct graph_kernel *k)
{
	unsigned n = graph_kernel_attrs_count(k);
	struct graph_kernel_cmd *cmd = begin_graph_kernel(t, n, k->size);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->func = k->func;
	cmd->node = index;
	memcpy(cmd->grid, k->launch.grid, sizeof(cmd->grid));
	memcpy(cmd->block, k->launch.block, sizeof(cmd->block));
	memcpy(cmd->cluster, k->launch.cluster, sizeof(cmd->cluster));
	cmd->shared_bytes = k->launch.shared_bytes;
	cmd->flags = k->launch.cooperative ? LAUNCH_COOPERATIVE : 0;
	graph_kernel_attrs_put(k, graph_kernel_cmd_attr(cmd));
	memcpy(graph_kernel_cmd_params(cmd, n), k->buf, k->size);
	return guest_post(t);
}

static CUresult send_copy(struct guest_thread *t, uint64_t exec, uint32_t index,
			  const struct copy_box *b)
{
	struct graph_copy_cmd *cmd = begin_graph_copy(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->dst = b->rows.dst.addr;
	cmd->src = b->rows.src.addr;
	cmd->dst_pitch = b->rows.dst.pitch;
	cmd->src_pitch = b->rows.src.pitch;
	cmd->dst_slice = b->dst_slice;
	cmd->src_slice = b->src_slice;
	cmd->width = b->rows.width;
	cmd->height = b->rows.height;
	cmd->depth = (uint32_t)b->depth;
	cmd->node = index;
	return guest_post(t);
}

static CUresult send_array_copy(struct guest_thread *t, uint64_t exec, uint32_t index,
				const struct copy_box *b)
{
	struct graph_array_copy_cmd *cmd = begin_graph_array_copy(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->node = index;
	cmd->dst = array_side(&b->dst_at, &b->rows.dst, b->dst_slice);
	cmd->src = array_side(&b->src_at, &b->rows.src, b->src_slice);
	cmd->width = (uint32_t)b->rows.width;
	cmd->height = (uint32_t)b->rows.height;
	cmd->depth = (uint32_t)b->depth;
	return guest_post(t);
}

/* The device's part of a copy in two. */
static void through_stage(struct copy_box *b, const void *stage)
{
	struct copy_side *side = b->rows.dst.device ? &b->rows.src : &b->rows.dst;

	side->addr = (uintptr_t)stage;
	side->pitch = b->rows.width;
	if (b->rows.dst.device)
		b->src_slice = b->rows.width * b->rows.height;
	else
		b->dst_slice = b->rows.width * b->rows.height;
}

static CUresult send_memcpy(struct guest_thread *t, const struct guest_exec *x,
			    uint32_t index, const CUDA_MEMCPY3D *p)
{
	struct copy_box b;
	CUresult r = graph_copy_box(p, &b);

	if (r)
		return r;
	if (x->items[index].part == GRAPH_STAGE_COPY) {
		if (!x->items[index].stage)
			return send_empty(t, x->handle, index);
		through_stage(&b, x->items[index].stage);
	}
	if (b.dst_at.array || b.src_at.array)
		return send_array_copy(t, x->handle, index, &b);
	return send_copy(t, x->handle, index, &b);
}

static CUresult send_fill(struct guest_thread *t, uint64_t exec, uint32_t index,
			  const CUDA_MEMSET_NODE_PARAMS *p)
{
	struct graph_fill_cmd *cmd = begin_graph_fill(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->dst = p->dst;
	cmd->pitch = p->pitch;
	cmd->width = p->width;
	cmd->height = p->height;
	cmd->value = p->value;
	cmd->elem_bytes = p->elementSize;
	cmd->node = index;
	return guest_post(t);
}

static CUresult send_host(struct guest_thread *t, uint64_t exec, uint32_t index,
			  uint64_t id)
{
	struct graph_host_cmd *cmd = begin_graph_host(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->id = id;
	cmd->node = index;
	return guest_post(t);
}

static CUresult send_event(struct guest_thread *t, uint64_t exec, uint32_t index,
			   CUevent event, bool wait)
{
	struct graph_event_cmd *cmd = begin_graph_event(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->event = (uintptr_t)event;
	cmd->node = index;
	cmd->wait = wait;
	return guest_post(t);
}

static CUresult send_conditional(struct guest_thread *t, uint64_t exec, uint32_t index,
				 const struct graph_cond *c, uint32_t first_body)
{
	struct graph_conditional_cmd *cmd = begin_graph_conditional(t);

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->condition = c->handle;
	cmd->node = index;
	cmd->type = c->type;
	cmd->n_bodies = c->n;
	cmd->first_body = first_body;
	return guest_post(t);
}

CUresult exec_send(struct guest_thread *t, struct guest_exec *x, uint32_t index,
		   const struct graph_op *op, const struct graph_host *host)
{
	if (host)
		return send_host(t, x->handle, index, graph_host_id(host));
	switch ((int)op->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		managed_note(&x->managed, op->kernel->buf, op->kernel->size);
		return send_kernel(t, x->handle, index, op->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return send_memcpy(t, x, index, &op->copy);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return send_fill(t, x->handle, index, &op->fill);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return graph_send_mem_ops(t, x->handle, index, op->mem_ops);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return send_conditional(t, x->handle, index, op->cond,
					x->items[index].first_body);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return send_event(t, x->handle, index, op->event,
				  op->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
	}
	return send_empty(t, x->handle, index);
}
