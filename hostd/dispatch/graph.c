/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs: handles become objects, the rest is graph/exec.h. */
#include "dispatch/array.h"
#include "dispatch/handlers.h"
#include "graph/exec.h"

#define KERNEL_COOPERATIVE 1u /* flags of graph_kernel */
#define EXEC_FLAGS         ((unsigned)CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

struct sess_exec {
	struct sess_obj obj;
	pthread_mutex_t lock; /* waiting commands run beside posted ones */
	struct exec *x;
	struct session *s;
	struct sess_shell *shell; /* a reference, or NULL */
	uint32_t body;            /* that nodes are described for */
	unsigned kernels;
};

/* What handles of conditional nodes belong to. */
struct sess_shell {
	struct sess_obj obj;
	pthread_mutex_t lock;
	struct dev_shell *dev;
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
	struct dev_ctx *ctx = need_ctx(sl, rep);
	struct exec_owner owner = {.put = ref_put,
				   .host = run_host,
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

/* The exec of a command, locked; NULL: there is none. */
static struct sess_exec *lock_exec(struct sess_lane *sl, uint64_t h)
{
	struct sess_exec *e = sess_get(sl, HANDLE_GRAPH_EXEC, h);

	if (!e)
		return NULL;
	pthread_mutex_lock(&e->lock);
	if (e->shell) /* its graph is what the exec is made in */
		pthread_mutex_lock(&e->shell->lock);
	return e;
}

static void unlock_exec(struct sess_exec *e)
{
	if (e->shell)
		pthread_mutex_unlock(&e->shell->lock);
	pthread_mutex_unlock(&e->lock);
}

static uint32_t set_op(struct sess_lane *sl, uint64_t h, uint32_t node,
		       struct dev_node *op)
{
	struct sess_exec *e = lock_exec(sl, h);
	CUresult r = CUDA_ERROR_INVALID_HANDLE;

	if (e) {
		op->graph = e->body;
		r = exec_set(e->x, node, op);
		unlock_exec(e);
	} else {
		obj_put(sl->s, op->ref);
		obj_put(sl->s, op->ref2);
	}
	return r;
}

/* An operation cannot be described, as the object that it names is gone. */
static uint32_t no_op(struct sess_lane *sl, uint64_t h, CUresult why)
{
	struct sess_exec *e = lock_exec(sl, h);

	if (e) {
		exec_fail(e->x, why);
		unlock_exec(e);
	}
	return why;
}

int handle_graph_deps(struct sess_lane *sl, const struct graph_deps_args *a,
		      struct graph_deps_rep *rep)
{
	struct sess_exec *e = lock_exec(sl, a->cmd->exec);
	_cleanup_free_ struct dev_edge *edges =
		calloc(a->cmd->edges_count + 1, sizeof(*edges));

	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	if (!edges) {
		exec_fail(e->x, CUDA_ERROR_OUT_OF_MEMORY);
		unlock_exec(e);
		return 0;
	}
	for (uint32_t i = 0; i < a->cmd->edges_count; i++)
		edges[i] = (struct dev_edge){.from = (uint32_t)a->edges[i],
					     .from_port = (uint8_t)(a->edges[i] >> 32),
					     .to_port = (uint8_t)(a->edges[i] >> 40),
					     .type = (uint8_t)(a->edges[i] >> 48)};
	rep->res.result = exec_depend(e->x, a->cmd->node, edges, a->cmd->edges_count);
	unlock_exec(e);
	return 0;
}

int handle_graph_body(struct sess_lane *sl, const struct graph_body_args *a,
		      struct graph_body_rep *rep)
{
	struct sess_exec *e = lock_exec(sl, a->cmd->exec);

	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	e->body = a->cmd->body;
	rep->res.result = CUDA_SUCCESS;
	unlock_exec(e);
	return 0;
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
	rep->res.result = set_op(sl, c->exec, c->node, &op);
	return 0;
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

	rep->res.result = set_op(sl, c->exec, c->node, &op);
	return 0;
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

static struct dev_side array_side(uint64_t addr, uint64_t pitch, uint64_t slice,
				  unsigned level, const uint32_t at[3],
				  const uint32_t size[3])
{
	return (struct dev_side){.box = {.level = level,
					 .x = at[0],
					 .y = at[1],
					 .z = at[2],
					 .width = size[0],
					 .height = size[1],
					 .depth = size[2]},
				 .memory = {addr, pitch, slice}};
}

int handle_graph_array_copy(struct sess_lane *sl, const struct graph_array_copy_args *a,
			    struct graph_array_copy_rep *rep)
{
	const struct graph_array_copy_cmd *c = a->cmd;
	const uint32_t size[3] = {c->width, c->height, c->depth};
	const uint32_t to[3] = {c->dst_x, c->dst_y, c->dst_z};
	const uint32_t from[3] = {c->src_x, c->src_y, c->src_z};
	struct dev_node op = {
		.kind = DEV_NODE_ARRAY_COPY,
		.array_copy = {.dst = array_side(c->dst, c->dst_pitch, c->dst_slice,
						 c->dst_level, to, size),
			       .src = array_side(c->src, c->src_pitch, c->src_slice,
						 c->src_level, from, size)},
	};
	CUresult r;

