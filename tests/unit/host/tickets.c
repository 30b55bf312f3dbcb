/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: order across lanes, replays, endings. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "session/tickets.h"

#define LANES   4
#define TICKETS 20000u

static struct tickets t;
static uint64_t order[TICKETS + 1];
static _Atomic uint64_t n_order;

/* Lane i executes the tickets that fell to it, in its own order. */
static uint8_t owner_of[TICKETS + 1];

static void *lane(void *arg)
{
	uintptr_t me = (uintptr_t)arg;

	for (uint64_t seq = 1; seq <= TICKETS; seq++) {
		if (owner_of[seq] != me)
			continue;
		if (seq % 7 == 0) {
			cr_assert_eq(tickets_wait(&t, seq), 0);
			cr_assert_geq(atomic_load(&t.done), seq);
		}
		cr_assert_eq(tickets_claim(&t, seq), 0);
		order[atomic_fetch_add(&n_order, 1)] = seq;
		tickets_done(&t, seq);
	}
	return NULL;
}

Test(tickets, total_order_across_lanes)
{
	pthread_t th[LANES];

	srand(3);
	tickets_init(&t);
	for (unsigned i = 1; i <= TICKETS; i++)
		owner_of[i] = (uint8_t)(rand() % LANES);
	for (uintptr_t i = 0; i < LANES; i++)
		pthread_create(&th[i], NULL, lane, (void *)i);
	for (unsigned i = 0; i < LANES; i++)
		pthread_join(th[i], NULL);
	cr_assert_eq(n_order, TICKETS);
	for (uint64_t i = 0; i < TICKETS; i++)
		cr_assert_eq(order[i], i + 1);
	cr_assert_eq(atomic_load(&t.waiters), 0);
}

Test(tickets, replays_are_refused)
{
	tickets_init(&t);
	cr_assert_eq(tickets_claim(&t, 0), -EPROTO);
	cr_assert_eq(tickets_claim(&t, 1), 0);
	cr_assert_eq(tickets_claim(&t, 1), -EPROTO, "claimed, not done");
	tickets_done(&t, 1);
	cr_assert_eq(tickets_claim(&t, 1), -EPROTO, "done");
	cr_assert_eq(tickets_claim(&t, 2), 0);
}

/* Two lanes with the same number: one of them is lying, exactly one gets through. */
static void *claim_five(void *arg)
{
	return (void *)(intptr_t)tickets_claim(&t, 5);
}

Test(tickets, duplicate_in_flight)
{
	pthread_t th[2];
	void *r[2];

	tickets_init(&t);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&th[i], NULL, claim_five, NULL);
	for (uint64_t seq = 1; seq < 5; seq++) {
		cr_assert_eq(tickets_claim(&t, seq), 0);
		tickets_done(&t, seq);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(th[i], &r[i]);
	cr_assert((r[0] == NULL) != (r[1] == NULL));
	cr_assert_eq((intptr_t)r[0] + (intptr_t)r[1], -EPROTO);
}

/* ---- commands that are apart ---- */

#define STREAMS 3

/* A ticket's command is for a stream, or (0) for all of them. */
static uint8_t stream_of[TICKETS + 1];
static uint64_t after_of[TICKETS + 1];
static _Atomic uint64_t executing, executed;
static uint64_t last_on[STREAMS + 1];

static void execute(uint64_t seq, unsigned stream)
{
	if (stream) {
		atomic_fetch_add(&executing, 1);
		cr_expect_lt(last_on[stream], seq);
		last_on[stream] = seq;
		for (unsigned i = 0; i < seq % 50; i++)
			atomic_load(&executing);
		atomic_fetch_sub(&executing, 1);
	} else {
		cr_expect_eq(atomic_load(&executing), 0);
		cr_expect_eq(atomic_load(&executed), seq - 1);
	}
	atomic_fetch_add(&executed, 1);
}

static void *lane_of_streams(void *arg)
{
	uintptr_t me = (uintptr_t)arg;

	for (uint64_t seq = 1; seq <= TICKETS; seq++) {
		if (owner_of[seq] != me)
			continue;
		if (stream_of[seq]) {
			if (!tickets_room(&t, seq))
				cr_assert_eq(tickets_wait(&t, seq - TICKETS_OPEN + 1), 0);
			cr_assert_eq(tickets_claim_now(&t, seq), 0);
			cr_assert_eq(tickets_wait(&t, after_of[seq] + 1), 0);
			execute(seq, stream_of[seq]);
			tickets_executed(&t, &seq, 1);
		} else {
			cr_assert_eq(tickets_claim(&t, seq), 0);
			execute(seq, 0);
			tickets_done(&t, seq);
		}
	}
	return NULL;
}

/* Says as a guest does what each command comes after. */
static void deal(unsigned lanes)
{
	struct {
		uint64_t seq;
		unsigned lane;
	} last[STREAMS + 1] = {{0}};

	for (unsigned i = 1; i <= TICKETS; i++) {
		unsigned st = rand() % 8 ? 1 + (unsigned)rand() % STREAMS : 0;

		owner_of[i] = (uint8_t)((unsigned)rand() % lanes);
		if (st && rand() % 4) /* mostly each has its own */
			st = 1 + owner_of[i] % STREAMS;
		stream_of[i] = (uint8_t)st;
		after_of[i] = last[0].seq;
		if (st && last[st].lane != owner_of[i] && last[st].seq > after_of[i])
			after_of[i] = last[st].seq;
		last[st].seq = i;
		last[st].lane = owner_of[i];
	}
}

