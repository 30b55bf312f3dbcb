/* SPDX-License-Identifier: Apache-2.0 */
/* More memory promised than the device has: one case each. */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/clock.h"
#include "broker/memory/ledger.h"
#include "broker/memory/prealloc.h"
#include "broker/memory/reclaim.h"
#include "broker/memory/waiters.h"
#include "fakes.h"

/* One tenant has everything, then others come: all have their share within a piece. */
Test(reclaim, who_comes_later_gets_an_equal_share)
{
	begin(1024 * MIB, 4096 * MIB);
	ask_in_pieces(&fakes[0], 1024 * MIB);
	cr_assert_eq(fakes[0].has, 1024 * MIB);
	ask_in_pieces(&fakes[1], 1024 * MIB);
	cr_assert_eq(fakes[0].has, 512 * MIB);
	cr_assert_eq(fakes[0].evicted, 512 * MIB);
	cr_assert_eq(fakes[1].has, 512 * MIB);
	cr_assert_eq(fakes[1].evicted, 512 * MIB, "it was evicted itself");
	tenants[2].memory.weight = 200;
	ask_in_pieces(&fakes[2], 1024 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[2].has, 512 * MIB);
	cr_assert(fakes[0].has >= 256 * MIB - PIECE && fakes[0].has <= 256 * MIB + PIECE);
	cr_assert(fakes[1].has >= 256 * MIB - PIECE && fakes[1].has <= 256 * MIB + PIECE);
	cr_assert_eq(tenants[0].events.oom + tenants[1].events.oom, 0);
}

/* While there is not enough for all, a little is free for who comes next, and whoever is
 * above its share sees to that; the shares are equal beside it. */
Test(reclaim, the_reserve_is_filled_beside_equal_shares)
{
	uint64_t moved;

	begin(1024 * MIB, 4096 * MIB);
	b.reserve = 64 * MIB;
	ask_in_pieces(&fakes[0], 1024 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].has, 1024 * MIB, "everything fits");
	ask(&fakes[1], 16 * MIB);
	cr_assert_eq(fakes[1].has, 0, "it waits");
	pass(20 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[1].has, 16 * MIB);
	cr_assert_eq(account_free(&b), 64 * MIB);
	/* at once, however much of it */
	ask(&fakes[1], 64 * MIB);
	hear(&fakes[1]);
	cr_assert_eq(fakes[1].has, 80 * MIB);
	pass(20 * NSEC_PER_MSEC);
	cr_assert_eq(account_free(&b), 64 * MIB);
	cr_assert_eq(fakes[0].evicted, 144 * MIB);
	cr_assert_eq(fakes[1].evicted, 0);
	ask_in_pieces(&fakes[1], 944 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].has, 480 * MIB);
	cr_assert_eq(fakes[1].has, 480 * MIB);
	cr_assert_eq(account_free(&b), 64 * MIB);
	/* and stays so */
	moved = tenants[0].events.reclaim + tenants[1].events.reclaim;
	pass(10 * NSEC_PER_SEC);
	cr_assert_eq(tenants[0].events.reclaim + tenants[1].events.reclaim, moved);
	cr_assert_eq(fakes[0].has + fakes[1].has, 960 * MIB);
}

/* Nothing is kept of what all can have together; but who goes and comes again at once
 * finds it. */
Test(reclaim, reserve_ends)
{
	begin(256 * MIB, 1024 * MIB);
	b.reserve = 16 * MIB;
	ask_in_pieces(&fakes[0], 256 * MIB);
	ask_in_pieces(&fakes[1], 64 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].evicted, 80 * MIB);
	stop(&fakes[1]);
	pass(100 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 16 * MIB);
	start(&fakes[1], &tenants[1], 0);
	ask(&fakes[1], 16 * MIB);
	hear(&fakes[1]);
	cr_assert_eq(fakes[1].has, 16 * MIB);
	stop(&fakes[1]);
	pass(3 * NSEC_PER_SEC);
	cr_assert_eq(fakes[0].evicted, 0);
	cr_assert_eq(reclaim_tick(&b, now), UINT64_MAX, "nothing is to be looked at");
}

