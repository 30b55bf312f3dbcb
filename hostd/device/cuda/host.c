/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the guest shares with the device: a part of a file, mapped at its
 * address of the band and registered with the driver. With unified addressing the
 * device's address of registered memory is the host's, so all three sides agree.
 *
 * The host part is reserved as an empty mapping, so that nothing else of this process
 * gets there. This process never touches the pages.
 *
 * #syscalls mmap munmap
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "device/cuda/memory.h"

static void *as_host(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* Makes a range an empty reservation again. */
static int close_range_at(uint64_t addr, uint64_t size, int how)
{
	void *p = mmap(as_host(addr), size, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	if (p != as_host(addr)) {
		munmap(p, size);
		return -EEXIST;
	}
	return 0;
}

void cuda_host_init(struct device *dev)
{
	int r = close_range_at(DEVICE_HOST_BASE, DEVICE_HOST_SIZE, MAP_FIXED_NOREPLACE);

	dev->own_host = r == 0;
	if (r < 0)
		log_warning("cuda: no room for shared host memory: %s", strerror(-r));
}

void cuda_host_fini(struct device *dev)
{
	range_fini(&dev->host);
	if (dev->own_host)
		munmap(as_host(DEVICE_HOST_BASE), DEVICE_HOST_SIZE);
}

static bool is_region(uint64_t addr, uint64_t size)
{
	uint64_t at = addr - DEVICE_HOST_BASE;

	return size && !(size % DEVICE_HOST_GRAIN) && !(addr % DEVICE_HOST_GRAIN) &&
	       at < DEVICE_HOST_SIZE && size <= DEVICE_HOST_SIZE - at;
}

static CUresult host_register(uint64_t addr, uint64_t size)
{
	CUdeviceptr dptr = 0;
	CUresult res;

	res = cu.cuMemHostRegister(as_host(addr), size,
				   CU_MEMHOSTREGISTER_PORTABLE |
					   CU_MEMHOSTREGISTER_DEVICEMAP);
	if (res)
		return res;
	res = cu.cuMemHostGetDevicePointer(&dptr, as_host(addr), 0);
	if (!res && dptr == addr)
		return CUDA_SUCCESS;
	cu.cuMemHostUnregister(as_host(addr));
	return res ? res : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult insert(struct dev_ctx *ctx, uint64_t addr, uint64_t size)
{
	int r;

	scoped_lock(&ctx->dev->lock);
	r = range_insert(&ctx->dev->host, addr, size, ctx);
	return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
	       : r < 0      ? CUDA_ERROR_INVALID_VALUE
			    : CUDA_SUCCESS;
}

static uint64_t take(struct device *dev, uint64_t addr)
{
	struct range *r;
	uint64_t size;

	scoped_lock(&dev->lock);
	r = range_at(&dev->host, addr);
	if (!r || r->start != addr)
		return 0;
	size = r->size;
	range_remove(&dev->host, r);
	return size;
}

CUresult cuda_host_map(struct dev_ctx *ctx, CUdeviceptr addr, uint64_t size, int fd,
		       uint64_t offset)
{
	cuda_scoped_thawed(ctx->dev);
	struct device *dev = ctx->dev;
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (!dev->own_host)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_region(addr, size) || offset % DEVICE_HOST_GRAIN)
		return CUDA_ERROR_INVALID_VALUE;
	scoped_lock(&dev->making);
	res = insert(ctx, addr, size);
	if (res)
		return res;
	if (mmap(as_host(addr), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 (off_t)offset) == MAP_FAILED)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	else
		res = host_register(addr, size);
	if (res) {
		close_range_at(addr, size, MAP_FIXED);
		take(dev, addr);
	}
	return cuda_note(ctx, res);
}

static void set_owner(struct device *dev, struct range *r, struct dev_ctx *ctx)
{
	scoped_lock(&dev->lock);
	r->data = ctx;
}

/* Regions come and go with `making` held alone. */
void cuda_host_leave(struct dev_ctx *ctx)
{
	struct range_set *host = &ctx->dev->host;

	scoped_lock(&ctx->dev->making);
	for (struct range *r = range_above(host, 0); r; r = range_next(host, r)) {
		if (r->data != ctx)
			continue;
		cu.cuMemHostUnregister(as_host(r->start));
		set_owner(ctx->dev, r, NULL);
	}
}

void cuda_host_adopt(struct dev_ctx *ctx)
{
	struct range_set *host = &ctx->dev->host;

	scoped_lock(&ctx->dev->making);
	for (struct range *r = range_above(host, 0); r; r = range_next(host, r)) {
		if (!r->data && !host_register(r->start, r->size))
			set_owner(ctx->dev, r, ctx);
	}
}

CUresult cuda_host_unmap(struct dev_ctx *ctx, CUdeviceptr addr)
{
	cuda_scoped_thawed(ctx->dev);
	struct device *dev = ctx->dev;
	CUresult res = cuda_enter(ctx);
	uint64_t size;

	scoped_lock(&dev->making);
	size = take(dev, addr);
	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!res)
		res = cu.cuMemHostUnregister(as_host(addr));
	/* Even if the context is lost: the driver holds the pages on its own account. */
	close_range_at(addr, size, MAP_FIXED);
	return cuda_note(ctx, res);
}
