/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: allocations that program and device see at one address, in pieces each of
 * which is either the host's or the device's.
 *
 *	host's		a part of the file that guest and worker share (hostmem.h), mapped for the
 *			device where it belongs: program and kernels use it at any time
 *	device's	an ordinary backing, charged, evicted and restored as all memory; the guest
 *			has closed its pages, and asks for the piece when one is touched
 *
 * Who has a piece is the guest's to say (managed_move()), since it alone can close its pages
 * before; what it says wrong harms its own data. The part of the file stays through all that,
 * and is mapped once more at another address of the device's, by which pieces are copied.
 *
 * Any thread, but for what managed_on_quiet()'s function runs. Calls of one session wait for
 * one another.
 */
#ifndef WEFT_MEMORY_MANAGED_H
#define WEFT_MEMORY_MANAGED_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct hostmem;
struct managed;
struct mem_env;
struct space;

/* Pieces are of this size, the last one of what is left. To bring one to the other side takes 0.3
 * to 0.5 ms, half of which is mapping (H200). */
#define MANAGED_PIECE (8ull << 20)

struct managed_region {
	uint64_t addr;   /* in the band */
	uint64_t offset; /* in the file */
	uint64_t size;   /* what was asked for, rounded up to 2 MiB */
};

/* Both stay as long as the result does. 0 or -ENOMEM. */
int managed_new(const struct mem_env *env, struct space *sp, struct managed **ret_m);
/* Where the host's pieces lie; there are none before. */
void managed_set_host(struct managed *m, struct hostmem *h);
/* Before the space and hostmem; nothing runs any more. Accepts NULL. */
void managed_free(struct managed *m);

/* How the device's work is waited for. */
struct managed_wait {
	uint32_t us; /* for it to end; 0: as long as it takes, or until it stands still */
	bool keep; /* what has not ended stands still, and does so on until the next without it */
	bool begins; /* some of it is yet to begin, and counts as what stands still */
	bool still;  /* said by who waited: it does */
};

/*
 * Has quiet(arg, wait, work, what) run work(what) while the session submits nothing and the
 * device does nothing for it. Returns what work() does, -EBUSY (that did not come), or -EPIPE (the
 * session has ended). NULL: nothing moves.
 */
typedef int managed_quiet(void *arg, struct managed_wait *wait, int (*work)(void *what),
			  void *what);
void managed_on_quiet(struct managed *m, managed_quiet *quiet, void *arg);

/* Makes an allocation, all of it the host's. As hostmem_alloc(). */
CUresult managed_alloc(struct managed *m, uint64_t bytes, struct managed_region *ret);
/* CUDA_ERROR_INVALID_VALUE if none begins at addr. Nothing may use it any more. */
CUresult managed_release(struct managed *m, CUdeviceptr addr);

/*
 * Makes pieces the device's, or the host's: all that begin in [addr, addr + size), in order.
 * *ret_bytes says how much of it is, from addr on, now. CUDA_SUCCESS also if that is less, there
 * being no room on the device. CUDA_ERROR_NOT_READY: the device was not quiet in time.
 * CUDA_ERROR_INVALID_VALUE: not pieces of one allocation; what stands still does so on.
 *
 * For atomics of both sides, which the bus has not: the program has a piece while kernels stand
 * still, which the guest has kept so, and they have it while its pages are closed.
 */
CUresult managed_move(struct managed *m, CUdeviceptr addr, uint64_t size, bool to_device,
		      struct managed_wait *wait, uint64_t *ret_bytes);

/*
 * Copies what of [addr, addr + size), of one allocation, is the device's into the host's memory; it
 * stays the device's. wait->us is not 0. Results as managed_move()'s.
 */
CUresult managed_duplicate(struct managed *m, CUdeviceptr addr, uint64_t size,
			   struct managed_wait *wait);

#endif
