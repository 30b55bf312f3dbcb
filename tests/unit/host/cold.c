/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the next turn will do without (memory/cold.h), by what launches name or reach. */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/clock.h"
#include "items.h"
#include "memory/cold.h"
#include "memory/touch.h"
#include "ptx/extent/table.h"
#include "session/code.h"

static uint64_t cold_here(struct session *s)
{
	return atomic_load(&s->count->cold_bytes);
}

static uint64_t cold_out(struct session *s)
{
	return atomic_load(&s->count->cold_out_bytes);
}

/* Turns in which only one of two is launched with. */
static uint64_t turns(struct session *s, unsigned n, CUdeviceptr of, uint64_t now_ns)
{
	const uint64_t params[] = {of};
	const struct dev_launch l = {.params = params, .params_size = sizeof(params)};

	while (n--) {
		touch_launch(&s->touch, &l);
		now_ns += 200 * NSEC_PER_MSEC;
		cold_turn_ended(s->space, now_ns);
		cold_turn_ended(s->space, now_ns + 1); /* too short to be one */
	}
	return now_ns;
}

#define PART (SPACE_RETURN_PIECES * MIB)

/* An allocation that is in so many parts, since it was evicted once, where there are turns. */
static struct item in_parts(struct session *s, unsigned n)
{
	struct space_moved moved;
	struct item item;

	cr_assert_eq(touch_init(&s->touch), 0);
	cr_assert_eq(space_set_piece(s->space, MIB), 0);
	space_set_placement(s->space, &placement_lru);
	item = new_item(s, ARENA, n * PART, 1);
	space_set_turns(s->space);
	touch_work_out(&s->touch, true);
	cr_assert_eq(space_move_out(s->space, TOTAL, UINT64_MAX, PLACE_SWAPPED, &moved),
		     -ENOSPC);
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
	return item;
}

/* Nobody knows where something ends that a launch names. */
Test(cold, what_lies_behind_is_not_cold)
{
	struct session *s = start();
	struct item item;
	uint64_t now;

	item = in_parts(s, 3);
	now = turns(s, 1, item.addr + PART, NSEC_PER_SEC);
	now = turns(s, 1, item.addr + 2 * PART, now);
	now = turns(s, COLD_PERIODS + 2, item.addr, now);
	cr_assert_eq(cold_here(s), 0);
	(void)turns(s, COLD_PERIODS + 2, item.addr + PART, now);
	cr_assert_eq(cold_here(s), PART);
	within_reach(s);
	check_item(s, &item);
	free_item(s, &item);
	counted_end(s);
}

/* A program that maps a range piece by piece names it by where data begins, as any other. */
Test(cold, what_is_mapped_behind_is_not_cold)
{
	struct session *s = start();
	struct item item;

	cr_assert_eq(touch_init(&s->touch), 0);
	cr_assert_eq(space_set_piece(s->space, MIB), 0);
	space_set_placement(s->space, &placement_lru);
	space_set_turns(s->space);
	item = new_item(s, RANGE, 4 * PAGE, 1);
	(void)turns(s, COLD_PERIODS + 2, item.addr, NSEC_PER_SEC);
	cr_assert_eq(cold_here(s), 0);
	(void)turns(s, 2 * COLD_PERIODS, item.addr + item.bytes - PAGE,
		    100 * NSEC_PER_SEC);
	cr_assert_eq(cold_here(s), item.bytes - PAGE);
	within_reach(s);
	check_item(s, &item);
	free_item(s, &item);
	counted_end(s);
}

static const char reader[] = ".version 8.0\n.target sm_70\n.address_size 64\n"
			     ".visible .entry k(.param .u64 p, .param .u32 n) {\n"
			     ".reg .b64 %rd<5>; .reg .b32 %r<7>; .reg .pred %p<2>;\n"
			     "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];\n"
			     "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"
			     "mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
			     "setp.ge.s32 %p1, %r5, %r1; @%p1 bra $end;\n"
			     "mul.wide.s32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;\n"
			     "ld.global.u32 %r6, [%rd3]; st.global.u32 [%rd3+4], %r6;\n"
			     "$end: ret;\n}\n";

