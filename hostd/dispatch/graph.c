/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs: handles become objects, the rest is graph/exec.h. */
#include "dispatch/graph.h"
#include "dispatch/handlers.h"
#include "session/trace.h"

#define EXEC_FLAGS ((unsigned)CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static void ref_put(void *arg, void *ref)
{
	struct sess_exec *e = arg;

	obj_put(e->s, ref);
}

static CUresult run_host(void *arg, struct dev_ctx *ctx, struct dev_stream *st,
			 uint64_t id)
{
	struct sess_exec *e = arg;

	return hostfuncs_launch(e->s->hostfuncs, ctx, st, id);
}

static int hold(void *arg, uint64_t bytes)
{
	const struct sess_exec *e = arg;

	return wmem_take(&e->s->accounts, bytes);
}

static void unhold(void *arg, uint64_t bytes)
{
	const struct sess_exec *e = arg;

	wmem_put(&e->s->accounts, bytes);
}

static void func_stands(void *arg, struct dev_ctx *ctx, uint64_t id, uint64_t token)
{
	hostfuncs_stands(arg, ctx, id, token);
}

static void exec_fini(struct session *s, struct sess_obj *o)
{
	struct sess_exec *e = container_of(o, struct sess_exec, obj);

	exec_free(e->x);
	if (e->shell)
		obj_put(s, &e->shell->obj);
	pthread_mutex_destroy(&e->lock);
}

int handle_graph_new(struct sess_lane *sl, const struct graph_new_args *a,
		     struct graph_new_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	struct exec_owner owner = {.put = ref_put,
				   .host = run_host,
				   .hold = hold,
				   .unhold = unhold,
				   .stands = func_stands,
				   .stands_arg = sl->s->hostfuncs};
	struct exec_shape shape = {.n = a->cmd->n_nodes,
				   .n_bodies = a->cmd->n_bodies,
				   .flags = a->cmd->flags};
	struct sess_obj *o = NULL;
	struct sess_exec *e;

	if (a->cmd->flags & ~EXEC_FLAGS)
		return -EPROTO;
	if (a->cmd->shell) {
		o = obj_find(sl->s, HANDLE_GRAPH, a->cmd->shell);
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
		if (!o)
			return 0;
	}
	e = obj_new(HANDLE_GRAPH_EXEC, a->cmd->exec, sizeof(*e), sl->ctx, exec_fini);
	rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!e) {
		obj_put(sl->s, o);
		return 0;
	}
	e->s = sl->s;
	if (o) {
		e->shell = container_of(o, struct sess_shell, obj);
		shape.shell = e->shell->dev;
	}
	owner.arg = e;
	pthread_mutex_init(&e->lock, NULL);
	rep->res.result = exec_new(sl->s->ops, ctx, &owner, &shape, &e->x);
	if (rep->res.result != CUDA_SUCCESS) {
		obj_put(sl->s, &e->obj);
		return 0;
	}
	return publish(sl, &e->obj, &rep->res.result);
}

struct sess_exec *sess_exec_lock(struct sess_lane *sl, uint64_t h)
{
	struct sess_exec *e = sess_get(sl, HANDLE_GRAPH_EXEC, h);

	if (!e)
		return NULL;
	pthread_mutex_lock(&e->lock);
	if (e->shell) /* its graph is what the exec is made in */
		pthread_mutex_lock(&e->shell->lock);
	return e;
}

void sess_exec_unlock(struct sess_exec *e)
{
	if (e->shell)
		pthread_mutex_unlock(&e->shell->lock);
	pthread_mutex_unlock(&e->lock);
}

int handle_graph_deps(struct sess_lane *sl, const struct graph_deps_args *a,
		      struct graph_deps_rep *rep)
{
	struct sess_exec *e = sess_exec_lock(sl, a->cmd->exec);
	_cleanup_free_ struct dev_edge *edges =
		calloc(a->cmd->edges_count + 1, sizeof(*edges));

	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	if (!edges) {
		exec_fail(e->x, CUDA_ERROR_OUT_OF_MEMORY);
		sess_exec_unlock(e);
		return 0;
	}
	for (uint32_t i = 0; i < a->cmd->edges_count; i++)
		edges[i] = (struct dev_edge){.from = (uint32_t)a->edges[i],
					     .from_port = (uint8_t)(a->edges[i] >> 32),
					     .to_port = (uint8_t)(a->edges[i] >> 40),
					     .type = (uint8_t)(a->edges[i] >> 48)};
	rep->res.result = exec_depend(e->x, a->cmd->node, edges, a->cmd->edges_count);
	sess_exec_unlock(e);
	return 0;
}

