/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "util/range.h"

static uint64_t range_end(const struct range *r)
{
	return r->start + r->size;
}

static struct range *range_of(struct tree_node *n)
{
	return n ? container_of(n, struct range, node) : NULL;
}

void range_fini(struct range_set *s)
{
	while (s->tree.root)
		range_remove(s, range_of(s->tree.root));
	*s = (struct range_set){0};
}

struct range *range_at(const struct range_set *s, uint64_t pos)
{
	struct range *r = range_of(tree_at_most(&s->tree, pos));

	return r && range_end(r) > pos ? r : NULL;
}

struct range *range_above(const struct range_set *s, uint64_t pos)
{
	struct range *r = range_at(s, pos);

	return r ? r : range_of(tree_at_least(&s->tree, pos));
}

struct range *range_next(const struct range_set *s, const struct range *r)
{
	return range_of(tree_next(&s->tree, &r->node));
}

int range_insert(struct range_set *s, uint64_t start, uint64_t size, void *data)
{
	struct range *r = range_above(s, start);

	if (!size || start + size < start)
		return -EINVAL;
	if (r && r->start < start + size)
		return -EEXIST;
	r = malloc(sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct range){
		.node.key = start, .start = start, .size = size, .data = data};
	tree_insert(&s->tree, &r->node);
	return 0;
}

void range_remove(struct range_set *s, struct range *r)
{
	tree_remove(&s->tree, &r->node);
	free(r);
}

/* In the first gap from lo on that is large enough. */
static int range_gap_from(struct range_set *s, uint64_t lo, uint64_t hi, uint64_t size,
			  uint64_t align, uint64_t *ret_start)
{
	struct range *r = range_above(s, lo);

	while (lo < hi) {
		uint64_t end = r ? MIN(r->start, hi) : hi, at = ALIGN_UP(lo, align);

		if (at >= lo && at < end && end - at >= size) {
			s->hint = *ret_start = at;
			return 0;
		}
		if (!r)
			break;
		lo = range_end(r);
		r = range_next(s, r);
	}
	return -ENOSPC;
}

int range_gap(struct range_set *s, uint64_t lo, uint64_t hi, uint64_t size,
	      uint64_t align, uint64_t *ret_start)
{
	if (range_gap_from(s, MAX(s->hint, lo), hi, size, align, ret_start) == 0)
		return 0;
	return range_gap_from(s, lo, hi, size, align, ret_start);
}
