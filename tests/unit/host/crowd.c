/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Very many sessions, and very many that wait: how many workers and waiters weftd visits
 * for one of them. Steps are counted, not seconds.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "broker/broker.h"
#include "broker/child/child.h"
#include "broker/loop/outbox.h"
#include "broker/memory/ledger.h"
#include "broker/memory/reclaim.h"
#include "broker/memory/waiters.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"

#define MIB         (1ull << 20)
#define PIECE       (2 * MIB)
#define TENANTS_MAX 64u
#define WORKERS_MAX 256u
/* One tenant's sessions, and what waits in each: a charge for each lane. */
#define CROWD 40u
#define LANES 240u

unsigned long steps;

static struct broker b;
static struct tenant tenants[TENANTS_MAX];
static struct worker workers[WORKERS_MAX];
static struct worker_page *pages;
static int socks[WORKERS_MAX];
static uint64_t now;

void child_kill(struct child *c)
{
	cr_assert_fail("a worker cannot be told");
}

static void start(struct worker *w, struct tenant *t)
{
	unsigned i = (unsigned)(w - workers);
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	*w = (struct worker){
		.b = &b, .count = &pages[i], .state = WORKER_READY, .slice = -1};
	w->ctl.fd = pair[0];
	socks[i] = pair[1];
	outbox_init(&w->out, b.loop, &w->ctl);
	list_append(&b.workers, &w->link);
	account_ready(w, 0);
	cr_assert_eq(account_attach(w, t), 0);
	w->state = WORKER_SESSION;
	account_begin(w);
}

/* Tenants that may each have more than the device. */
static void begin(unsigned n_tenants)
{
	memset(&b, 0, sizeof(b));
	memset(tenants, 0, sizeof(tenants));
	pages = calloc(WORKERS_MAX, sizeof(*pages));
	list_init(&b.tenants);
	list_init(&b.workers);
	list_init(&b.waiters);
	b.device_total = 256 * MIB;
	b.swap = 1ull << 50;
	b.piece = PIECE;
	b.placement = placement_at(0);
	b.time = &time_fair;
	now = NSEC_PER_SEC;
	for (unsigned i = 0; i < n_tenants; i++) {
		struct tenant *t = &tenants[i];

		t->b = &b;
		t->memory = (struct conf_memory){.high = UINT64_MAX,
						 .max = UINT64_MAX / 2,
						 .swap_max = UINT64_MAX,
						 .weight = 100};
		list_init(&t->workers);
		waiters_init(t);
		list_append(&b.tenants, &t->link);
	}
}

static unsigned answers(struct worker *w)
{
	int sock = socks[w - workers], fd0, fd1;
	struct msg m;
	unsigned n = 0;

	while (msg_recv(sock, &m, &fd0, &fd1) == 0)
		n += m.type == MSG_CHARGED;
	return n;
}

/* All tenants want more than there is, and some wait. */
static void many(unsigned n_tenants, unsigned each)
{
	begin(n_tenants);
	for (unsigned i = 0; i < n_tenants * each; i++) {
		start(&workers[i], &tenants[i % n_tenants]);
		cr_assert_eq(waiters_charge(&workers[i], 1, 2 * MIB, true, now), 0);
		atomic_store(&pages[i].movable_bytes, workers[i].charged);
		workers[i].move.busy_ns = UINT64_MAX;
		reclaim_tick(&b, now);
	}
}

static unsigned long steps_of_charge(unsigned n_tenants, unsigned each)
{
	struct worker *w = &workers[0];
	unsigned long n;

	many(n_tenants, each);
	steps = 0;
	(void)account_charge(w, 64 * MIB, true);
	n = steps;
	free(pages);
	return n;
}

static unsigned long steps_of_left(unsigned n_tenants, unsigned each)
{
	uint64_t left, total;

	many(n_tenants, each);
	steps = 0;
	account_left(&tenants[0], &left, &total);
	free(pages);
	return steps;
}

static unsigned long steps_of_tick(unsigned n_tenants, unsigned each)
{
	many(n_tenants, each);
	for (unsigned i = 0; i < n_tenants * each; i++)
		cr_assert_eq(waiters_charge(&workers[i], 2, 16 * MIB, true, now), 0);
	now += 5 * NSEC_PER_MSEC;
	steps = 0;
	reclaim_tick(&b, now);
	free(pages);
	return steps;
}

