/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses are checked as for copies. A kernel's parameters are as long as the driver
 * will read.
 */
#include <stdlib.h>
#include <string.h>

#include "device/cuda/copy.h"
#include "device/cuda/graph.h"
#include "device/cuda/module.h"
#include "device/cuda/stream.h"

CUDA_KERNEL_NODE_PARAMS cuda_kernel_node(const struct dev_launch *l,
					 struct cuda_node_room *room)
{
	room->size = l->params_size;
	room->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	room->extra[1] = (void *)(uintptr_t)l->params;
	room->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	room->extra[3] = &room->size;
	room->extra[4] = CU_LAUNCH_PARAM_END;
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = l->func->cu,
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared_bytes,
		.extra = l->params_size ? room->extra : NULL,
	};
}

void cuda_kernel_node_params(const struct dev_launch *l, struct cuda_node_room *room,
			     CUgraphNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS k = cuda_kernel_node(l, room);

	static_assert(sizeof(k) <= sizeof(p->kernel), "the latter begins alike");
	memset(p, 0, sizeof(*p));
	p->type = CU_GRAPH_NODE_TYPE_KERNEL;
	memcpy(&p->kernel, &k, sizeof(k));
}

static CUresult kernel_params(const struct dev_launch *l, struct cuda_node_room *room,
			      CUgraphNodeParams *p)
{
	if (l->params_size != l->func->params_size) /* before the driver reads past it */
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	cuda_kernel_node_params(l, room, p);
	return CUDA_SUCCESS;
}

static CUresult copy_check(struct dev_ctx *ctx, const struct dev_node_copy *c)
{
	struct dev_copy_2d rows = c->rows;

	if (c->depth > 1 &&
	    (!rows.dst_pitch || !rows.src_pitch || c->dst_slice % rows.dst_pitch ||
	     c->src_slice % rows.src_pitch))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t z = 0; z < c->depth; z++) {
		if (!cuda_copy_ok(ctx->dev, &rows))
			return CUDA_ERROR_INVALID_VALUE;
		rows.dst += c->dst_slice;
		rows.src += c->src_slice;
	}
	return CUDA_SUCCESS;
}

static CUresult copy_params(struct dev_ctx *ctx, const struct dev_node_copy *c,
			    CUgraphNodeParams *p)
{
	const struct dev_copy_2d *rows = &c->rows;
	bool plain = rows->height == 1 && c->depth == 1;
	CUresult res = copy_check(ctx, c);

	if (res)
		return res;
	p->type = CU_GRAPH_NODE_TYPE_MEMCPY;
	p->memcpy.copyCtx = ctx->cu;
	p->memcpy.copyParams = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = rows->src,
		.srcPitch = plain ? 0 : rows->src_pitch,
		.srcHeight = c->depth > 1 ? c->src_slice / rows->src_pitch : 0,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = rows->dst,
		.dstPitch = plain ? 0 : rows->dst_pitch,
		.dstHeight = c->depth > 1 ? c->dst_slice / rows->dst_pitch : 0,
		.WidthInBytes = rows->width,
		.Height = rows->height,
		.Depth = c->depth,
	};
	return CUDA_SUCCESS;
}

static CUresult fill_params(struct dev_ctx *ctx, const struct dev_node_fill *f,
			    CUgraphNodeParams *p)
{
	if (!cuda_fill_ok(ctx->dev, f->dst, f->pitch, f->elem_bytes, f->width, f->height))
		return CUDA_ERROR_INVALID_VALUE;
	p->type = CU_GRAPH_NODE_TYPE_MEMSET;
	p->memset = (CUDA_MEMSET_NODE_PARAMS_v2){
		.dst = f->dst,
		.pitch = f->pitch,
		.value = f->value,
		.elementSize = f->elem_bytes,
		.width = f->width,
		.height = f->height,
		.ctx = ctx->cu,
	};
	return CUDA_SUCCESS;
}

