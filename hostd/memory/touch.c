/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: mmap munmap */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
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

/* ---- traces ---- */

/* When a launch begins whose memory is to be in a trace; 0: nobody traces. */
static uint64_t trace_begin(const struct touch *t)
{
	return t->page && trace_memory_on(t->page) ? clock_now_ns() : 0;
}

static void trace(const struct touch *t, enum trace_kind kind, uint64_t begin_ns,
		  uint64_t page, uint64_t bytes, uint32_t name)
{
	const struct trace_record r = {
		.kind = kind,
		.begin_ns = begin_ns,
		.end_ns = begin_ns,
		.value = bytes,
		.track = (uint32_t)page,
		.name = name,
	};

	if (unlikely(begin_ns))
		trace_write(t->trace, &r);
}

/* ---- marks ---- */

/* Marks the page of an address that is named, if it is one. */
static void mark_word(struct touch *t, uint32_t now, uint64_t word, uint64_t begin_ns,
		      uint32_t name)
{
	touch_mark(t, now, word);
	if (unlikely(begin_ns) && page_of(word) < TOUCH_PAGES)
		trace(t, TRACE_REACH, begin_ns, page_of(word), 0, name);
}

static void mark_params(struct touch *t, const struct dev_launch *l, uint64_t begin_ns,
			uint32_t name)
{
	uint32_t now = touch_tick(t);
	const char *p = l->params;

	for (size_t at = 0; at + sizeof(uint64_t) <= l->params_size;
	     at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, p + at, sizeof(word));
		mark_word(t, now, word, begin_ns, name);
	}
}

struct marking {
	struct touch *t;
	uint32_t now, name;
	uint64_t n; /* pages so far */
	/* For a trace: when it begins, and pages that it is to be told of. */
	uint64_t begin_ns, first, end;
};

static void tell_pages(struct marking *m)
{
	if (m->first < m->end)
		trace(m->t, TRACE_REACH, m->begin_ns, m->first,
		      (m->end - m->first) * TOUCH_PAGE, m->name);
	m->first = m->end = 0;
}

/* Parts that follow each other are told at once. */
static void add_pages(struct marking *m, uint64_t first, uint64_t end)
{
	if (first < m->first || first > m->end) {
		tell_pages(m);
		m->first = first;
	}
	m->end = MAX(m->end, end);
}

static void mark_reached(void *arg, uint64_t addr, uint64_t bytes)
{
	struct marking *m = arg;
	uint64_t end = addr + bytes, first, i;

	/* Nobody waits for one that reaches more than there is, again and again. */
	if (!bytes || bytes > REACHED_MAX || end < addr || m->n > TOUCH_PAGES) {
		mark_word(m->t, m->now, addr, m->begin_ns, m->name);
		return;
	}
	if (end <= DEVICE_BAND_BASE)
		return;
	first = page_of(MAX(addr, (uint64_t)DEVICE_BAND_BASE));
	end = MIN(page_of(end - 1) + 1, (uint64_t)TOUCH_PAGES);
	for (i = first; i < end; i++)
		atomic_store_explicit(&m->t->reached[i], m->now, memory_order_relaxed);
	m->n += bytes / TOUCH_PAGE;
	if (unlikely(m->begin_ns) && first < end)
		add_pages(m, first, end);
}

void touch_reach(struct touch *t, CUdeviceptr addr, uint64_t bytes)
{
	struct marking m = {.t = t, .now = touch_now(t), .begin_ns = trace_begin(t)};

	mark_reached(&m, addr, bytes);
	tell_pages(&m);
}

void touch_launch(struct touch *t, const struct dev_launch *l)
{
	struct marking m = {.t = t, .name = l->traced ? l->traced - 1 : 0};
	struct ptx_grid g;

	m.begin_ns = trace_begin(t);
	if (!l->extent ||
	    (!m.begin_ns && !atomic_load_explicit(&t->works_out, memory_order_relaxed))) {
		mark_params(t, l, m.begin_ns, m.name);
		return;
	}
	m.now = touch_tick(t);
	if (ptx_extent_follows(l->extent))
		atomic_store_explicit(&t->followed, m.now, memory_order_relaxed);
	memcpy(g.blocks, l->grid, sizeof(g.blocks));
	memcpy(g.threads, l->block, sizeof(g.threads));
	ptx_extent_each(l->extent, l->params, l->params_size, &g, TOUCH_PAGE,
			mark_reached, &m);
	tell_pages(&m);
}

void touch_work_out(struct touch *t, bool on)
{
	if (on && !atomic_load_explicit(&t->works_out, memory_order_relaxed))
		atomic_store_explicit(&t->followed, touch_now(t), memory_order_relaxed);
	atomic_store_explicit(&t->works_out, on, memory_order_relaxed);
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
	trace(t, TRACE_MAP, trace_begin(t), page_of(addr), size, 0);
}

void touch_gone(const struct touch *t, CUdeviceptr addr, uint64_t size)
{
	trace(t, TRACE_UNMAP, trace_begin(t), page_of(addr), size, 0);
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
