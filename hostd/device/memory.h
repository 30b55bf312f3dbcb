/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in the band: allocations of the device's, and host memory of the guest. */
#ifndef WEFT_DEVICE_MEMORY_H
#define WEFT_DEVICE_MEMORY_H

#include "device/handles.h"

/*
 * All device addresses of a worker lie in this band (but for the variables of modules on
 * the real GPU, which are where the driver puts them). The guest library reserves the
 * same range, so a device address never looks like a host one and pinned memory can have
 * one address on both sides. It is clear of what Linux, ASan and the driver use on
 * x86-64.
 */
#define DEVICE_BAND_BASE 0x200000000000ull
#define DEVICE_BAND_SIZE 0x080000000000ull /* 8 TiB */

/*
 * The part of the band for host memory that guest and device share, 6 TiB from its start:
 * mapped at the same address in the guest, in the worker and on the device. No device
 * memory lies there.
 */
#define DEVICE_HOST_BASE  (DEVICE_BAND_BASE + 0x060000000000ull)
#define DEVICE_HOST_SIZE  0x010000000000ull /* 1 TiB */
#define DEVICE_HOST_GRAIN (64ull << 10)     /* regions begin at multiples of this */

/* Kinds of physical memory. */
enum dev_memory {
	DEV_MEMORY_DEVICE,
	DEV_MEMORY_HOST,
	/* The device's, compressed where the data allows it. A wish: a device that cannot
	 * do so, or has no more room for it, gives plain memory. */
	DEV_MEMORY_COMPRESSIBLE,
	DEV_MEMORY_KINDS
};

struct device_memory_ops {
	/* Takes a range of addresses: at addr, or where the device likes if that is 0. */
	CUresult (*reserve)(struct device *dev, uint64_t size, uint64_t align,
			    uint64_t addr, CUdeviceptr *ret_addr);
	CUresult (*unreserve)(struct device *dev, CUdeviceptr addr, uint64_t size);
	/* Makes physical memory (zeroed by the soft device; scrubbing for others is the
	 * memory manager's). */
	CUresult (*create)(struct device *dev, uint64_t size, enum dev_memory memory,
			   struct dev_mem **ret_mem);
	void (*release)(struct device *dev, struct dev_mem *mem);
	/* True if an allocation that was to be compressible is. */
	bool (*compressible)(struct device *dev, const struct dev_mem *mem);
	/* Puts one whole allocation at an address; no access yet. */
	CUresult (*map)(struct device *dev, CUdeviceptr addr, struct dev_mem *mem);
	CUresult (*unmap)(struct device *dev, CUdeviceptr addr, uint64_t size);
	/* Opens or closes a range of mapped addresses. */
	CUresult (*set_access)(struct device *dev, CUdeviceptr addr, uint64_t size,
			       CUmemAccess_flags access);

	/* Gives a descriptor, the caller's, for an allocation in device memory; it stays
	 * good when the allocation is released. */
	CUresult (*export)(struct device *dev, struct dev_mem *mem, int *ret_fd);
	/* Makes an allocation of another process's device, of the size that it was
	 * exported with, or CUDA_ERROR_INVALID_VALUE; fd stays the caller's. */
	CUresult (*import)(struct device *dev, int fd, uint64_t size,
			   struct dev_mem **ret_mem);

	/* Makes physical memory of size bytes of a file of the guest's memory, from offset,
	 * a multiple of DEVICE_HOST_GRAIN: host memory, which can be mapped as any other. fd
	 * stays the caller's, ctx may be any; the file must not be cut short, nor emptied
	 * there, before it is released. CUDA_ERROR_NOT_SUPPORTED: the device cannot. NULL: none of its
	 * kind can.
	 */
	CUresult (*create_in_file)(struct dev_ctx *ctx, int fd, uint64_t offset,
				   uint64_t size, struct dev_mem **ret_mem);

	/* Maps size bytes of a file of the guest's memory (from offset; both multiples of
	 * DEVICE_HOST_GRAIN) at an address of the host part of the band, for kernels and
	 * copies of every context. ctx may be any. The file must not be cut short while
	 * it is mapped. */
	CUresult (*host_map)(struct dev_ctx *ctx, CUdeviceptr addr, uint64_t size, int fd,
			     uint64_t offset);
	/* Takes one such region away again; the caller makes sure that no work which
	 * uses it is under way. */
	CUresult (*host_unmap)(struct dev_ctx *ctx, CUdeviceptr addr);

	/* Makes memory of the device, zeroed, that is not in the band and that footprint() tells
	 * of; it goes with its context. May take a millisecond. */
	CUresult (*own)(struct dev_ctx *ctx, uint64_t size, CUdeviceptr *ret_addr);
};

#endif