/* A tenant within its share gives nothing for it, nor what it is promised. */
Test(reclaim, reserve_is_no_reason)
{
	begin(256 * MIB, 1024 * MIB);
	b.reserve = 16 * MIB;
	tenants[1].memory.low = 64 * MIB;
	ask_in_pieces(&fakes[1], 64 * MIB);
	ask_in_pieces(&fakes[0], 192 * MIB);
	fakes[0].pinned = 192 * MIB;
	show(&fakes[0]);
	ask(&fakes[2], 16 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[1].has, 64 * MIB - fakes[2].has);
	pass(NSEC_PER_SEC);
	cr_assert_leq(account_free(&b), PIECE);
	fakes[0].pinned = 0;
	show(&fakes[0]);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[1].has, 64 * MIB);
	cr_assert_eq(account_free(&b), 16 * MIB);
}

/* Nothing moves for the sake of an allocation that cannot be. */
Test(reclaim, reserve_not_for_the_impossible)
{
	begin(256 * MIB, 1024 * MIB);
	b.reserve = 16 * MIB;
	ask_in_pieces(&fakes[0], 248 * MIB);
	fakes[0].pinned = 148 * MIB;
	show(&fakes[0]);
	for (unsigned i = 0; i < 3; i++) {
		ask(&fakes[1], 200 * MIB);
		pass(100 * NSEC_PER_MSEC);
		cr_assert_eq(fakes[1].asked[0].id, 0);
		cr_assert_eq(b.evicted, 0);
	}
	cr_assert_eq(tenants[1].events.oom, 3);
}

/* Memory that is freed comes back to whoever has memory evicted, within 50 ms and without
 * a message. */
Test(reclaim, comes_back)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 256 * MIB);
	ask_in_pieces(&fakes[1], 128 * MIB);
	cr_assert_eq(fakes[0].evicted, 128 * MIB);
	fakes[1].has -= 100 * MIB;
	credit_put(&fakes[1].page.credit, 100 * MIB);
	show(&fakes[1]);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 28 * MIB);
	stop(&fakes[1]);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 0);
	cr_assert_eq(reclaim_tick(&b, now), UINT64_MAX, "nothing is to be looked at");
}

/* Memory that was given a moment ago is not brought back at once: more may be needed. */
Test(reclaim, gives_again)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 256 * MIB);
	ask(&fakes[1], 16 * MIB);
	pass(NSEC_PER_MSEC);
	stop(&fakes[1]);
	pass(20 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 16 * MIB);
	ask(&fakes[2], 16 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(tenants[0].events.reclaim, 1);
	stop(&fakes[2]);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 0);
}

/* While somebody is granted or moves memory, others make none in the host. */
Test(reclaim, others_pause)
{
	const _Atomic uint64_t *pause = &fakes[2].page.host_pause_ns;
	const _Atomic uint64_t *mapping = &fakes[2].page.mapping_until_ns;

	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 240 * MIB);
	cr_assert_eq(*pause, 0, "there is enough");
	prealloc_tick(&b, now);
	ask(&fakes[1], 16 * MIB);
	cr_assert_eq(*pause, now + PREALLOC_PAUSE_NS);
	cr_assert_eq(*mapping, now + PAGE_MAPPING_NS);
	now += 2 * PAGE_MAPPING_NS;
	ask(&fakes[1], 16 * MIB);
	cr_assert_lt(*mapping, now, "it waits");
	reclaim_tick(&b, now);
	hear_all();
	cr_assert_eq(*pause, UINT64_MAX);
	ask(&fakes[3], 16 * MIB);
	cr_assert_eq(*pause, UINT64_MAX);
	move_out(&fakes[0]);
	cr_assert_eq(*pause, now + PREALLOC_PAUSE_NS);
	reclaim_tick(&b, now);
	hear_all();
	cr_assert_eq(*pause, UINT64_MAX);
	stop(&fakes[0]);
	cr_assert_lt(*pause, UINT64_MAX, "it has gone");
}

/* Asks for m; the bytes come when the other mate, on its way out, has gone. */
static void comes_when_gone(struct mate *m, uint64_t bytes, struct mate *gone)
{
	account_ending(&gone->w, now);
	account_ending(&gone->w, now);
	ask(m, bytes);
	pass(NSEC_PER_SEC);
	cr_assert_neq(m->asked[0].id, 0, "it waits");
	stop(gone);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(m->has, bytes);
}

/* The program has gone, the worker has not yet: its memory is waited for, where a limit
 * is in the way, where the device is full, and without swap. */
