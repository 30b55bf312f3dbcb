/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions about tenants and sessions, one at a time.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "policies/placement.h"
#include "random.h"

#define PIECE 2ull

static const struct placement *const p = &placement_lru;

static const struct placement_device device = {
	.total = 100, .host_room = 1000, .piece = PIECE};

static struct placement_tenant tenant(uint64_t weight, uint64_t resident,
				      uint64_t evicted)
{
	return (struct placement_tenant){.weight = weight,
					 .resident = resident,
					 .movable = resident,
					 .evicted = evicted,
					 .evicted_room = 1000,
					 .high = UINT64_MAX,
					 .max = UINT64_MAX};
}

/* Whether it is this tenant with so many bytes. */
#define cr_step(r, step, who, much)                                                      \
	do {                                                                             \
		cr_assert_eq(r, 0);                                                      \
		cr_assert_eq((step).tenant, who);                                        \
		cr_assert_eq((step).bytes, much);                                        \
	} while (0)

Test(placement, a_policy_is_found_by_its_own_name_only)
{
	cr_assert_eq(placement_find("random"), &placement_random);
	cr_assert_eq(placement_find("lru"), &placement_lru);
	cr_assert_eq(placement_find("largest"), &placement_largest);
	cr_assert_null(placement_find("best"));
	cr_assert_null(placement_find(""));
	cr_assert_null(placement_find(NULL));
	for (unsigned i = 0; placement_at(i); i++) {
		cr_assert_eq(placement_at(i)->abi, PLACEMENT_ABI);
		cr_assert_eq(placement_find(placement_at(i)->name), placement_at(i));
	}
}

Test(placement, a_share_follows_weights_within_limits)
{
	struct placement_tenant t[3] = {tenant(100, 10, 0), tenant(100, 80, 40),
					tenant(100, 10, 40)};

	/* Bytes that the first does not want go to the others. */
	cr_assert_eq(p->share(&device, t, 3, 0), 10);
	cr_assert_eq(p->share(&device, t, 3, 1), 45);
	cr_assert_eq(p->share(&device, t, 3, 2), 45);
	cr_assert_eq(p->share(&device, t, 3, 3), 0);

	t[1].weight = 200;
	cr_assert_eq(p->share(&device, t, 3, 1), 60);
	cr_assert_eq(p->share(&device, t, 3, 2), 30);

	t[1].high = 20;
	cr_assert_eq(p->share(&device, t, 3, 1), 20);
	cr_assert_eq(p->share(&device, t, 3, 2), 50);

	t[1].high = UINT64_MAX;
	t[1].max = 20;
	cr_assert_eq(p->share(&device, t, 3, 1), 20);

	t[1].max = UINT64_MAX;
	t[2].min = 45;
	cr_assert_eq(p->share(&device, t, 3, 1), 45);
	cr_assert_eq(p->share(&device, t, 3, 2), 45);
}

Test(placement, share_of_promises_too_large)
{
	struct placement_tenant t[2] = {tenant(100, 50, 100), tenant(100, 50, 100)};

	/* Both lows do not fit: the mins hold, the rest is divided. */
	t[0].low = t[1].low = 80;
	t[1].min = 70;
	cr_assert_eq(p->share(&device, t, 2, 0), 30);
	cr_assert_eq(p->share(&device, t, 2, 1), 70);
	/* Nor do the mins. */
	t[0].min = 140;
	cr_assert_eq(p->share(&device, t, 2, 0), 50);
	cr_assert_eq(p->share(&device, t, 2, 1), 50);
}

Test(placement, the_greedy_gives)
{
	struct placement_tenant t[3] = {tenant(100, 10, 0), tenant(100, 60, 0),
					tenant(100, 30, 0)};
	struct placement_step s;

	t[0].wanted = 15;
	cr_step(p->victim(&device, t, 3, 0, 15, &s), s, 1, 16);
	/* No more than what it has above its share, and then the next. */
	t[2] = tenant(100, 40, 0);
	t[1] = tenant(100, 50, 0);
	t[0].wanted = 30;
	cr_step(p->victim(&device, t, 3, 0, 30, &s), s, 1, 18);
}

