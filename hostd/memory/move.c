/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choice of what moves, and how much. Pieces that could move are written down once, the
 * policy puts them in order, and then each is looked up again: other lanes go on
 * meanwhile.
 */
#include <errno.h>
#include <stdlib.h>

#include "memory/hostpool.h"
#include "memory/region.h"
#include "memory/touch.h"
#include "memory/transfer.h"

#define PIECE_MAX (64ull << 20)
/* Half a second's making; who wants more is not to wait for all of it before anything
 * moves. */
#define PREPARE_MAX (4ull << 30)

/* Pieces that could move, as the policy sees them; the id is the address. */
struct candidates {
	struct placement_piece *c;
	size_t n, room;
};

static bool add(struct candidates *cs, const struct placement_piece *one)
{
	if (cs->n == cs->room) {
		size_t room = MAX(2 * cs->room, (size_t)256);
		void *p = reallocarray(cs->c, room, sizeof(*cs->c));

		if (!p)
			return false;
		cs->c = p;
		cs->room = room;
	}
	cs->c[cs->n++] = *one;
	return true;
}

/* Marks seen so far of a backing's pieces, in ascending order. */
struct seen {
	uint32_t last;   /* as touch_latest() has it */
	uint32_t latest; /* of all */
};

/* Launches since the memory at addr was named; of backings without marks, others that
 * came since. */
static uint64_t age_of(const struct space *sp, const struct backing *c, CUdeviceptr addr,
		       uint64_t offset, uint64_t size, struct seen *s)
{
	const struct touch *t = sp->env->touch;
	uint32_t named;

	if (!t->pages)
		return sp->next_id - c->id;
	named = touch_latest(t, addr + offset, size, &s->last);
	s->latest = MAX(s->latest, named);
	if (sp->turns) /* as cold.h says */
		named = s->latest;
	return touch_now(t) - MAX(named, touch_reached(t, addr + offset, size));
}

/* The pieces from the i-th on that are in its state and could return as one. How many;
 * 1: it by itself. */
static unsigned joinable(const struct space *sp, const struct backing *c, unsigned i,
			 uint64_t largest, uint64_t *ret_size)
{
	uint64_t first = c->piece[i].offset;
	uint64_t most = SPACE_RETURN_PIECES * sp->piece_bytes;
	uint64_t size = MIN(most, c->size - first), sum = 0;
	unsigned n = 0;

	*ret_size = c->piece[i].size;
	if (first % most || size > largest)
		return 1;
	while (i + n < c->n_pieces && sum < size &&
	       c->piece[i + n].state == c->piece[i].state)
		sum += c->piece[i + n++].size;
	if (sum != size)
		return 1;
	*ret_size = size;
	return n;
}

/* The pieces of a backing that are in one state; those that are evicted together if
 * possible.
 */
static bool add_pieces(const struct space *sp, struct candidates *cs,
		       const struct backing *c, enum piece_state state, uint64_t largest)
{
	const struct mapping *m =
		list_entry(c->mappings.next, const struct mapping, in_backing);
	struct seen seen = {.latest = named_before_locked(sp, m)}, all = seen;
	uint64_t age = age_of(sp, c, m->addr, 0, c->size, &all);
	unsigned n;

	for (unsigned i = 0; i < c->n_pieces; i += n) {
		const struct piece *p = &c->piece[i];
		struct placement_piece one = {
			.id = m->addr + p->offset,
			.size = p->size,
			.allocation_bytes = c->size,
			.allocation_age = age,
		};

		n = 1;
		if (p->state == state && state != PIECE_RESIDENT)
			n = joinable(sp, c, i, largest, &one.size);
		/* Every piece is asked: one never named goes with the one before it. */
		one.age = age_of(sp, c, m->addr, p->offset, one.size, &seen);
		if (p->state == state && one.size <= largest && !add(cs, &one))
			return false;
	}
	return true;
}

/* ---- out ---- */

static int find_leaving(struct space *sp, struct candidates *cs)
{
	struct backing *c;
	bool ok = true;

	pthread_mutex_lock(&sp->lock);
	list_for_each (c, &sp->all, in_space) {
		if (ok && backing_movable(c) && c->bytes[PIECE_RESIDENT])
			ok = add_pieces(sp, cs, c, PIECE_RESIDENT, UINT64_MAX);
	}
	pthread_mutex_unlock(&sp->lock);
	return ok ? 0 : -ENOMEM;
}

/* The first ones that are enough, without those that are too large. */
static size_t first_that_fit(const struct candidates *cs, uint64_t bytes, uint64_t room)
{
	uint64_t sum = 0;
	size_t k = 0;

	for (size_t i = 0; i < cs->n && sum < bytes; i++) {
		if (cs->c[i].size > room - sum)
			continue;
		sum += cs->c[i].size;
		cs->c[k++] = cs->c[i];
	}
	return k;
}

static size_t choose_leaving(const struct space *sp, const struct candidates *cs,
			     uint64_t bytes, uint64_t room, uint64_t seed)
{
	return sp->placement
		       ? sp->placement->pieces_leave(cs->c, cs->n, bytes, room, seed)
		       : first_that_fit(cs, bytes, room);
}