Test(reclaim, memory_of_a_program_that_has_gone_is_waited_for)
{
	for (unsigned swap = 0; swap < 2; swap++) {
		begin(256 * MIB, swap * 1024 * MIB);
		tenants[1].memory.max = 128 * MIB;
		stop(&fakes[5]);
		start(&fakes[5], &tenants[1], 0);
		ask(&fakes[1], 100 * MIB);
		ask(&fakes[5], 100 * MIB);
		hear(&fakes[5]);
		cr_assert_eq(tenants[1].events.max, 1, "at once");
		cr_assert_eq(fakes[5].asked[0].id, 0);
		comes_when_gone(&fakes[5], 100 * MIB, &fakes[1]);

		fakes[5].pinned = 100 * MIB;
		show(&fakes[5]);
		ask(&fakes[2], 200 * MIB);
		pass(NSEC_PER_SEC);
		cr_assert_eq(fakes[2].asked[0].id, 0);
		cr_assert_eq(fakes[2].has, 0, "refused");
		comes_when_gone(&fakes[2], 200 * MIB, &fakes[5]);
		cr_assert_eq(b.n_ending + tenants[1].n_ending, 0);
	}
}

/* Memory that is free in a moment nobody has to give; if it is not, somebody has. */
Test(reclaim, ending_frees_enough)
{
	for (unsigned late = 0; late < 2; late++) {
		begin(256 * MIB, 1024 * MIB);
		ask_in_pieces(&fakes[0], 128 * MIB);
		ask_in_pieces(&fakes[1], 128 * MIB);
		account_ending(&fakes[0].w, now);
		ask(&fakes[2], 64 * MIB);
		pass(late ? 150 * NSEC_PER_MSEC : 50 * NSEC_PER_MSEC);
		cr_assert_eq(fakes[2].has, late ? 64 * MIB : 0);
		cr_assert_eq(fakes[1].evicted, late ? 64 * MIB : 0);
		fakes[0].has = 0;
		credit_put(&fakes[0].page.credit, 128 * MIB);
		show(&fakes[0]);
		pass(50 * NSEC_PER_MSEC);
		cr_assert_eq(fakes[2].has, 64 * MIB);
		cr_assert_eq(fakes[1].evicted, 0);
	}
}

/* Memory of an ending worker is for the first who waits: for the others somebody is
 * evicted meanwhile. */
Test(reclaim, ending_frees_for_the_first)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 64 * MIB);
	ask_in_pieces(&fakes[1], 192 * MIB);
	account_ending(&fakes[0].w, now);
	ask(&fakes[2], 64 * MIB);
	ask(&fakes[3], 64 * MIB);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[2].has + fakes[3].has, 64 * MIB);
	cr_assert_eq(fakes[1].evicted, 64 * MIB);
	fakes[0].has = 0;
	credit_put(&fakes[0].page.credit, 64 * MIB);
	show(&fakes[0]);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[2].has + fakes[3].has, 128 * MIB);
	cr_assert_eq(fakes[1].evicted, 64 * MIB);
}

/* A worker that was asked for memory and is on its way out may not answer any more. */
Test(reclaim, ending_while_asked)
{
	struct worker *asked;

	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 128 * MIB);
	ask_in_pieces(&fakes[1], 128 * MIB);
	ask(&fakes[2], 32 * MIB);
	reclaim_tick(&b, now);
	asked = b.moving;
	cr_assert_not_null(asked);
	account_ending(asked, now);
	reclaim_ending(asked, now);
	cr_assert_null(b.moving);
	now += 150 * NSEC_PER_MSEC;
	reclaim_tick(&b, now);
	cr_assert(b.moving && b.moving != asked);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[2].has, 32 * MIB);
}

/* A worker on its way out neither is evicted nor has anything brought back, however
 * little it has left on the device; memory that it gives back goes to the others. */
Test(reclaim, ending_wants_nothing)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 256 * MIB);
	ask_in_pieces(&fakes[1], 256 * MIB);
	cr_assert_eq(fakes[0].evicted, 128 * MIB);
	cr_assert_eq(fakes[1].evicted, 128 * MIB);
	account_ending(&fakes[0].w, now);
	ask(&fakes[2], 64 * MIB);
	pass(150 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 128 * MIB);
	cr_assert_eq(fakes[1].evicted, 192 * MIB);
	fakes[0].has = 0;
	credit_put(&fakes[0].page.credit, 128 * MIB);
	show(&fakes[0]);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 128 * MIB);
	cr_assert_eq(fakes[1].evicted, 64 * MIB);
	stop(&fakes[0]);
	cr_assert_eq(b.evicted, fakes[1].evicted);
}