Test(tickets, commands_apart_are_in_order_on_a_stream_and_beside_those_for_all)
{
	pthread_t th[LANES];

	srand(4);
	tickets_init(&t);
	deal(LANES);
	for (uintptr_t i = 0; i < LANES; i++)
		pthread_create(&th[i], NULL, lane_of_streams, (void *)i);
	for (unsigned i = 0; i < LANES; i++)
		pthread_join(th[i], NULL);
	cr_assert_eq(atomic_load(&t.done), TICKETS + 1);
	cr_assert_eq(atomic_load(&t.waiters), 0);
	cr_assert_eq(atomic_load(&t.pressing), 0);
}

Test(tickets, no_more_are_open_than_there_is_room_for)
{
	tickets_init(&t);
	for (uint64_t seq = TICKETS_OPEN; seq > 0; seq--) {
		cr_assert(tickets_room(&t, seq));
		cr_assert_eq(tickets_claim_now(&t, seq), 0);
	}
	cr_assert_not(tickets_room(&t, TICKETS_OPEN + 1));
	for (uint64_t seq = TICKETS_OPEN; seq > 1; seq--)
		tickets_executed(&t, &seq, 1);
	cr_assert_eq(atomic_load(&t.done), 1, "the first one is not");
	tickets_executed(&t, &(uint64_t){1}, 1);
	cr_assert_eq(atomic_load(&t.done), TICKETS_OPEN + 1);
	cr_assert(tickets_room(&t, TICKETS_OPEN + 1));
}

Test(tickets, one_that_is_apart_is_not_claimed_again)
{
	tickets_init(&t);
	cr_assert_eq(tickets_claim_now(&t, 0), -EPROTO);
	cr_assert_eq(tickets_claim_now(&t, 2), 0);
	cr_assert_eq(tickets_claim_now(&t, 2), -EPROTO, "claimed");
	tickets_executed(&t, &(uint64_t){2}, 1);
	cr_assert_eq(tickets_claim_now(&t, 2), -EPROTO, "executed, and 1 is not");
	cr_assert_eq(tickets_claim(&t, 1), 0);
	tickets_done(&t, 1);
	cr_assert_eq(atomic_load(&t.done), 3);
	cr_assert_eq(tickets_claim_now(&t, 2), -EPROTO, "done");
	cr_assert_eq(tickets_claim(&t, UINT64_MAX), -EPROTO);
}

static void *wait_far(void *arg)
{
	return (void *)(intptr_t)tickets_wait(&t, 1ull << 40);
}

Test(tickets, end_wakes_sleepers)
{
	pthread_t th[3];
	void *r;

	tickets_init(&t);
	for (unsigned i = 0; i < 3; i++)
		pthread_create(&th[i], NULL, wait_far, NULL);
	while (atomic_load(&t.waiters) < 3)
		sched_yield();
	tickets_end(&t);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(th[i], &r);
		cr_assert_eq((intptr_t)r, -EPIPE);
	}
}

#define CROWD 64u

static void *claim_one(void *arg)
{
	uint64_t seq = (uintptr_t)arg;

	if (tickets_claim(&t, seq) < 0)
		return (void *)1;
	tickets_done(&t, seq);
	return NULL;
}

Test(tickets, nobody_is_woken_more_than_twice)
{
	pthread_t th[CROWD];
	void *r;

	tickets_init(&t);
	for (uintptr_t i = 0; i < CROWD; i++)
		pthread_create(&th[i], NULL, claim_one, (void *)(i + 2));
	while (atomic_load(&t.waiters) < CROWD)
		sched_yield();
	cr_assert_eq(tickets_claim(&t, 1), 0);
	tickets_done(&t, 1);
	for (unsigned i = 0; i < CROWD; i++) {
		pthread_join(th[i], &r);
		cr_assert_eq(r, NULL);
	}
	/* Near its turn, and if that takes long, when it has come. */
	cr_assert_leq(atomic_load(&t.woken), 2 * CROWD);
}

static void *wait_one(void *arg)
{
	return (void *)(intptr_t)tickets_wait(&t, (uintptr_t)arg);
}

Test(tickets, several_done_at_once_wake_all_that_are_due)
{
	pthread_t th[4];
	void *r;

	tickets_init(&t);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&th[i], NULL, wait_one, (void *)(i + 2));
	while (atomic_load(&t.waiters) < 4)
		sched_yield();
	cr_assert_eq(tickets_claim(&t, 1), 0);
	cr_assert_eq(tickets_claim_now(&t, 2), 0);
	cr_assert_eq(tickets_claim_now(&t, 3), 0);
	tickets_done(&t, 3);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(th[i], &r);
		cr_assert_eq(r, NULL);
	}
	cr_assert_leq(atomic_load(&t.waiters), 1);
	cr_assert_leq(atomic_load(&t.woken), 2 * 4);
	tickets_end(&t);
	pthread_join(th[3], &r);
	cr_assert_eq((intptr_t)r, -EPIPE);
}
