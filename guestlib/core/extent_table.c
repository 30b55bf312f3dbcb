/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/macros.h"
#include "core/extent_table.h"
#include "core/process.h"

#define UNIT_BITS  21
#define UNIT_BYTES (1ull << UNIT_BITS)
#define PAGE_UNITS 2048u /* units of a page: 4 GiB */
#define GRAINS     (UNIT_BYTES / EXTENT_GRAIN)
#define WORDS      (sizeof(struct extent_info) / sizeof(uint64_t))

/* An allocation. Readers see it whole, or see that it has changed. */
struct record {
	_Atomic uint32_t seq; /* odd while it is written */
	bool used;
	_Atomic uint64_t word[WORDS]; /* struct extent_info; size 0: none */
	struct record *next_all, *next_free;
};

/* Allocations that begin in a unit, and not at its beginning. */
struct begins {
	_Atomic uint64_t bits[GRAINS / 64];
	struct record *_Atomic of[GRAINS];
};

struct unit {
	struct record *_Atomic over; /* covers its first byte */
	struct begins *_Atomic begins;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for changes */
static struct unit *_Atomic *_Atomic pages;
static struct record *all, *free_records;
static _Atomic uint64_t generation;

static bool in_band(uint64_t addr)
{
	return addr - guest_process.band_base < guest_process.band_size;
}

static uint64_t end_of(const struct extent_info *i)
{
	return i->base + ALIGN_UP(i->size, (uint64_t)EXTENT_GRAIN);
}

/* ---- looking up ---- */

static struct unit *unit_at(uint64_t addr)
{
	uint64_t n = (addr - guest_process.band_base) >> UNIT_BITS;
	struct unit *_Atomic *p = atomic_load_explicit(&pages, memory_order_acquire);
	struct unit *page;

	if (!p)
		return NULL;
	page = atomic_load_explicit(&p[n / PAGE_UNITS], memory_order_acquire);
	return page ? &page[n % PAGE_UNITS] : NULL;
}

static bool read_record(struct record *r, struct extent_info *ret)
{
	union {
		uint64_t word[WORDS];
		struct extent_info info;
	} u;
	uint32_t seq;

	if (!r)
		return false;
	seq = atomic_load_explicit(&r->seq, memory_order_acquire);
	for (unsigned i = 0; i < WORDS; i++)
		u.word[i] = atomic_load_explicit(&r->word[i], memory_order_acquire);
	if (seq % 2 || atomic_load_explicit(&r->seq, memory_order_relaxed) != seq)
		return false;
	*ret = u.info;
	return true;
}

static bool covers(struct record *r, uint64_t addr, struct extent_info *ret)
{
	struct extent_info i;

	if (!read_record(r, &i) || addr - i.base >= end_of(&i) - i.base)
		return false;
	*ret = i;
	return true;
}

/* The last one that begins at or before that grain of the unit. */
static struct record *begun_before(struct begins *b, unsigned grain)
{
	uint64_t mask = ~0ull >> (63 - grain % 64), bits;

	for (unsigned w = grain / 64 + 1; w-- > 0; mask = ~0ull) {
		bits = atomic_load_explicit(&b->bits[w], memory_order_acquire) & mask;
		if (bits)
			return atomic_load_explicit(
				&b->of[w * 64 + 63 - (unsigned)__builtin_clzll(bits)],
				memory_order_acquire);
	}
	return NULL;
}

static struct record *find(uint64_t addr, struct extent_info *ret_info)
{
	struct unit *u = in_band(addr) ? unit_at(addr) : NULL;
	struct begins *b;
	struct record *r = NULL;

	if (!u)
		return NULL;
	b = atomic_load_explicit(&u->begins, memory_order_acquire);
	if (b)
		r = begun_before(b, addr % UNIT_BYTES / EXTENT_GRAIN);
	if (covers(r, addr, ret_info))
		return r;
	r = atomic_load_explicit(&u->over, memory_order_acquire);
	return covers(r, addr, ret_info) ? r : NULL;
}

bool extent_table_find(uint64_t addr, struct extent_info *ret_info)
{
	return find(addr, ret_info) != NULL;
}

/* ---- changes, under the lock ---- */

static void write_record(struct record *r, const struct extent_info *info)
{
	const union {
		struct extent_info info;
		uint64_t word[WORDS];
	} u = {.info = *info};
	uint32_t seq = atomic_load_explicit(&r->seq, memory_order_relaxed);

	static_assert(sizeof(u) == WORDS * sizeof(uint64_t), "words and nothing else");
	atomic_store_explicit(&r->seq, seq + 1, memory_order_relaxed);
	/* release: who sees a word sees that the record is being written */
	for (unsigned i = 0; i < WORDS; i++)
		atomic_store_explicit(&r->word[i], u.word[i], memory_order_release);
	atomic_store_explicit(&r->seq, seq + 2, memory_order_release);
}

static struct record *record_new(void)
{
	struct record *r = free_records;