	if (!c->dst_array && !c->src_array)
		return -EPROTO;
	r = array_ref(sl, c->dst_array, c->dst_level, &op.ref,
		      &op.array_copy.dst.box.array);
	if (r == CUDA_SUCCESS)
		r = array_ref(sl, c->src_array, c->src_level, &op.ref2,
			      &op.array_copy.src.box.array);
	if (r != CUDA_SUCCESS) {
		obj_put(sl->s, op.ref);
		rep->res.result = no_op(sl, c->exec, r);
		return 0;
	}
	rep->res.result = set_op(sl, c->exec, c->node, &op);
	return 0;
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
	rep->res.result = set_op(sl, c->exec, c->node, &op);
	return 0;
}

int handle_graph_host(struct sess_lane *sl, const struct graph_host_args *a,
		      struct graph_host_rep *rep)
{
	struct dev_node op = {.kind = DEV_NODE_HOST, .host_id = a->cmd->id};

	if (!a->cmd->id)
		return -EPROTO;
	rep->res.result = set_op(sl, a->cmd->exec, a->cmd->node, &op);
	return 0;
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
	rep->res.result = set_op(sl, a->cmd->exec, a->cmd->node, &op);
	return 0;
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
	rep->res.result = set_op(sl, a->cmd->exec, a->cmd->node, &op);
	return 0;
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

	rep->res.result = set_op(sl, a->cmd->exec, a->cmd->node, &op);
	return 0;
}

int handle_graph_empty(struct sess_lane *sl, const struct graph_empty_args *a,
		       struct graph_empty_rep *rep)
{
	struct dev_node op = {.kind = DEV_NODE_EMPTY};

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
	unlock_exec(e);
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
	unlock_exec(e);
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
	unlock_exec(e);
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

	rep->res.result = sess_stream(sl, a->cmd->stream, &st, &ctx);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	e = lock_exec(sl, a->cmd->exec);
	rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		return 0;
	rep->res.result = e->obj.ctx->dev == ctx ? exec_upload(e->x, st)
						 : CUDA_ERROR_INVALID_CONTEXT;
	unlock_exec(e);
	return 0;
}

/* ---- conditions ---- */

static void shell_fini(struct session *s, struct sess_obj *o)
{
	struct sess_shell *shell = container_of(o, struct sess_shell, obj);

	if (shell->dev)
		s->ops->shell_destroy(shell->dev);
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
	r = sl->s->ops->shell_create(sl->ctx->dev, &shell->dev);
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

	need_ctx(sl, rep);
	if (!sl->s->ops->shell_create) {
		rep->res.result = CUDA_ERROR_NOT_SUPPORTED;
		return 0;
	}
	if (!shell) {
		r = shell_new(sl, a->cmd->shell, &shell);
		if (r == CUDA_SUCCESS) {
			int err = publish(sl, &shell->obj, &r);

			if (err < 0)
				return err;
		}
	}
	if (r == CUDA_SUCCESS) {
		pthread_mutex_lock(&shell->lock);
		r = sl->s->ops->shell_condition(shell->dev, a->cmd->initial,
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

/* A pool for each: it goes when the memory does. */
int handle_graph_mem_alloc(struct sess_lane *sl, const struct graph_mem_alloc_args *a,
			   struct graph_mem_alloc_rep *rep)
{
	struct pool *pool = pool_new(sl->s->pools, 0, 0);
	CUdeviceptr addr = 0;

	rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!pool)
		return 0;
	rep->res.result =
		pool_alloc(sl->s->pools, pool, NULL, NULL, a->cmd->bytes, &addr);
	pool_destroy(sl->s->pools, pool);
	rep->dptr = addr;
	return 0;
}

int handle_graph_mem_free(struct sess_lane *sl, const struct graph_mem_free_args *a,
			  struct graph_mem_free_rep *rep)
{
	struct dev_ctx *ctx = need_ctx(sl, rep);
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
		sl->s->ops->ctx_synchronize(ctx);
	if (!pools_free(sl->s->pools, a->cmd->dptr))
		r = CUDA_ERROR_INVALID_VALUE;
	rep->res.result = r;
	return 0;
}
