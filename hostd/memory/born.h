/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: memory of which a part is in host memory from the beginning,
 * because the device has no room for all of it and nobody gives way. It is as if that
 * part had moved out: mapped where kernels find it, and it comes back when there is room.
 */
#ifndef WEFT_MEM_BORN_H
#define WEFT_MEM_BORN_H

#include <cuda.h>
#include <stdint.h>

struct space;
struct space_chunk;

/* Memory that has been charged, for one chunk. */
struct born {
	uint64_t bytes, away;
	struct space_chunk *chunk; /* with what is away; NULL: nothing is */
};

/*
 * Charges so much and gets the host memory for what is away. New host memory is zero;
 * what was used before was used by this session. Without space.lock: it may take long.
 */
CUresult born_charge(struct space *sp, uint64_t bytes, struct born *ret);
/* It is not needed after all. */
void born_uncharge_locked(struct space *sp, const struct born *ch);
/* The chunk, with one reference. It is not charged any more if this fails. */
CUresult born_chunk_locked(struct space *sp, const struct born *ch,
			   struct space_chunk **ret_chunk);

#endif
