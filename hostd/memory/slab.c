/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "memory/slab.h"

void slab_init(struct slab *s)
{
	memset(s, 0, offsetof(struct slab, id));
	s->free_units = SLAB_UNITS;
	s->full_above = SLAB_UNITS + 1;
}

static bool unit_used(const struct slab *s, unsigned u)
{
	return s->used[u / 64] >> (u % 64) & 1;
}

static void mark(struct slab *s, unsigned first, unsigned n, bool used)
{
	for (unsigned u = first; u < first + n;) {
		unsigned bit = u % 64;
		unsigned take = n - (u - first) < 64 - bit ? n - (u - first) : 64 - bit;
		uint64_t mask = (take == 64 ? ~0ull : (1ull << take) - 1) << bit;

		if (used)
			s->used[u / 64] |= mask;
		else
			s->used[u / 64] &= ~mask;
		u += take;
	}
}

/* The first unit >= u whose use is `used`, or SLAB_UNITS. */
static unsigned next_unit(const struct slab *s, unsigned u, bool used)
{
	while (u < SLAB_UNITS) {
		uint64_t w = used ? s->used[u / 64] : ~s->used[u / 64];

		w &= ~0ull << (u % 64);
		if (w)
			return u / 64 * 64 + (unsigned)__builtin_ctzll(w);
		u = (u / 64 + 1) * 64;
	}
	return SLAB_UNITS;
}

int64_t slab_alloc(struct slab *s, uint32_t bytes)
{
	unsigned n = slab_units(bytes), longest = 0;

	if (!n || n > s->free_units || n >= s->full_above)
		return -ENOSPC;
	for (unsigned u = next_unit(s, 0, false); u < SLAB_UNITS;) {
		unsigned end = next_unit(s, u, true);

		if (end - u >= n) {
			mark(s, u, n, true);
			s->bytes[u] = bytes;
			s->free_units -= n;
			s->live++;
			return (int64_t)u * SLAB_UNIT;
		}
		if (end - u > longest)
			longest = end - u;
		u = next_unit(s, end, false);
	}
	s->full_above = longest + 1;
	return -ENOSPC;
}

uint32_t slab_room(const struct slab *s)
{
	return MIN(s->free_units, s->full_above - 1);
}

int slab_free(struct slab *s, uint32_t offset)
{
	unsigned u = offset / SLAB_UNIT, n;

	if (offset % SLAB_UNIT || u >= SLAB_UNITS || !s->bytes[u])
		return -ENOENT;
	n = slab_units(s->bytes[u]);
	mark(s, u, n, false);
	s->bytes[u] = 0;
	s->free_units += n;
	s->live--;
	s->full_above = SLAB_UNITS + 1;
	return 0;
}

int slab_find(const struct slab *s, uint32_t offset, uint32_t *ret_base,
	      uint32_t *ret_bytes)
{
	unsigned u = offset / SLAB_UNIT;

	if (u >= SLAB_UNITS || !unit_used(s, u))
		return -ENOENT;
	while (!s->bytes[u]) /* a used unit has its first one at or before it */
		u--;
	if (offset >= u * SLAB_UNIT + s->bytes[u])
		return -ENOENT;
	*ret_base = u * SLAB_UNIT;
	*ret_bytes = s->bytes[u];
	return 0;
}
