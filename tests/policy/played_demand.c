/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory on demand: who goes when depends on nothing that moves, so all that will be reached is
 * known beforehand, and each page's next time with it.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "played.h"

struct reference {
	uint32_t page; /* of all programs' */
	uint32_t next; /* index of the next reference to it; UINT32_MAX: there is none */
	uint32_t turn;
};

struct play {
	const struct scene *s;
	struct reference *refs;
	uint32_t n, n_pages, n_turns;
	uint32_t *base;  /* of each program's pages */
	uint64_t *bytes; /* of each page */
	double *turn_us; /* of computing */
	double us;
};

static void add_launch(struct play *p, uint32_t i, const struct played_launch *l,
		       uint32_t *room)
{
	for (uint32_t k = 0; k < l->n_runs; k++) {
		for (uint32_t j = 0; j < l->runs[k].n; j++) {
			if (p->n == *room) {
				*room = *room ? 2 * *room : 4096;
				p->refs = realloc(p->refs, *room * sizeof(*p->refs));
				if (!p->refs)
					abort();
			}
			p->refs[p->n++] = (struct reference){.page = p->base[i] +
								     l->runs[k].first + j,
							     .turn = p->n_turns};
		}
	}
	p->us += l->us;
	p->turn_us[p->n_turns] += l->us;
}

/* All references of so many seconds of computing, by turns. */
static void write_down(struct play *p)
{
	const struct scene *s = p->s;
	uint32_t *at = played_get(s->n, sizeof(*at)), room = 0, *later;
	uint32_t most = (uint32_t)(s->seconds * 1e6 / s->turn_us) + 2;

	p->turn_us = played_get(most, sizeof(*p->turn_us));
	for (uint32_t i = 0; p->us < s->seconds * 1e6 && p->n_turns < most;
	     p->n_turns++) {
		while (p->turn_us[p->n_turns] < s->turn_us) {
			add_launch(p, i, &s->programs[i]->launches[at[i]], &room);
			at[i] = (at[i] + 1) % s->programs[i]->n_launches;
		}
		i = (i + 1) % s->n;
	}
	later = played_get(p->n_pages, sizeof(*later));
	memset(later, 0xff, p->n_pages * sizeof(*later));
	for (uint32_t k = p->n; k-- > 0;) {
		p->refs[k].next = later[p->refs[k].page];
		later[p->refs[k].page] = k;
	}
	free(later);
	free(at);
}

static struct play *play_new(const struct scene *s)
{
	struct play *p = played_get(1, sizeof(*p));

	p->s = s;
	p->base = played_get(s->n, sizeof(*p->base));
	for (uint32_t i = 0; i < s->n; i++) {
		p->base[i] = p->n_pages;
		p->n_pages += s->programs[i]->n_pages;
	}
	p->bytes = played_get(p->n_pages, sizeof(*p->bytes));
	for (uint32_t i = 0; i < s->n; i++) {
		for (uint32_t k = 0; k < s->programs[i]->n_pages; k++)
			p->bytes[p->base[i] + k] = s->programs[i]->page;
	}
	write_down(p);
	return p;
}

static void play_free(struct play *p)
{
	free(p->base);
	free(p->bytes);
	free(p->refs);
	free(p->turn_us);
	free(p);
}

/* ---- which page leaves: the one with the least key ---- */

struct heap {
	uint32_t *page, *where; /* where: of each page, from 1 on; 0: not there */
	double *key;            /* of each page */
	uint32_t n;
};

static void put(struct heap *h, uint32_t at, uint32_t page)
{
	h->page[at] = page;
	h->where[page] = at + 1;
}

static void settle(struct heap *h, uint32_t at)
{
	uint32_t page = h->page[at];

	while (at && h->key[h->page[(at - 1) / 2]] > h->key[page]) {
		put(h, at, h->page[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;) {
		uint32_t down = 2 * at + 1;

		if (down >= h->n)
			break;
		if (down + 1 < h->n && h->key[h->page[down + 1]] < h->key[h->page[down]])
			down++;
		if (h->key[h->page[down]] >= h->key[page])
			break;
		put(h, at, h->page[down]);
		at = down;
	}
	put(h, at, page);
}

static void set_key(struct heap *h, uint32_t page, double key)
{
	h->key[page] = key;
	if (!h->where[page])
		put(h, h->n++, page);
	settle(h, h->where[page] - 1);
}

static uint32_t take_least(struct heap *h)
{
	uint32_t page = h->page[0];

	h->where[page] = 0;
	if (--h->n) {
		put(h, 0, h->page[h->n]);
		settle(h, 0);
	}
	return page;
}

/* ---- playing ---- */

/* Bytes that come in each turn, by either order; the first half, in which all comes for the first
 * time, does not count. */
static double come(struct play *p, bool optimum, double *in, double *ret_hits)
{
	struct heap h = {played_get(p->n_pages, sizeof(*h.page)),
			 played_get(p->n_pages, sizeof(*h.where)),
			 played_get(p->n_pages, sizeof(*h.key)), 0};
	uint64_t there = 0;
	double hits = 0, all = 0, bytes = 0;

	for (uint32_t k = 0; k < p->n; k++) {
		const struct reference *r = &p->refs[k];
		bool counts = r->turn >= p->n_turns / 2, hit = h.where[r->page];

		if (!hit) {
			while (h.n && there + p->bytes[r->page] > p->s->memory)
				there -= p->bytes[take_least(&h)];
			there += p->bytes[r->page];
			in[r->turn] += (double)p->bytes[r->page];
		}
		set_key(&h, r->page, optimum ? -(double)r->next : (double)k);
		hits += counts && hit;
		all += counts;
		bytes += counts && !hit ? (double)p->bytes[r->page] : 0;
	}
	free(h.page);
	free(h.where);
	free(h.key);
	*ret_hits = all > 0 ? hits / all : 1;
	return bytes;
}

static struct outcome play(const struct scene *s, bool optimum)
{
	struct play *p = play_new(s);
	double *in = played_get(p->n_turns, sizeof(*in)), bytes, us = 0, all = 0,
	       behind = 0;
	struct outcome o = {0};

	bytes = come(p, optimum, in, &o.hits);
	for (uint32_t i = p->n_turns / 2; i < p->n_turns; i++) {
		us += p->turn_us[i];
		/* Moved in its turn, in which nobody computes meanwhile; or at any time before,
		 * by one link. */
		all += optimum ? 0 : p->turn_us[i] + in[i] / PLAYED_LINK;
		behind += in[i] / PLAYED_LINK;
	}
	if (optimum)
		all = fmax(us, behind);
	o.moved = bytes / us * 1e6;
	o.device = us / all;
	free(in);
	play_free(p);
	return o;
}

struct outcome play_lru(const struct scene *s)
{
	return play(s, false);
}

struct outcome play_optimum(const struct scene *s)
{
	return play(s, true);
}