/* A tenant whose kernels keep its memory busy: who wants more than its share waits, up to
 * a bounded time; who has less than that does not. */
Test(reclaim, only_who_wants_more_than_its_share_waits_for_the_busy)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 240 * MIB);
	fakes[0].w.move.busy_ns = UINT64_MAX;
	ask(&fakes[1], 200 * MIB);
	ask_for(&fakes[3], 200 * MIB, true);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[1].has + fakes[3].has, 0);
	ask(&fakes[2], 16 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[2].has + fakes[2].evicted, 16 * MIB, "it passed");
	pass(27 * NSEC_PER_SEC);
	cr_assert_neq(fakes[1].asked[0].id, 0);
	pass(2 * NSEC_PER_SEC);
	cr_assert_eq(fakes[1].asked[0].id, 0);
	cr_assert_eq(fakes[1].has, 0);
	cr_assert_eq(tenants[1].events.oom, 1);
	cr_assert_eq(fakes[3].has + fakes[3].evicted, 200 * MIB);
	cr_assert_eq(tenants[3].events.oom, 0);
	stop(&fakes[3]);
	fakes[0].w.move.busy_ns = 0;
	ask(&fakes[1], 100 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[1].has, 100 * MIB);
}

/* Memory that may as well be in the host is not taken from others within their shares, nor waited
 * for where only the tenant itself could give it; within its own share it is. */
Test(reclaim, who_can_do_without_disturbs_nobody)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 60 * MIB);
	ask_in_pieces(&fakes[1], 196 * MIB);
	fakes[1].w.move.busy_ns = UINT64_MAX;
	ask_spare(&fakes[1], 32 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[1].asked[0].id, 0, "at once");
	cr_assert_eq(fakes[1].has, 196 * MIB);
	cr_assert_eq(fakes[1].evicted, 32 * MIB);
	cr_assert_eq(fakes[0].has, 60 * MIB);
	fakes[1].w.move.busy_ns = 0;
	ask_spare(&fakes[1], 32 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[1].has, 196 * MIB, "older memory leaves for it");
	cr_assert_eq(fakes[1].evicted, 64 * MIB);
	ask_spare(&fakes[0], 32 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].has, 92 * MIB);
	cr_assert_eq(fakes[1].has, 164 * MIB);
	cr_assert_eq(tenants[0].events.oom + tenants[1].events.oom, 0);
	/* One that is above its share and busy is waited for, but not for long. */
	fakes[1].w.move.busy_ns = UINT64_MAX;
	ask_spare(&fakes[0], 32 * MIB);
	pass(NSEC_PER_SEC / 2);
	cr_assert_neq(fakes[0].asked[0].id, 0);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].asked[0].id, 0);
	cr_assert_eq(fakes[0].evicted, 32 * MIB);
	check_sums();
}

/* Sessions cannot move anything where there is no swap: one that ends is waited for alone. */
Test(reclaim, without_swap_nobody_is_asked_to_move)
{
	begin(256 * MIB, 0);
	ask_in_pieces(&fakes[0], 200 * MIB);
	ask_in_pieces(&fakes[1], 40 * MIB);
	account_ending(&fakes[1].w, now);
	ask_spare(&fakes[0], 32 * MIB);
	pass(100 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].has, 200 * MIB);
	cr_assert_neq(fakes[0].asked[0].id, 0);
	stop(&fakes[1]);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].has, 232 * MIB);
	check_sums();
}

/* The number of what weftd asks it for; the test answers. */
static uint32_t asked_to_move(struct mate *m)
{
	uint32_t id;

	reclaim_tick(&b, now);
	hear_all();
	id = m->out_id;
	cr_assert_neq(id, 0);
	m->out_id = 0;
	return id;
}

/* A waiting worker is served when there is room, before the move has ended; the next one
 * is asked after that. */