	if (r) {
		free_records = r->next_free;
	} else {
		r = calloc(1, sizeof(*r));
		if (!r)
			return NULL;
		r->next_all = all;
		all = r;
	}
	r->used = true;
	return r;
}

static struct unit *unit_new(uint64_t addr)
{
	uint64_t n = (addr - guest_process.band_base) >> UNIT_BITS;
	struct unit *_Atomic *p = pages;
	struct unit *page;

	if (!p) {
		p = calloc((guest_process.band_size >> UNIT_BITS) / PAGE_UNITS + 1,
			   sizeof(*p));
		if (!p)
			return NULL;
		atomic_store_explicit(&pages, p, memory_order_release);
	}
	if (!p[n / PAGE_UNITS]) {
		page = calloc(PAGE_UNITS, sizeof(*page));
		if (!page)
			return NULL;
		atomic_store_explicit(&p[n / PAGE_UNITS], page, memory_order_release);
	}
	return unit_at(addr);
}

static bool enter_begin(uint64_t base, struct record *r)
{
	unsigned grain = base % UNIT_BYTES / EXTENT_GRAIN;
	struct unit *u = unit_new(base);
	struct begins *b;

	if (!u)
		return false;
	b = u->begins;
	if (!b) {
		b = calloc(1, sizeof(*b));
		if (!b)
			return false;
		atomic_store_explicit(&u->begins, b, memory_order_release);
	}
	atomic_store_explicit(&b->of[grain], r, memory_order_release);
	atomic_fetch_or_explicit(&b->bits[grain / 64], 1ull << grain % 64,
				 memory_order_release);
	return true;
}

static bool enter(const struct extent_info *i, struct record *r)
{
	uint64_t at = ALIGN_UP(i->base, UNIT_BYTES), end = end_of(i);
	struct unit *u;

	if (at != i->base && !enter_begin(i->base, r))
		return false;
	for (; at < end; at += UNIT_BYTES) {
		u = unit_new(at);
		if (!u)
			return false;
		atomic_store_explicit(&u->over, r, memory_order_release);
	}
	return true;
}

static void take_out(struct record *r)
{
	static const struct extent_info none;
	struct extent_info i;
	struct begins *b;
	struct unit *u;
	unsigned grain;
	uint64_t at;

	read_record(r, &i);
	write_record(r, &none);
	grain = i.base % UNIT_BYTES / EXTENT_GRAIN;
	u = unit_at(i.base);
	b = u ? u->begins : NULL;
	if (b && b->of[grain] == r) {
		atomic_fetch_and_explicit(&b->bits[grain / 64], ~(1ull << grain % 64),
					  memory_order_relaxed);
		atomic_store_explicit(&b->of[grain], NULL, memory_order_relaxed);
	}
	for (at = ALIGN_UP(i.base, UNIT_BYTES); at < end_of(&i); at += UNIT_BYTES) {
		u = unit_at(at);
		if (u && u->over == r)
			atomic_store_explicit(&u->over, NULL, memory_order_relaxed);
	}
	r->used = false;
	r->next_free = free_records;
	free_records = r;
}

/* Bases are multiples of EXTENT_GRAIN, and units of the band begin where the band does.
 */
static bool can_keep(const struct extent_info *i)
{
	uint64_t end;

	return i->size && i->base % EXTENT_GRAIN == 0 &&
	       guest_process.band_base % UNIT_BYTES == 0 && in_band(i->base) &&
	       !__builtin_add_overflow(i->base, i->size, &end) && in_band(end - 1);
}

uint64_t extent_table_generation(void)
{
	return atomic_load(&generation);
}

void extent_table_add(const struct extent_info *info, uint64_t since)
{
	struct extent_info before;
	struct record *r;

	if (!can_keep(info))
		return;
	pthread_mutex_lock(&lock);
	/* Two threads may have asked about it. */
	r = find(info->base, &before) ? NULL : record_new();
	if (r) {
		write_record(r, info);
		/* Changing nothing, but in order with extent_table_drop(): either that
		 * is seen here, or what was entered is seen there. */
		if (!enter(info, r) || atomic_fetch_add(&generation, 0) != since)
			take_out(r);
	}
	pthread_mutex_unlock(&lock);
}

void extent_table_drop(uint64_t addr)
{
	struct extent_info i;
	struct record *r;

	atomic_fetch_add(&generation, 1);
	if (!find(addr, &i))
		return;
	pthread_mutex_lock(&lock);
	r = find(addr, &i);
	if (r)
		take_out(r);
	pthread_mutex_unlock(&lock);
}

void extent_table_clear(void)
{
	struct record *r;

	pthread_mutex_lock(&lock);
	atomic_fetch_add(&generation, 1);
	for (r = all; r; r = r->next_all) {
		if (r->used)
			take_out(r);
	}
	pthread_mutex_unlock(&lock);
}
