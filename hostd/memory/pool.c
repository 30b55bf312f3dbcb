/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "memory/pool.h"
#include "memory/space.h"
#include "session/session.h"

#define POOL_BUCKETS 1024u

struct pool {
	unsigned refs; /* the handle's, and one per allocation */
	uint64_t handle, max_bytes;
	uint64_t used, used_high;
	uint64_t threshold;
	uint64_t reuse[3]; /* FOLLOW_EVENT_DEPENDENCIES, OPPORTUNISTIC, INTERNAL */
};

struct pool_alloc {
	struct list link; /* of a bucket, or none once being freed */
	struct pools *owner;
	struct pool *pool;
	CUdeviceptr addr;
	uint64_t bytes;
};

struct pools {
	struct session *s;
	pthread_mutex_t lock;
	struct pool *standard;
	struct list buckets[POOL_BUCKETS];
};

struct pool *pool_new(struct pools *p, uint64_t handle, uint64_t max_bytes)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->refs = 1;
	pool->handle = handle;
	pool->max_bytes = max_bytes ? max_bytes : UINT64_MAX;
	for (unsigned i = 0; i < ARRAY_SIZE(pool->reuse); i++)
		pool->reuse[i] = 1; /* CUDA's defaults */
	return pool;
}

static void pool_put_locked(struct pool *pool)
{
	if (!--pool->refs)
		free(pool);
}

void pool_put(struct pools *p, struct pool *pool)
{
	pthread_mutex_lock(&p->lock);
	pool_put_locked(pool);
	pthread_mutex_unlock(&p->lock);
}

int pools_new(struct session *s, struct pools **ret_p)
{
	struct pools *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->standard = pool_new(p, 0, 0);
	if (!p->standard) {
		free(p);
		return -ENOMEM;
	}
	p->s = s;
	pthread_mutex_init(&p->lock, NULL);
	for (unsigned i = 0; i < POOL_BUCKETS; i++)
		list_init(&p->buckets[i]);
	*ret_p = p;
	return 0;
}

void pools_free_all(struct pools *p)
{
	struct pool_alloc *a, *tmp;

	if (!p)
		return;
	for (unsigned i = 0; i < POOL_BUCKETS; i++) {
		list_for_each_safe (a, tmp, &p->buckets[i], link) {
			pool_put_locked(a->pool);
			free(a); /* the memory itself is the space's */
		}
	}
	pool_put_locked(p->standard);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

struct pool *pools_default(struct pools *p)
{
	return p->standard;
}

static struct list *bucket(struct pools *p, CUdeviceptr addr)
{
	return &p->buckets[(addr >> 9) * 0x9e3779b97f4a7c15ull >> 54];
}

static bool reserve(struct pools *p, struct pool *pool, uint64_t bytes)
{
	bool ok;

	pthread_mutex_lock(&p->lock);
	ok = bytes <= pool->max_bytes && pool->used <= pool->max_bytes - bytes;
	if (ok) {
		pool->used += bytes;
		pool->used_high = MAX(pool->used_high, pool->used);
		pool->refs++;
	}
	pthread_mutex_unlock(&p->lock);
	return ok;
}

static void unreserve(struct pools *p, struct pool *pool, uint64_t bytes)
{
	pthread_mutex_lock(&p->lock);
	pool->used -= bytes;
	pool_put_locked(pool);
	pthread_mutex_unlock(&p->lock);
}

CUresult pool_alloc(struct pools *p, struct pool *pool, uint64_t bytes,
		    CUdeviceptr *ret_addr)
{
	struct pool_alloc *a;
	CUresult r;

	if (!reserve(p, pool, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	a = calloc(1, sizeof(*a));
	r = a ? space_alloc(p->s->space, bytes, 0, &a->addr) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		free(a);
		unreserve(p, pool, bytes);
		return r;
	}
	a->owner = p;
	a->pool = pool;
	a->bytes = bytes;
	pthread_mutex_lock(&p->lock);
	list_append(bucket(p, a->addr), &a->link);
	pthread_mutex_unlock(&p->lock);
	*ret_addr = a->addr;
	return CUDA_SUCCESS;
}

static struct pool_alloc *find_locked(struct pools *p, CUdeviceptr addr)
{
	struct pool_alloc *a;

	list_for_each (a, bucket(p, addr), link) {
		if (a->addr == addr)
			return a;
	}
	return NULL;
}

/* Out of the table: a second free does not find it. */
static struct pool_alloc *take(struct pools *p, CUdeviceptr addr)
{
	struct pool_alloc *a;

	pthread_mutex_lock(&p->lock);
	a = find_locked(p, addr);
	if (a)
		list_remove(&a->link);
	pthread_mutex_unlock(&p->lock);
	return a;
}

static CUresult finish(struct pool_alloc *a)
{
	CUresult r = space_release(a->owner->s->space, a->addr);

	unreserve(a->owner, a->pool, a->bytes);
	free(a);
	return r;
}

/* On a thread of the device: all work of the stream before the free is done. */
static void stream_there(void *arg, uint64_t token)
{
	struct pool_alloc *a = arg;
	struct session *s = a->owner->s;

	(void)finish(a);
	s->ops->host_func_done(s->dev, token);
}

CUresult pools_free_async(struct pools *p, struct dev_ctx *ctx, struct dev_stream *st,
			  CUdeviceptr addr)
{
	struct pool_alloc *a = take(p, addr);
	CUresult r;

	if (!a)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->s->ops->stream_query(ctx, st) == CUDA_SUCCESS)
		return finish(a);
	r = p->s->ops->host_func(ctx, st, stream_there, a);
	if (r == CUDA_SUCCESS)
		return r;
	/* A lost context: nothing runs any more. */
	(void)finish(a);
	return r;
}

bool pools_free(struct pools *p, CUdeviceptr addr, CUresult *ret_result)
{
	struct pool_alloc *a = take(p, addr);

	if (!a)
		return false;
	*ret_result = finish(a);
	return true;
}

uint64_t pools_handle_of(struct pools *p, CUdeviceptr addr)
{
	struct pool_alloc *a;
	uint64_t h;

	pthread_mutex_lock(&p->lock);
	a = find_locked(p, addr);
	h = a ? a->pool->handle : 0;
	pthread_mutex_unlock(&p->lock);
	return h;
}

static CUresult set_locked(struct pool *pool, CUmemPool_attribute attr, uint64_t value)
{
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pool->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] =
			!!value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (value)
			return CUDA_ERROR_INVALID_VALUE;
		pool->used_high = pool->used;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult pool_set(struct pools *p, struct pool *pool, CUmemPool_attribute attr,
		  uint64_t value)
{
	CUresult r;

	pthread_mutex_lock(&p->lock);
	r = set_locked(pool, attr, value);
	pthread_mutex_unlock(&p->lock);
	return r;
}

static CUresult get_locked(const struct pool *pool, CUmemPool_attribute attr,
			   uint64_t *ret_value)
{
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*ret_value = pool->reuse[attr -
					 CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*ret_value = pool->threshold;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*ret_value = pool->used;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*ret_value = pool->used_high;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult pool_get(struct pools *p, struct pool *pool, CUmemPool_attribute attr,
		  uint64_t *ret_value)
{
	CUresult r;

	pthread_mutex_lock(&p->lock);
	r = get_locked(pool, attr, ret_value);
	pthread_mutex_unlock(&p->lock);
	return r;
}
