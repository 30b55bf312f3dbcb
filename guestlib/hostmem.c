// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: "pinned" memory of a guest
 *
 * Nothing is pinned: copies go through the lane whatever memory they touch. A sorted
 * array of ranges under a lock is enough, for programs allocate little and large here.
 * The device cannot map host memory (CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY is 0 as
 * long as a session has no shared range), so asking for a device pointer fails.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "context.h"
#include "hostmem.h"
#include "process.h"

#define PAGE ((size_t)4096)

#define ALLOC_FLAGS                                                                      \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |                          \
	 CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                   \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                    \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct hostmem *ranges; /* sorted by base */
static size_t n_ranges, room;
static uint64_t next_id = 1;

/* Index of the first range that ends after addr. */
static size_t lower_bound_locked(uintptr_t addr)
{
	size_t lo = 0, hi = n_ranges;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ranges[mid].base + ranges[mid].size <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static CUresult insert_locked(const struct hostmem *h)
{
	size_t at = lower_bound_locked(h->base);

	if (at < n_ranges && ranges[at].base < h->base + h->size)
		return ranges[at].registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
					     : CUDA_ERROR_INVALID_VALUE;
	if (n_ranges == room) {
		size_t n = room ? 2 * room : 16;
		struct hostmem *p = realloc(ranges, n * sizeof(*p));

		if (!p)
			return CUDA_ERROR_OUT_OF_MEMORY;
		ranges = p;
		room = n;
	}
	memmove(&ranges[at + 1], &ranges[at], (n_ranges - at) * sizeof(*ranges));
	ranges[at] = *h;
	ranges[at].id = next_id++;
	n_ranges++;
	return CUDA_SUCCESS;
}

static CUresult insert(const struct hostmem *h)
{
	CUresult r;

	pthread_rwlock_wrlock(&lock);
	r = insert_locked(h);
	pthread_rwlock_unlock(&lock);
	return r;
}

/* Takes the range that begins at base out of the table. */
static bool take(uintptr_t base, bool registered, struct hostmem *ret)
{
	bool found;
	size_t at;

	pthread_rwlock_wrlock(&lock);
	at = lower_bound_locked(base);
	found = at < n_ranges && ranges[at].base == base &&
		ranges[at].registered == registered;
	if (found) {
		*ret = ranges[at];
		n_ranges--;
		memmove(&ranges[at], &ranges[at + 1], (n_ranges - at) * sizeof(*ranges));
	}
	pthread_rwlock_unlock(&lock);
	return found;
}

bool hostmem_find(uintptr_t addr, struct hostmem *ret_range)
{
	bool found;
	size_t at;

	pthread_rwlock_rdlock(&lock);
	at = lower_bound_locked(addr);
	found = at < n_ranges && ranges[at].base <= addr;
	if (found)
		*ret_range = ranges[at];
	pthread_rwlock_unlock(&lock);
	return found;
}

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t size, unsigned int flags)
{
	struct hostmem h = {.flags = flags};
	CUresult r = ctx_check_current();
	void *p;

	if (r)
		return r;
	if (!pp || size > SIZE_MAX - PAGE || (flags & ~(unsigned)ALLOC_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if (!size) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	h.size = size;
	p = mmap(NULL, ALIGN_UP(size, PAGE), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h.base = (uintptr_t)p;
	r = insert(&h);
	if (r) {
		munmap(p, ALIGN_UP(size, PAGE));
		return r;
	}
	*pp = p;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t size)
{
	return cuMemHostAlloc(pp, size, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
	struct hostmem h;
	CUresult r = guest_gate();

	if (r)
		return r;
	if (!p || !take((uintptr_t)p, false, &h))
		return CUDA_ERROR_INVALID_VALUE;
	munmap((void *)h.base, ALIGN_UP(h.size, PAGE));
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t size, unsigned int flags)
{
	struct hostmem h = {
		.base = (uintptr_t)p, .size = size, .flags = flags, .registered = true};
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!p || !size || h.base + size < h.base || guest_is_device(h.base) ||
	    (flags & ~(unsigned)REGISTER_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	return insert(&h);
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
	struct hostmem h;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (take((uintptr_t)p, true, &h))
		return CUDA_SUCCESS;
	/* Not the beginning of a range, or no range at all. */
	return hostmem_find((uintptr_t)p, &h) ? CUDA_ERROR_INVALID_VALUE
					      : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *flags, void *p)
{
	struct hostmem h;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!flags || !hostmem_find((uintptr_t)p, &h))
		return CUDA_ERROR_INVALID_VALUE;
	/* With unified addressing this one is always said to be set. */
	*flags = h.flags | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p,
					      unsigned int flags)
{
	struct hostmem h;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!dptr || flags || !hostmem_find((uintptr_t)p, &h))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_NOT_SUPPORTED;
}
