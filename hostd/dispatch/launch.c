/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"
#include "session/trace.h"

#define LAUNCH_COOPERATIVE 1u

/* The function that a command names, which may be a kernel of a library. */
static struct sess_func *func_named(struct sess_lane *sl, uint64_t h)
{
	enum handle_type type = handle_type(h);

	if (type != HANDLE_FUNCTION && type != HANDLE_KERNEL)
		return NULL;
	return sess_get(sl, type, h);
}

/* The attributes that a launch may carry; what their values may be the device knows. */
static bool attr_known(uint32_t id)
{
	switch (id) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return true;
	}
	return false;
}

static CUresult read_event(struct sess_lane *sl, uint64_t h, struct dev_ctx *ctx,
			   struct dev_launch_attr *ret_attr)
{
	struct sess_event *ev;

	if (ret_attr->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
	    ret_attr->id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
		return CUDA_SUCCESS;
	ev = sess_get(sl, HANDLE_EVENT, h);
	if (!ev || ev->obj.ctx->dev != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	ret_attr->event = ev->dev;
	atomic_store(&ev->elsewhere, true);
	atomic_store(&ev->moment, 0);
	return CUDA_SUCCESS;
}

CUresult launch_read_attrs(struct sess_lane *sl, const struct wire_launch_attr *w,
			   unsigned n, struct dev_ctx *ctx,
			   struct dev_launch_attr *ret_attrs)
{
	CUresult r = CUDA_SUCCESS;

	if (n > DEV_LAUNCH_ATTRS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n && r == CUDA_SUCCESS; i++) {
		struct dev_launch_attr *a = &ret_attrs[i];

		if (!attr_known(w[i].id))
			return CUDA_ERROR_INVALID_VALUE;
		a->id = (CUlaunchAttributeID)w[i].id;
		a->event = NULL;
		static_assert(sizeof(a->value) == sizeof(w->value), "as it travels");
		memcpy(&a->value, w[i].value, sizeof(a->value));
		r = read_event(sl, w[i].event, ctx, a);
	}
	return r;
}

int handle_launch_kernel(struct sess_lane *sl, const struct launch_kernel_args *a,
			 struct launch_kernel_rep *rep)
{
	const struct launch_kernel_cmd *c = a->cmd;
	struct dev_launch_attr attrs[DEV_LAUNCH_ATTRS_MAX];
	struct sess_func *f;
	struct dev_stream *st;
	struct sess_ctx *ctx;
	struct dev_launch l = {
		.shared_bytes = c->shared_bytes,
		.cooperative = c->flags & LAUNCH_COOPERATIVE,
		.params = a->params,
		.params_size = c->params_size,
		.attrs = attrs,
		.n_attrs = c->attr_count,
	};
	uint64_t begin_ns;
	CUresult r;
	int e = sess_apart(sl) ? batch_after(sl, c->after) : 0;

	if (e < 0)
		return e;
	f = func_named(sl, c->func);
	r = sess_stream_in(sl, c->stream, &st, &ctx);
	if (r == CUDA_SUCCESS && !f)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS && unlikely(c->attr_count))
		r = launch_read_attrs(sl, a->attr, c->attr_count, ctx->dev, attrs);
	if (r == CUDA_SUCCESS)
		r = sess_func_in(sl, f, ctx, &l.func);
	if (r == CUDA_SUCCESS) {
		memcpy(l.grid, c->grid, sizeof(l.grid));
		memcpy(l.block, c->block, sizeof(l.block));
		memcpy(l.cluster, c->cluster, sizeof(l.cluster));
		l.extent = f->extent;
		if (trace_on(sl->s->count))
			trace_launch(sl, f, c->stream, &l);
		note_launch(sl->s, &l);
		note_active(sl->s);
		sl->last_stream = c->stream;
		if (batch_add(sl, ctx->dev, st, &l) == BATCH_ALONE) {
			batch_end(sl);
			if (sess_enter(sl) < 0)
				return -EPIPE;
			begin_ns = l.traced ? clock_now_ns() : 0;
			r = sl->s->ops->func.launch(ctx->dev, st, &l);
			sess_count_launches(sl, 1);
			if (unlikely(l.traced))
				trace_submitted(sl, &l, 1, begin_ns);
			sess_leave(sl);
		}
	}
	rep->res.result = r;
	return 0;
}

int handle_occupancy_clusters(struct sess_lane *sl,
			      const struct occupancy_clusters_args *a,
			      struct occupancy_clusters_rep *rep)
{
	const struct occupancy_clusters_cmd *c = a->cmd;
	struct dev_launch_attr attrs[DEV_LAUNCH_ATTRS_MAX];
	struct sess_func *f = func_named(sl, c->func);
	struct sess_ctx *ctx = sess_any_ctx(sl);
	struct dev_launch l = {
		.shared_bytes = c->shared_bytes,
		.attrs = attrs,
		.n_attrs = c->attr_count,
	};
	CUresult r = CUDA_ERROR_INVALID_HANDLE;
	int n = 0;

	if (f && ctx)
		r = launch_read_attrs(sl, a->attr, c->attr_count, ctx->dev, attrs);
	if (r == CUDA_SUCCESS)
		r = sess_func_in(sl, f, ctx, &l.func);
	if (r == CUDA_SUCCESS) {
		memcpy(l.grid, c->grid, sizeof(l.grid));
		memcpy(l.block, c->block, sizeof(l.block));
		memcpy(l.cluster, c->cluster, sizeof(l.cluster));
		r = sl->s->ops->func.clusters(l.func, &l, c->largest, &n);
	}
	rep->res.result = r;
	rep->n = n;
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
	rep->res.result = r ? hostfuncs_refuse(sl->s->hostfuncs, a->cmd->id, r)
			    : hostfuncs_launch(sl->s->hostfuncs, ctx, st, a->cmd->id);
	return 0;
}

int handle_host_func_wait(struct sess_lane *sl, const struct host_func_wait_args *a,
			  struct host_func_wait_rep *rep)
{
	CUresult status = CUDA_SUCCESS;
	uint64_t id = 0;
	int r = 0;

	/* Before its stream goes on, and is waited for. */
	sess_defer(sl->s, (CUresult)a->cmd->done_result);
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
	struct sess_ctx *ctx = sess_any_ctx(sl);
	CUresult r = CUDA_ERROR_INVALID_HANDLE;
	struct dev_func *dev;

	if (f)
		r = sess_func_set(sl, f, ctx, (CUfunction_attribute)a->cmd->attribute,
				  a->cmd->value);
	if (f && sess_func_in(sl, f, ctx, &dev) == CUDA_SUCCESS)
		sess_func_attributes(sl->s, dev, rep->all, ARRAY_SIZE(rep->all));
	rep->res.result = r;
	return 0;
}

int handle_occupancy(struct sess_lane *sl, const struct occupancy_args *a,
		     struct occupancy_rep *rep)
{
	struct sess_func *f = func_named(sl, a->cmd->func);
	CUresult r = CUDA_ERROR_INVALID_HANDLE;
	struct dev_func *dev;
	int blocks = 0;

	if (f)
		r = sess_func_in(sl, f, sess_any_ctx(sl), &dev);
	if (r == CUDA_SUCCESS)
		r = sl->s->ops->func.occupancy(dev, a->cmd->block_size,
					       a->cmd->shared_bytes, a->cmd->flags,
					       &blocks);
	rep->res.result = r;
	rep->blocks = blocks;
	return 0;
}
