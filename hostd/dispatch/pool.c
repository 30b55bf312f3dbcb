/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"
#include "memory/space.h"

struct sess_pool {
	struct sess_obj obj;
	struct pool *pool;
};

static void pool_fini(struct session *s, struct sess_obj *o)
{
	struct sess_pool *p = container_of(o, struct sess_pool, obj);

	if (p->pool)
		pool_destroy(s->pools, p->pool);
}

/* The pool that a command names; NULL: there is none. */
static struct pool *pool_named(struct sess_lane *sl, uint64_t h)
{
	struct sess_pool *p;

	if (!h)
		return pools_default(sl->s->pools);
	p = sess_get(sl, HANDLE_POOL, h);
	return p ? p->pool : NULL;
}

int handle_mem_alloc_async(struct sess_lane *sl, const struct mem_alloc_async_args *a,
			   struct mem_alloc_async_rep *rep)
{
	struct pool *pool = pool_named(sl, a->cmd->pool);
	CUdeviceptr addr = 0;
	struct dev_stream *st;
	struct dev_ctx *ctx;
	CUresult r = sess_stream(sl, a->cmd->stream, &st, &ctx);

	if (r == CUDA_SUCCESS && !pool)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = pool_alloc(sl->s->pools, pool, ctx, st, a->cmd->bytes, &addr);
	rep->res.result = r;
	rep->dptr = addr;
	return 0;
}

int handle_mem_free_async(struct sess_lane *sl, const struct mem_free_async_args *a,
			  struct mem_free_async_rep *rep)
{
	struct dev_stream *st;
	struct dev_ctx *ctx;
	CUresult r = sess_stream(sl, a->cmd->stream, &st, &ctx);

	if (r == CUDA_SUCCESS && space_is_alloc(sl->s->space, a->cmd->dptr)) {
		r = sess_sync_result(sl, sl->s->ops->stream.synchronize(ctx, st));
		if (r == CUDA_SUCCESS)
			r = space_release(sl->s->space, a->cmd->dptr);
	} else if (r == CUDA_SUCCESS && a->cmd->dptr) {
		r = pools_free_async(sl->s->pools, ctx, st, a->cmd->dptr);
	}
	rep->res.result = r;
	return 0;
}

int handle_pool_mem_export(struct sess_lane *sl, const struct pool_mem_export_args *a,
			   struct pool_mem_export_rep *rep)
{
	struct space_range range;
	struct space_share h;
	uint64_t pool = 0;
	CUresult r = pools_find(sl->s->pools, a->cmd->dptr, &range, &pool);

	if (r == CUDA_SUCCESS && !pool)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = space_export_arena(sl->s->space, range.base, range.size, &h);
	rep->res.result = r;
	if (r != CUDA_SUCCESS)
		return 0;
	memcpy(rep->name, h.name, sizeof(rep->name));
	rep->offset = h.offset;
	rep->bytes = h.bytes;
	rep->pool = pool;
	return 0;
}

int handle_pool_create(struct sess_lane *sl, const struct pool_create_args *a,
		       struct pool_create_rep *rep)
{
	struct sess_pool *p =
		obj_new(HANDLE_POOL, a->cmd->pool, sizeof(*p), NULL, pool_fini);

	if (p)
		p->pool = pool_new(sl->s->pools, a->cmd->pool, a->cmd->max_bytes);
	if (!p || !p->pool) {
		if (p)
			obj_put(sl->s, &p->obj);
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	return publish(sl, &p->obj, &rep->res.result);
}

int handle_pool_destroy(struct sess_lane *sl, const struct pool_destroy_args *a,
			struct pool_destroy_rep *rep)
{
	struct sess_obj *o = obj_take(sl->s, HANDLE_POOL, a->cmd->pool);

	if (!o)
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
	obj_put(sl->s, o);
	return 0;
}

int handle_pool_trim(struct sess_lane *sl, const struct pool_trim_args *a,
		     struct pool_trim_rep *rep)
{
	struct pool *pool = pool_named(sl, a->cmd->pool);

	if (pool)
		pool_trim(sl->s->pools, pool, a->cmd->keep_bytes);
	else
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
	return 0;
}

int handle_pool_set_attribute(struct sess_lane *sl,
			      const struct pool_set_attribute_args *a,
			      struct pool_set_attribute_rep *rep)
{
	struct pool *pool = pool_named(sl, a->cmd->pool);

	rep->res.result =
		!pool ? CUDA_ERROR_INVALID_VALUE
		      : pool_set(sl->s->pools, pool,
				 (CUmemPool_attribute)a->cmd->attribute, a->cmd->value);
	return 0;
}

int handle_pool_get_attribute(struct sess_lane *sl,
			      const struct pool_get_attribute_args *a,
			      struct pool_get_attribute_rep *rep)
{
	struct pool *pool = pool_named(sl, a->cmd->pool);

	rep->res.result =
		!pool ? CUDA_ERROR_INVALID_VALUE
		      : pool_get(sl->s->pools, pool,
				 (CUmemPool_attribute)a->cmd->attribute, &rep->value);
	return 0;
}
