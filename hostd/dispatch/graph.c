/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs: handles become objects, the rest is graph/exec.h. */
#include "dispatch/handlers.h"
#include "graph/exec.h"

#define KERNEL_COOPERATIVE 1u /* flags of graph_kernel */

struct sess_exec {
	struct sess_obj obj;
	pthread_mutex_t lock; /* waiting commands run beside posted ones */
	struct exec *x;
	struct session *s;
	unsigned kernels;
};

static void ref_put(void *arg, void *ref)
{
	struct sess_exec *e = arg;

	obj_put(e->s, ref);
}

static CUresult run_host(void *arg, struct dev_ctx *ctx, struct dev_stream *st,
			 uint64_t id)
{
	struct sess_exec *e = arg;

	return hostfuncs_launch(e->s->hostfuncs, ctx, st, id, false);
}

static void exec_fini(struct session *s, struct sess_obj *o)
{
	struct sess_exec *e = container_of(o, struct sess_exec, obj);

	exec_free(e->x);
	pthread_mutex_destroy(&e->lock);
}

int handle_graph_new(struct sess_lane *sl, const struct graph_new_args *a,
		     struct graph_new_rep *rep)
{
	struct dev_ctx *ctx = need_ctx(sl, rep);
	struct exec_owner owner = {.put = ref_put, .host = run_host};
	struct sess_exec *e;

	if (a->cmd->flags)
		return -EPROTO;
	e = obj_new(HANDLE_GRAPH_EXEC, a->cmd->exec, sizeof(*e), sl->ctx, exec_fini);
	rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!e)
		return 0;
	e->s = sl->s;
	owner.arg = e;
	pthread_mutex_init(&e->lock, NULL);
	rep->res.result = exec_new(sl->s->ops, ctx, &owner, a->cmd->n_nodes, &e->x);
	if (rep->res.result != CUDA_SUCCESS) {
		obj_put(sl->s, &e->obj);
		return 0;
	}
	return publish(sl, &e->obj, &rep->res.result);
}

/* The exec of a command, locked; NULL: there is none. */
static struct sess_exec *lock_exec(struct sess_lane *sl, uint64_t h)
{
	struct sess_exec *e = sess_get(sl, HANDLE_GRAPH_EXEC, h);

	if (e)
		pthread_mutex_lock(&e->lock);
	return e;
}

static uint32_t set_op(struct sess_lane *sl, uint64_t h, uint32_t node,
		       const struct exec_op *op)
{
	struct sess_exec *e = lock_exec(sl, h);
	CUresult r = CUDA_ERROR_INVALID_HANDLE;

	if (e) {
		r = exec_set(e->x, node, op);
		pthread_mutex_unlock(&e->lock);
	} else {
		obj_put(sl->s, op->ref);
	}
	return r;
}

/* The object that an operation names is gone. */
static uint32_t no_object(struct sess_lane *sl, uint64_t h)
{
	struct sess_exec *e = lock_exec(sl, h);

	if (e) {
		exec_fail(e->x, CUDA_ERROR_INVALID_HANDLE);
		pthread_mutex_unlock(&e->lock);
	}
	return CUDA_ERROR_INVALID_HANDLE;
}

int handle_graph_deps(struct sess_lane *sl, const struct graph_deps_args *a,
		      struct graph_deps_rep *rep)
{
	struct sess_exec *e = lock_exec(sl, a->cmd->exec);

	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	rep->res.result = exec_depend(e->x, a->cmd->node, a->deps, a->cmd->deps_count);
	pthread_mutex_unlock(&e->lock);
	return 0;
}

int handle_graph_kernel(struct sess_lane *sl, const struct graph_kernel_args *a,
			struct graph_kernel_rep *rep)
{
	const struct graph_kernel_cmd *c = a->cmd;
	struct exec_op op = {.kind = EXEC_KERNEL};
	enum handle_type type = handle_type(c->func);
	struct sess_func *f = NULL;
	struct sess_obj *o = NULL;

	if (type == HANDLE_FUNCTION || type == HANDLE_KERNEL)
		o = obj_find(sl->s, type, c->func);
	if (!o) {
		rep->res.result = no_object(sl, c->exec);
		return 0;
	}
	f = container_of(o, struct sess_func, obj);
	op.ref = o;
	op.kernel.func = f->dev;
	memcpy(op.kernel.grid, c->grid, sizeof(c->grid));
	memcpy(op.kernel.block, c->block, sizeof(c->block));
	memcpy(op.kernel.cluster, c->cluster, sizeof(c->cluster));
	op.kernel.shared_bytes = c->shared_bytes;
	op.kernel.cooperative = c->flags & KERNEL_COOPERATIVE;
	op.kernel.params = a->params;
	op.kernel.params_size = c->params_size;
	rep->res.result = set_op(sl, c->exec, c->node, &op);
	return 0;
}

