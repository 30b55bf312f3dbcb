/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>

#include "base/macros.h"
#include "profile/compare.h"

struct told {
	const struct launch *l;
	struct spans spans; /* whole pieces */
	bool open, short_of_memory;
};

static void add_pieces(struct told *t, uint64_t from, uint64_t to)
{
	if (from < to &&
	    spans_add(&t->spans, ALIGN_DOWN(from, PIECE), ALIGN_UP(to, PIECE)) < 0)
		t->short_of_memory = true;
}

/* bytes of 0: nobody knows how many. */
static void hear(void *arg, uint64_t addr, uint64_t bytes)
{
	struct told *t = arg;
	const struct span *m;

	if (!bytes) {
		m = spans_find(&t->l->memory, addr);
		if (m)
			add_pieces(t, m->from, m->to);
		t->open |= m != NULL;
		return;
	}
	for (size_t i = 0; i < t->l->memory.n; i++) {
		m = &t->l->memory.v[i];
		add_pieces(t, MAX(m->from, addr), MIN(m->to, addr + bytes));
	}
}

static void hear_all(struct told *t)
{
	for (size_t o = 0; o + 8 <= t->l->size; o += 8)
		hear(t, launch_word(t->l, o, 8), 0);
}

static uint64_t pieces(const struct spans *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += (s->v[i].to - s->v[i].from) / PIECE;
	return n;
}

static uint64_t pieces_of_both(const struct spans *a, const struct spans *b)
{
	uint64_t n = 0;

	for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
		uint64_t from = MAX(a->v[i].from, b->v[j].from);
		uint64_t to = MIN(a->v[i].to, b->v[j].to);

		n += from < to ? (to - from) / PIECE : 0;
		if (a->v[i].to < b->v[j].to)
			i++;
		else
			j++;
	}
	return n;
}

int compare_launch(const struct ptx_extent *e, const struct launch *l, struct compared *c)
{
	struct told told = {.l = l, .open = e && ptx_extent_follows(e)};
	struct told reached = {.l = l};
	uint64_t both;

	if (e)
		ptx_extent_each(e, l->params, l->size, &l->shape, PIECE, hear, &told);
	else
		hear_all(&told);
	for (size_t i = 0; i < l->reached.n; i++)
		add_pieces(&reached, l->reached.v[i].from, l->reached.v[i].to);
	spans_join(&told.spans);
	spans_join(&reached.spans);
	both = pieces_of_both(&told.spans, &reached.spans);
	c->launches++;
	c->open += told.open;
	c->reached += pieces(&reached.spans);
	c->missed += pieces(&reached.spans) - both;
	c->extra += pieces(&told.spans) - both;
	spans_free(&told.spans);
	spans_free(&reached.spans);
	return told.short_of_memory || reached.short_of_memory ? -ENOMEM : 0;
}
