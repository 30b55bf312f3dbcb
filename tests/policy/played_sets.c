/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory by `sets`: weftd's decisions, once a millisecond, over what workers would tell it. What
 * is reached in host memory is read over PCIe, at a thirtieth of the speed.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "line.h"
#include "played.h"

#define LOOK_US 1000.0
#define REMOTE  30.0
/* Turns, of so many microseconds at least, after which what was not reached is cold
 * (hostd/memory/cold.h). */
#define COLD_TURNS 8u
#define COLD_US    100000.0
#define MAX(a, b)  ((a) > (b) ? (a) : (b))
#define MIN(a, b)  ((a) < (b) ? (a) : (b))

struct page {
	bool here;
	uint32_t launch, turn; /* in which it was reached last */
};

struct who {
	const struct program *p;
	struct page *pages;
	uint32_t at, launches, turns;
	double left;    /* part of the launch that is still to do */
	double turn_us; /* since its turn began, or the last one that counts */
	uint64_t here, here_cold, out_cold;
};

struct play {
	const struct scene *s;
	struct time_device device;
	struct time_tenant *t;
	struct time_turn *turn;
	struct placement_tenant *places;
	struct placement_piece *pieces;
	struct who *who;
	uint64_t piece;
	double out_credit,
		in_credit; /* bytes that the link has carried less than it can */
	double hits, reached, moved, ran_us;
	bool counts;
};

static uint64_t bytes_of(const struct program *p)
{
	return p->page * p->n_pages;
}

/* ---- memory ---- */

static bool is_cold(const struct who *w, const struct page *page)
{
	return w->turns > COLD_TURNS && page->turn + COLD_TURNS < w->turns;
}

static void count(struct who *w)
{
	w->here = w->here_cold = w->out_cold = 0;
	for (uint32_t i = 0; i < w->p->n_pages; i++) {
		const struct page *page = &w->pages[i];

		w->here += page->here ? w->p->page : 0;
		if (is_cold(w, page))
			*(page->here ? &w->here_cold : &w->out_cold) += w->p->page;
	}
}

static void snapshot(struct play *p, struct placement_device *d)
{
	*d = (struct placement_device){.total = p->s->memory,
				       .free = p->s->memory,
				       .host_room = UINT64_MAX,
				       .piece = p->piece};
	for (uint32_t i = 0; i < p->s->n; i++) {
		const struct who *w = &p->who[i];
		struct placement_tenant *t = &p->places[i];

		t->resident = t->movable = w->here;
		t->cold = w->here_cold;
		t->evicted = bytes_of(w->p) - w->here - w->out_cold;
		d->free -= MIN(w->here, d->free);
	}
}

/* Pages of one that may move, as placement sees them; the number of them. */
static size_t list_pages(struct play *p, const struct who *w, bool here)
{
	size_t n = 0;

	for (uint32_t i = 0; i < w->p->n_pages; i++) {
		const struct page *page = &w->pages[i];

		if (page->here != here || (!here && is_cold(w, page)))
			continue;
		p->pieces[n++] = (struct placement_piece){
			.id = i,
			.size = w->p->page,
			.age = w->launches - page->launch,
			.allocation_bytes = bytes_of(w->p),
		};
	}
	return n;
}

/* Moves pages of one tenant, as many bytes as it was told; false: none could. */
static bool move_pages(struct play *p, const struct placement_step *step, bool out)
{
	struct who *w = &p->who[step->tenant];
	size_t n = list_pages(p, w, out);
	double *credit = out ? &p->out_credit : &p->in_credit;

	n = out ? placement_lru.pieces_leave(p->pieces, n, step->bytes, UINT64_MAX, 1)
		: placement_lru.pieces_come(p->pieces, n, step->bytes, 1);
	for (size_t i = 0; i<n && * credit> 0; i++) {
		w->pages[p->pieces[i].id].here = !out;
		*credit -= (double)w->p->page;
		p->moved += p->counts && !out ? (double)w->p->page : 0;
	}
	count(w);
	return n;
}

static void move(struct play *p)
{
	struct placement_device d;
	struct placement_step step;

	p->out_credit = MIN(p->out_credit, 0) + PLAYED_LINK * LOOK_US;
	p->in_credit = MIN(p->in_credit, 0) + PLAYED_LINK * LOOK_US;
	do
		snapshot(p, &d);
	while (p->out_credit > 0 &&
	       placement_lru.relieve(&d, p->places, p->s->n, &step) == 0 &&
	       move_pages(p, &step, true));
	do
		snapshot(p, &d);
	while (p->in_credit > 0 &&
	       placement_lru.returns(&d, p->places, p->s->n, &step) == 0 &&
	       move_pages(p, &step, false));
}

/* ---- turns ---- */

static void see(const struct who *w, struct time_tenant *t)
{
	t->all = bytes_of(w->p);
	t->set = t->all - w->here_cold - w->out_cold;
	line_see(t, true, t->all - w->here - w->out_cold);
	t->pending = 1000;
}

