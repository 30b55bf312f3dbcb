/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The band on the real GPU: the driver is asked for all of it below the host part once,
 * and reservations are book-keeping inside it; where it refuses that, each reservation is
 * asked for. All addresses that guests may name are known here, so copies can check them.
 *
 * #syscalls mmap munmap
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/log.h"
#include "device/cuda/rm/hostpage.h"
#include "device/cuda/rm/userpage.h"
#include "device/cuda/memory.h"

/* Device memory lies below the host part. */
#define OWN_SIZE (DEVICE_HOST_BASE - DEVICE_BAND_BASE)

struct dev_mem {
	CUmemGenericAllocationHandle cu;
	uint64_t size;
	bool exportable, compressible;
	struct tally *tally; /* where it counts; NULL: not in the device's memory */
};

void cuda_memory_init(struct device *dev)
{
	CUdeviceptr p = 0;

	if (!cu.cuMemAddressReserve(&p, OWN_SIZE, 0, DEVICE_BAND_BASE, 0)) {
		if (p == DEVICE_BAND_BASE)
			dev->own_band = true;
		else
			cu.cuMemAddressFree(p, OWN_SIZE);
	}
	if (!dev->own_band)
		log_debug("cuda: the driver does not give the whole band");
	cuda_host_init(dev);
}

void cuda_memory_fini(struct device *dev)
{
	struct range *r;

	cuda_host_fini(dev);
	for (r = range_above(&dev->mapped, 0); r; r = range_next(&dev->mapped, r))
		cu.cuMemUnmap(r->start, r->size);
	r = dev->own_band ? NULL : range_above(&dev->reserved, 0);
	for (; r; r = range_next(&dev->reserved, r))
		cu.cuMemAddressFree(r->start, r->size);
	if (dev->own_band)
		cu.cuMemAddressFree(DEVICE_BAND_BASE, OWN_SIZE);
	range_fini(&dev->reserved);
	range_fini(&dev->mapped);
	range_fini(&dev->globals);
}

/* As in soft/memory.c: mappings without a gap, and whole ones if that is asked for. */
static bool covered_locked(struct device *dev, uint64_t addr, uint64_t size, bool whole)
{
	const struct range *r = range_above(&dev->mapped, addr);
	uint64_t at = addr, end = addr + size;

	if (!size || end < addr)
		return false;
	for (; at < end; r = range_next(&dev->mapped, r)) {
		if (!r || r->start > at || (whole && r->start != at))
			return false;
		at = r->start + r->size;
	}
	return !whole || at == end;
}

bool cuda_may(struct device *dev, CUdeviceptr addr, uint64_t size)
{
	struct range *r;

	if (!size)
		return true;
	scoped_lock(&dev->lock);
	r = range_at(cuda_is_host(addr) ? &dev->host : &dev->globals, addr);
	if (r)
		return size <= r->start + r->size - addr;
	if (!covered_locked(dev, addr, size, false))
		return false;
	for (r = range_above(&dev->mapped, addr); r && r->start < addr + size;
	     r = range_next(&dev->mapped, r)) {
		if ((uintptr_t)r->data == CU_MEM_ACCESS_FLAGS_PROT_NONE)
			return false;
	}
	return true;
}

static bool is_granular(const struct device *dev, uint64_t addr, uint64_t size)
{
	return size && !(addr % dev->info.granularity) && !(size % dev->info.granularity);
}