Test(placement, the_greedy_gives_to_itself)
{
	struct placement_tenant t[2] = {tenant(100, 70, 0), tenant(100, 30, 30)};
	struct placement_step s;

	t[0].wanted = 10;
	cr_step(p->victim(&device, t, 2, 0, 10, &s), s, 0, 10);
	/* For more than it can give, others do, which get that back later. */
	t[0].wanted = 80;
	cr_step(p->victim(&device, t, 2, 0, 80, &s), s, 0, 70);
	t[0] = tenant(100, 0, 70);
	cr_step(p->victim(&device, t, 2, 0, 10, &s), s, 1, 10);
	t[0] = tenant(100, 70, 0);
	t[0].wanted = 10;
	/* But not if it can give nothing at all. */
	t[0].busy = true;
	cr_assert_eq(p->victim(&device, t, 2, 0, 10, &s), -EBUSY);
	t[0].busy = false;
	t[0].movable = 0;
	cr_assert_eq(p->victim(&device, t, 2, 0, 10, &s), -ENOSPC);
}

Test(placement, the_one_further_above_its_weighted_share_is_evicted)
{
	struct placement_tenant t[2] = {tenant(300, 75, 0), tenant(100, 25, 0)};
	struct placement_step s;

	t[1].wanted = 10;
	cr_step(p->victim(&device, t, 2, 1, 10, &s), s, 1, 10);
	t[0] = tenant(300, 80, 0);
	t[1] = tenant(100, 20, 0);
	t[1].wanted = 10;
	/* Both would be 5 above: that is more for the one that is due less. */
	cr_step(p->victim(&device, t, 2, 1, 10, &s), s, 1, 6);
	t[1].movable = 0;
	t[0].movable = 100;
	t[1].wanted = 4;
	cr_step(p->victim(&device, t, 2, 1, 4, &s), s, 0, 4);
}

/* One piece that is larger than its share: others make room, and get it back. */
Test(placement, one_large_allocation)
{
	struct placement_tenant t[2] = {tenant(100, 0, 0), tenant(100, 100, 0)};
	struct placement_step s;

	t[0].wanted = 80;
	cr_step(p->victim(&device, t, 2, 0, 80, &s), s, 1, 50);
	t[1] = tenant(100, 50, 50);
	cr_step(p->victim(&device, t, 2, 0, 30, &s), s, 1, 30);

	t[0] = tenant(100, 80, 0);
	t[1] = tenant(100, 20, 80);
	cr_step(p->relieve(&device, t, 2, &s), s, 0, 30);
	t[0] = tenant(100, 50, 30);
	t[1] = tenant(100, 50, 50);
	cr_assert_eq(p->relieve(&device, t, 2, &s), -ENOSPC);
}

Test(placement, low_then_min)
{
	struct placement_tenant t[3] = {tenant(100, 0, 0), tenant(100, 50, 0),
					tenant(100, 50, 0)};
	struct placement_step s;

	t[0].wanted = 90;
	t[1].min = t[1].low = 30;
	t[2].min = 10;
	t[2].low = 50;
	cr_assert_eq(p->victim(&device, t, 3, 0, 90, &s), -ENOSPC);
	t[0].wanted = 40;
	cr_step(p->victim(&device, t, 3, 0, 40, &s), s, 1, 20);
	t[1] = tenant(100, 30, 20);
	t[1].min = 30;
	cr_step(p->victim(&device, t, 3, 0, 20, &s), s, 2, 20);
	/* Nothing of a min, not even for rounding. */
	t[2].min = 49;
	cr_assert_eq(p->victim(&device, t, 3, 0, 2, &s), -ENOSPC);
}

Test(placement, busy_ones_are_passed_over)
{
	struct placement_tenant t[3] = {tenant(100, 0, 0), tenant(100, 60, 0),
					tenant(100, 40, 0)};
	struct placement_step s;

	t[0].wanted = 10;
	t[1].busy = true;
	cr_step(p->victim(&device, t, 3, 0, 10, &s), s, 2, 10);
	t[2].busy = true;
	cr_assert_eq(p->victim(&device, t, 3, 0, 10, &s), -EBUSY);
}

Test(placement, host_memory)
{
	struct placement_tenant t[2] = {tenant(100, 0, 0), tenant(100, 100, 0)};
	struct placement_device d = device;
	struct placement_step s;

	t[0].wanted = 10;
	d.host_room = 9;
	cr_assert_eq(p->victim(&d, t, 2, 0, 10, &s), -ENOMEM);
	d.host_room = 10;
	cr_step(p->victim(&d, t, 2, 0, 10, &s), s, 1, 10);
	t[1].evicted_room = 9;
	cr_assert_eq(p->victim(&d, t, 2, 0, 10, &s), -ENOMEM);
}

