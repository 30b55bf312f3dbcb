/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: mmap munmap */
#include <errno.h>
#include <sys/mman.h>

#include "base/macros.h"
#include "memory/touch.h"

#define BYTES (TOUCH_PAGES * sizeof(uint32_t))

int touch_init(struct touch *t)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	t->pages = p;
	atomic_init(&t->clock, 1);
	return 0;
}

void touch_fini(struct touch *t)
{
	if (t->pages)
		munmap(t->pages, BYTES);
	t->pages = NULL;
}

static uint64_t page_of(CUdeviceptr addr)
{
	return (addr - DEVICE_BAND_BASE) / TOUCH_PAGE;
}

void touch_new(struct touch *t, CUdeviceptr addr, uint64_t size)
{
	uint64_t end = MIN(page_of(addr) + size / TOUCH_PAGE, (uint64_t)TOUCH_PAGES);

	for (uint64_t i = page_of(addr); i < end; i++) {
		/* A page that nobody wrote takes no memory. */
		if (atomic_load_explicit(&t->pages[i], memory_order_relaxed))
			atomic_store_explicit(&t->pages[i], 0, memory_order_relaxed);
	}
	touch_mark(t, touch_now(t), addr);
}

uint32_t touch_latest(const struct touch *t, CUdeviceptr addr, uint64_t size,
		      uint32_t *last)
{
	uint64_t first = page_of(addr);
	uint64_t n = ALIGN_UP(size + addr % TOUCH_PAGE, TOUCH_PAGE) / TOUCH_PAGE;
	uint32_t latest = 0;

	for (uint64_t i = first; i < MIN(first + n, (uint64_t)TOUCH_PAGES); i++) {
		uint32_t at = atomic_load_explicit(&t->pages[i], memory_order_relaxed);

		if (at)
			*last = at;
		latest = MAX(latest, *last);
	}
	return latest;
}
