/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record of the memory that the program launches with: for every page of the band, when a
 * launch, a graph or a copy last named an address in it. Machine code does not say what
 * it touches, but pointers come as parameters; of a kernel that came with PTX it is known where
 * they lead (ptx/extent/extent.h).
 *
 * Marking is a store for each word that looks like an address of the band, or for each page that is
 * reached: no lock, no lookup, nothing wrong with a word that only looks so. A pointer names where a
 * piece of data begins, so a page that was never named goes with the one before it; what is
 * known to be reached goes by itself.
 */
#ifndef WEFT_MEM_TOUCH_H
#define WEFT_MEM_TOUCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "ipc/trace.h"

#define TOUCH_PAGE  TRACE_PAGE /* a trace tells its number */
#define TOUCH_PAGES (DEVICE_BAND_SIZE / TOUCH_PAGE)

struct touch {
	_Atomic uint32_t clock;  /* launches so far, and 1 */
	_Atomic uint32_t *pages; /* the clock when it was named; 0: never. NULL: nobody
				  * wants to know */
	_Atomic uint32_t *reached; /* likewise, when a launch that says so reached it */
	/* The last launch that follows addresses in memory, and so may reach any; 0: none. */
	_Atomic uint32_t followed;
	bool wants_extents;        /* kernels that are loaded are to be looked at */
	_Atomic bool works_out;    /* where they reach, at each launch (touch_work_out()) */
	/* Where a trace is written, and whether (ipc/trace.h); NULL: none ever is. */
	struct trace_area *trace;
	const struct worker_page *page;
};

/* Takes addresses, and memory only for what is marked; page and trace stay as they are. Returns
 * 0 or -ENOMEM. */
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

/* Marks what a launch reaches, or, where nobody knows or wants to, what its parameters name. */
void touch_launch(struct touch *t, const struct dev_launch *l);
/* Has what launches reach worked out from now on, which takes up to some microseconds for each, or
 * not: while nothing is short it makes no difference. Launches before that may have followed
 * addresses. One thread. */
void touch_work_out(struct touch *t, bool on);

/* Marks what a copy or a fill reaches, with the latest launch. */
void touch_reach(struct touch *t, CUdeviceptr addr, uint64_t bytes);

/* New memory lies at these addresses, whole pages: as if just named. */
void touch_new(struct touch *t, CUdeviceptr addr, uint64_t size);
/* Memory lies there no more: told to a trace. */
void touch_gone(const struct touch *t, CUdeviceptr addr, uint64_t size);

/*
 * The latest that named [addr, addr + size), 0 if nothing did. *last is that of the page
 * before, and becomes that of the last page here: for the next part of the same data.
 */
uint32_t touch_latest(const struct touch *t, CUdeviceptr addr, uint64_t size,
		      uint32_t *last);
/* The latest that is known to have reached it, 0 if none has. */
uint32_t touch_reached(const struct touch *t, CUdeviceptr addr, uint64_t size);

#endif