Test(placement, nothing_moves_for_what_cannot_be)
{
	struct placement_tenant t[2] = {tenant(100, 0, 0), tenant(100, 100, 0)};
	struct placement_step s;

	t[0].wanted = 200;
	cr_assert_eq(p->victim(&device, t, 2, 0, 200, &s), -ENOSPC);
}

Test(placement, the_device_asks)
{
	struct placement_tenant t[2] = {tenant(100, 60, 0), tenant(100, 40, 0)};
	struct placement_step s;

	t[1].low = 40;
	cr_step(p->victim(&device, t, 2, PLACEMENT_NOBODY, 4, &s), s, 0, 4);
	t[0].low = 60;
	cr_assert_eq(p->victim(&device, t, 2, PLACEMENT_NOBODY, 4, &s), -ENOSPC);
}

Test(placement, above_high)
{
	struct placement_tenant t[2] = {tenant(100, 30, 0), tenant(100, 40, 0)};
	struct placement_device d = device;
	struct placement_step s;

	d.free = 30;
	cr_assert_eq(p->relieve(&d, t, 2, &s), -ENOSPC);
	t[0].high = 21;
	cr_step(p->relieve(&d, t, 2, &s), s, 0, 10);
	t[0].min = 25; /* which protects from others only */
	cr_step(p->relieve(&d, t, 2, &s), s, 0, 8);
	t[1].max = 10;
	cr_step(p->relieve(&d, t, 2, &s), s, 1, 30);
	t[1].busy = true;
	t[0].movable = 0;
	cr_assert_eq(p->relieve(&d, t, 2, &s), -EBUSY);
}

Test(placement, memory_returns_to_the_tenant_with_least_of_its_share)
{
	struct placement_tenant t[3] = {tenant(100, 40, 10), tenant(100, 20, 11),
					tenant(100, 20, 0)};
	struct placement_device d = device;
	struct placement_step s;

	d.free = 20;
	cr_step(p->returns(&d, t, 3, &s), s, 1, 11);
	t[1].busy = true;
	cr_step(p->returns(&d, t, 3, &s), s, 0, 8);
	t[0].high = 44;
	cr_step(p->returns(&d, t, 3, &s), s, 0, 4);
	t[0].max = 40;
	cr_assert_eq(p->returns(&d, t, 3, &s), -EBUSY);
	t[1].busy = false;
	d.free = 1;
	cr_assert_eq(p->returns(&d, t, 3, &s), -ENOSPC);
	d.free = 5;
	cr_step(p->returns(&d, t, 3, &s), s, 1, 4);
}

/* Free memory is promised to the tenant that has little already. */
Test(placement, returns_up_to_the_share)
{
	struct placement_tenant t[2] = {tenant(100, 60, 20), tenant(100, 20, 60)};
	struct placement_device d = device;
	struct placement_step s;

	d.free = 20;
	cr_step(p->returns(&d, t, 2, &s), s, 1, 20);
	t[0] = tenant(100, 45, 20);
	t[1] = tenant(100, 45, 60);
	d.free = 10;
	cr_step(p->returns(&d, t, 2, &s), s, 0, 4);
}

/* Each has what those before it in the line leave. */
Test(placement, the_line_is_served_in_order)
{
	struct placement_tenant t[3] = {tenant(100, 40, 0), tenant(100, 20, 20),
					tenant(100, 40, 0)};
	struct placement_device d = device;
	struct placement_step s;

	t[1].turn = 1;
	t[2].turn = 9;
	cr_assert_eq(p->share(&d, t, 3, 0), 40);
	cr_assert_eq(p->share(&d, t, 3, 1), 40);
	cr_assert_eq(p->share(&d, t, 3, 2), 20);
	t[1].busy = true; /* something is on its way to it already */
	cr_step(p->relieve(&d, t, 3, &s), s, 2, 20);
	t[2] = tenant(100, 20, 20);
	t[2].turn = 9;
	d.free = 20;
	cr_assert_eq(p->returns(&d, t, 3, &s), -EBUSY, "what is free is for the next");
	t[1].busy = false;
	cr_step(p->returns(&d, t, 3, &s), s, 1, 20);
	/* Promises hold, and what is kept if it can be goes last. */
	t[2].min = 30;
	cr_assert_eq(p->share(&d, t, 3, 1), 30);
	cr_assert_eq(p->share(&d, t, 3, 2), 30);
	t[2].min = 0;
	t[2].low = 40;
	cr_assert_eq(p->share(&d, t, 3, 1), 40);
	t[0].max = 20;
	t[0].resident = 20;
	cr_assert_eq(p->share(&d, t, 3, 2), 40);
	/* One that allocates does not wait for its turn with that. */
	t[2] = tenant(100, 10, 20);
	t[2].turn = 9;
	t[2].movable = 4;
	t[2].wanted = t[2].asks = 12;
	t[0] = tenant(100, 40, 0);
	t[1] = tenant(100, 50, 0);
	t[1].turn = 1;
	cr_assert_eq(p->share(&d, t, 3, 2), 18);
	cr_assert_eq(p->share(&d, t, 3, 1), 42);
	cr_step(p->victim(&device, t, 3, 2, 12, &s), s, 1, 8);
	t[2] = tenant(100, 20, 20);
	t[2].turn = 9;
	/* The one that goes has what it asks for. */
	t[0] = tenant(100, 40, 0);
	t[0].wanted = 30;
	cr_assert_eq(p->share(&d, t, 3, 0), 70);
	cr_assert_eq(p->share(&d, t, 3, 1), 30);
	cr_assert_eq(p->share(&d, t, 3, 2), 0);
}

