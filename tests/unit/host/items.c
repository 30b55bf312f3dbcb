/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "items.h"

struct session *start(void)
{
	const struct device_config cfg = {
		.tpcs = 1, .memory_bytes = TOTAL, .granularity = PIECE, .threads = 1};

	return counted_session(&cfg);
}

static uint32_t *words; /* what is written and was read; one thread's */
static uint64_t words_bytes;

static void need_words(uint64_t bytes)
{
	if (bytes <= words_bytes)
		return;
	words = realloc(words, bytes);
	words_bytes = bytes;
}

/* TSan has nothing to find here, and would take most of the time. */
#define QUICK __attribute__((no_sanitize("thread")))

QUICK static uint32_t word(uint32_t seed, uint64_t i)
{
	return seed + (uint32_t)i * 2654435761u;
}

QUICK static void fill(uint64_t bytes, uint32_t seed)
{
	for (uint64_t i = 0; i < bytes / 4; i++)
		words[i] = word(seed, i);
}

QUICK static bool is_filled(uint64_t bytes, uint32_t seed)
{
	uint32_t wrong = 0;

	for (uint64_t i = 0; i < bytes / 4; i++)
		wrong |= words[i] ^ word(seed, i);
	return !wrong;
}

void write_item(struct session *s, struct item *it, uint32_t seed)
{
	need_words(it->bytes);
	it->seed = seed;
	fill(it->bytes, seed);
	OK(s->ops->copy.write(s->primary->dev, NULL, it->addr, words, it->bytes));
}

void check_item(struct session *s, const struct item *it)
{
	need_words(it->bytes);
	memset(words, 0, it->bytes);
	OK(s->ops->copy.read(s->primary->dev, NULL, words, it->addr, it->bytes));
	cr_assert(is_filled(it->bytes, it->seed));
}

void map_backing(struct session *s, CUdeviceptr addr, uint64_t size)
{
	struct backing *c;

	OK(backing_new(s->space, size, DEV_MEMORY_DEVICE, &c));
	OK(space_map(s->space, addr, size, c));
	backing_put(s->space, c);
}

struct item new_item(struct session *s, enum kind kind, uint64_t bytes, uint32_t seed)
{
	struct item it = {.kind = kind, .bytes = ALIGN_UP(bytes, 4)};
	uint64_t whole = ALIGN_UP(bytes, PAGE);

	switch (kind) {
	case SMALL:
	case LARGE:
		OK(space_alloc(s->space, it.bytes, 1, &it.addr));
		break;
	case ARENA:
		it.bytes = whole;
		OK(space_arena_new(s->space, whole, NULL, &it.addr));
		break;
	case RANGE:
		it.bytes = whole + PAGE;
		it.reserved = it.bytes + PAGE;
		OK(space_reserve(s->space, it.reserved, 0, 0, &it.addr));
		map_backing(s, it.addr, whole);
		map_backing(s, it.addr + whole, PAGE);
		OK(space_set_access(s->space, it.addr, it.bytes,
				    CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
		break;
	case KINDS:
		break;
	}
	write_item(s, &it, seed);
	return it;
}

void free_item(struct session *s, const struct item *it)
{
	switch (it->kind) {
	case SMALL:
	case LARGE:
		OK(space_release(s->space, it->addr));
		break;
	case ARENA:
		space_arena_free(s->space, it->addr);
		break;
	case RANGE:
		OK(space_unmap(s->space, it->addr, it->bytes));
		OK(space_unreserve(s->space, it->addr, it->reserved));
		break;
	case KINDS:
		break;
	}
}

uint64_t used_bytes(struct session *s)
{
	uint64_t used, peak;

	space_usage(s->space, &used, &peak);
	return used;
}

struct space_residency residency(struct session *s)
{
	struct space_residency r;

	space_residency(s->space, &r);
	return r;
}

void check_books(struct session *s)
{
	struct space_residency r = residency(s);
	uint64_t evicted = r.mapped + r.swapped;

	space_flush(s->space);
	cr_assert_eq(r.movable + r.pinned + evicted, used_bytes(s));
	cr_assert_eq(used_bytes(s), counted.charged);
	cr_assert_eq(r.movable + r.pinned, counted.on_device);
	cr_assert_geq(counted.in_host, evicted);
}

void within_reach(struct session *s)
{
	cr_assert_eq(space_map_swapped(s->space), 0);
	cr_assert_eq(residency(s).swapped, 0);
}