int handle_graph_body(struct sess_lane *sl, const struct graph_body_args *a,
		      struct graph_body_rep *rep)
{
	struct sess_exec *e = sess_exec_lock(sl, a->cmd->exec);

	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	e->body = a->cmd->body;
	rep->res.result = CUDA_SUCCESS;
	sess_exec_unlock(e);
	return 0;
}

int handle_graph_enable(struct sess_lane *sl, const struct graph_enable_args *a,
			struct graph_enable_rep *rep)
{
	struct sess_exec *e = sess_exec_lock(sl, a->cmd->exec);

	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	rep->res.result = exec_enable(e->x, a->cmd->node, a->cmd->enabled);
	e->kernels = exec_kernels(e->x);
	sess_exec_unlock(e);
	return 0;
}

int handle_graph_ready(struct sess_lane *sl, const struct graph_ready_args *a,
		       struct graph_ready_rep *rep)
{
	struct sess_exec *e = sess_exec_lock(sl, a->cmd->exec);
	int r;

	if (!e) { /* why graph_new has failed */
		rep->res.result = sess_sync_result(sl, CUDA_SUCCESS);
		if (rep->res.result == CUDA_SUCCESS)
			rep->res.result = CUDA_ERROR_INVALID_HANDLE;
		return 0;
	}
	/* The driver looks at the memory that nodes copy or fill. */
	r = sess_enter(sl);
	if (r == 0) {
		rep->res.result = exec_ready(e->x);
		sess_leave(sl);
	}
	e->kernels = exec_kernels(e->x);
	sess_exec_unlock(e);
	return r;
}

static void named(void *arg, const struct dev_node *op)
{
	struct session *s = arg;

	if (op->kind == DEV_NODE_KERNEL)
		note_launch(s, &op->kernel);
	else if (op->kind == DEV_NODE_FILL)
		note_rows(s, op->fill.dst, op->fill.pitch,
			  (uint64_t)op->fill.width * op->fill.elem_bytes,
			  op->fill.height);
	else if (op->kind == DEV_NODE_COPY) {
		const struct dev_copy_2d *r = &op->copy.rows;
		uint64_t more = op->copy.depth ? op->copy.depth - 1 : 0;

		note_rows(s, r->dst, r->dst_pitch, op->copy.dst_slice * more + r->width,
			  r->height);
		note_rows(s, r->src, r->src_pitch, op->copy.src_slice * more + r->width,
			  r->height);
	}
}

int handle_graph_launch(struct sess_lane *sl, const struct graph_launch_args *a,
			struct graph_launch_rep *rep)
{
	struct sess_exec *e;
	struct dev_stream *st;
	struct dev_ctx *ctx;
	uint64_t begin_ns;
	CUresult r = sess_stream(sl, a->cmd->stream, &st, &ctx);

	rep->res.result = r;
	if (r != CUDA_SUCCESS)
		return 0;
	e = sess_exec_lock(sl, a->cmd->exec);
	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	if (e->obj.ctx->dev != ctx) {
		rep->res.result = CUDA_ERROR_INVALID_CONTEXT;
	} else if (sess_enter(sl) < 0) {
		sess_exec_unlock(e);
		return -EPIPE;
	} else {
		if (unlikely(sl->s->touch.pages))
			exec_named(e->x, named, sl->s);
		begin_ns = trace_begin(sl->s);
		rep->res.result = exec_launch(e->x, st);
		sess_count_launches(sl, e->kernels);
		trace_lane(sl, TRACE_GRAPH, begin_ns, e->kernels);
		sess_leave(sl);
		sl->last_stream = a->cmd->stream;
		note_active(sl->s);
	}
	sess_exec_unlock(e);
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

int handle_graph_upload(struct sess_lane *sl, const struct graph_upload_args *a,
			struct graph_upload_rep *rep)
{
	struct sess_exec *e;
	struct dev_stream *st;
	struct dev_ctx *ctx;
	int r = 0;

