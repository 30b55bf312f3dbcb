/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that a session's guest shares with its device: cuMemHostAlloc() and the
 * like. Regions are parts of the file that also holds the lanes' window (the session's
 * own memfd, or the VM's window), mapped into the host part of the band by guest, worker
 * and device alike. Each is charged at the broker, which says where in a VM's window it
 * lies; in a memfd the worker chooses.
 *
 * Thread-safe; ctx is any context. Allocating and freeing may take long: pages are
 * pinned.
 */
#ifndef WEFT_MEMORY_HOSTMEM_H
#define WEFT_MEMORY_HOSTMEM_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct dev_ctx;
struct mem_env;
struct hostmem;

/* Where regions may lie. */
struct hostmem_file {
	int fd;               /* stays the caller's; must stay open */
	uint64_t first, size; /* of a memfd of the session's own; size 0: see placed */
	bool placed;          /* the broker says where */
};

/* Returns 0 or -ENOMEM. */
int hostmem_new(const struct mem_env *env, const struct hostmem_file *file,
		struct hostmem **ret_h);

/* Forgets all regions; the device has been closed, which unmaps them. Accepts NULL. */
void hostmem_free(struct hostmem *h);

struct hostmem_region {
	uint64_t addr;   /* in the band */
	uint64_t offset; /* in the file */
	uint64_t size;   /* bytes mapped: what was asked for, rounded up */
};

/*
 * CUDA_ERROR_OUT_OF_MEMORY: over the limit, or no room. CUDA_ERROR_NOT_SUPPORTED: this
 * session shares none (h may be NULL).
 */
CUresult hostmem_alloc(struct hostmem *h, struct dev_ctx *ctx, uint64_t bytes,
		       struct hostmem_region *ret);

/* CUDA_ERROR_INVALID_VALUE if no region begins at addr. Nothing may use it any more. */
CUresult hostmem_release(struct hostmem *h, struct dev_ctx *ctx, uint64_t addr);

/*
 * A part of the file alone, of size bytes, a multiple of DEVICE_HOST_GRAIN, charged as a
 * region is; managed.h maps it. Errors as hostmem_alloc().
 */
CUresult hostmem_take_part(struct hostmem *h, uint64_t size, uint64_t *ret_offset);
/* Nothing has it mapped any more. */
void hostmem_give_part(struct hostmem *h, uint64_t offset, uint64_t size);
/* The file, which stays the hostmem's. */
int hostmem_fd(const struct hostmem *h);

#endif