static void end_turn(struct who *w)
{
	if (w->turn_us < COLD_US)
		return;
	w->turn_us = 0;
	w->turns++;
	count(w);
}

/* Whether somebody's turn has ended, and what it had submitted is to end first. */
static bool take_turns(struct play *p)
{
	bool changes = line_take_turns(&p->device, p->t, p->s->n, p->turn);

	for (uint32_t i = 0; i < p->s->n; i++) {
		if (!p->t[i].goes && !p->t[i].for_us)
			end_turn(&p->who[i]);
	}
	return changes;
}

/* ---- computing ---- */

/* A launch begins: how much longer than usual it takes. */
static double reach(struct play *p, struct who *w)
{
	const struct played_launch *l = &w->p->launches[w->at];
	uint32_t there = 0;

	w->launches++;
	for (uint32_t k = 0; k < l->n_runs; k++) {
		for (uint32_t i = 0; i < l->runs[k].n; i++) {
			struct page *page = &w->pages[l->runs[k].first + i];

			there += page->here;
			page->launch = w->launches;
			page->turn = w->turns;
		}
	}
	if (p->counts) {
		p->hits += there;
		p->reached += l->n_pages;
	}
	return (there + REMOTE * (l->n_pages - there)) / l->n_pages;
}

static void compute(struct play *p, struct who *w, double us)
{
	w->turn_us += us;
	while (us > 0) {
		const struct played_launch *l = &w->p->launches[w->at];

		/* left: microseconds that the launch still takes. */
		if (w->left <= 0)
			w->left = l->us * reach(p, w);
		if (w->left > us) {
			w->left -= us;
			return;
		}
		us -= w->left;
		w->left = 0;
		p->ran_us += p->counts ? l->us : 0;
		w->at = (w->at + 1) % w->p->n_launches;
	}
}

static void look(struct play *p)
{
	uint32_t go = 0;
	bool drains;

	for (uint32_t i = 0; i < p->s->n; i++)
		see(&p->who[i], &p->t[i]);
	drains = take_turns(p);
	line_up(p->turn, p->places, p->s->n);
	move(p);
	for (uint32_t i = 0; i < p->s->n; i++)
		go += p->t[i].goes;
	for (uint32_t i = 0; i < p->s->n && !drains; i++) {
		if (p->t[i].goes)
			compute(p, &p->who[i], LOOK_US / go);
	}
}

/* Memory is where it was allocated: on the device, while there was room. */
static void fill(struct play *p)
{
	uint64_t room = p->s->memory;

	for (uint32_t i = 0; i < p->s->n; i++) {
		struct who *w = &p->who[i];

		for (uint32_t k = 0; k < w->p->n_pages && w->p->page <= room; k++) {
			w->pages[k].here = true;
			room -= w->p->page;
		}
		count(w);
	}
}

static void begin(struct play *p)
{
	const struct scene *s = p->s;
	uint32_t most = 0;

	p->device.memory = s->memory;
	p->t = played_get(s->n, sizeof(*p->t));
	p->turn = played_get(s->n, sizeof(*p->turn));
	p->places = played_get(s->n, sizeof(*p->places));
	p->who = played_get(s->n, sizeof(*p->who));
	for (uint32_t i = 0; i < s->n; i++) {
		const struct program *is = s->programs[i];

		p->who[i] = (struct who){
			.p = is, .pages = played_get(is->n_pages, sizeof(struct page))};
		p->t[i] = (struct time_tenant){
			.weight = 100, .sessions = 1, .goes = true, .for_us = UINT32_MAX};
		p->places[i] = (struct placement_tenant){.weight = 100,
							 .evicted_room = UINT64_MAX,
							 .high = UINT64_MAX,
							 .max = UINT64_MAX};
		p->piece = MAX(p->piece, is->page);
		most = MAX(most, is->n_pages);
	}
	p->pieces = played_get(most, sizeof(*p->pieces));
	fill(p);
}

struct outcome play_sets(const struct scene *s)
{
	struct play p = {.s = s};
	uint32_t looks = (uint32_t)(s->seconds * 1e6 / LOOK_US);
	struct outcome o;

	begin(&p);
	for (uint32_t i = 0; i < looks; i++) {
		p.counts = i >= looks / 2;
		look(&p);
	}
	o = (struct outcome){.hits = p.reached > 0 ? p.hits / p.reached : 0,
			     .moved = p.ran_us > 0 ? p.moved / p.ran_us * 1e6 : 0,
			     .device = p.ran_us / ((looks - looks / 2) * LOOK_US)};
	for (uint32_t i = 0; i < s->n; i++)
		free(p.who[i].pages);
	free(p.who);
	free(p.t);
	free(p.turn);
	free(p.places);
	free(p.pieces);
	return o;
}
