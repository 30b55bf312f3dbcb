/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated device with many tenants that want, free and go at random; moves take no
 * time. Whatever they do, shares are fair within a piece, promises are kept, and nothing
 * goes to and fro.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "policies/placement.h"
#include "random.h"

#define MOST  24
#define PIECE 64ull

struct sim {
	const struct placement *p;
	uint64_t rng, trace;
	bool rough; /* pinned memory, busy tenants, little host memory, odd sizes */
	struct placement_device d;
	struct placement_tenant t[MOST];
	uint32_t n;
	uint64_t reserve;          /* while tenants want more than there is */
	uint64_t host_total, gone; /* bytes that moved, ever */
	unsigned refused, granted;
};

static void trace(struct sim *s, uint64_t what, uint64_t who, uint64_t bytes)
{
	s->trace = (s->trace ^ what ^ who << 8 ^ bytes << 16) * 0x100000001b3;
}

static uint64_t evicted_all(const struct sim *s)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->n; i++)
		sum += s->t[i].evicted;
	return sum;
}

static void check_books(const struct sim *s)
{
	uint64_t sum = s->d.free;

	for (uint32_t i = 0; i < s->n; i++) {
		cr_assert_leq(s->t[i].movable, s->t[i].resident);
		sum += s->t[i].resident;
	}
	cr_assert_eq(sum, s->d.total);
	cr_assert_eq(evicted_all(s) + s->d.host_room, s->host_total);
}

static void move_out(struct sim *s, const struct placement_step *step)
{
	struct placement_tenant *t = &s->t[step->tenant];

	cr_assert_lt(step->tenant, s->n);
	cr_assert(!t->busy);
	cr_assert_gt(step->bytes, 0);
	cr_assert_leq(step->bytes, t->movable);
	cr_assert_leq(step->bytes, s->d.host_room);
	t->resident -= step->bytes;
	t->movable -= step->bytes;
	t->evicted += step->bytes;
	s->d.free += step->bytes;
	s->d.host_room -= step->bytes;
	s->gone += step->bytes;
	trace(s, 1, step->tenant, step->bytes);
}

static void move_in(struct sim *s, const struct placement_step *step)
{
	struct placement_tenant *t = &s->t[step->tenant];

	cr_assert_lt(step->tenant, s->n);
	cr_assert(!t->busy);
	cr_assert_gt(step->bytes, 0);
	cr_assert_leq(step->bytes, t->evicted);
	cr_assert_leq(step->bytes, s->d.free);
	cr_assert_leq(t->resident + step->bytes, t->high);
	cr_assert_leq(t->resident + step->bytes, t->max);
	t->resident += step->bytes;
	t->movable += step->bytes;
	t->evicted -= step->bytes;
	s->d.free -= step->bytes;
	s->d.host_room += step->bytes;
	trace(s, 2, step->tenant, step->bytes);
}

/* As weftd does before it asks. */
static void look(struct sim *s)
{
	s->d.reserve = s->p->scarce(&s->d, s->t, s->n) ? s->reserve : 0;
}

/* Bytes promised to a tenant, within its own limits. */
static uint64_t promised(const struct placement_tenant *t, uint64_t bytes)
{
	bytes = bytes < t->high ? bytes : t->high;
	return bytes < t->max ? bytes : t->max;
}

/* Somebody other than i could give without going below its low. */
static bool others_above_low(const struct sim *s, uint32_t i)
{
	if (s->d.host_room < PIECE)
		return false;
	for (uint32_t k = 0; k < s->n; k++) {
		const struct placement_tenant *t = &s->t[k];

		if (k != i && !t->busy && t->movable >= PIECE &&
		    t->resident >= t->low + PIECE && t->resident >= t->min + PIECE)
			return true;
	}
	return false;
}

static void grant(struct sim *s, uint32_t i, uint64_t bytes)
{
	struct placement_tenant *t = &s->t[i];
	uint64_t movable = s->rough && random_below(&s->rng, 8) == 0 ? 0 : bytes;

	s->d.free -= bytes;
	t->resident += bytes;
	t->movable += movable;
	t->wanted = 0;
	s->granted++;
	trace(s, 3, i, bytes);
}

