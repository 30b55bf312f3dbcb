/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "device/range.h"

static uint64_t range_end(const struct range *r)
{
	return r->start + r->size;
}

void range_fini(struct range_set *s)
{
	free(s->v);
	*s = (struct range_set){0};
}

size_t range_above(const struct range_set *s, uint64_t pos)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (range_end(&s->v[mid]) > pos)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

struct range *range_at(const struct range_set *s, uint64_t pos)
{
	size_t i = range_above(s, pos);

	return i < s->n && s->v[i].start <= pos ? &s->v[i] : NULL;
}

static int range_grow(struct range_set *s)
{
	size_t cap = s->cap ? s->cap * 2 : 64;
	struct range *v;

	if (s->n < s->cap)
		return 0;
	v = realloc(s->v, cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	s->v = v;
	s->cap = cap;
	return 0;
}

int range_insert(struct range_set *s, uint64_t start, uint64_t size, void *data)
{
	size_t i = range_above(s, start);

	if (!size || start + size < start)
		return -EINVAL;
	if (i < s->n && s->v[i].start < start + size)
		return -EEXIST;
	if (range_grow(s) < 0)
		return -ENOMEM;
	memmove(&s->v[i + 1], &s->v[i], (s->n - i) * sizeof(*s->v));
	s->v[i] = (struct range){start, size, data};
	s->n++;
	return 0;
}

void range_remove(struct range_set *s, size_t i, size_t n)
{
	memmove(&s->v[i], &s->v[i + n], (s->n - i - n) * sizeof(*s->v));
	s->n -= n;
}

/* Looks at the gaps before ranges [from, to), and before hi when to is s->n. */
static int range_gap_between(struct range_set *s, size_t from, size_t to, uint64_t lo,
			     uint64_t hi, uint64_t size, uint64_t align,
			     uint64_t *ret_start)
{
	for (size_t i = from; i <= to; i++) {
		uint64_t end = i < s->n ? MIN(s->v[i].start, hi) : hi;
		uint64_t start = i ? MAX(range_end(&s->v[i - 1]), lo) : lo;
		uint64_t at = ALIGN_UP(start, align);

		if (at < start || at >= end || end - at < size)
			continue;
		s->hint = i;
		*ret_start = at;
		return 0;
	}
	return -ENOSPC;
}

int range_gap(struct range_set *s, uint64_t lo, uint64_t hi, uint64_t size,
	      uint64_t align, uint64_t *ret_start)
{
	size_t hint = MIN(s->hint, s->n);

	if (range_gap_between(s, hint, s->n, lo, hi, size, align, ret_start) == 0)
		return 0;
	return range_gap_between(s, 0, hint, lo, hi, size, align, ret_start);
}
