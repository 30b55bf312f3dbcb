/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of weftd's books as tenants and sessions grow in number, all of which want more
 * than there is: granting a charge that has room, saying what is left, and a tick in
 * which one lane of each session waits, or many of one tenant. Medians, in microseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/child.h"
#include "broker/loop/outbox.h"
#include "broker/memory/ledger.h"
#include "broker/memory/reclaim.h"
#include "broker/memory/waiters.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"

#define MIB         (1ull << 20)
#define TENANTS_MAX 64u
#define WORKERS_MAX 256u
#define ROUNDS      101u

static struct broker b;
static struct tenant tenants[TENANTS_MAX];
static struct worker workers[WORKERS_MAX];
static struct worker_page *pages[WORKERS_MAX];
static int pair[2];
static uint64_t now;

void child_kill(struct child *c)
{
	(void)c;
	abort();
}

static void start(unsigned i, struct tenant *t)
{
	struct worker *w = &workers[i];

	*w = (struct worker){.b = &b, .state = WORKER_READY, .slice = -1};
	/* As weftd has them: in pages of their own. */
	pages[i] = w->count = aligned_alloc(4096, WORKER_PAGE_SIZE);
	if (!w->count)
		abort();
	memset(w->count, 0, WORKER_PAGE_SIZE);
	w->ctl.fd = pair[0];
	outbox_init(&w->out, b.loop, &w->ctl);
	list_append(&b.workers, &w->link);
	account_ready(w, 0);
	if (account_attach(w, t) < 0)
		abort();
	w->state = WORKER_SESSION;
	account_begin(w);
}

static void begin(unsigned n_tenants, unsigned each, uint64_t max)
{
	memset(&b, 0, sizeof(b));
	list_init(&b.tenants);
	list_init(&b.workers);
	list_init(&b.waiters);
	b.device_total = 4096 * MIB;
	b.swap = 1ull << 40;
	b.piece = 8 * MIB;
	b.placement = placement_at(0);
	b.reserve = 64 * MIB;
	now = NSEC_PER_SEC;
	for (unsigned i = 0; i < n_tenants; i++) {
		tenants[i] = (struct tenant){.b = &b};
		tenants[i].memory = (struct conf_memory){.high = UINT64_MAX,
							 .max = max,
							 .swap_max = UINT64_MAX,
							 .weight = 100};
		list_init(&tenants[i].workers);
		waiters_init(&tenants[i]);
		list_append(&b.tenants, &tenants[i].link);
	}
	for (unsigned i = 0; i < n_tenants * each; i++)
		start(i, &tenants[i % n_tenants]);
}

static void end(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		reclaim_end(&workers[i]);
		account_end(&workers[i]);
		list_remove(&workers[i].link);
		outbox_drop(&workers[i].out);
		free(pages[i]);
	}
}

/* Each has an equal part of the device, all of it, and as much again evicted. */
static void fill(unsigned n)
{
	uint64_t part = b.device_total / n / (2 * MIB) * (2 * MIB), evicted;

	for (unsigned i = 0; i < n; i++) {
		if (account_charge_part(&workers[i], 2 * part, part, &evicted) < 0)
			abort();
		atomic_store(&pages[i]->movable_bytes, part);
	}
}

static int by_size(const void *a, const void *c)
{
	const uint64_t *p = a, *q = c;

	return (*p > *q) - (*p < *q);
}

static double median(uint64_t *ns)
{
	qsort(ns, ROUNDS, sizeof(*ns), by_size);
	return (double)ns[ROUNDS / 2] / 1e3;
}

static double charge(void)
{
	uint64_t ns[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t at = clock_now_ns();

		if (account_charge(&workers[0], 2 * MIB, true) < 0)
			abort();
		ns[i] = clock_now_ns() - at;
	}
	return median(ns);
}

static double left(void)
{
	uint64_t ns[ROUNDS], free_bytes, total;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t at = clock_now_ns();

		account_left(&tenants[0], &free_bytes, &total);
		ns[i] = clock_now_ns() - at;
	}
	return median(ns);
}

/* A tick with `waiting` in each of the first n sessions, when nobody can give. */
static double tick(unsigned n, unsigned waiting)
{
	uint64_t ns[ROUNDS];

	for (unsigned i = 0; i < n; i++)
		workers[i].move.busy_ns = UINT64_MAX;
	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < waiting; k++) {
			if (waiters_charge(&workers[i], k + 1, 32 * MIB, true, now) < 0)
				abort();
		}
	}
	reclaim_tick(&b, now);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t at = clock_now_ns();

		now += 5 * NSEC_PER_MSEC;
		reclaim_tick(&b, now);
		ns[i] = clock_now_ns() - at;
	}
	return median(ns);
}

static void row(unsigned n_tenants, unsigned each)
{
	unsigned n = n_tenants * each;

	printf("| %u x %u | ", n_tenants, each);
	begin(n_tenants, each, 16384 * MIB);
	printf("%.1f | ", charge());
	end(n);
	begin(n_tenants, each, 16384 * MIB);
	fill(n);
	printf("%.1f | ", left());
	printf("%.1f |\n", tick(n, 1));
	end(n);
}

int main(void)
{
	static const unsigned tenants_of[] = {1, 4, 16, 64};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
		return 1;
	printf("| tenants x sessions | a charge | what is left | a tick, all wait |\n"
	       "|---|---|---|---|\n");
	for (unsigned i = 0; i < ARRAY_SIZE(tenants_of); i++)
		row(tenants_of[i], 4);
	begin(4, 10, 1ull << 50);
	fill(40);
	printf("a tick, 240 lanes of each of 40 sessions wait: %.1f\n", tick(40, 240));
	end(40);
	free(b.seen);
	free(b.shares);
	return 0;
}