/* Adds the host pieces that a piece of `bytes` will lie in to wants[], by their class. */
static void add_wants(const struct space *sp, uint64_t bytes, uint64_t *wants)
{
	uint64_t size = sp->piece_bytes;

	wants[__builtin_ctzll(size)] += ALIGN_DOWN(bytes, size);
	for (bytes %= size; bytes; bytes -= size) {
		size = piece_size(sp, bytes);
		wants[__builtin_ctzll(size)] += size;
	}
}

/* Host memory for the first k, of at most so many bytes. */
static void make_ready(struct space *sp, const struct candidates *cs, size_t k,
		       uint64_t most)
{
	uint64_t wants[HOSTPOOL_CLASSES] = {0};

	for (size_t i = 0; i < k && most; i++) {
		uint64_t bytes = MIN(cs->c[i].size, most);

		add_wants(sp, bytes, wants);
		most -= bytes;
	}
	hostpool_fill(sp->hostpool, wants);
}

/* Moves out what it finds at first. */
static void leave_once(struct mover *mv, uint64_t bytes, uint64_t room,
		       enum piece_state to)
{
	struct candidates cs = {0};
	size_t k = 0;

	if (find_leaving(mv->sp, &cs) < 0)
		mv->error = -ENOMEM;
	else if (cs.n)
		k = choose_leaving(mv->sp, &cs, bytes, room, mv->run);
	/* Now, and not between the copies, which would wait for it. */
	make_ready(mv->sp, &cs, k, UINT64_MAX);
	for (size_t i = 0; i < k && !mv->error; i++)
		mover_out(mv, cs.c[i].id, cs.c[i].size,
			  cold_is(mv->sp, cs.c[i].age) ? PIECE_MAPPED : to);
	mover_drain(mv);
	free(cs.c);
}

void space_move_prepare(struct space *sp, uint64_t bytes, uint64_t room)
{
	struct candidates cs = {0};
	uint64_t run;

	pthread_mutex_lock(&sp->lock);
	run = sp->runs + 1; /* most likely the one that moves it */
	pthread_mutex_unlock(&sp->lock);
	if (find_leaving(sp, &cs) == 0 && cs.n)
		make_ready(sp, &cs, choose_leaving(sp, &cs, bytes, room, run),
			   PREPARE_MAX);
	free(cs.c);
}

void space_only_copies(struct space *sp, bool on)
{
	sp->only_copies = on;
}

int space_move_out(struct space *sp, uint64_t bytes, uint64_t room,
		   enum placement_where where, struct space_moved *ret)
{
	enum piece_state to = where == PLACE_MAPPED ? PIECE_MAPPED : PIECE_SWAPPED;
	struct mover mv;
	uint64_t before;
	int r;

	*ret = (struct space_moved){0};
	space_flush(sp); /* the device is to have what nobody uses */
	r = mover_init(&mv, sp, true);
	if (r < 0)
		return r;
	do {
		before = mv.moved;
		leave_once(&mv, bytes - mv.moved, room - mv.moved, to);
	} while (!mv.error && mv.moved < bytes && mv.moved > before);
	mover_fini(&mv);
	ret->bytes = mv.moved;
	ret->unchanged = mv.unchanged;
	return mv.error ? mv.error : mv.moved < bytes ? -ENOSPC : 0;
}

void space_on_left(struct space *sp, void (*left)(void *arg, uint64_t bytes), void *arg)
{
	pthread_mutex_lock(&sp->lock);
	sp->left = left;
	sp->left_arg = arg;
	pthread_mutex_unlock(&sp->lock);
}

/* ---- in ---- */

static int find_coming(struct space *sp, enum piece_state from, uint64_t bytes,
		       struct candidates *cs)
{
	struct backing *c;
	bool ok = true;

	pthread_mutex_lock(&sp->lock);
	list_for_each (c, &sp->all, in_space) {
		if (ok && c->share == BACKING_OWN && c->n_mappings && c->bytes[from])
			ok = add_pieces(sp, cs, c, from, bytes);
	}
	pthread_mutex_unlock(&sp->lock);
	return ok ? 0 : -ENOMEM;
}

static size_t choose_coming(const struct space *sp, const struct candidates *cs,
			    uint64_t bytes, uint64_t seed)
{
	return sp->placement ? sp->placement->pieces_come(cs->c, cs->n, bytes, seed)
			     : first_that_fit(cs, bytes, bytes);
}

static void come_once(struct mover *mv, enum piece_state from, uint64_t bytes)
{
	struct candidates cs = {0};
	size_t k = 0;

	if (find_coming(mv->sp, from, bytes, &cs) < 0)
		mv->error = -ENOMEM;
	else if (cs.n)
		k = choose_coming(mv->sp, &cs, bytes, mv->run);
	for (size_t i = 0; i < k && !mv->error; i++)
		mover_in(mv, cs.c[i].id, cs.c[i].size);
	mover_drain(mv);
	free(cs.c);
}

