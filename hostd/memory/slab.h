/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slab: one backing of device memory that small allocations share. Only bookkeeping: it
 * knows offsets, no addresses and no device. Not thread-safe.
 */
#ifndef WEFT_MEM_SLAB_H
#define WEFT_MEM_SLAB_H

#include <stdbool.h>
#include <stdint.h>

/* Alignment of cuMemAlloc's addresses on NVIDIA's driver; programs rely on 256. */
#define SLAB_UNIT  512u
#define SLAB_BYTES (2u << 20)
#define SLAB_UNITS (SLAB_BYTES / SLAB_UNIT)
#define SLAB_WORDS (SLAB_UNITS / 64)

struct slab {
	uint64_t used[SLAB_WORDS];  /* a bit per unit */
	uint32_t bytes[SLAB_UNITS]; /* at an allocation's first unit: its size; else 0 */
	uint32_t live;              /* allocations */
	uint32_t free_units;
	uint32_t full_above;     /* no run of this many free units exists; a hint */
	uint64_t id[SLAB_UNITS]; /* where bytes[] is not 0: its number, the caller's */
};

void slab_init(struct slab *s);

/* Room for bytes (1 to SLAB_BYTES). Returns the offset or -ENOSPC. */
int64_t slab_alloc(struct slab *s, uint32_t bytes);

/* No run of more units is free; there may be none of so many. */
uint32_t slab_room(const struct slab *s);

/* Units that an allocation of that many bytes takes. */
static inline uint32_t slab_units(uint32_t bytes)
{
	return bytes / SLAB_UNIT + !!(bytes % SLAB_UNIT);
}

/* Frees the allocation that begins at offset. Returns 0 or -ENOENT. */
int slab_free(struct slab *s, uint32_t offset);

/* The allocation that covers offset. Returns 0 or -ENOENT. */
int slab_find(const struct slab *s, uint32_t offset, uint32_t *ret_base,
	      uint32_t *ret_bytes);

#endif