/* Asks the driver for exactly this range. */
static CUresult driver_reserve(struct device *dev, uint64_t addr, uint64_t size)
{
	CUdeviceptr p = 0;
	CUresult res;

	if (dev->own_band)
		return CUDA_SUCCESS;
	res = cu.cuMemAddressReserve(&p, size, 0, addr, 0);
	if (res || p == addr)
		return res;
	cu.cuMemAddressFree(p, size);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuda_reserve(struct device *dev, uint64_t size, uint64_t align, uint64_t addr,
		      CUdeviceptr *ret_addr)
{
	const uint64_t end = DEVICE_HOST_BASE;
	CUresult res;
	int r;

	if (!align)
		align = dev->info.granularity;
	if (!is_granular(dev, addr, size) || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	align = MAX(align, dev->info.granularity);
	if (addr && (addr < DEVICE_BAND_BASE || addr >= end || size > end - addr ||
		     (addr & (align - 1))))
		return CUDA_ERROR_INVALID_VALUE;
	scoped_lock(&dev->lock);
	if (!addr && range_gap(&dev->reserved, DEVICE_BAND_BASE, end, size, align, &addr))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = range_insert(&dev->reserved, addr, size, NULL);
	if (r < 0)
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	res = driver_reserve(dev, addr, size);
	if (res)
		range_remove(&dev->reserved, range_at(&dev->reserved, addr));
	else
		*ret_addr = addr;
	return res;
}

CUresult cuda_unreserve(struct device *dev, CUdeviceptr addr, uint64_t size)
{
	struct range *r, *mapped;

	scoped_lock(&dev->lock);
	r = range_at(&dev->reserved, addr);
	if (!r || r->start != addr || r->size != size)
		return CUDA_ERROR_INVALID_VALUE;
	mapped = range_above(&dev->mapped, addr);
	if (mapped && mapped->start < addr + size)
		return CUDA_ERROR_INVALID_VALUE;
	range_remove(&dev->reserved, r);
	return dev->own_band ? CUDA_SUCCESS : cu.cuMemAddressFree(addr, size);
}

/*
 * Any of it may be shared with another process later. A driver that cannot share such
 * memory is not asked again; what it says of host memory then is not told anywhere, so
 * that "there is none" may be its answer too.
 */
static CUresult driver_create(struct device *dev, enum dev_memory memory,
			      struct dev_mem *c)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev->cu},
	};
	CUresult res, first;

	if (memory == DEV_MEMORY_HOST) { /* best the GPU's own node: one is common */
		prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		prop.location.id = 0;
	}
	if (memory == DEV_MEMORY_COMPRESSIBLE)
		prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
	if (!atomic_load(&dev->no_export[memory]))
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	cuda_hostpage_large(memory == DEV_MEMORY_HOST);
	first = res = cu.cuMemCreate(&c->cu, c->size, &prop, 0);
	if (prop.requestedHandleTypes && res &&
	    (memory == DEV_MEMORY_HOST || res != CUDA_ERROR_OUT_OF_MEMORY)) {
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
		res = cu.cuMemCreate(&c->cu, c->size, &prop, 0);
		if (!res && first != CUDA_ERROR_OUT_OF_MEMORY)
			atomic_store(&dev->no_export[memory], true);
	}
	cuda_hostpage_large(false);
	c->exportable = prop.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
	return res;
}

static bool is_compressible(const struct dev_mem *c)
{
	CUmemAllocationProp got;

	return !cu.cuMemGetAllocationPropertiesFromHandle(&got, c->cu) &&
	       got.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_GENERIC;
}

CUresult cuda_mem_create(struct device *dev, uint64_t size, enum dev_memory memory,
			 struct dev_mem **ret_mem)
{
	struct dev_mem *c;
	CUresult res;

	if (!is_granular(dev, 0, size))
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->size = size;
	c->tally = memory == DEV_MEMORY_HOST ? NULL : &dev->created;
	if (c->tally)
		tally_making(c->tally, size);
	res = driver_create(dev, memory, c);
	if (res) {
		if (c->tally)
			tally_unmade(c->tally, size);
		free(c);
		return res;
	}
	if (c->tally)
		tally_made(c->tally, size);
	c->compressible = memory == DEV_MEMORY_COMPRESSIBLE && is_compressible(c);
	*ret_mem = c;
	return CUDA_SUCCESS;
}

bool cuda_mem_compressible(struct device *dev, const struct dev_mem *mem)
{
	return mem->compressible;
}

/* The driver keeps the memory of a released handle while it is mapped: for footprint() to
 * be right it is not, any more. */
void cuda_mem_release(struct device *dev, struct dev_mem *mem)
{
	if (mem->tally)
		tally_ending(mem->tally, mem->size);
	cu.cuMemRelease(mem->cu);
	if (mem->tally)
		tally_ended(mem->tally, mem->size);
	free(mem);
}

