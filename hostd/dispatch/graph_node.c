/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of an executable graph: commands that describe them, for the device. */
#include "dispatch/array.h"
#include "dispatch/graph.h"
#include "dispatch/handlers.h"

#define KERNEL_COOPERATIVE 1u /* flags of graph_kernel */

/* Inside the gate: the driver looks at the memory that nodes copy or fill. */
static int set_op(struct sess_lane *sl, uint64_t h, uint32_t node, struct dev_node *op,
		  uint32_t *ret_result)
{
	struct sess_exec *e = sess_exec_lock(sl, h);
	int r = e ? sess_enter(sl) : 0;

	*ret_result = CUDA_ERROR_INVALID_HANDLE;
	if (e && r == 0) {
		op->graph = e->body;
		*ret_result = exec_set(e->x, node, op);
		sess_leave(sl);
	} else {
		obj_put(sl->s, op->ref);
		obj_put(sl->s, op->ref2);
	}
	if (e)
		sess_exec_unlock(e);
	return r;
}

/* An operation cannot be described, as the object that it names is gone. */
static uint32_t no_op(struct sess_lane *sl, uint64_t h, CUresult why)
{
	struct sess_exec *e = sess_exec_lock(sl, h);

	if (e) {
		exec_fail(e->x, why);
		sess_exec_unlock(e);
	}
	return why;
}

int handle_graph_kernel(struct sess_lane *sl, const struct graph_kernel_args *a,
			struct graph_kernel_rep *rep)
{
	const struct graph_kernel_cmd *c = a->cmd;
	struct dev_node op = {.kind = DEV_NODE_KERNEL};
	enum handle_type type = handle_type(c->func);
	struct sess_exec *e = sess_get(sl, HANDLE_GRAPH_EXEC, c->exec);
	struct dev_launch_attr attrs[DEV_LAUNCH_ATTRS_MAX];
	CUresult r = CUDA_ERROR_INVALID_HANDLE;
	struct sess_func *f = NULL;
	struct sess_obj *ref;

	if (type == HANDLE_FUNCTION || type == HANDLE_KERNEL)
		f = sess_get(sl, type, c->func);
	if (c->attr_count) /* they are compared as bytes */
		memset(attrs, 0, sizeof(attrs));
	if (e && f)
		r = launch_read_attrs(sl, a->attr, c->attr_count, NULL, attrs);
	if (r == CUDA_SUCCESS)
		r = sess_func_hold(sl, f, e->obj.ctx, &op.kernel.func, &ref);
	if (r != CUDA_SUCCESS) {
		rep->res.result = no_op(sl, c->exec, r);
		return 0;
	}
	op.kernel.extent = f->extent;
	op.kernel.attrs = attrs;
	op.kernel.n_attrs = c->attr_count;
	op.ref = ref;
	memcpy(op.kernel.grid, c->grid, sizeof(c->grid));
	memcpy(op.kernel.block, c->block, sizeof(c->block));
	memcpy(op.kernel.cluster, c->cluster, sizeof(c->cluster));
	op.kernel.shared_bytes = c->shared_bytes;
	op.kernel.cooperative = c->flags & KERNEL_COOPERATIVE;
	op.kernel.params = a->params;
	op.kernel.params_size = c->params_size;
	return set_op(sl, c->exec, c->node, &op, &rep->res.result);
}

int handle_graph_copy(struct sess_lane *sl, const struct graph_copy_args *a,
		      struct graph_copy_rep *rep)
{
	const struct graph_copy_cmd *c = a->cmd;
	struct dev_node op = {
		.kind = DEV_NODE_COPY,
		.copy = {.rows = {.dst = c->dst,
				  .src = c->src,
				  .dst_pitch = c->dst_pitch,
				  .src_pitch = c->src_pitch,
				  .width = c->width,
				  .height = c->height},
			 .dst_slice = c->dst_slice,
			 .src_slice = c->src_slice,
			 .depth = c->depth},
	};

	return set_op(sl, c->exec, c->node, &op, &rep->res.result);
}

