/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of the software GPU, for the files that make them up: memory.c and, for
 * those that other processes have too, share.c. */
#ifndef WEFT_DEVICE_SOFT_PHYSICAL_H
#define WEFT_DEVICE_SOFT_PHYSICAL_H

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/soft/memory.h"

#ifdef __SANITIZE_THREAD__
/*
 * ThreadSanitizer keeps this part of the address space closed, though unused: the mapping
 * is made behind its back, and whoever touches the band must not be instrumented.
 */
#define BAND_FLAG MAP_FIXED
#define band_mmap(addr, n, prot, ...)                                                    \
	((void *)syscall(SYS_mmap, addr, n, prot, __VA_ARGS__))
#else
#define BAND_FLAG MAP_FIXED_NOREPLACE
#define band_mmap mmap
#endif

/* Both the file's place and its pages belong to the allocation until the last reference.
 * */
struct dev_mem {
	uint64_t off, size;
	unsigned refs; /* the creator's, and one per mapping */
	bool in_host_memory;
	int fd; /* of a file of its own, or the guest's, shared with other processes; or -1 */
	bool imported; /* takes nothing of this device's memory */
};

static inline void *soft_as_host(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static inline bool soft_is_granular(const struct soft_memory *m, uint64_t addr,
				    uint64_t size)
{
	return size && !(addr % m->granularity) && !(size % m->granularity);
}

/* A failure of the host's, as the guest should see it. */
static inline CUresult soft_as_result(int r)
{
	switch (r) {
	case 0:
		return CUDA_SUCCESS;
	case -EINVAL:
	case -EEXIST:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
}

/* The pages go back to the host now; whoever gets the place next finds zeroes. */
void soft_file_give_back_locked(struct soft_memory *m, const struct dev_mem *c);

#endif
