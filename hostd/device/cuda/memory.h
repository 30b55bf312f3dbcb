/* SPDX-License-Identifier: Apache-2.0 */
/* The band, its allocations, and host memory of the guest. */
#ifndef WEFT_DEVICE_CUDA_MEMORY_H
#define WEFT_DEVICE_CUDA_MEMORY_H

#include "device/cuda/device.h"

/* memory.c */
void cuda_memory_init(struct device *dev);
void cuda_memory_fini(struct device *dev);
/* True if all of it is mapped device memory with access, a module's variable, or host
 * memory of the guest. */
bool cuda_may(struct device *dev, CUdeviceptr addr, uint64_t size);
CUresult cuda_reserve(struct device *dev, uint64_t size, uint64_t align, uint64_t addr,
		      CUdeviceptr *ret_addr);
CUresult cuda_unreserve(struct device *dev, CUdeviceptr addr, uint64_t size);
CUresult cuda_mem_create(struct device *dev, uint64_t size, enum dev_memory memory,
			 struct dev_mem **ret_mem);
void cuda_mem_release(struct device *dev, struct dev_mem *mem);
bool cuda_mem_compressible(struct device *dev, const struct dev_mem *mem);
CUresult cuda_mem_export(struct device *dev, struct dev_mem *mem, int *ret_fd);
CUresult cuda_mem_import(struct device *dev, int fd, uint64_t size,
			 struct dev_mem **ret_mem);
CUresult cuda_mem_create_in_file(struct dev_ctx *ctx, int fd, uint64_t offset,
				 uint64_t size, struct dev_mem **ret_mem);
CUresult cuda_map(struct device *dev, CUdeviceptr addr, struct dev_mem *mem);
CUresult cuda_unmap(struct device *dev, CUdeviceptr addr, uint64_t size);
CUresult cuda_set_access(struct device *dev, CUdeviceptr addr, uint64_t size,
			 CUmemAccess_flags access);

/* host.c */
void cuda_host_init(struct device *dev);
void cuda_host_fini(struct device *dev);
CUresult cuda_host_map(struct dev_ctx *ctx, CUdeviceptr addr, uint64_t size, int fd,
		       uint64_t offset);
CUresult cuda_host_unmap(struct dev_ctx *ctx, CUdeviceptr addr);
CUresult cuda_own(struct dev_ctx *ctx, uint64_t size, CUdeviceptr *ret_addr);

/* Memory that a context has registered goes with it: it is registered again in another
 * one, or in the next that is made. The context must be current. */
void cuda_host_leave(struct dev_ctx *ctx);
void cuda_host_adopt(struct dev_ctx *ctx);

static inline bool cuda_is_host(uint64_t addr)
{
	return addr - DEVICE_HOST_BASE < DEVICE_HOST_SIZE;
}

#endif
