/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More memory promised than the device has: random sequences of what sessions, operators
 * and time do, against a model.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "broker/memory/ledger.h"
#include "broker/memory/prealloc.h"
#include "broker/memory/reclaim.h"
#include "broker/memory/waiters.h"
#include "fakes.h"

#ifdef __SANITIZE_ADDRESS__ /* ten times as slow */
#define SEQUENCES 2500
#else
#define SEQUENCES 10000
#endif
#define STEPS     60

static uint64_t some_bytes(void)
{
	uint64_t n = (1 + (uint64_t)rand() % 16) * PIECE;

	return rand() % 8 ? n : n * 16;
}

static void set_limits(struct tenant *t)
{
	struct conf_memory m = t->memory;

	switch (rand() % 6) {
	case 0:
		m.max = rand() % 2 ? some_bytes() * 8 : UINT64_MAX;
		break;
	case 1:
		m.high = rand() % 2 ? some_bytes() * 4 : UINT64_MAX;
		break;
	case 2:
		m.low = some_bytes();
		break;
	case 3:
		m.min = some_bytes();
		break;
	case 4:
		m.swap_max = rand() % 2 ? some_bytes() * 4 : UINT64_MAX;
		break;
	case 5:
		m.weight = 1 + (unsigned)rand() % 1000;
		break;
	}
	account_set(t, &m);
}

static void session_step(struct mate *m)
{
	switch (rand() % 16) {
	case 0:
		if (rand() % 3 == 0)
			stop(m);
		break;
	case 1:
		need(m);
		break;
	case 2:
		atomic_store(&m->page.last_submit_ns, now);
		break;
	case 3:
		m->pinned = rand() % 2 ? some_bytes() : 0;
		show(m);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		give_up(m, some_bytes());
		break;
	default:
		if (rand() % 4)
			ask_for(m, some_bytes(), rand() % 2);
		else
			ask_spare(m, some_bytes());
	}
}

static void step(void)
{
	struct mate *m = &fakes[rand() % WORKERS];
	struct tenant *t = &tenants[rand() % TENANTS];

	if (rand() % 16 == 0) {
		set_limits(t);
	} else if (rand() % 32 == 0) {
		manual_open++;
		cr_assert_eq(waiters_operator(t, some_bytes(), now, moved_manually, NULL),
			     0);
	} else if (m->w.state == WORKER_SESSION) {
		session_step(m);
	} else {
		start(m, t, rand() % 2 * 16 * MIB);
		m->lies = m->w.state == WORKER_SESSION && rand() % 64 == 0;
	}
	hear_all();
	for (unsigned i = 0; i < WORKERS; i++) {
		if (fakes[i].out_id && rand() % 2)
			move_out(&fakes[i]);
		if (fakes[i].in_id && rand() % 2)
			move_in(&fakes[i]);
		if (fakes[i].at_gate && rand() % 4 == 0)
			become_idle(&fakes[i], rand() % 2 ? 0 : -EBUSY);
	}
	now += (uint64_t)rand() % 20 * NSEC_PER_MSEC;
	reclaim_tick(&b, now);
	prealloc_tick(&b, now);
}

/* Everybody is answered, whatever workers do; those that move answer sooner or later. */
static void settle(void)
{
	uint64_t end = now + 40 * NSEC_PER_SEC;

	while (now < end) {
		uint64_t next = move_all();

		cr_assert_gt(next, now);
		now = MIN(next, now + 500 * NSEC_PER_MSEC);
	}
	reclaim_tick(&b, now);
	check();
	cr_assert(list_empty(&b.waiters));
	cr_assert_eq(manual_open, 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		cr_assert_eq(fakes[i].need, 0);
		for (unsigned n = 0; n < ASKED_MAX; n++)
			cr_assert_eq(fakes[i].asked[n].id, 0);
	}
}

static void stop_all(void)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		if (fakes[i].w.state == WORKER_SESSION)
			stop(&fakes[i]);
	}
	check_sums();
	cr_assert_eq(b.granted, 0);
	cr_assert_eq(b.evicted, 0);
}

Test(reclaim, random_against_model)
{
	uint64_t moved = 0;

	srand(5);
	open_sockets();
	for (unsigned n = 0; n < SEQUENCES; n++) {
		reset((1 + (uint64_t)rand() % 8) * 128 * MIB,
		      rand() % 8 ? (uint64_t)(rand() % 16) * 128 * MIB : 0);
		b.reserve = (uint64_t)(rand() % 4) * 8 * MIB;
		for (unsigned k = 0; k < STEPS; k++) {
			step();
			check();
		}
		for (unsigned i = 0; i < TENANTS; i++)
			moved += tenants[i].events.reclaim;
		if (n % 64 == 0 && b.swap)
			settle();
		waiters_drop_tenant(&tenants[0]);
		waiters_drop_tenant(&tenants[1]);
		waiters_drop_tenant(&tenants[2]);
		waiters_drop_tenant(&tenants[3]);
		stop_all();
		cr_assert(list_empty(&b.waiters));
	}
	cr_assert_gt(moved, SEQUENCES, "hardly anything moved");
	cr_assert_gt(in_part, SEQUENCES / 10, "hardly anything was granted in part");
}

/* Memory that is free for weftd can be had, and no piece more than it keeps back. */
Test(reclaim, free_is_exact)
{
	unsigned more = 0;

	srand(7);
	open_sockets();
	for (unsigned n = 0; n < 400; n++) {
		struct mate *m = &fakes[(unsigned)rand() % WORKERS];
		uint64_t left, total, had;

		reset((1 + (uint64_t)rand() % 4) * 128 * MIB,
		      (1 + (uint64_t)rand() % 8) * 64 * MIB);
		honest = true;
		b.reserve = (uint64_t)(rand() % 4) * 8 * MIB;
		for (unsigned i = 0; i < WORKERS; i++)
			start(&fakes[i], &tenants[i % TENANTS], 0);
		for (unsigned k = 0; k < 30; k++) {
			struct mate *o = &fakes[(unsigned)rand() % WORKERS];

			if (rand() % 8 == 0)
				set_limits(&tenants[rand() % TENANTS]);
			else if (rand() % 3)
				ask(o, some_bytes());
			else
				give_up(o, some_bytes());
			pass(NSEC_PER_SEC);
		}
		account_left(m->w.tenant, &left, &total);
		had = m->has + m->evicted;
		if (left && n % 2) {
			ask_for(m, left, true);
			pass(NSEC_PER_SEC);
			cr_assert_eq(m->has + m->evicted, had + left);
		} else if (m->w.tenant->memory.max != UINT64_MAX) {
			ask_for(m, left + b.device_total / 64 + PIECE, true);
			pass(NSEC_PER_SEC);
			more += m->has + m->evicted != had;
		}
		for (unsigned i = 0; i < WORKERS; i++)
			stop(&fakes[i]);
	}
	cr_assert_eq(more, 0);
}
