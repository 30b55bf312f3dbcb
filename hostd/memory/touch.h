/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record of the memory that the program launches with: for every page of the band, when a
 * launch, a graph or a copy last named an address in it. Machine code does not say what
 * it touches, but pointers come as parameters.
 *
 * Marking is a store for each word that looks like an address of the band: no lock, no
 * lookup, nothing wrong with a word that only looks so. A pointer names where a piece of
 * data begins, so a page that was never named goes with the one before it.
 */
#ifndef WEFT_MEM_TOUCH_H
#define WEFT_MEM_TOUCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "device/device.h"

#define TOUCH_PAGE  (2ull << 20)
#define TOUCH_PAGES (DEVICE_BAND_SIZE / TOUCH_PAGE)

struct touch {
	_Atomic uint32_t clock;  /* launches so far, and 1 */
	_Atomic uint32_t *pages; /* the clock when it was named; 0: never. NULL: nobody
				  * wants to know */
};

/* Takes addresses, and memory only for what is marked. Returns 0 or -ENOMEM. */
int touch_init(struct touch *t);
void touch_fini(struct touch *t);

/* One more launch begins; its number, for marks. Of two that begin at once both may get
 * the same. */
static inline uint32_t touch_tick(struct touch *t)
{
	uint32_t now = atomic_load_explicit(&t->clock, memory_order_relaxed) + 1;

	atomic_store_explicit(&t->clock, now, memory_order_relaxed);
	return now;
}

static inline uint32_t touch_now(const struct touch *t)
{
	return atomic_load_explicit(&t->clock, memory_order_relaxed);
}

static inline void touch_mark(struct touch *t, uint32_t now, uint64_t word)
{
	uint64_t page = (word - DEVICE_BAND_BASE) / TOUCH_PAGE;

	if (page < TOUCH_PAGES)
		atomic_store_explicit(&t->pages[page], now, memory_order_relaxed);
}

/* Marks what the parameters of a launch name. */
static inline void touch_params(struct touch *t, const void *params, size_t size)
{
	uint32_t now = touch_tick(t);
	const char *p = params;

	for (size_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, p + at, sizeof(word));
		touch_mark(t, now, word);
	}
}

/* New memory lies at these addresses, whole pages: as if just named. */
void touch_new(struct touch *t, CUdeviceptr addr, uint64_t size);

/*
 * The latest that named [addr, addr + size), 0 if nothing did. *last is that of the page
 * before, and becomes that of the last page here: for the next part of the same data.
 */
uint32_t touch_latest(const struct touch *t, CUdeviceptr addr, uint64_t size,
		      uint32_t *last);

#endif
