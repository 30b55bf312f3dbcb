/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: mmap munmap */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/macros.h"
#include "memory/touch.h"
#include "ptx/extent/extent.h"

#define BYTES (TOUCH_PAGES * sizeof(uint32_t))
/* No device has so much: who says so does not know where it ends. */
#define REACHED_MAX (1ull << 39)

int touch_init(struct touch *t)
{
	void *p = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	t->pages = p;
	t->reached = t->pages + TOUCH_PAGES;
	atomic_init(&t->clock, 1);
	return 0;
}

void touch_fini(struct touch *t)
{
	if (t->pages)
		munmap(t->pages, 2 * BYTES);
	t->pages = NULL;
}

static uint64_t page_of(CUdeviceptr addr)
{
	return (addr - DEVICE_BAND_BASE) / TOUCH_PAGE;
}

static void mark_params(struct touch *t, const void *params, size_t size)
{
	uint32_t now = touch_tick(t);
	const char *p = params;

	for (size_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, p + at, sizeof(word));
		touch_mark(t, now, word);
	}
}

struct marking {
	struct touch *t;
	uint32_t now;
	uint64_t n; /* pages so far */
};

static void mark_reached(void *arg, uint64_t addr, uint64_t bytes)
{
	struct marking *m = arg;
	uint64_t end = addr + bytes, i;

	/* Nobody waits for one that reaches more than there is, again and again. */
	if (!bytes || bytes > REACHED_MAX || end < addr || m->n > TOUCH_PAGES) {
		touch_mark(m->t, m->now, addr);
		return;
	}
	if (end <= DEVICE_BAND_BASE)
		return;
	end = page_of(end - 1) + 1;
	for (i = page_of(MAX(addr, (uint64_t)DEVICE_BAND_BASE));
	     i < MIN(end, (uint64_t)TOUCH_PAGES); i++)
		atomic_store_explicit(&m->t->reached[i], m->now, memory_order_relaxed);
	m->n += bytes / TOUCH_PAGE;
}

void touch_reach(struct touch *t, CUdeviceptr addr, uint64_t bytes)
{
	struct marking m = {t, touch_now(t), 0};

	mark_reached(&m, addr, bytes);
}

void touch_launch(struct touch *t, const struct dev_launch *l)
{
	struct marking m = {.t = t};
	struct ptx_grid g;

	if (!l->extent) {
		mark_params(t, l->params, l->params_size);
		return;
	}
	m.now = touch_tick(t);
	memcpy(g.blocks, l->grid, sizeof(g.blocks));
	memcpy(g.threads, l->block, sizeof(g.threads));
	ptx_extent_each(l->extent, l->params, l->params_size, &g, TOUCH_PAGE,
			mark_reached, &m);
}

void touch_new(struct touch *t, CUdeviceptr addr, uint64_t size)
{
	uint64_t end = MIN(page_of(addr) + size / TOUCH_PAGE, (uint64_t)TOUCH_PAGES);

	for (uint64_t i = page_of(addr); i < end; i++) {
		/* A page that nobody wrote takes no memory. */
		if (atomic_load_explicit(&t->pages[i], memory_order_relaxed))
			atomic_store_explicit(&t->pages[i], 0, memory_order_relaxed);
		if (atomic_load_explicit(&t->reached[i], memory_order_relaxed))
			atomic_store_explicit(&t->reached[i], 0, memory_order_relaxed);
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

uint32_t touch_reached(const struct touch *t, CUdeviceptr addr, uint64_t size)
{
	uint64_t first = page_of(addr);
	uint64_t n = ALIGN_UP(size + addr % TOUCH_PAGE, TOUCH_PAGE) / TOUCH_PAGE;
	uint32_t latest = 0;

	for (uint64_t i = first; i < MIN(first + n, (uint64_t)TOUCH_PAGES); i++)
		latest = MAX(latest,
			     atomic_load_explicit(&t->reached[i], memory_order_relaxed));
	return latest;
}
