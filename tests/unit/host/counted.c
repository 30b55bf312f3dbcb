/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>

#include "../device/band.h"
#include "counted.h"
#include "memory/move.h"

struct counted counted = {.room = UINT64_MAX};

static struct device_ops ops;
static const struct device_ops *soft = &device_soft_ops;

static bool fails(void)
{
	return atomic_load(&counted.fail_in) > 0 &&
	       atomic_fetch_sub(&counted.fail_in, 1) == 1;
}

#define MEMS 65536u
static struct {
	struct dev_mem *backing;
	uint64_t size;
	enum dev_memory memory;
} known[MEMS];
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult count_create(struct device *dev, uint64_t size, enum dev_memory memory,
			     struct dev_mem **ret)
{
	bool host = memory == DEV_MEMORY_HOST;
	unsigned i;

	if (fails() || (host ? counted.no_host : counted.no_device))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (soft->memory.create(dev, size, memory, ret))
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_fetch_add(host ? &counted.in_host : &counted.on_device, size);
	pthread_mutex_lock(&known_lock);
	for (i = 0; known[i].backing; i++)
		cr_assert_lt(i, MEMS - 1);
	known[i].backing = *ret;
	known[i].size = size;
	known[i].memory = memory;
	pthread_mutex_unlock(&known_lock);
	return CUDA_SUCCESS;
}

static void count_release(struct device *dev, struct dev_mem *backing)
{
	unsigned i;

	pthread_mutex_lock(&known_lock);
	for (i = 0; known[i].backing != backing; i++)
		cr_assert_lt(i, MEMS - 1);
	known[i].backing = NULL;
	atomic_fetch_sub(known[i].memory == DEV_MEMORY_HOST ? &counted.in_host
							    : &counted.on_device,
			 known[i].size);
	pthread_mutex_unlock(&known_lock);
	soft->memory.release(dev, backing);
}

uint64_t counted_compressible(void)
{
	uint64_t n = 0;

	pthread_mutex_lock(&known_lock);
	for (unsigned i = 0; i < MEMS; i++) {
		if (known[i].backing && known[i].memory == DEV_MEMORY_COMPRESSIBLE)
			n += known[i].size;
	}
	pthread_mutex_unlock(&known_lock);
	return n;
}

static bool compresses(struct device *dev, const struct dev_mem *backing)
{
	return true; /* what was asked for */
}

static CUresult fail_map(struct device *dev, CUdeviceptr addr, struct dev_mem *backing)
{
	void (*on_map)(void) = atomic_exchange(&counted.on_map, NULL);

	if (on_map)
		on_map();
	atomic_fetch_add(&counted.maps, 1);
	return fails() ? CUDA_ERROR_OUT_OF_MEMORY : soft->memory.map(dev, addr, backing);
}

static CUresult fail_set_access(struct device *dev, CUdeviceptr addr, uint64_t size,
				CUmemAccess_flags access)
{
	return fails() ? CUDA_ERROR_OUT_OF_MEMORY
		       : soft->memory.set_access(dev, addr, size, access);
}

static CUresult fail_unmap(struct device *dev, CUdeviceptr addr, uint64_t size)
{
	return fails() ? CUDA_ERROR_UNKNOWN : soft->memory.unmap(dev, addr, size);
}

static CUresult fail_copy(struct dev_ctx *ctx, struct dev_stream *st,
			  const struct dev_copy_2d *c)
{
	counted.maps_last = counted.maps;
	if (!atomic_fetch_add(&counted.copies, 1))
		counted.maps_first = counted.maps;
	return fails() ? CUDA_ERROR_UNKNOWN : soft->copy.rows(ctx, st, c);
}

static CUresult fail_record(struct dev_ctx *ctx, struct dev_event *ev,
			    struct dev_stream *st)
{
	return fails() ? CUDA_ERROR_UNKNOWN : soft->event.record(ctx, ev, st);
}

static CUresult fail_stream(struct dev_ctx *ctx, unsigned flags, int priority,
			    struct dev_stream **ret)
{
	return fails() ? CUDA_ERROR_OUT_OF_MEMORY
		       : soft->stream.create(ctx, flags, priority, ret);
}

static CUresult fail_event(struct dev_ctx *ctx, unsigned flags, struct dev_event **ret)
{
	return fails() ? CUDA_ERROR_OUT_OF_MEMORY : soft->event.create(ctx, flags, ret);
}

/* ---- the session ---- */

static int charge(void *arg, uint64_t bytes)
{
	atomic_fetch_add(&counted.charged, bytes);
	return 0;
}

static void uncharge(void *arg, uint64_t bytes)
{
	atomic_fetch_sub(&counted.charged, bytes);
}

static void evicted_uncharge(void *arg, uint64_t bytes)
{
	atomic_fetch_sub(&counted.charged, bytes);
	atomic_fetch_add(&counted.evicted_freed, bytes);
}

static int charge_part(void *arg, uint64_t bytes, bool spare, uint64_t *ret_evicted)
{
	*ret_evicted = bytes - MIN(bytes, counted.room);
	return charge(arg, bytes);
}

static const struct accounts broker = {.charge = charge,
				       .charge_part = charge_part,
				       .uncharge = uncharge,
				       .evicted_uncharge = evicted_uncharge};

struct session *counted_session(const struct device_config *cfg)
{
	struct session *s;

	device_band_release();
	ops = *soft;
	ops.memory.create = count_create;
	ops.memory.compressible = compresses;
	ops.memory.release = count_release;
	ops.memory.map = fail_map;
	ops.memory.unmap = fail_unmap;
	ops.memory.set_access = fail_set_access;
	ops.copy.rows = fail_copy;
	ops.event.record = fail_record;
	ops.event.create = fail_event;
	ops.stream.create = fail_stream;
	cr_assert_eq(sess_new(&ops, cfg, &broker, &s), 0);
	cr_assert_eq(space_set_piece(s->space, cfg->granularity), 0);
	return s;
}

void counted_end(struct session *s)
{
	sess_free(s);
	cr_assert_eq(counted.on_device, 0);
	cr_assert_eq(counted.in_host, 0);
	cr_assert_eq(counted.charged, 0);
}
