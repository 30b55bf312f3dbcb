/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: memory that has been charged, on its way to an allocation, which is
 * made in three steps:
 *
 *	grant_take()		charges it; waits, and may find that a part has to spill
 *	backing_new_locked()	makes the physical memory
 *	region_backed_locked()	maps it at an address
 *
 * Memory spills where the device has no room for all of it and nobody is evicted: the
 * last part lies in host memory from the beginning. It is as if that part had moved out:
 * mapped where kernels find it, and it comes back when there is room.
 */
#ifndef WEFT_MEM_GRANT_H
#define WEFT_MEM_GRANT_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct space;
struct backing;

/* Memory granted for one allocation. The owner hands it to backing_new_locked() or drops
 * it; dropping one that was handed over, or never taken, does nothing. */
struct grant {
	uint64_t bytes, evicted; /* charged; and of that in host memory */
	struct backing *backing; /* with what is evicted, or asked for; NULL: none yet */
	bool in_host_memory;       /* all of it, where it stays */
};

/*
 * Charges so many bytes and gets the host memory of what spills. New host memory is zero;
 * what was used before was used by this session. Without space.lock: it may take long.
 * CUDA_ERROR_OUT_OF_MEMORY leaves nothing charged.
 */
CUresult grant_take(struct space *sp, uint64_t bytes, struct grant *ret_g);
/* Takes nothing that others have within their shares: the rest spills. */
CUresult grant_take_spare(struct space *sp, uint64_t bytes, struct grant *ret_g);
/* Charges memory that is to lie in host memory for good. */
CUresult grant_take_host(struct space *sp, uint64_t bytes, struct grant *ret_g);
/* Gives back whatever of it is left. */
void grant_drop_locked(struct space *sp, struct grant *g);

/* Makes a backing, with one reference, which has the charge from now on. On failure what
 * was charged stays the grant's. Lets go of the lock while the device has no room yet. */
CUresult backing_new_locked(struct space *sp, struct grant *g,
			    struct backing **ret_backing);

#endif