/* Less than a piece may be all that one lacks; else it moves with the others only. */
Test(placement, others_give_for_a_last_piece_as_well)
{
	struct placement_tenant t[2] = {tenant(100, 100, 40), tenant(100, 0, 1)};
	struct placement_step s;

	t[0].turn = 1;
	cr_step(p->relieve(&device, t, 2, &s), s, 0, 2);
	t[0] = tenant(100, 98, 42);
	t[0].turn = 1;
	t[1] = tenant(100, 1, 0);
	cr_assert_eq(p->relieve(&device, t, 2, &s), -ENOSPC);
}

/* Memory that a tenant does without is nothing that it wants. */
Test(placement, cold_memory_leaves_for_others)
{
	struct placement_tenant t[2] = {tenant(100, 60, 0), tenant(100, 40, 20)};
	struct placement_step s;

	cr_assert_eq(p->share(&device, t, 2, 0), 50);
	t[0].cold = 20;
	cr_assert_eq(p->share(&device, t, 2, 0), 40);
	cr_assert_eq(p->share(&device, t, 2, 1), 60);
	cr_step(p->relieve(&device, t, 2, &s), s, 0, 20);
	/* But stays where it is while nobody needs the room, and as far as it was promised. */
	t[1].evicted = 0;
	cr_assert_eq(p->relieve(&device, t, 2, &s), -ENOSPC);
	t[1].evicted = 20;
	t[0].cold = 100;
	t[0].min = 60;
	cr_assert_eq(p->share(&device, t, 2, 0), 60);
}

/* The reserve is kept beside the shares, after what is promised. */
Test(placement, the_reserve_is_filled_by_those_above_their_shares)
{
	struct placement_tenant t[2] = {tenant(100, 60, 10), tenant(100, 40, 10)};
	struct placement_device d = device;
	struct placement_step s;

	cr_assert(p->scarce(&d, t, 2));
	d.reserve = 10;
	cr_assert_eq(p->share(&d, t, 2, 0), 45);
	cr_step(p->relieve(&d, t, 2, &s), s, 0, 14);
	/* Memory that is evicted comes back into what is left beside the reserve. */
	t[0] = tenant(100, 46, 24);
	d.free = 14;
	cr_step(p->returns(&d, t, 2, &s), s, 1, 4);
	t[1] = tenant(100, 44, 6);
	d.free = 10;
	cr_assert_eq(p->returns(&d, t, 2, &s), -ENOSPC);
	cr_assert_eq(p->relieve(&d, t, 2, &s), -ENOSPC);
	/* Nobody within its share gives for it, nor below its low. */
	d.free = 2;
	t[0] = tenant(100, 54, 24);
	t[0].movable = 0;
	cr_assert_eq(p->relieve(&d, t, 2, &s), -ENOSPC);
	t[0] = tenant(100, 54, 24);
	t[0].low = 51;
	cr_step(p->relieve(&d, t, 2, &s), s, 0, 2);
	t[0].low = t[1].low = 50;
	cr_assert_eq(p->share(&d, t, 2, 0), 50);
	t[0].low = t[1].low = 0;
	t[0].evicted = 0;
	t[1].evicted = 2;
	cr_assert_not(p->scarce(&d, t, 2));
	t[1].evicted = 3;
	cr_assert(p->scarce(&d, t, 2));
	t[1].high = 44;
	cr_assert_not(p->scarce(&d, t, 2));
}