/* Each worker a few times, for one that asks: four times as many cost four times as much.
 */
Test(crowd, a_charge_visits_each_worker_a_few_times)
{
	cr_assert_leq(steps_of_charge(16, 4), 12 * 64);
	cr_assert_leq(steps_of_charge(64, 4), 12 * 256);
}

Test(crowd, what_is_left_visits_each_worker_a_few_times)
{
	cr_assert_leq(steps_of_left(16, 4), 12 * 64);
	cr_assert_leq(steps_of_left(64, 4), 12 * 256);
}

Test(crowd, a_tick_visits_each_worker_a_few_times)
{
	cr_assert_leq(steps_of_tick(16, 4), 40 * 64);
	cr_assert_leq(steps_of_tick(64, 4), 40 * 256);
}

/* Alice has nearly all, under a kernel that does not end, and every lane of hers waits
 * for more. */
static void crowd(struct tenant *alice)
{
	uint64_t has = 232 * MIB;

	start(&workers[0], alice);
	cr_assert_eq(account_charge(&workers[0], has, true), 0);
	(void)account_gather(&b);
	atomic_store(&pages[0].movable_bytes, has);
	workers[0].move.busy_ns = UINT64_MAX;
	for (unsigned i = 1; i <= CROWD; i++)
		start(&workers[i], alice);
	for (unsigned i = 1; i <= CROWD; i++) {
		for (unsigned k = 0; k < LANES; k++)
			cr_assert_eq(
				waiters_charge(&workers[i], k + 1, 32 * MIB, true, now),
				0);
	}
}

static unsigned answers_of_crowd(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i <= CROWD; i++)
		n += answers(&workers[i]);
	return n;
}

Test(crowd, lanes_that_wait_cost_a_tick_no_more)
{
	struct worker *bob = &workers[CROWD + 1];

	begin(2);
	crowd(&tenants[0]);
	start(bob, &tenants[1]);
	for (unsigned i = 0; i < 10; i++) {
		now += 5 * NSEC_PER_MSEC;
		steps = 0;
		reclaim_tick(&b, now);
		cr_assert_leq(steps, 20 * (CROWD + 2));
	}
	/* who stays within its share passes them all */
	steps = 0;
	cr_assert_eq(waiters_charge(bob, 1, 8 * MIB, true, now), 0);
	reclaim_tick(&b, now);
	cr_assert_eq(answers(bob), 1);
	cr_assert_leq(steps, 30 * (CROWD + 2));
	cr_assert_eq(answers_of_crowd(), 0);
	/* and so does a session's end */
	steps = 0;
	reclaim_end(&workers[1]);
	cr_assert_leq(steps, LANES);
	free(pages);
}

/* A tenant that wants more than its share waits behind those of another that stand, and
 * not behind the others; when their time is up, a few are told at a time. */
Test(crowd, others_wait_for_a_few_of_them_only)
{
	struct worker *bob = &workers[CROWD + 1];
	unsigned n = 0, ticks = 0;

	begin(2);
	crowd(&tenants[0]);
	start(bob, &tenants[1]);
	cr_assert_eq(waiters_charge(bob, 1, 200 * MIB, true, now), 0);
	reclaim_tick(&b, now);
	cr_assert_eq(answers(bob), 0);
	now += 31 * NSEC_PER_SEC;
	steps = 0;
	reclaim_tick(&b, now);
	cr_assert_eq(answers(bob), 1);
	n = answers_of_crowd();
	cr_assert_leq(n, 16);
	cr_assert_leq(steps, 200 * (CROWD + 2));
	/* everybody is told in the end, without the clock having to go on */
	while (n < CROWD * LANES && ++ticks < CROWD * LANES) {
		uint64_t next = reclaim_tick(&b, now);

		n += answers_of_crowd();
		cr_assert(next == now || n == CROWD * LANES);
	}
	cr_assert_eq(n, CROWD * LANES);
	cr_assert_eq(tenants[0].held, 0);
	free(pages);
}