Test(reclaim, left_before_the_end)
{
	const struct msg_moved all = {0};
	uint32_t id;

	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 256 * MIB);
	ask(&fakes[1], 16 * MIB);
	id = asked_to_move(&fakes[0]);
	fakes[0].has -= 16 * MIB;
	fakes[0].evicted += 16 * MIB;
	show(&fakes[0]);
	cr_assert_eq(reclaim_left(&fakes[0].w, id, 16 * MIB, now), 0);
	ask(&fakes[2], 16 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[1].has, 16 * MIB);
	cr_assert_eq(fakes[2].has, 0);
	cr_assert_eq(tenants[0].events.reclaim, 0);
	cr_assert_eq(reclaim_ended(&fakes[0].w, id, &all, now), 0);
	cr_assert_eq(tenants[0].events.reclaim, 1);
	cr_assert_eq(reclaim_left(&fakes[0].w, id, 0, now), -EPROTO, "nobody asked");
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[2].has, 16 * MIB);
	check_sums();
	check_truth();
}

/* A worker frees what its program does not use, and need not move anything. */
Test(reclaim, frees_instead)
{
	const struct msg_moved none = {0};
	uint32_t id;

	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 192 * MIB);
	ask_in_pieces(&fakes[1], 64 * MIB);
	ask(&fakes[2], 16 * MIB);
	id = asked_to_move(&fakes[0]);
	fakes[0].has -= 32 * MIB;
	credit_put(&fakes[0].page.credit, 32 * MIB);
	show(&fakes[0]);
	cr_assert_eq(reclaim_ended(&fakes[0].w, id, &none, now), 0);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[2].has, 16 * MIB);
	cr_assert_eq(b.evicted, 0);
	ask(&fakes[2], 32 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 16 * MIB, "it is asked again");
}

/* One that waits for its work to end is left alone, others are asked; and asked as soon
 * as that has ended. */
Test(reclaim, others_are_asked_while_one_waits_for_its_work)
{
	const struct msg_moved busy = {.result = -EBUSY, .will_wait = 1};
	uint32_t id;

	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 192 * MIB);
	ask_in_pieces(&fakes[1], 64 * MIB);
	ask(&fakes[2], 16 * MIB);
	id = asked_to_move(&fakes[0]);
	cr_assert_eq(reclaim_ended(&fakes[0].w, id, &busy, now), 0);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[2].has, 16 * MIB);
	cr_assert_eq(fakes[1].evicted, 16 * MIB, "it gave instead");
	ask(&fakes[1], 80 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].evicted, 0, "it is not asked meanwhile");
	become_idle(&fakes[0], 0);
	pass(20 * NSEC_PER_MSEC);
	cr_assert_geq(fakes[0].evicted, 64 * MIB);
	cr_assert_eq(reclaim_quiesced(&fakes[0].w, 0, now), -EPROTO);
}

/* Free memory is no reason to refuse a request that takes more than that. */
Test(reclaim, more_than_is_free)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 96 * MIB);
	fakes[0].w.move.busy_ns = UINT64_MAX;
	ask(&fakes[1], 200 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_neq(fakes[1].asked[0].id, 0, "it waits");
	fakes[0].w.move.busy_ns = 0;
	pass(20 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[1].has, 200 * MIB);
}

/* The victim dies, or does not answer: others are asked. */
Test(reclaim, victim_ends)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 128 * MIB);
	ask_in_pieces(&fakes[1], 128 * MIB);
	ask(&fakes[2], 64 * MIB);
	reclaim_tick(&b, now);
	hear_all();
	cr_assert(fakes[0].out_id || fakes[1].out_id);
	stop(&fakes[fakes[0].out_id ? 0 : 1]);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[2].has, 64 * MIB);
	/* one that keeps silent */
	ask_in_pieces(&fakes[2], 64 * MIB);
	ask(&fakes[3], 64 * MIB);
	reclaim_tick(&b, now);
	hear_all();
	for (unsigned i = 0; i < 3; i++) {
		if (!fakes[i].out_id)
			continue;
		fakes[i].out_id = 0;
		pass(11 * NSEC_PER_SEC);
		cr_assert_eq(fakes[3].has, 64 * MIB);
		return;
	}
	cr_assert_fail("nobody was asked");
}

/* Nobody can give anything: that is said at once, unless somebody was granted memory just
 * now and has not written yet that it could move. */
