/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the software GPU. The band is reserved in this process (PROT_NONE); an
 * allocation is a part of one sparse memory file, mapped at its device address while it
 * is mapped on the device. So a device address is the host address of the same byte.
 *
 * Who may touch a byte is in a table with one permission a page of 64 KiB, which kernels
 * and copies check. Both run between soft_memory_enter() and soft_memory_leave() in short
 * slices; taking something away clears the permissions, waits until every slice that
 * began before has ended, and only then removes the host mapping. A kernel that still
 * uses the address then meets the table and faults; the host never does.
 *
 * #syscalls memfd_create fcntl fstat lseek ftruncate fallocate mmap munmap madvise futex
 */
#ifndef WEFT_DEVICE_SOFT_MEMORY_H
#define WEFT_DEVICE_SOFT_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "util/range.h"
#include "simt/simt.h"

#define SOFT_PAGE_BYTES (1ull << SIMT_PAGE_SHIFT)

/* Texture and surface objects that a process may have. */
#define SOFT_TEXTURES (1u << 16)

/* The end of the band belongs to the device itself: variables, heaps. */
#define SOFT_OWN_SIZE (1ull << 40)
#define SOFT_OWN_BASE (DEVICE_BAND_BASE + DEVICE_BAND_SIZE - SOFT_OWN_SIZE)

struct soft_memory {
	pthread_mutex_t lock; /* all below but view and granularity; a leaf lock */
	pthread_rwlock_t slices;
	struct simt_memory view; /* view.perm == perm */
	uint8_t *perm;
	struct simt_texture **textures; /* view.textures; [0] is none */
	uint32_t last_texture;          /* the one that was added last */
	uint64_t limit, used;           /* bytes of device memory */
	uint64_t own;                   /* of these the device's own, or its arrays' */
	unsigned granularity;
	int fd;
	uint64_t fd_size;
	struct range_set reserved; /* of the band; data: NULL */
	struct range_set mapped;   /* data: struct dev_mem */
	struct range_set file;     /* of the memory file; data: struct dev_mem */
	struct range_set host;     /* host memory of the guest; data: NULL */
};

/*
 * Takes the band. Returns 0, -EBUSY (another software GPU is open in this process),
 * -ENOMEM or -errno.
 */
int soft_memory_init(struct soft_memory *m, uint64_t limit, unsigned granularity);

/* Drops everything. Nothing may run. */
void soft_memory_fini(struct soft_memory *m);

/*
 * Device memory for the device's own use, zeroed, readable and writable by kernels, page
 * aligned. Returns 0 when there is none. Any thread.
 */
uint64_t soft_memory_alloc(struct soft_memory *m, uint64_t bytes);
void soft_memory_free(struct soft_memory *m, uint64_t addr, uint64_t bytes);

/* Bytes that an allocation takes from the device's memory: whole pages. */
static inline uint64_t soft_memory_charge(uint64_t bytes)
{
	return (bytes + SOFT_PAGE_BYTES - 1) & ~(SOFT_PAGE_BYTES - 1);
}

/*
 * Makes a texture or surface known to kernels under the value that is returned; 0: there
 * are too many. It must not change until it has been removed, which waits for the slices
 * that may have seen it.
 */
uint32_t soft_memory_texture_add(struct soft_memory *m, struct simt_texture *t);
void soft_memory_texture_remove(struct soft_memory *m, uint32_t value);

/*
 * True if every byte may be read (written). The answer holds until soft_memory_leave() if
 * asked between enter and leave.
 */
bool soft_memory_may(const struct soft_memory *m, uint64_t addr, uint64_t size,
		     bool write);

/*
 * Begins and ends a slice, during which permissions found stay valid. Slices are short (a
 * millisecond), since unmapping waits for them, and are not nested.
 */
void soft_memory_enter(struct soft_memory *m);
void soft_memory_leave(struct soft_memory *m);

/* device_ops */
CUresult soft_reserve(struct device *dev, uint64_t size, uint64_t align, uint64_t addr,
		      CUdeviceptr *ret_addr);
CUresult soft_unreserve(struct device *dev, CUdeviceptr addr, uint64_t size);
CUresult soft_mem_create(struct device *dev, uint64_t size, enum dev_memory memory,
			 struct dev_mem **ret_mem);
bool soft_mem_compressible(struct device *dev, const struct dev_mem *mem);
void soft_mem_release(struct device *dev, struct dev_mem *mem);
CUresult soft_mem_export(struct device *dev, struct dev_mem *mem, int *ret_fd);
CUresult soft_mem_import(struct device *dev, int fd, uint64_t size,
			 struct dev_mem **ret_mem);
CUresult soft_mem_create_in_file(struct dev_ctx *ctx, int fd, uint64_t offset,
				 uint64_t size, struct dev_mem **ret_mem);
CUresult soft_map(struct device *dev, CUdeviceptr addr, struct dev_mem *mem);
CUresult soft_unmap(struct device *dev, CUdeviceptr addr, uint64_t size);
CUresult soft_set_access(struct device *dev, CUdeviceptr addr, uint64_t size,
			 CUmemAccess_flags access);
CUresult soft_host_map(struct dev_ctx *ctx, CUdeviceptr addr, uint64_t size, int fd,
		       uint64_t offset);
CUresult soft_host_unmap(struct dev_ctx *ctx, CUdeviceptr addr);
CUresult soft_own(struct dev_ctx *ctx, uint64_t size, CUdeviceptr *ret_addr);
/* Frees all that soft_own() has made in a context. */
void soft_disown(struct dev_ctx *ctx);

#endif