int handle_graph_copy(struct sess_lane *sl, const struct graph_copy_args *a,
		      struct graph_copy_rep *rep)
{
	const struct graph_copy_cmd *c = a->cmd;
	struct exec_op op = {
		.kind = EXEC_COPY,
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

	rep->res.result = set_op(sl, c->exec, c->node, &op);
	return 0;
}

int handle_graph_fill(struct sess_lane *sl, const struct graph_fill_args *a,
		      struct graph_fill_rep *rep)
{
	const struct graph_fill_cmd *c = a->cmd;
	struct exec_op op = {
		.kind = EXEC_FILL,
		.fill = {.dst = c->dst,
			 .pitch = c->pitch,
			 .width = c->width,
			 .height = c->height,
			 .value = c->value,
			 .elem_bytes = c->elem_bytes},
	};

	if (c->elem_bytes != 1 && c->elem_bytes != 2 && c->elem_bytes != 4)
		return -EPROTO;
	rep->res.result = set_op(sl, c->exec, c->node, &op);
	return 0;
}

int handle_graph_host(struct sess_lane *sl, const struct graph_host_args *a,
		      struct graph_host_rep *rep)
{
	struct exec_op op = {.kind = EXEC_HOST, .host_id = a->cmd->id};

	if (!a->cmd->id)
		return -EPROTO;
	rep->res.result = set_op(sl, a->cmd->exec, a->cmd->node, &op);
	return 0;
}

int handle_graph_event(struct sess_lane *sl, const struct graph_event_args *a,
		       struct graph_event_rep *rep)
{
	struct exec_op op = {.kind = a->cmd->wait ? EXEC_WAIT : EXEC_RECORD};
	struct sess_obj *o = obj_find(sl->s, HANDLE_EVENT, a->cmd->event);

	if (!o) {
		rep->res.result = no_object(sl, a->cmd->exec);
		return 0;
	}
	op.ref = o;
	op.event = container_of(o, struct sess_event, obj)->dev;
	rep->res.result = set_op(sl, a->cmd->exec, a->cmd->node, &op);
	return 0;
}

int handle_graph_empty(struct sess_lane *sl, const struct graph_empty_args *a,
		       struct graph_empty_rep *rep)
{
	struct exec_op op = {.kind = EXEC_EMPTY};

	rep->res.result = set_op(sl, a->cmd->exec, a->cmd->node, &op);
	return 0;
}

int handle_graph_enable(struct sess_lane *sl, const struct graph_enable_args *a,
			struct graph_enable_rep *rep)
{
	struct sess_exec *e = lock_exec(sl, a->cmd->exec);

	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	rep->res.result = exec_enable(e->x, a->cmd->node, a->cmd->enabled);
	e->kernels = exec_kernels(e->x);
	pthread_mutex_unlock(&e->lock);
	return 0;
}

int handle_graph_ready(struct sess_lane *sl, const struct graph_ready_args *a,
		       struct graph_ready_rep *rep)
{
	struct sess_exec *e = lock_exec(sl, a->cmd->exec);

	if (!e) { /* why graph_new has failed */
		rep->res.result = sess_sync_result(sl, CUDA_SUCCESS);
		if (rep->res.result == CUDA_SUCCESS)
			rep->res.result = CUDA_ERROR_INVALID_HANDLE;
		return 0;
	}
	rep->res.result = exec_ready(e->x);
	e->kernels = exec_kernels(e->x);
	pthread_mutex_unlock(&e->lock);
	return 0;
}

int handle_graph_launch(struct sess_lane *sl, const struct graph_launch_args *a,
			struct graph_launch_rep *rep)
{
	struct sess_exec *e;
	struct dev_stream *st;
	struct dev_ctx *ctx;
	CUresult r = sess_stream(sl, a->cmd->stream, &st, &ctx);

	rep->res.result = r;
	if (r != CUDA_SUCCESS)
		return 0;
	e = lock_exec(sl, a->cmd->exec);
	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	if (e->obj.ctx->dev != ctx) {
		rep->res.result = CUDA_ERROR_INVALID_CONTEXT;
	} else {
		rep->res.result = exec_launch(e->x, st);
		count(&sl->s->count->launches, e->kernels);
		note_active(sl->s);
	}
	pthread_mutex_unlock(&e->lock);
	return 0;
}

int handle_graph_destroy(struct sess_lane *sl, const struct graph_destroy_args *a,
			 struct graph_destroy_rep *rep)
{
	struct sess_obj *o = obj_take(sl->s, HANDLE_GRAPH_EXEC, a->cmd->exec);

	if (!o)
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	obj_put(sl->s, o);
	return 0;
}