/* Bytes that could leave the device for a tenant that asks. */
static uint64_t can_go(const struct sim *s, uint32_t asks)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		const struct placement_tenant *t = &s->t[i];
		uint64_t has = t->resident + (i == asks ? t->wanted : 0);
		uint64_t min = promised(t, t->min), gives = has > min ? has - min : 0;

		sum += gives < t->resident ? gives : t->resident;
	}
	return sum;
}

static void allocate(struct sim *s, uint32_t i, uint64_t bytes)
{
	struct placement_tenant *t = &s->t[i];
	struct placement_step step;

	if (bytes > t->max || t->resident + t->evicted > t->max - bytes)
		return;
	t->wanted = bytes;
	look(s);
	while (s->d.free < bytes) {
		uint64_t need = bytes - s->d.free, had, min, low;
		struct placement_tenant *v;
		int r = s->p->victim(&s->d, s->t, s->n, i, need, &step);

		if (r < 0) {
			/* Where everything can move, only what cannot be is refused. */
			cr_assert(s->rough || need > can_go(s, i));
			t->wanted = 0;
			s->refused++;
			trace(s, 4, i, bytes);
			return;
		}
		v = &s->t[step.tenant];
		had = v->resident + (step.tenant == i ? bytes : 0);
		min = promised(v, v->min);
		low = promised(v, v->low);
		cr_assert_geq(had - step.bytes, min < had ? min : had);
		if (had - step.bytes < low && had >= low)
			cr_assert(!others_above_low(s, step.tenant));
		move_out(s, &step);
		check_books(s);
	}
	grant(s, i, bytes);
}

/* Nobody who is within its share and its high gives anything. */
static void check_above(const struct sim *s, const struct placement_step *step)
{
	const struct placement_tenant *t = &s->t[step->tenant];

	cr_assert(t->resident > t->high || t->resident > t->max ||
		  t->resident > s->p->share(&s->d, s->t, s->n, step->tenant));
}

/* Does weftd's work while nobody waits. Each tenant's memory goes one way only. */
static void settle(struct sim *s)
{
	uint32_t out = 0, in = 0;
	struct placement_step step;
	unsigned steps = 0;

	look(s);
	for (;;) {
		cr_assert_lt(steps++, 8 * MOST, "it does not end");
		if (s->p->returns(&s->d, s->t, s->n, &step) == 0) {
			move_in(s, &step);
			in |= 1u << step.tenant;
		} else if (s->p->relieve(&s->d, s->t, s->n, &step) == 0) {
			check_above(s, &step);
			move_out(s, &step);
			out |= 1u << step.tenant;
		} else {
			break;
		}
		check_books(s);
	}
	cr_assert_eq(in & out, 0, "to and fro: %#x", in & out);
}

static uint64_t low_of(const struct placement_tenant *t)
{
	uint64_t low = promised(t, t->low > t->min ? t->low : t->min);

	return low < t->resident + t->evicted ? low : t->resident + t->evicted;
}

/* Part of the reserve that is not promised to tenants. */
static uint64_t kept(const struct sim *s)
{
	uint64_t left = s->d.total;

	for (uint32_t i = 0; i < s->n; i++)
		left -= low_of(&s->t[i]) < left ? low_of(&s->t[i]) : left;
	return left < s->d.reserve ? left : s->d.reserve;
}

static void check_fair(const struct sim *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		uint64_t share = s->p->share(&s->d, s->t, s->n, i);
		const struct placement_tenant *t = &s->t[i];
		/* Nobody is a piece below while what it wants is evicted. */
		cr_assert(t->evicted < PIECE || t->resident + PIECE > share,
			  "tenant %u has %lu and %lu evicted, and is due %lu", i,
			  (unsigned long)t->resident, (unsigned long)t->evicted,
			  (unsigned long)share);
		/* Memory lies idle only where nobody may have it. */
		cr_assert(t->evicted < PIECE || s->d.free < kept(s) + PIECE ||
			  t->resident + PIECE > share);
		/* The reserve is there, or nobody could have given more for it. */
		cr_assert(s->d.free >= kept(s) || t->resident <= share ||
			  t->resident < low_of(t) + PIECE);
	}
}