/* Machine code is known by what it was compiled from. */
Test(cold, code_is_known_by_its_source)
{
	static const char code[] = ".version 8.0\n.target sm_70\n.address_size 64\n"
				   ".visible .entry k(.param .u64 p, .param .u32 n) {\n"
				   "ret;\n}\n";
	struct image img = {.data = (void *)code, .size = sizeof(code)};
	struct image source = {.data = (void *)reader, .size = sizeof(reader)};
	struct session *s = start();
	struct sess_module *m;
	struct sess_ctx *ctx;
	struct dev_jit jit = {0};

	OK(sess_ctx_new(s, handle_make(HANDLE_CONTEXT, 1, 1), 0, &ctx));
	cr_assert_eq(touch_init(&s->touch), 0);
	for (unsigned i = 0; i < 2; i++) {
		OK(sess_module_new(s, ctx, handle_make(HANDLE_MODULE, 1, 1 + i), &img,
				   &source, &jit, &m));
		cr_expect_eq(!m->extents, !i, "nobody asks while there are no turns");
		if (i)
			cr_expect(ptx_extents_find(m->extents, "k"));
		obj_put(s, &m->obj);
		space_set_turns(s->space);
	}
	obj_put(s, &ctx->obj);
	counted_end(s);
}

/* A kernel that says where it reaches keeps no more of an allocation than that. */
Test(cold, what_no_launch_reaches_is_cold)
{
	struct ptx_extents *extents = ptx_extents_new(reader, sizeof(reader) - 1, 90);
	struct session *s = start();
	uint64_t params[2], now_ns = NSEC_PER_SEC;
	struct dev_launch l = {.grid = {(unsigned)(PART / 1024), 1, 1},
			       .block = {256, 1, 1},
			       .extent = ptx_extents_find(extents, "k"),
			       .params = params,
			       .params_size = 12};
	struct item item;

	cr_assert(l.extent);
	item = in_parts(s, 4);
	params[0] = item.addr + PART;
	params[1] = PART / 4 - 1;
	for (unsigned i = 0; i < COLD_PERIODS + 2; i++) {
		touch_launch(&s->touch, &l);
		now_ns += 200 * NSEC_PER_MSEC;
		cold_turn_ended(s->space, now_ns);
	}
	cr_assert_eq(cold_here(s), 3 * PART);
	params[1] = PART / 4; /* and a word of the next one, over its end */
	touch_launch(&s->touch, &l);
	cold_turn_ended(s->space, now_ns + 200 * NSEC_PER_MSEC);
	cr_assert_eq(cold_here(s), 2 * PART);
	l.extent = NULL;
	touch_launch(&s->touch, &l);
	cold_turn_ended(s->space, now_ns + 400 * NSEC_PER_MSEC);
	cr_assert_eq(cold_here(s), PART, "nobody knows how far it goes");
	within_reach(s);
	check_item(s, &item);
	free_item(s, &item);
	ptx_extents_put(extents);
	counted_end(s);
}

static const char walker[] = ".version 8.0\n.target sm_70\n.address_size 64\n"
			     ".visible .entry k(.param .u64 p) {\n"
			     ".reg .b64 %rd<2>; .reg .pred %p<2>;\n"
			     "ld.param.u64 %rd1, [p];\n"
			     "$next: ld.global.u64 %rd1, [%rd1];\n"
			     "setp.ne.s64 %p1, %rd1, 0; @%p1 bra $next;\n"
			     "ret;\n}\n";

/* A kernel that follows addresses in memory may reach any, as long as it counts. */
Test(cold, nothing_is_while_a_list_is_followed)
{
	struct ptx_extents *extents = ptx_extents_new(walker, sizeof(walker) - 1, 90);
	struct session *s = start();
	uint64_t param, now_ns = NSEC_PER_SEC;
	struct dev_launch l = {.grid = {1, 1, 1},
			       .block = {1, 1, 1},
			       .extent = ptx_extents_find(extents, "k"),
			       .params = &param,
			       .params_size = 8};
	struct item item;

	cr_assert(l.extent);
	item = in_parts(s, 4);
	param = item.addr + 3 * PART;
	for (unsigned i = 0; i < COLD_PERIODS + 2; i++) {
		touch_launch(&s->touch, &l);
		now_ns += 200 * NSEC_PER_MSEC;
		cold_turn_ended(s->space, now_ns);
	}
	cr_assert_eq(cold_here(s), 0);
	now_ns = turns(s, COLD_PERIODS - 1, item.addr + 3 * PART, now_ns);
	cr_assert_eq(cold_here(s), 0);
	(void)turns(s, 1, item.addr + 3 * PART, now_ns);
	cr_assert_eq(cold_here(s), 3 * PART);
	within_reach(s);
	check_item(s, &item);
	free_item(s, &item);
	ptx_extents_put(extents);
	counted_end(s);
}