/* Brings back up to `bytes`, in rounds: where a run is too long, pieces fill the rest. */
static void come(struct mover *mv, enum piece_state from, uint64_t bytes)
{
	uint64_t before;

	do {
		before = mv->moved;
		come_once(mv, from, bytes - mv->moved);
	} while (!mv->error && mv->moved < bytes && mv->moved > before);
}

int space_move_in(struct space *sp, uint64_t bytes, struct space_moved *ret)
{
	struct mover mv;
	int r;

	ret->bytes = 0;
	r = mover_init(&mv, sp, true);
	if (r < 0)
		return r;
	come(&mv, PIECE_SWAPPED, bytes);
	if (!mv.error && mv.moved < bytes)
		come(&mv, PIECE_MAPPED, bytes);
	mover_fini(&mv);
	ret->bytes = mv.moved;
	return mv.error;
}

/* ---- home ---- */

void space_on_make_resident(struct space *sp,
			    int (*make_resident)(void *arg, struct backing *c,
						 uint64_t bytes),
			    void *arg)
{
	pthread_mutex_lock(&sp->lock);
	sp->make_resident = make_resident;
	sp->make_resident_arg = arg;
	pthread_mutex_unlock(&sp->lock);
}

static void make_resident_once(struct mover *mv, const struct backing *c,
			       enum piece_state from, uint64_t bytes)
{
	struct candidates cs = {0};
	size_t k;

	pthread_mutex_lock(&mv->sp->lock);
	if (c->n_mappings && !add_pieces(mv->sp, &cs, c, from, bytes))
		mv->error = -ENOMEM;
	pthread_mutex_unlock(&mv->sp->lock);
	k = first_that_fit(&cs, bytes, bytes);
	for (size_t i = 0; i < k && !mv->error; i++)
		mover_in(mv, cs.c[i].id, cs.c[i].size);
	mover_drain(mv);
	free(cs.c);
}

int space_make_resident(struct space *sp, struct backing *c, uint64_t bytes,
			struct space_moved *ret)
{
	struct mover mv;
	int r;

	ret->bytes = 0;
	r = mover_init(&mv, sp, true);
	if (r < 0)
		return r;
	make_resident_once(&mv, c, PIECE_SWAPPED, bytes);
	if (!mv.error)
		make_resident_once(&mv, c, PIECE_MAPPED, bytes - mv.moved);
	mover_fini(&mv);
	ret->bytes = mv.moved;
	return mv.error;
}

/* ---- where it is ---- */

static int map_once(struct space *sp, uint64_t *ret_bytes)
{
	struct candidates cs = {0};
	struct mover mv;
	int r;

	*ret_bytes = 0;
	r = find_coming(sp, PIECE_SWAPPED, UINT64_MAX, &cs);
	if (r == 0) {
		mover_init(&mv, sp, false);
		for (size_t i = 0; i < cs.n && !mv.error; i++)
			mover_map(&mv, cs.c[i].id, cs.c[i].size);
		mover_fini(&mv);
		*ret_bytes = mv.moved;
		r = mv.error;
	}
	free(cs.c);
	return r;
}

int space_map_swapped(struct space *sp)
{
	uint64_t bytes;
	int r;

	/* Pieces left of a backing for which somebody waited are looked up again. */
	do {
		r = map_once(sp, &bytes);
	} while (r == 0 && bytes);
	return r ? -EIO : 0;
}

void space_residency(struct space *sp, struct space_residency *ret)
{
	pthread_mutex_lock(&sp->lock);
	*ret = sp->residency;
	pthread_mutex_unlock(&sp->lock);
}

/* ---- what it is set to ---- */

static void set_extent(struct space *sp)
{
	sp->extent_bytes =
		sp->placement ? SPACE_EXTENT_PIECES * sp->piece_bytes : DEVICE_BAND_SIZE;
}

void space_set_placement(struct space *sp, const struct placement *policy)
{
	sp->placement = policy;
	set_extent(sp);
}

void space_set_turns(struct space *sp)
{
	sp->turns = true;
	sp->env->touch->wants_extents = true;
	sp->compares = sp->env->ops->copy.digest && digest_key_new(&sp->digests) == 0;
}

int space_set_piece(struct space *sp, uint64_t bytes)
{
	if (bytes & (bytes - 1) || bytes < sp->env->granularity || bytes > PIECE_MAX)
		return -EINVAL;
	sp->piece_bytes = bytes;
	set_extent(sp);
	return 0;
}

void space_host_pool_set(struct space *sp, uint64_t bytes)
{
	hostpool_set(sp->hostpool, bytes);
}

void space_host_wants(void *arg, uint64_t bytes[HOSTPOOL_CLASSES])
{
	struct space *sp = arg;
	struct backing *c;

	pthread_mutex_lock(&sp->lock);
	list_for_each (c, &sp->all, in_space) {
		for (unsigned i = 0; i < c->n_pieces && backing_movable(c); i++) {
			if (c->piece[i].state == PIECE_RESIDENT)
				add_wants(sp, c->piece[i].size, bytes);
		}
	}
	pthread_mutex_unlock(&sp->lock);
}