static void release(struct sim *s, uint32_t i, uint64_t bytes)
{
	struct placement_tenant *t = &s->t[i];
	uint64_t evicted = random_below(&s->rng, t->evicted + 1), device;

	if (!s->rough)
		evicted -= evicted % PIECE;
	evicted = evicted < bytes ? evicted : bytes;
	device = bytes - evicted < t->movable ? bytes - evicted : t->movable;
	t->evicted -= evicted;
	s->d.host_room += evicted;
	t->resident -= device;
	t->movable -= device;
	s->d.free += device;
	trace(s, 5, i, bytes);
}

static void leave(struct sim *s, uint32_t i)
{
	struct placement_tenant *t = &s->t[i];

	s->d.free += t->resident;
	s->d.host_room += t->evicted;
	t->resident = t->movable = t->evicted = 0;
	trace(s, 6, i, 0);
}

static uint64_t amount(struct sim *s, uint64_t most)
{
	uint64_t pieces = 1 + random_below(&s->rng, most);

	return s->rough ? pieces * PIECE - random_below(&s->rng, PIECE) : pieces * PIECE;
}

static void limits(struct sim *s, uint32_t i)
{
	struct placement_tenant *t = &s->t[i];
	uint64_t part = s->d.total / s->n;

	t->weight = random_below(&s->rng, 3) ? 100 : 1 + random_below(&s->rng, 1000);
	t->high = random_below(&s->rng, 4) ? UINT64_MAX : random_below(&s->rng, 2 * part);
	t->max = random_below(&s->rng, 4) ? UINT64_MAX : random_below(&s->rng, 4 * part);
	t->min = random_below(&s->rng, 4) ? 0 : random_below(&s->rng, part);
	t->low = random_below(&s->rng, 4) ? 0 : random_below(&s->rng, 2 * part);
	if (s->rough)
		return;
	/* Promises are kept in whole pieces. */
	t->min -= t->min % PIECE;
	t->high -= t->high % PIECE;
	t->max -= t->max % PIECE;
}

static void start(struct sim *s, const struct placement *p, uint64_t seed, bool rough)
{
	memset(s, 0, sizeof(*s));
	s->p = p;
	s->rng = seed;
	s->rough = rough;
	s->n = 1 + random_below(&s->rng, MOST);
	s->d.total = (1 + random_below(&s->rng, 300)) * PIECE;
	s->d.free = s->d.total;
	s->d.piece = PIECE;
	s->reserve = random_below(&s->rng, 2) * random_below(&s->rng, 1 + s->d.total / 8);
	s->reserve -= s->reserve % PIECE;
	s->host_total = rough ? random_below(&s->rng, 2 * s->d.total) : 1ull << 40;
	s->d.host_room = s->host_total;
	for (uint32_t i = 0; i < s->n; i++) {
		s->t[i].evicted_room = UINT64_MAX;
		limits(s, i);
	}
}

static void step(struct sim *s)
{
	uint32_t i = random_below(&s->rng, s->n);
	struct placement_tenant *t = &s->t[i];

	switch (random_below(&s->rng, 16)) {
	default:
		allocate(s, i, amount(s, 1 + 3 * s->d.total / PIECE / s->n));
		break;
	case 0 ... 4:
		release(s, i, amount(s, 1 + s->d.total / PIECE / s->n));
		break;
	case 5:
		leave(s, i);
		break;
	case 6:
		limits(s, i);
		break;
	}
	if (s->rough)
		t->busy = random_below(&s->rng, 4) == 0;
	check_books(s);
	if (random_below(&s->rng, 2))
		return;
	settle(s);
	if (!s->rough)
		check_fair(s);
}

static struct sim run(const struct placement *p, uint64_t seed, bool rough)
{
	struct sim s;

	start(&s, p, seed, rough);
	for (unsigned k = 0; k < 400; k++)
		step(&s);
	return s;
}

/* Each policy that is listed in turn. */
static const struct placement *policy_of(uint64_t seed)
{
	unsigned n = 0;

	while (placement_at(n))
		n++;
	return placement_at((unsigned)(seed % n));
}

Test(tenants, everything_moves)
{
	unsigned granted = 0, refused = 0;
	uint64_t gone = 0;

	for (uint64_t seed = 0; seed < 60; seed++) {
		struct sim s = run(policy_of(seed), seed, false);

		granted += s.granted;
		refused += s.refused;
		gone += s.gone;
	}
	cr_log_info("%u granted, %u refused, %lu pieces moved", granted, refused,
		    (unsigned long)(gone / PIECE));
	cr_assert_gt(gone, 0);
	cr_assert_gt(granted, 4 * refused);
}