CUresult cuda_mem_export(struct device *dev, struct dev_mem *mem, int *ret_fd)
{
	if (!mem->exportable)
		return CUDA_ERROR_NOT_SUPPORTED;
	return cu.cuMemExportToShareableHandle(
		ret_fd, mem->cu, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

CUresult cuda_mem_import(struct device *dev, int fd, uint64_t size,
			 struct dev_mem **ret_mem)
{
	struct dev_mem *c;
	CUresult res;

	if (!is_granular(dev, 0, size))
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->size = size; /* if it is not, the driver refuses to map it */
	c->tally = &dev->imports;
	tally_making(c->tally, size);
	res = cu.cuMemImportFromShareableHandle(&c->cu, (void *)(uintptr_t)fd,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (res) {
		tally_unmade(c->tally, size);
		free(c);
		return res;
	}
	tally_made(c->tally, size);
	*ret_mem = c;
	return CUDA_SUCCESS;
}

/* Memory of the driver's, whose pages are those of this process at p. */
static CUresult create_of_pages(void *p, struct dev_mem *c)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0},
	};
	CUresult res;

	if (!cuda_userpage_ready() &&
	    !cu.cuMemHostRegister(p, c->size, CU_MEMHOSTREGISTER_DEVICEMAP))
		cu.cuMemHostUnregister(p);
	cuda_userpage_begin(p, c->size);
	res = cu.cuMemCreate(&c->cu, c->size, &prop, 0);
	if (cuda_userpage_end() || res)
		return res;
	cu.cuMemRelease(c->cu); /* it has pages of its own */
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuda_mem_create_in_file(struct dev_ctx *ctx, int fd, uint64_t offset,
				 uint64_t size, struct dev_mem **ret_mem)
{
	CUresult res = cuda_enter(ctx);
	struct dev_mem *c;
	void *p;

	if (res)
		return res;
	if (!is_granular(ctx->dev, 0, size) || offset % DEVICE_HOST_GRAIN)
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->size = size;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (p == MAP_FAILED) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	res = create_of_pages(p, c);
	munmap(p, size); /* the kernel holds the pages */
	if (res)
		free(c);
	else
		*ret_mem = c;
	return res;
}

/*
 * The driver is called without the lock: it waits for up to 1 ms while anything is copied
 * to the host (memory/transfer.h), and copies of other threads look at the table. Nobody
 * else changes what the caller changes.
 */

static CUresult enter_mapping(struct device *dev, CUdeviceptr addr, uint64_t size)
{
	struct range *r;
	int err;

	scoped_lock(&dev->lock);
	r = range_at(&dev->reserved, addr);
	if (!is_granular(dev, addr, size) || !r || size > r->start + r->size - addr)
		return CUDA_ERROR_INVALID_VALUE;
	err = range_insert(&dev->mapped, addr, size, NULL);
	return err == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
	       : err < 0      ? CUDA_ERROR_INVALID_VALUE
			      : CUDA_SUCCESS;
}

static void forget_mapping(struct device *dev, CUdeviceptr addr)
{
	scoped_lock(&dev->lock);
	range_remove(&dev->mapped, range_at(&dev->mapped, addr));
}

/* The size of what is mapped from addr on, which copies may not touch any more; 0:
 * nothing begins there. */
static uint64_t close_mapping(struct device *dev, CUdeviceptr addr, uint64_t *ret_access)
{
	struct range *r;

	scoped_lock(&dev->lock);
	r = range_at(&dev->mapped, addr);
	if (!r || r->start != addr)
		return 0;
	*ret_access = (uintptr_t)r->data;
	r->data = NULL;
	return r->size;
}

static CUresult are_mapped(struct device *dev, CUdeviceptr addr, uint64_t size,
			   bool whole)
{
	scoped_lock(&dev->lock);
	return covered_locked(dev, addr, size, whole) ? CUDA_SUCCESS
						      : CUDA_ERROR_INVALID_VALUE;
}

static void note_access(struct device *dev, CUdeviceptr addr, uint64_t size,
			uint64_t access)
{
	struct range *r;

	scoped_lock(&dev->lock);
	if (!covered_locked(dev, addr, size, false))
		return;
	for (r = range_above(&dev->mapped, addr); r && r->start < addr + size;
	     r = range_next(&dev->mapped, r))
		r->data = (void *)(uintptr_t)access;
}

CUresult cuda_map(struct device *dev, CUdeviceptr addr, struct dev_mem *mem)
{
	CUresult res = enter_mapping(dev, addr, mem->size);

	if (res)
		return res;
	res = cu.cuMemMap(addr, mem->size, 0, mem->cu, 0);
	if (res)
		forget_mapping(dev, addr);
	return res;
}

CUresult cuda_unmap(struct device *dev, CUdeviceptr addr, uint64_t size)
{
	CUresult res = are_mapped(dev, addr, size, true);
	uint64_t n, access;

	for (uint64_t at = addr; !res && at < addr + size; at += n) {
		n = close_mapping(dev, at, &access);
		if (!n)
			return CUDA_ERROR_INVALID_VALUE;
		res = cu.cuMemUnmap(at, n);
		if (res)
			note_access(dev, at, n, access);
		else
			forget_mapping(dev, at);
	}
	return res;
}

CUresult cuda_set_access(struct device *dev, CUdeviceptr addr, uint64_t size,
			 CUmemAccess_flags access)
{
	CUmemAccessDesc desc = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev->cu},
		.flags = access,
	};
	CUresult res;

	if (!is_granular(dev, addr, size))
		return CUDA_ERROR_INVALID_VALUE;
	res = are_mapped(dev, addr, size, false);
	if (res)
		return res;
	res = cu.cuMemSetAccess(addr, size, &desc, 1);
	if (!res)
		note_access(dev, addr, size, access);
	return res;
}

CUresult cuda_own(struct dev_ctx *ctx, uint64_t size, CUdeviceptr *ret_addr)
{
	cuda_scoped_thawed(ctx->dev);
	CUresult res = cuda_enter(ctx);
	CUdeviceptr addr;
	CUstream st;

	if (!res)
		res = cuda_note(ctx, cu.cuMemAlloc(&addr, size));
	if (res)
		return res;
	/* In a stream that waits for no other. */
	res = cuda_note(ctx,
			cu.cuStreamCreateWithPriority(&st, CU_STREAM_NON_BLOCKING, 0));
	if (!res) {
		res = cuda_note(ctx, cu.cuMemsetD8Async(addr, 0, size, st));
		if (!res)
			res = cuda_note(ctx, cu.cuStreamSynchronize(st));
		cu.cuStreamDestroy(st);
	}
	if (res)
		cu.cuMemFree(addr);
	else
		*ret_addr = addr;
	return res;
}