/* A reference on an array; none if h is 0, which is memory. */
static CUresult array_ref(struct sess_lane *sl, uint64_t h, unsigned level,
			  void **ret_ref, struct dev_array **ret_array)
{
	struct sess_obj *o = h ? obj_find(sl->s, HANDLE_ARRAY, h) : NULL;
	struct sess_array *a;

	if (!h)
		return CUDA_SUCCESS;
	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	a = container_of(o, struct sess_array, obj);
	if (level >= a->levels) {
		obj_put(sl->s, o);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_ref = o;
	*ret_array = a->dev;
	return CUDA_SUCCESS;
}

int handle_graph_array_copy(struct sess_lane *sl, const struct graph_array_copy_args *a,
			    struct graph_array_copy_rep *rep)
{
	const struct graph_array_copy_cmd *c = a->cmd;
	struct dev_node op = {
		.kind = DEV_NODE_ARRAY_COPY,
		.array_copy = {.dst = array_side(&c->dst, c->width, c->height, c->depth),
			       .src = array_side(&c->src, c->width, c->height, c->depth)},
	};
	CUresult r;

	if (!c->dst.array && !c->src.array)
		return -EPROTO;
	r = array_ref(sl, c->dst.array, c->dst.level, &op.ref,
		      &op.array_copy.dst.box.array);
	if (r == CUDA_SUCCESS)
		r = array_ref(sl, c->src.array, c->src.level, &op.ref2,
			      &op.array_copy.src.box.array);
	if (r != CUDA_SUCCESS) {
		obj_put(sl->s, op.ref);
		rep->res.result = no_op(sl, c->exec, r);
		return 0;
	}
	return set_op(sl, c->exec, c->node, &op, &rep->res.result);
}

int handle_graph_fill(struct sess_lane *sl, const struct graph_fill_args *a,
		      struct graph_fill_rep *rep)
{
	const struct graph_fill_cmd *c = a->cmd;
	struct dev_node op = {
		.kind = DEV_NODE_FILL,
		.fill = {.dst = c->dst,
			 .pitch = c->pitch,
			 .width = c->width,
			 .height = c->height,
			 .value = c->value,
			 .elem_bytes = c->elem_bytes},
	};

	if (c->elem_bytes != 1 && c->elem_bytes != 2 && c->elem_bytes != 4)
		return -EPROTO;
	return set_op(sl, c->exec, c->node, &op, &rep->res.result);
}

int handle_graph_host(struct sess_lane *sl, const struct graph_host_args *a,
		      struct graph_host_rep *rep)
{
	struct dev_node op = {.kind = DEV_NODE_HOST, .host_id = a->cmd->id};

	if (!a->cmd->id)
		return -EPROTO;
	return set_op(sl, a->cmd->exec, a->cmd->node, &op, &rep->res.result);
}

int handle_graph_event(struct sess_lane *sl, const struct graph_event_args *a,
		       struct graph_event_rep *rep)
{
	struct dev_node op = {.kind = a->cmd->wait ? DEV_NODE_WAIT : DEV_NODE_RECORD};
	struct sess_obj *o = obj_find(sl->s, HANDLE_EVENT, a->cmd->event);
	struct sess_event *ev;

	if (!o) {
		rep->res.result = no_op(sl, a->cmd->exec, CUDA_ERROR_INVALID_HANDLE);
		return 0;
	}
	op.ref = o;
	ev = container_of(o, struct sess_event, obj);
	if (!a->cmd->wait) { /* from now on nobody knows where it was recorded last */
		atomic_store(&ev->elsewhere, true);
		atomic_store(&ev->moment, 0);
	}
	op.event = ev->dev;
	return set_op(sl, a->cmd->exec, a->cmd->node, &op, &rep->res.result);
}

int handle_graph_mem_ops(struct sess_lane *sl, const struct graph_mem_ops_args *a,
			 struct graph_mem_ops_rep *rep)
{
	struct dev_mem_op ops[DEV_MEM_OPS_MAX];
	struct dev_node op = {.kind = DEV_NODE_MEM_OPS,
			      .mem_ops = {ops, a->cmd->op_count}};

	if (a->cmd->op_count > DEV_MEM_OPS_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < a->cmd->op_count; i++)
		ops[i] = (struct dev_mem_op){
			.op = (CUstreamBatchMemOpType)a->op[i].op,
			.flags = a->op[i].flags,
			.addr = a->op[i].address,
			.value = a->op[i].value,
		};
	return set_op(sl, a->cmd->exec, a->cmd->node, &op, &rep->res.result);
}

int handle_graph_conditional(struct sess_lane *sl, const struct graph_conditional_args *a,
			     struct graph_conditional_rep *rep)
{
	struct dev_node op = {
		.kind = DEV_NODE_CONDITIONAL,
		.cond = {.handle = a->cmd->condition,
			 .type = a->cmd->type,
			 .n_bodies = a->cmd->n_bodies,
			 .first_body = a->cmd->first_body},
	};

	return set_op(sl, a->cmd->exec, a->cmd->node, &op, &rep->res.result);
}

int handle_graph_empty(struct sess_lane *sl, const struct graph_empty_args *a,
		       struct graph_empty_rep *rep)
{
	struct dev_node op = {.kind = DEV_NODE_EMPTY};

	return set_op(sl, a->cmd->exec, a->cmd->node, &op, &rep->res.result);
}
