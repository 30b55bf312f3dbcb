/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools. The worker has the memory; which pool is the default and which the current
 * one is decided here.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "core/process.h"
#include "object/pool.h"

static pthread_once_t default_once = PTHREAD_ONCE_INIT;
static uint64_t default_pool;         /* its handle; written once */
static _Atomic uint64_t current_pool; /* 0: the default one */

#define WIRE_POOL_DEFAULT 1u /* in answers about addresses */

static const struct guest_pool plain;

uint64_t pool_handle_new(const struct guest_pool *what)
{
	return guest_handle_new(HANDLE_POOL, (void *)(uintptr_t)what);
}

static void make_default(void)
{
	default_pool = pool_handle_new(&plain);
}

uint64_t pool_default(void)
{
	pthread_once(&default_once, make_default);
	return default_pool;
}

CUmemoryPool pool_from_wire(uint64_t wire)
{
	if (!wire)
		return NULL; /* not from a pool */
	if (wire == WIRE_POOL_DEFAULT)
		return pool_public(pool_default());
	return guest_handle_valid(wire, HANDLE_POOL) ? pool_public(wire) : NULL;
}

const struct guest_pool *pool_lookup(CUmemoryPool pool)
{
	return guest_object((uintptr_t)pool, HANDLE_POOL);
}

CUresult pool_to_wire(CUmemoryPool pool, uint64_t *ret_wire)
{
	const struct guest_pool *p = pool_lookup(pool);
	uint64_t h = (uintptr_t)pool;

	if (!p || p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_wire = h == pool_default() ? 0 : h;
	return CUDA_SUCCESS;
}

CUresult pool_supported(void)
{
	static const CUdevice_attribute attr = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
	CUresult r = guest_status();

	if (r)
		return r;
	return guest_process.device.attributes[attr] > 0 ? CUDA_SUCCESS
							 : CUDA_ERROR_NOT_SUPPORTED;
}

uint64_t pool_current(void)
{
	return atomic_load_explicit(&current_pool, memory_order_relaxed);
}

void pool_set_current(uint64_t wire)
{
	atomic_store_explicit(&current_pool, wire, memory_order_relaxed);
}

void pool_gone(uint64_t wire)
{
	atomic_compare_exchange_strong(&current_pool, &wire, 0);
}