Test(reclaim, nothing_to_give)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 200 * MIB);
	fakes[0].pinned = 200 * MIB;
	show(&fakes[0]);
	pass(NSEC_PER_SEC);
	for (unsigned i = 0; i < 3; i++) {
		ask(&fakes[1], 100 * MIB);
		reclaim_tick(&b, now);
		hear(&fakes[1]);
		cr_assert_eq(fakes[1].asked[0].id, 0, "nothing has changed");
	}
	cr_assert_eq(tenants[1].events.oom, 3);
	cr_assert_eq(fakes[1].has, 0);
	ask(&fakes[0], 40 * MIB);
	hear(&fakes[0]);
	atomic_store(&fakes[0].page.movable_bytes, 0);
	fakes[0].pinned = 0;
	ask(&fakes[1], 100 * MIB);
	pass(20 * NSEC_PER_MSEC);
	cr_assert_neq(fakes[1].asked[0].id, 0, "it may be late");
	show(&fakes[0]);
	pass(20 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[1].has, 100 * MIB);
}

/* Host memory runs out: the allocation fails and nothing else happens. */
Test(reclaim, no_host_memory)
{
	begin(256 * MIB, 64 * MIB);
	ask_in_pieces(&fakes[0], 256 * MIB);
	ask(&fakes[1], 128 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[1].has, 0);
	cr_assert_eq(tenants[1].events.oom, 1);
	ask(&fakes[1], 64 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[1].has, 64 * MIB);
	cr_assert_eq(b.evicted, 64 * MIB);
	/* of a tenant's own */
	stop(&fakes[1]);
	pass(NSEC_PER_SEC);
	cr_assert_eq(b.evicted, 0);
	tenants[0].memory.swap_max = 32 * MIB;
	start(&fakes[1], &tenants[1], 0);
	ask(&fakes[1], 64 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[1].has, 0);
	ask(&fakes[1], 32 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[1].has, 32 * MIB);
}

/* One allocation of more than the device has: what there is, the rest in host memory,
 * from where it comes back. */
Test(reclaim, more_than_there_is)
{
	begin(256 * MIB, 1024 * MIB);
	ask_for(&fakes[0], 512 * MIB, true);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].has, 256 * MIB);
	cr_assert_eq(fakes[0].evicted, 256 * MIB);
	ask_for(&fakes[1], 300 * MIB, true);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[1].has + fakes[1].evicted, 300 * MIB);
	cr_assert_eq(fakes[0].has, 128 * MIB);
	cr_assert_eq(fakes[1].has, 128 * MIB);
	cr_assert_eq(tenants[0].events.oom + tenants[1].events.oom, 0);
	ask(&fakes[2], 300 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[2].has, 0);
	cr_assert_eq(tenants[2].events.oom, 1);
}

/* memory.high: in the background, without anybody waiting; min stays whatever happens. */
Test(reclaim, high_and_min)
{
	struct conf_memory m;

	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 128 * MIB);
	m = tenants[0].memory;
	m.high = 64 * MIB;
	account_set(&tenants[0], &m);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].has, 64 * MIB);
	cr_assert_gt(tenants[0].events.high, 0);
	m.high = UINT64_MAX;
	m.min = 128 * MIB;
	account_set(&tenants[0], &m);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].has, 128 * MIB);
	ask_in_pieces(&fakes[1], 256 * MIB);
	cr_assert_eq(fakes[0].has, 128 * MIB);
	cr_assert_eq(fakes[1].has, 128 * MIB);
}

/* By hand: what moved stays out until the session works. */
Test(reclaim, a_manual_reclaim)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 128 * MIB);
	manual_open = 1;
	cr_assert_eq(waiters_operator(&tenants[0], 100 * MIB, now, moved_manually, NULL),
		     0);
	pass(NSEC_PER_SEC);
	cr_assert_eq(manual_open, 0);
	cr_assert_eq(fakes[0].evicted, 100 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].evicted, 100 * MIB);
	now++;
	atomic_store(&fakes[0].page.last_submit_ns, now);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 0);
}

