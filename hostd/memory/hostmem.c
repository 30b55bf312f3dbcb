/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: fallocate, and what the device does to map */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/macros.h"
#include "util/range.h"
#include "memory/hostmem.h"
#include "ipc/accounts.h"
#include "memory/env.h"

/* Large regions begin where huge pages could. */
#define HUGE_ALIGN (2ull << 20)

struct hostmem {
	const struct mem_env *env;
	struct hostmem_file file;
	pthread_mutex_t lock;
	struct range_set regions; /* of the band; data: offset in the file */
	struct range_set used;    /* of the file, unless the broker places */
};

int hostmem_new(const struct mem_env *env, const struct hostmem_file *file,
		struct hostmem **ret_h)
{
	struct hostmem *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->env = env;
	h->file = *file;
	pthread_mutex_init(&h->lock, NULL);
	*ret_h = h;
	return 0;
}

static int charge(struct hostmem *h, uint64_t size, uint64_t *ret_offset)
{
	const struct accounts *b = h->env->accounts;

	if (!b->host_charge)
		return h->file.placed ? -EOPNOTSUPP : 0;
	return b->host_charge(b->arg, size, ret_offset);
}

static void uncharge(struct hostmem *h, uint64_t offset, uint64_t size)
{
	const struct accounts *b = h->env->accounts;

	if (b->host_uncharge)
		b->host_uncharge(b->arg, offset, size);
}

/* The pages go back to the host; whoever gets the place next finds zeroes. */
static void empty(struct hostmem *h, uint64_t offset, uint64_t size)
{
	if (fallocate(h->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)offset, (off_t)size) < 0)
		log_debug("host memory: cannot empty %llu bytes: %m",
			  (unsigned long long)size);
}

static int place_in_file_locked(struct hostmem *h, uint64_t size, uint64_t *offset)
{
	uint64_t end = h->file.first + h->file.size;
	int r;

	if (h->file.placed) {
		if (*offset % DEVICE_HOST_GRAIN)
			return -EPROTO;
		/* A session that ended may have left something in the VM's window. */
		empty(h, *offset, size);
		return 0;
	}
	r = range_gap(&h->used, h->file.first, end, size, DEVICE_HOST_GRAIN, offset);
	return r < 0 ? r : range_insert(&h->used, *offset, size, NULL);
}

static void leave_file_locked(struct hostmem *h, uint64_t offset, uint64_t size)
{
	if (!h->file.placed)
		range_remove(&h->used, range_at(&h->used, offset));
	empty(h, offset, size);
}

/* Finds an address and notes it. */
static int place_in_band_locked(struct hostmem *h, uint64_t size, uint64_t offset,
				uint64_t *ret_addr)
{
	uint64_t align = size >= HUGE_ALIGN ? HUGE_ALIGN : DEVICE_HOST_GRAIN, addr;
	int r;

	r = range_gap(&h->regions, DEVICE_HOST_BASE, DEVICE_HOST_BASE + DEVICE_HOST_SIZE,
		      size, align, &addr);
	if (r == 0)
		r = range_insert(&h->regions, addr, size, (void *)(uintptr_t)offset);
	if (r == 0)
		*ret_addr = addr;
	return r;
}

static CUresult alloc_locked(struct hostmem *h, struct dev_ctx *ctx,
			     struct hostmem_region *g)
{
	CUresult res;

	if (place_in_file_locked(h, g->size, &g->offset) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (place_in_band_locked(h, g->size, g->offset, &g->addr) < 0) {
		leave_file_locked(h, g->offset, g->size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	res = h->env->ops->memory.host_map(ctx, g->addr, g->size, h->file.fd, g->offset);
	if (res) {
		range_remove(&h->regions, range_at(&h->regions, g->addr));
		leave_file_locked(h, g->offset, g->size);
	}
	return res;
}

CUresult hostmem_alloc(struct hostmem *h, struct dev_ctx *ctx, uint64_t bytes,
		       struct hostmem_region *ret)
{
	struct hostmem_region g = {0};
	CUresult res;
	int r;

	if (!h || !h->env->ops->memory.host_map)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > DEVICE_HOST_SIZE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	g.size = ALIGN_UP(bytes, DEVICE_HOST_GRAIN);
	r = charge(h, g.size, &g.offset);
	if (r < 0)
		return r == -EOPNOTSUPP ? CUDA_ERROR_NOT_SUPPORTED
					: CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&h->lock);
	res = alloc_locked(h, ctx, &g);
	pthread_mutex_unlock(&h->lock);
	if (res)
		uncharge(h, g.offset, g.size);
	else
		*ret = g;
	return res;
}

static bool release_locked(struct hostmem *h, struct dev_ctx *ctx, uint64_t addr,
			   uint64_t *ret_offset, uint64_t *ret_size)
{
	struct range *r = range_at(&h->regions, addr);

	if (!r || r->start != addr)
		return false;
	*ret_offset = (uintptr_t)r->data;
	*ret_size = r->size;
	/* A lost context's memory is let go as well. */
	h->env->ops->memory.host_unmap(ctx, addr);
	range_remove(&h->regions, r);
	leave_file_locked(h, *ret_offset, *ret_size);
	return true;
}

CUresult hostmem_release(struct hostmem *h, struct dev_ctx *ctx, uint64_t addr)
{
	uint64_t offset, size;
	bool found;

	if (!h)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&h->lock);
	found = release_locked(h, ctx, addr, &offset, &size);
	pthread_mutex_unlock(&h->lock);
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	uncharge(h, offset, size);
	return CUDA_SUCCESS;
}

CUresult hostmem_take_part(struct hostmem *h, uint64_t size, uint64_t *ret_offset)
{
	int r = charge(h, size, ret_offset);

	if (r < 0)
		return r == -EOPNOTSUPP ? CUDA_ERROR_NOT_SUPPORTED
					: CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&h->lock);
	r = place_in_file_locked(h, size, ret_offset);
	pthread_mutex_unlock(&h->lock);
	if (r < 0)
		uncharge(h, *ret_offset, size);
	return r < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void hostmem_give_part(struct hostmem *h, uint64_t offset, uint64_t size)
{
	pthread_mutex_lock(&h->lock);
	leave_file_locked(h, offset, size);
	pthread_mutex_unlock(&h->lock);
	uncharge(h, offset, size);
}

int hostmem_fd(const struct hostmem *h)
{
	return h->file.fd;
}

void hostmem_free(struct hostmem *h)
{
	if (!h)
		return;
	range_fini(&h->regions);
	range_fini(&h->used);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