Test(placement, of_sessions_the_idle_leave_and_the_busy_come_first)
{
	struct placement_session s[4] = {
		{.movable = 5, .evicted = 0, .idle_ns = 1000},
		{.movable = 9, .evicted = 3, .idle_ns = 2000},
		{.movable = 7, .evicted = 3, .idle_ns = 3000},
		{.movable = 1, .evicted = 3, .idle_ns = 2000000000},
	};

	cr_assert_eq(p->session_leaves(s, 4), 3);
	s[3].movable = 0;
	cr_assert_eq(p->session_leaves(s, 4), 1);
	s[1].busy = true;
	cr_assert_eq(p->session_leaves(s, 4), 2);
	cr_assert_eq(p->session_comes(s, 4), 2);
	s[1].busy = false;
	cr_assert_eq(p->session_comes(s, 4), 1);
	cr_assert_eq(p->session_leaves(s, 0), 0);
	cr_assert_eq(p->session_comes(s, 0), 0);
	cr_assert_eq(p->session_comes(s, 1), 1);
	memset(s, 0, sizeof(s));
	cr_assert_eq(p->session_leaves(s, 4), 4);
}

Test(placement, who_is_idle_for_long_or_takes_turns_is_swapped)
{
	struct placement_session s = {.idle_ns = 1000};

	cr_assert_eq(placement_lru.where(&s), PLACE_MAPPED);
	cr_assert_eq(placement_largest.where(&s), PLACE_MAPPED);
	s.turns = true;
	cr_assert_eq(placement_lru.where(&s), PLACE_SWAPPED);
	s.turns = false;
	s.idle_ns = 60000000000;
	cr_assert_eq(placement_lru.where(&s), PLACE_SWAPPED);
	cr_assert_eq(placement_largest.where(&s), PLACE_SWAPPED);
	cr_assert_eq(placement_random.where(&s), PLACE_MAPPED);
}

static struct placement_tenant any_tenant(uint64_t *rng)
{
	struct placement_tenant t = {
		.weight = random_any(rng),
		.resident = random_any(rng),
		.evicted = random_any(rng),
		.wanted = random_any(rng),
		.movable = random_any(rng),
		.evicted_room = random_any(rng),
		.min = random_any(rng),
		.low = random_any(rng),
		.high = random_any(rng),
		.max = random_any(rng),
		.turn = random_below(rng, 2) ? 0 : (uint32_t)random_below(rng, 12),
		.busy = random_below(rng, 4) == 0,
	};

	return t;
}

/* Checks rules that hold for any decision, whatever the numbers. */
static void check_leaves(const struct placement_device *d,
			 const struct placement_tenant *t, uint32_t n, int r,
			 const struct placement_step *s)
{
	if (r < 0) {
		cr_assert(r == -EBUSY || r == -ENOMEM || r == -ENOSPC);
		return;
	}
	cr_assert_lt(s->tenant, n);
	t += s->tenant;
	cr_assert(!t->busy);
	cr_assert_gt(s->bytes, 0);
	cr_assert_leq(s->bytes, t->movable);
	cr_assert_leq(s->bytes, t->evicted_room);
	cr_assert_leq(s->bytes, d->host_room);
}

Test(placement, any_numbers_give_decisions_within_bounds)
{
	enum {
		MOST = 12,
		ROUNDS = 20000
	};
	struct placement_tenant t[MOST];
	uint64_t rng = 1, found = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct placement_device d = {random_any(&rng), random_any(&rng),
					     random_any(&rng), random_any(&rng),
					     random_any(&rng)};
		uint32_t n = random_below(&rng, MOST + 1), asks = random_below(&rng, 14);
		struct placement_step s = {0};
		unsigned __int128 sum = 0;
		int r;

		for (uint32_t i = 0; i < n; i++)
			t[i] = any_tenant(&rng);
		for (uint32_t i = 0; i < n; i++)
			sum += p->share(&d, t, n, i);
		cr_assert(sum <= d.total);
		r = p->victim(&d, t, n, asks, random_any(&rng), &s);
		check_leaves(&d, t, n, r, &s);
		found += r == 0;
		r = p->relieve(&d, t, n, &s);
		check_leaves(&d, t, n, r, &s);
		found += r == 0;
		r = p->returns(&d, t, n, &s);
		found += r == 0;
		if (r < 0)
			continue;
		cr_assert_lt(s.tenant, n);
		cr_assert(!t[s.tenant].busy);
		cr_assert_gt(s.bytes, 0);
		cr_assert_leq(s.bytes, d.free);
		cr_assert_leq(s.bytes, t[s.tenant].evicted);
	}
	cr_assert_gt(found, ROUNDS / 10);
}