Test(tenants, not_everything_moves)
{
	uint64_t gone = 0, granted = 0, refused = 0;

	for (uint64_t seed = 0; seed < 60; seed++) {
		struct sim s = run(policy_of(seed), seed, true);

		granted += s.granted;
		refused += s.refused;
		gone += s.gone;
	}
	cr_assert_gt(gone, 0);
	cr_assert_gt(granted, 0);
	cr_assert_gt(refused, 0);
}

Test(tenants, the_same_again)
{
	struct sim a = run(&placement_lru, 7, true), b = run(&placement_lru, 7, true);
	struct sim c = run(&placement_lru, 8, true);

	cr_assert_eq(a.trace, b.trace);
	cr_assert_neq(a.trace, c.trace);
}

static void two_alike(struct sim *s, uint64_t pieces)
{
	s->n = 2;
	s->d.total = s->d.free = pieces * PIECE;
	for (uint32_t i = 0; i < 2; i++) {
		memset(&s->t[i], 0, sizeof(s->t[i]));
		s->t[i].weight = 100;
		s->t[i].high = s->t[i].max = s->t[i].evicted_room = UINT64_MAX;
	}
}

/* GPUswap's figure 4: one fills the device, another comes and takes its half of it. */
static void greedy_and_late(uint64_t reserve)
{
	for (uint64_t weight = 25; weight <= 400; weight *= 2) {
		uint64_t share;
		struct sim s;

		start(&s, &placement_lru, 1, false);
		two_alike(&s, 100);
		s.t[1].weight = weight;
		s.reserve = reserve;
		for (unsigned k = 0; k < 150; k++)
			allocate(&s, 0, PIECE);
		cr_assert_eq(s.t[0].resident, 100 * PIECE);
		for (unsigned k = 0; k < 150; k++)
			allocate(&s, 1, PIECE);
		cr_assert_eq(s.refused, 0);
		share = (s.d.total - s.reserve) * weight / (100 + weight);
		cr_assert_leq(s.t[1].resident, share + PIECE + s.reserve);
		cr_assert_geq(s.t[1].resident + PIECE, share);
		cr_assert_eq(s.d.free, 0);
		settle(&s);
		cr_assert_geq(s.t[1].resident + PIECE, share);
		cr_assert_leq(s.t[1].resident, share + PIECE);
		cr_assert_eq(s.d.free, s.reserve);

		/* The latecomer goes, and memory that had to be evicted is back as far as
		 * there is room. */
		leave(&s, 1);
		settle(&s);
		cr_assert_eq(s.t[0].resident, s.d.total - s.reserve);
		cr_assert_eq(s.t[0].evicted, 50 * PIECE + s.reserve);

		/* All that is left fits: nothing is kept. */
		s.t[0].evicted -= 50 * PIECE;
		s.d.host_room += 50 * PIECE;
		settle(&s);
		cr_assert_eq(s.t[0].resident, s.d.total);
	}
}

Test(tenants, greedy_and_late)
{
	greedy_and_late(0);
	greedy_and_late(8 * PIECE);
}

/* An allocation is taken from the reserve, and a tenant above its share fills that up. */
Test(tenants, the_reserve_serves_an_allocation_and_is_filled_again)
{
	struct sim s;

	start(&s, &placement_lru, 1, false);
	two_alike(&s, 100);
	s.reserve = 8 * PIECE;
	allocate(&s, 0, 100 * PIECE);
	settle(&s);
	cr_assert_eq(s.gone, 0, "everything fits");
	allocate(&s, 1, 20 * PIECE);
	settle(&s);
	cr_assert_eq(s.t[0].resident, 72 * PIECE);
	cr_assert_eq(s.t[1].resident, 20 * PIECE);
	s.gone = 0;
	allocate(&s, 1, 8 * PIECE);
	cr_assert_eq(s.gone, 0, "it was there");
	settle(&s);
	cr_assert_eq(s.t[0].resident, 64 * PIECE);
	cr_assert_eq(s.t[1].resident, 28 * PIECE);
	/* The one with more takes it, and gives it back itself. */
	allocate(&s, 0, 8 * PIECE);
	settle(&s);
	cr_assert_eq(s.t[0].resident, 64 * PIECE);
	cr_assert_eq(s.t[1].resident, 28 * PIECE);
}