/* An operator is answered when all has been done, and can be seen. */
Test(reclaim, a_manual_reclaim_to_the_end)
{
	const struct msg_moved all = {0};
	uint32_t id;

	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 128 * MIB);
	manual_open = 1;
	cr_assert_eq(waiters_operator(&tenants[0], 16 * MIB, now, moved_manually, NULL),
		     0);
	id = asked_to_move(&fakes[0]);
	fakes[0].has -= 16 * MIB;
	fakes[0].evicted += 16 * MIB;
	show(&fakes[0]);
	cr_assert_eq(reclaim_left(&fakes[0].w, id, 16 * MIB, now), 0);
	reclaim_tick(&b, now);
	cr_assert_eq(manual_open, 1);
	cr_assert_eq(reclaim_ended(&fakes[0].w, id, &all, now), 0);
	reclaim_tick(&b, now);
	cr_assert_eq(manual_open, 0);
}

static void ends_another(void *arg, uint64_t bytes)
{
	manual_open--;
	stop(arg);
}

/* The caller who moves memory by hand asks for something else next, which ends the
 * waiting ones. */
Test(reclaim, a_manual_reclaim_then_anything)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 256 * MIB);
	manual_open = 1;
	cr_assert_eq(
		waiters_operator(&tenants[0], 16 * MIB, now, ends_another, &fakes[1]), 0);
	ask(&fakes[1], 100 * MIB);
	ask(&fakes[1], 100 * MIB);
	ask(&fakes[2], 32 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(manual_open, 0);
	cr_assert_eq(fakes[2].has, 32 * MIB);
	/* and one that nobody serves in time */
	fakes[0].w.move.busy_ns = UINT64_MAX;
	fakes[2].w.move.busy_ns = UINT64_MAX;
	start(&fakes[1], &tenants[1], 0);
	manual_open = 1;
	cr_assert_eq(
		waiters_operator(&tenants[0], 16 * MIB, now, ends_another, &fakes[1]), 0);
	ask(&fakes[1], 200 * MIB);
	pass(11 * NSEC_PER_SEC);
	cr_assert_eq(manual_open, 0);
	check_sums();
}

/* A session that needs what is swapped gets what there is, others being evicted for it.
 * */
Test(reclaim, a_swapped_session_that_needs_memory_gets_its_share)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 200 * MIB);
	manual_open = 1;
	cr_assert_eq(waiters_operator(&tenants[0], 200 * MIB, now, moved_manually, NULL),
		     0);
	pass(NSEC_PER_SEC);
	ask_in_pieces(&fakes[1], 256 * MIB);
	cr_assert_eq(fakes[1].has, 256 * MIB);
	need(&fakes[0]);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].need, 0);
	cr_assert_eq(fakes[0].has, 128 * MIB);
	cr_assert_eq(fakes[1].has, 128 * MIB);
}

/* Memory that was to come back is freed, and other memory is spilled: the
 * grant stands until the worker has said what came back. */
Test(reclaim, freed_on_its_way_back)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 200 * MIB);
	manual_open = 1;
	cr_assert_eq(waiters_operator(&tenants[0], 16 * MIB, now, moved_manually, NULL),
		     0);
	pass(NSEC_PER_SEC);
	need(&fakes[0]);
	reclaim_tick(&b, now);
	hear(&fakes[0]);
	cr_assert_eq(fakes[0].in_bytes, 16 * MIB);
	fakes[0].evicted -= 16 * MIB;
	evicted_freed(&fakes[0].w, 16 * MIB);
	fakes[0].pinned = UINT64_MAX;
	show(&fakes[0]);
	ask_for(&fakes[0], 100 * MIB, true);
	for (unsigned i = 0; i < 40 && fakes[0].asked[0].id; i++) {
		now += 5 * NSEC_PER_MSEC;
		reclaim_tick(&b, now);
		hear(&fakes[0]);
	}
	cr_assert_geq(fakes[0].evicted, 16 * MIB);
	move_in(&fakes[0]);
	check_sums();
	check_truth();
}

/* A grant for memory that has been freed meanwhile is free, though the worker has not
 * said yet that nothing comes back. */