static struct item hot, cold;

/* A session with 4 MiB that is to be named and 6 that are not, where there are no turns yet. */
static struct session *start_two(void)
{
	struct session *s = start();

	cr_assert_eq(touch_init(&s->touch), 0);
	cr_assert_eq(space_set_piece(s->space, MIB), 0);
	space_set_placement(s->space, &placement_lru);
	hot = new_item(s, ARENA, 4 * MIB, 1);
	cold = new_item(s, ARENA, 6 * MIB, 2);
	return s;
}

static void end_two(struct session *s)
{
	within_reach(s);
	check_item(s, &hot);
	check_item(s, &cold);
	free_item(s, &hot);
	free_item(s, &cold);
	counted_end(s);
}

/* Before there are turns, memory that leaves is mapped, and computed with there. */
Test(cold, what_was_mapped_before_is_no_mistake)
{
	struct session *s = start_two();
	struct space_moved moved;
	uint64_t now;

	cr_assert_eq(space_move_out(s->space, TOTAL, UINT64_MAX, PLACE_MAPPED, &moved),
		     -ENOSPC);
	space_set_turns(s->space);
	now = turns(s, 1, hot.addr, NSEC_PER_SEC);
	now = turns(s, 2, cold.addr, now);
	cr_assert_gt(atomic_load(&s->count->missed_bytes), 0);
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
	(void)turns(s, COLD_PERIODS + 1, hot.addr, now);
	cr_assert_eq(cold_here(s), 6 * MIB);
	end_two(s);
}

/* A kernel may take longer than many turns, or be launched in none of them. */
Test(cold, turns_without_a_launch_are_no_periods)
{
	struct session *s = start_two();
	uint64_t now;

	space_set_turns(s->space);
	now = turns(s, 2, hot.addr, NSEC_PER_SEC);
	now = turns(s, 1, cold.addr, now);
	for (unsigned i = 0; i < 3 * COLD_PERIODS; i++)
		cold_tick(s->space, now += 200 * NSEC_PER_MSEC);
	cr_assert_eq(cold_here(s), 0);
	(void)turns(s, COLD_PERIODS - 1, hot.addr, now);
	cr_assert_eq(cold_here(s), 0);
	(void)turns(s, 2, hot.addr, now + 10 * NSEC_PER_SEC);
	cr_assert_eq(cold_here(s), 6 * MIB);
	end_two(s);
}

Test(cold, what_is_not_named_is_cold)
{
	struct session *s = start_two();
	struct space_moved moved;
	uint64_t now;

	(void)turns(s, COLD_PERIODS + 2, hot.addr, NSEC_PER_SEC);
	cr_assert_eq(cold_here(s), 0, "nobody takes turns");
	space_set_turns(s->space);
	now = turns(s, COLD_PERIODS, hot.addr, NSEC_PER_SEC);
	cr_assert_eq(cold_here(s), 0, "not yet");
	now = turns(s, 2, hot.addr, now);
	cr_assert_eq(cold_here(s), 6 * MIB);
	/* All that leaves is swapped but for that, which is mapped, and is not missed. */
	cr_assert_eq(space_move_out(s->space, TOTAL, UINT64_MAX, PLACE_SWAPPED, &moved),
		     -ENOSPC);
	cr_assert_eq(residency(s).swapped, 4 * MIB);
	cr_assert_eq(residency(s).mapped, 6 * MIB);
	cr_assert_eq(cold_here(s), 0, "said at once: others go by that");
	cr_assert_eq(cold_out(s), 6 * MIB);
	cr_assert_eq(space_move_in(s->space, 4 * MIB, &moved), 0);
	cr_assert_eq(residency(s).mapped, 6 * MIB);
	now = turns(s, 1, hot.addr, now);
	cr_assert_eq(cold_out(s), 6 * MIB);
	cr_assert_eq(cold_here(s), 0);
	cr_assert_eq(atomic_load(&s->count->missed_bytes), 0);
	/* Named there, a miss: not cold any more, and for longer than before. */
	now = turns(s, 1, cold.addr, now);
	cr_assert_eq(cold_out(s), 0);
	cr_assert_eq(atomic_load(&s->count->missed_bytes), 6 * MIB);
	now = turns(s, COLD_PERIODS + 2, hot.addr, now);
	cr_assert_eq(cold_out(s), 0);
	(void)turns(s, COLD_PERIODS, hot.addr, now);
	cr_assert_eq(cold_out(s), 6 * MIB);
	end_two(s);
}