	rep->res.result = sess_stream(sl, a->cmd->stream, &st, &ctx);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	e = sess_exec_lock(sl, a->cmd->exec);
	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	rep->res.result = CUDA_ERROR_INVALID_CONTEXT;
	if (e->obj.ctx->dev == ctx && (r = sess_enter(sl)) == 0) {
		rep->res.result = exec_upload(e->x, st);
		sess_leave(sl);
	}
	sess_exec_unlock(e);
	return r;
}

/* ---- conditions ---- */

static void shell_fini(struct session *s, struct sess_obj *o)
{
	struct sess_shell *shell = container_of(o, struct sess_shell, obj);

	if (shell->dev)
		s->ops->graph->shell_destroy(shell->dev);
	pthread_mutex_destroy(&shell->lock);
}

static CUresult shell_new(struct sess_lane *sl, uint64_t h, struct sess_shell **ret_shell)
{
	struct sess_shell *shell =
		obj_new(HANDLE_GRAPH, h, sizeof(*shell), sl->ctx, shell_fini);
	CUresult r;

	if (!shell)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&shell->lock, NULL);
	r = sl->s->ops->graph->shell_create(sl->ctx->dev, &shell->dev);
	if (r == CUDA_SUCCESS)
		*ret_shell = shell;
	else
		obj_put(sl->s, &shell->obj);
	return r;
}

int handle_graph_condition(struct sess_lane *sl, const struct graph_condition_args *a,
			   struct graph_condition_rep *rep)
{
	struct sess_shell *shell = sess_get(sl, HANDLE_GRAPH, a->cmd->shell);
	uint64_t condition = 0;
	uint32_t r = CUDA_SUCCESS;

	if (!sl->s->ops->graph) {
		rep->res.result = CUDA_ERROR_NOT_SUPPORTED;
		return 0;
	}
	if (!shell) {
		r = shell_new(sl, a->cmd->shell, &shell);
		if (r == CUDA_SUCCESS) {
			int err;

			/* Once it is published another lane may free it. */
			sess_pin(sl, obj_ref(&shell->obj));
			err = publish(sl, &shell->obj, &r);
			if (err < 0)
				return err;
		}
	}
	if (r == CUDA_SUCCESS) {
		pthread_mutex_lock(&shell->lock);
		r = sl->s->ops->graph->shell_condition(shell->dev, a->cmd->initial,
						       a->cmd->flags, &condition);
		pthread_mutex_unlock(&shell->lock);
	}
	rep->res.result = r;
	rep->condition = condition;
	return 0;
}

int handle_graph_shell_free(struct sess_lane *sl, const struct graph_shell_free_args *a,
			    struct graph_shell_free_rep *rep)
{
	obj_put(sl->s, obj_take(sl->s, HANDLE_GRAPH, a->cmd->shell));
	return 0;
}

/* ---- memory of nodes ---- */

int handle_graph_mem_alloc(struct sess_lane *sl, const struct graph_mem_alloc_args *a,
			   struct graph_mem_alloc_rep *rep)
{
	struct pools *p = sl->s->pools;
	CUdeviceptr addr = 0;

	rep->res.result =
		pool_alloc(p, pools_graphs(p), NULL, NULL, a->cmd->bytes, &addr);
	rep->dptr = addr;
	return 0;
}

int handle_graph_mem_free(struct sess_lane *sl, const struct graph_mem_free_args *a,
			  struct graph_mem_free_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	struct dev_stream *st;
	CUresult r = CUDA_SUCCESS;

	if (a->cmd->stream) {
		r = sess_stream(sl, a->cmd->stream, &st, &ctx);
		if (r == CUDA_SUCCESS)
			r = pools_free_async(sl->s->pools, ctx, st, a->cmd->dptr);
		rep->res.result = r;
		return 0;
	}
	if (a->cmd->wait)
		sl->s->ops->ctx.synchronize(ctx);
	if (!pools_free(sl->s->pools, a->cmd->dptr))
		r = CUDA_ERROR_INVALID_VALUE;
	rep->res.result = r;
	return 0;
}