Test(reclaim, freed_is_free)
{
	uint64_t left, total;

	begin(64 * MIB, 160 * MIB);
	tenants[0].memory.max = 200 * MIB;
	ask_for(&fakes[0], 200 * MIB, true);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].evicted, 136 * MIB);
	fakes[0].has = 0;
	credit_put(&fakes[0].page.credit, 64 * MIB);
	show(&fakes[0]);
	now += 50 * NSEC_PER_MSEC;
	reclaim_tick(&b, now);
	hear(&fakes[0]);
	cr_assert_eq(fakes[0].in_bytes, 64 * MIB);
	fakes[0].evicted = 0;
	evicted_freed(&fakes[0].w, 136 * MIB);
	account_left(&tenants[0], &left, &total);
	cr_assert_eq(left, 200 * MIB);
	cr_assert_eq(total, 200 * MIB);
	ask_for(&fakes[0], 200 * MIB, true);
	cr_assert_eq(tenants[0].events.max, 0);
	move_in(&fakes[0]);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].has + fakes[0].evicted, 200 * MIB);
	check_sums();
	check_truth();
}

/* Contexts of workers to come: others are evicted for them. */
Test(reclaim, others_give_way_for_contexts_to_come)
{
	uint64_t missing;

	begin(256 * MIB, 1024 * MIB);
	stop(&fakes[5]);
	b.keep_ready = 1;
	b.overhead = 16 * MIB;
	ask_in_pieces(&fakes[0], 256 * MIB);
	cr_assert_eq(fakes[0].has, 240 * MIB, "one is set aside");
	start(&fakes[5], &tenants[1], 16 * MIB);
	account_set_aside(&b, &missing);
	cr_assert_eq(missing, 16 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].has, 240 * MIB, "nobody waits for that");
	pass(2 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[0].has, 224 * MIB);
	account_set_aside(&b, &missing);
	cr_assert_eq(missing, 0);
}

/* Until there is nothing new to be told. */
static void keep_ready(void)
{
	while (prealloc_tick(&b, now) != UINT64_MAX) {
		hear_all();
		now += 100 * NSEC_PER_MSEC;
	}
	hear_all();
}

/* Host memory is kept ready while the device is nearly full, by who has what to move. */
Test(reclaim, host_memory_is_made_ahead_while_the_device_is_nearly_full)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 192 * MIB);
	keep_ready();
	cr_assert_eq(fakes[0].pool, 0);
	ask_in_pieces(&fakes[0], 48 * MIB);
	now += NSEC_PER_SEC;
	keep_ready();
	cr_assert(fakes[0].pool > 16 * MIB && fakes[0].pool <= 128 * MIB);
	cr_assert_eq(fakes[1].pool, 0);
	cr_assert_eq(prealloc_tick(&b, now), UINT64_MAX);
	stop(&fakes[1]);
	fakes[0].has -= 200 * MIB;
	credit_put(&fakes[0].page.credit, 200 * MIB);
	show(&fakes[0]);
	now += NSEC_PER_SEC;
	keep_ready();
	cr_assert_eq(fakes[0].pool, 0);
}

/* All of what it could have to give soon, however late it writes that and in what steps;
 * and it is kept while it cannot give anything. */
Test(reclaim, ready_for_the_next)
{
	begin(1024 * MIB, 16384 * MIB);
	ask(&fakes[0], 900 * MIB);
	cr_assert_gt(prealloc_tick(&b, now), now);
	hear_all(); /* what could move is written only now */
	keep_ready();
	cr_assert_eq(fakes[0].pool, 900 * MIB);
	ask(&fakes[1], 40 * MIB);
	hear_all();
	keep_ready();
	cr_assert_eq(fakes[1].pool, 40 * MIB);
	ask(&fakes[1], 30 * MIB);
	hear_all();
	keep_ready();
	cr_assert_eq(fakes[1].pool, 70 * MIB);
	fakes[0].w.move.empty_ns = UINT64_MAX - 1;
	b.prealloc_due = true;
	keep_ready();
	cr_assert_eq(fakes[0].pool, 900 * MIB);
}

/* One that is alone has no turns. */
Test(reclaim, more_is_made_ahead_where_several_may_take_turns)
{
	begin(8192 * MIB, 65536 * MIB);
	b.time = &time_sets;
	for (unsigned i = 1; i < WORKERS; i++)
		stop(&fakes[i]);
	ask(&fakes[0], 7168 * MIB);
	hear_all();
	keep_ready();
	cr_assert_eq(fakes[0].pool, 2048 * MIB);
	start(&fakes[1], &tenants[1], 0);
	ask(&fakes[1], 16 * MIB);
	hear_all();
	keep_ready();
	cr_assert_eq(fakes[0].pool, 7168 * MIB);
}
