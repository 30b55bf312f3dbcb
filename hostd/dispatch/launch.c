/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"

#define LAUNCH_COOPERATIVE 1u
#define HOST_FUNC_ALWAYS   1u

/* The function that a command names, which may be a kernel of a library. */
static struct sess_func *func_named(struct sess_lane *sl, uint64_t h)
{
	enum handle_type type = handle_type(h);

	if (type != HANDLE_FUNCTION && type != HANDLE_KERNEL)
		return NULL;
	return sess_get(sl, type, h);
}

int handle_launch_kernel(struct sess_lane *sl, const struct launch_kernel_args *a,
			 struct launch_kernel_rep *rep)
{
	const struct launch_kernel_cmd *c = a->cmd;
	struct sess_func *f = func_named(sl, c->func);
	struct dev_stream *st;
	struct dev_ctx *ctx;
	struct dev_launch l = {
		.shared_bytes = c->shared_bytes,
		.cooperative = c->flags & LAUNCH_COOPERATIVE,
		.params = a->params,
		.params_size = c->params_size,
	};
	CUresult r = sess_stream(sl, c->stream, &st, &ctx);

	if (r == CUDA_SUCCESS && !f)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS) {
		l.func = f->dev;
		memcpy(l.grid, c->grid, sizeof(l.grid));
		memcpy(l.block, c->block, sizeof(l.block));
		memcpy(l.cluster, c->cluster, sizeof(l.cluster));
		r = sl->s->ops->launch(ctx, st, &l);
		count(&sl->s->count->launches, 1);
		note_active(sl->s);
	}
	rep->res.result = r;
	return 0;
}

int handle_host_func(struct sess_lane *sl, const struct host_func_args *a,
		     struct host_func_rep *rep)
{
	struct dev_stream *st;
	struct dev_ctx *ctx;
	CUresult r;

	if (!a->cmd->id)
		return -EPROTO;
	r = sess_stream(sl, a->cmd->stream, &st, &ctx);
	if (r == CUDA_SUCCESS)
		r = hostfuncs_launch(sl->s->hostfuncs, ctx, st, a->cmd->id,
				     a->cmd->flags & HOST_FUNC_ALWAYS);
	rep->res.result = r;
	return 0;
}

int handle_host_func_wait(struct sess_lane *sl, const struct host_func_wait_args *a,
			  struct host_func_wait_rep *rep)
{
	CUresult status = CUDA_SUCCESS;
	uint64_t id = 0;
	int r = 0;

	if (a->cmd->done_id)
		r = hostfuncs_done(sl->s->hostfuncs, a->cmd->done_id);
	if (r < 0)
		return r;
	sess_lane_idle(sl, true);
	r = hostfuncs_wait(sl->s->hostfuncs, &id, &status);
	sess_lane_idle(sl, false);
	if (r < 0)
		return r == -EBUSY ? -EPROTO : r;
	rep->id = id;
	rep->status = status;
	return 0;
}

int handle_func_set_attribute(struct sess_lane *sl,
			      const struct func_set_attribute_args *a,
			      struct func_set_attribute_rep *rep)
{
	struct sess_func *f = func_named(sl, a->cmd->func);

	if (!f) {
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
		return 0;
	}
	rep->res.result = sl->s->ops->func_set_attribute(
		f->dev, (CUfunction_attribute)a->cmd->attribute, a->cmd->value);
	sess_func_attributes(sl->s, f, rep->all, ARRAY_SIZE(rep->all));
	return 0;
}

int handle_occupancy(struct sess_lane *sl, const struct occupancy_args *a,
		     struct occupancy_rep *rep)
{
	struct sess_func *f = func_named(sl, a->cmd->func);
	int blocks = 0;

	if (!f)
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	else
		rep->res.result = sl->s->ops->func_occupancy(f->dev, a->cmd->block_size,
							     a->cmd->shared_bytes,
							     a->cmd->flags, &blocks);
	rep->blocks = blocks;
	return 0;
}