void cuda_slot_params(struct dev_ctx *ctx, int slot, struct cuda_node_room *room,
		      CUgraphNodeParams *p)
{
	CUdeviceptr addr = ctx->slots_addr + sizeof(uint32_t) * (unsigned)slot;
	uint32_t rest = cuda_slot_rest(ctx, slot);

	memset(room->ops, 0, sizeof(room->ops));
	room->ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	room->ops[0].waitValue.address = addr;
	room->ops[0].waitValue.value = rest + 1;
	room->ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	room->ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	room->ops[1].writeValue.address = addr;
	room->ops[1].writeValue.value = rest;
	p->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	p->memOp.ctx = ctx->cu;
	p->memOp.count = 2;
	p->memOp.paramArray = room->ops;
}

static CUresult mem_op_params(struct dev_ctx *ctx, const struct dev_node_mem_ops *m,
			      struct cuda_node_room *room, CUgraphNodeParams *p)
{
	room->more = calloc(m->n + 1, sizeof(*room->more));
	if (!room->more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < m->n; i++) {
		if (!cuda_mem_op(ctx->dev, &m->ops[i], &room->more[i]))
			return CUDA_ERROR_INVALID_VALUE;
	}
	p->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	p->memOp.ctx = ctx->cu;
	p->memOp.count = m->n;
	p->memOp.paramArray = room->more;
	return CUDA_SUCCESS;
}

static void cond_params(struct dev_ctx *ctx, const struct dev_node_conditional *c,
			CUgraphNodeParams *p)
{
	p->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	p->conditional.handle = c->handle;
	p->conditional.type = (CUgraphConditionalNodeType)c->type;
	p->conditional.size = c->n_bodies;
	p->conditional.ctx = ctx->cu;
}

static bool nothing_to_do(const struct dev_node *op)
{
	const struct dev_node_copy *c = &op->copy;
	const struct dev_box *box = &op->array_copy.dst.box;

	if (op->kind == DEV_NODE_ARRAY_COPY)
		return !box->width || !box->height || !box->depth;
	if (op->kind == DEV_NODE_COPY)
		return !c->rows.width || !c->rows.height || !c->depth;
	return op->kind == DEV_NODE_FILL && (!op->fill.width || !op->fill.height);
}

CUresult cuda_node_params(struct dev_ctx *ctx, const struct dev_node *op,
			  struct cuda_node_room *room, CUgraphNodeParams *p)
{
	memset(p, 0, sizeof(*p));
	room->more = NULL;
	p->type = CU_GRAPH_NODE_TYPE_EMPTY;
	if (nothing_to_do(op))
		return CUDA_SUCCESS;
	switch (op->kind) {
	case DEV_NODE_NONE:
	case DEV_NODE_HOST:
		break;
	case DEV_NODE_EMPTY:
		return CUDA_SUCCESS;
	case DEV_NODE_KERNEL:
		return kernel_params(&op->kernel, room, p);
	case DEV_NODE_COPY:
		return copy_params(ctx, &op->copy, p);
	case DEV_NODE_ARRAY_COPY:
		p->type = CU_GRAPH_NODE_TYPE_MEMCPY;
		p->memcpy.copyCtx = ctx->cu;
		return cuda_array_params(ctx->dev, &op->array_copy,
					 &p->memcpy.copyParams);
	case DEV_NODE_FILL:
		return fill_params(ctx, &op->fill, p);
	case DEV_NODE_RECORD:
		p->type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
		p->eventRecord.event = op->event->cu;
		return CUDA_SUCCESS;
	case DEV_NODE_WAIT:
		p->type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
		p->eventWait.event = op->event->cu;
		return CUDA_SUCCESS;
	case DEV_NODE_MEM_OPS:
		return mem_op_params(ctx, &op->mem_ops, room, p);
	case DEV_NODE_CONDITIONAL:
		cond_params(ctx, &op->cond, p);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_UNKNOWN;
}
