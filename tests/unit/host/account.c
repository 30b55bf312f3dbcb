/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits are exact, whatever is granted ahead: random sequences of what tenants' sessions
 * do, as workers and weftd do it together, against a model that only adds up.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/memory/ledger.h"
#include "broker/memory/swap.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "policies/placement.h"
#include "util/conf.h"

#define MIB       (1ull << 20)
#define TENANTS   3
#define WORKERS   7
#define SEQUENCES 10000
#define STEPS     60

static struct broker b;
static struct tenant tenants[TENANTS];
static struct worker workers[WORKERS];
static struct worker_page pages[WORKERS];
static uint64_t used[WORKERS]; /* the model */

static void reset(uint64_t device)
{
	memset(&b, 0, sizeof(b));
	memset(tenants, 0, sizeof(tenants));
	memset(workers, 0, sizeof(workers));
	memset(pages, 0, sizeof(pages));
	memset(used, 0, sizeof(used));
	list_init(&b.tenants);
	list_init(&b.workers);
	list_init(&b.waiters);
	b.device_total = device;
	for (unsigned i = 0; i < TENANTS; i++) {
		tenants[i].b = &b;
		list_init(&tenants[i].workers);
		tenants[i].memory.max = UINT64_MAX;
		list_append(&b.tenants, &tenants[i].link);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i].b = &b;
		workers[i].count = &pages[i];
		workers[i].state = WORKER_STARTING;
	}
}

static uint64_t model_tenant(const struct tenant *t)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WORKERS; i++)
		sum += workers[i].state == WORKER_SESSION && workers[i].tenant == t
			       ? used[i]
			       : 0;
	return sum;
}

static uint64_t model_device(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WORKERS; i++)
		sum += used[i];
	return sum;
}

static uint64_t model_max(const struct tenant *t)
{
	return t->memory.max == UINT64_MAX ? b.device_total : t->memory.max;
}

static bool model_fits(const struct tenant *t, uint64_t bytes)
{
	return model_tenant(t) + bytes <= model_max(t) &&
	       model_device() + bytes <= b.device_total;
}

/* As worker/broker_link.c does it. */
static bool take(unsigned i, uint64_t bytes)
{
	return credit_take(&pages[i].credit, bytes) ||
	       account_charge(&workers[i], bytes, false) == 0;
}

static void start(unsigned i, uint64_t overhead)
{
	list_append(&b.workers, &workers[i].link);
	workers[i].state = WORKER_READY;
	workers[i].tenant = NULL;
	account_ready(&workers[i], overhead);
	used[i] = overhead;
}

static void attach(unsigned i, struct tenant *t)
{
	bool fits = !used[i] || model_tenant(t) + used[i] <= model_max(t);
	int r = account_attach(&workers[i], t);

	cr_assert_eq(r == 0, fits);
	if (r < 0)
		return;
	workers[i].state = WORKER_SESSION;
	account_begin(&workers[i]);
}

static void stop(unsigned i)
{
	account_end(&workers[i]);
	list_remove(&workers[i].link);
	used[i] = 0;
	memset(&pages[i], 0, sizeof(pages[i]));
	workers[i] = (struct worker){.b = &b, .count = &pages[i]};
}

/* As a tenant is told, where others are in the way. */
static uint64_t model_left(const struct tenant *t)
{
	uint64_t has = model_tenant(t), quota = model_max(t) - MIN(model_max(t), has);
	uint64_t device = b.device_total - MIN(b.device_total, model_device());
	uint64_t step = b.device_total / 64;

	if (quota <= device)
		return quota;
	for (unsigned i = 0; i < WORKERS; i++) {
		if (workers[i].state == WORKER_SESSION && workers[i].tenant != t)
			return MAX((has + device) / step * step, has) - has;
	}
	return device;
}

static void check(void)
{
	uint64_t left, total, want;

	cr_assert_eq(account_device(&b), model_device());
	for (unsigned i = 0; i < TENANTS; i++) {
		cr_assert_eq(account_tenant(&tenants[i]), model_tenant(&tenants[i]));
		cr_assert_geq(account_peak(&tenants[i]), model_tenant(&tenants[i]));
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		struct tenant *t = workers[i].tenant;

		if (workers[i].state != WORKER_SESSION)
			continue;
		want = model_left(t);
		account_left(t, &left, &total);
		cr_assert_eq(left, want);
		cr_assert_eq(total, MIN(t->memory.max, b.device_total));
		/* what a session finds without asking is the same */
		if (!credit_look(&pages[i].credit, &left, &total))
			continue;
		cr_assert_eq(left, want);
		cr_assert_eq(total, MIN(t->memory.max, b.device_total));
	}
}

static void set_max(struct tenant *t, uint64_t bytes)
{
	struct conf_memory m = t->memory;

	m.max = bytes;
	account_set(t, &m);
}

static uint64_t some_bytes(void)
{
	uint64_t n = (1 + (uint64_t)rand() % 64) * 2 * MIB;

	return rand() % 8 ? n : n * 16;
}

static void step(void)
{
	unsigned i = (unsigned)rand() % WORKERS;
	struct tenant *t = &tenants[rand() % TENANTS];
	uint64_t bytes = some_bytes();

	if (rand() % 16 == 0) {
		set_max(t, rand() % 4 ? some_bytes() * 8 : UINT64_MAX);
		return;
	}
	switch (workers[i].state) {
	case WORKER_STARTING:
		start(i, rand() % 2 * 16 * MIB);
		break;
	case WORKER_READY:
		if (rand() % 4 == 0) { /* it only monitors, and pays for no context */
			account_monitor(&workers[i]);
			used[i] = 0;
		}
		attach(i, t);
		break;
	case WORKER_NUM_STATES:
		break;
	case WORKER_SESSION:
		if (rand() % 32 == 0) {
			stop(i);
		} else if (rand() % 3) {
			bool fits = model_fits(workers[i].tenant, bytes);

			cr_assert_eq(take(i, bytes), fits);
			used[i] += fits ? bytes : 0;
		} else {
			bytes = MIN(bytes, used[i] - workers[i].overhead);
			credit_put(&pages[i].credit, bytes);
			used[i] -= bytes;
		}
		break;
	}
}

Test(account, random_against_model)
{
	srand(3);
	for (unsigned n = 0; n < SEQUENCES; n++) {
		reset((1 + (uint64_t)rand() % 16) * 256 * MIB);
		for (unsigned k = 0; k < STEPS; k++) {
			step();
			check();
		}
	}
}

/* A worker that lies about its credit gets no more than it was granted, all together. */
Test(account, a_liar_gets_no_more_than_was_granted)
{
	reset(1024 * MIB);
	start(0, 0);
	attach(0, &tenants[0]);
	start(1, 0);
	attach(1, &tenants[1]);
	cr_assert(take(1, 200 * MIB));
	cr_assert(take(0, 100 * MIB));
	atomic_fetch_sub(&pages[0].credit.taken, INT64_MAX / 2);
	cr_assert_eq(account_worker(&workers[0]), 0);
	cr_assert_geq(account_device(&b), 200 * MIB);
	cr_assert_eq(account_charge(&workers[1], 900 * MIB, false), -ENOMEM);
	cr_assert_eq(account_charge(&workers[1], 700 * MIB, false), 0);
	stop(0);
	cr_assert_eq(account_device(&b), 900 * MIB);
	stop(1);
	cr_assert_eq(account_device(&b), 0);
	cr_assert_eq(b.granted, 0);
}

/* Below what is in use: nothing fails that exists, nothing is added until it fits. */
Test(account, a_lowered_limit_takes_nothing_and_adds_nothing)
{
	reset(4096 * MIB);
	start(0, 0);
	attach(0, &tenants[0]);
	cr_assert(take(0, 800 * MIB));
	set_max(&tenants[0], 500 * MIB);
	cr_assert_eq(account_tenant(&tenants[0]), 800 * MIB);
	cr_assert(!take(0, 2 * MIB));
	credit_put(&pages[0].credit, 200 * MIB);
	cr_assert(!take(0, 2 * MIB), "600 of 500");
	credit_put(&pages[0].credit, 102 * MIB);
	cr_assert(take(0, 2 * MIB), "500 of 500");
	cr_assert(!take(0, 2 * MIB));
	cr_assert_eq(tenants[0].events.max, 3);
	set_max(&tenants[0], UINT64_MAX);
	cr_assert(take(0, 2 * MIB));
}

/* A tenant sees every byte of what it has itself, and of what others have a 64th of the
 * device at a time. */
Test(account, others_in_steps)
{
	uint64_t left, total, before, changed = 0;

	reset(1024 * MIB);
	for (unsigned i = 0; i < 2; i++) {
		start(i, 0);
		attach(i, &tenants[i]);
	}
	account_left(&tenants[0], &before, &total);
	cr_assert_eq(before, 1024 * MIB);
	for (uint64_t taken = 2 * MIB; taken <= 256 * MIB; taken += 2 * MIB) {
		cr_assert(take(1, 2 * MIB));
		account_left(&tenants[0], &left, &total);
		cr_assert_eq(left, (1024 * MIB - taken) / (16 * MIB) * (16 * MIB));
		changed += left != before;
		before = left;
	}
	cr_assert_eq(changed, 16);
	cr_assert(take(0, 2 * MIB));
	account_left(&tenants[0], &left, &total);
	cr_assert_eq(left, before - 2 * MIB);
	cr_assert(take(0, left), "it can be had");
}

/* A worker that gets ready for the next guest takes nothing from who runs already. */
Test(account, set_aside)
{
	uint64_t left, total, before;

	reset(1024 * MIB);
	b.keep_ready = 1;
	start(0, 16 * MIB);
	attach(0, &tenants[0]);
	cr_assert(credit_look(&pages[0].credit, &before, &total));
	cr_assert_eq(before, (1024 - 32) * MIB);
	start(1, 16 * MIB);
	cr_assert(credit_look(&pages[0].credit, &left, &total));
	cr_assert_eq(left, before);
	account_left(&tenants[0], &left, &total);
	cr_assert_eq(left, before);
	cr_assert(!take(0, 1000 * MIB));
	cr_assert(take(0, before));
	stop(1);
	account_left(&tenants[0], &left, &total);
	cr_assert_eq(left, 0);
	cr_assert_eq(account_device(&b), 1008 * MIB);
	stop(0);
	cr_assert_eq(account_device(&b), 0);
}

/* Partly in host memory: as far as that, and what the tenant may have of it, goes. */
Test(account, in_part)
{
	uint64_t evicted = 0;

	reset(256 * MIB);
	start(0, 0);
	attach(0, &tenants[0]);
	b.swap = 128 * MIB;
	b.piece = 4 * MIB;
	tenants[0].memory.swap_max = 64 * MIB;
	set_max(&tenants[0], 300 * MIB);
	cr_assert_eq(account_charge_part(&workers[0], 302 * MIB, UINT64_MAX, &evicted),
		     -EDQUOT);
	set_max(&tenants[0], 512 * MIB);
	cr_assert_eq(account_charge_part(&workers[0], 322 * MIB, UINT64_MAX, &evicted),
		     -ENOMEM);
	cr_assert_eq(b.granted + b.evicted, 0);
	/* whole pieces, of what there is for it */
	cr_assert_eq(account_charge_part(&workers[0], 200 * MIB, 142 * MIB, &evicted), 0);
	cr_assert_eq(evicted, 60 * MIB);
	cr_assert_eq(tenants[0].granted, 140 * MIB);
	cr_assert_eq(tenants[0].evicted, 60 * MIB);
	cr_assert_eq(account_charge_part(&workers[0], 10 * MIB, 0, &evicted), -ENOMEM);
	cr_assert_eq(account_charge_part(&workers[0], 10 * MIB, 10 * MIB, &evicted), 0);
	cr_assert_eq(evicted, 0);
	stop(0);
	cr_assert_eq(b.granted + b.evicted, 0);
}

/* Freed while it was on its way out: it can be had, though not before that has ended. */
Test(account, freed_early)
{
	uint64_t left, total, seen;

	reset(64 * MIB);
	b.swap = 64 * MIB;
	b.piece = 2 * MIB;
	b.placement = placement_at(0);
	b.time = &time_fair;
	tenants[0].memory.swap_max = UINT64_MAX;
	start(0, 0);
	attach(0, &tenants[0]);
	cr_assert(take(0, 60 * MIB));
	workers[0].move.out_id = 1; /* it was asked to move something */
	evicted_freed(&workers[0], 60 * MIB);
	account_left(&tenants[0], &left, &total);
	cr_assert_eq(left, 64 * MIB);
	cr_assert(!credit_look(&pages[0].credit, &seen, &total), "credit cannot know");
	cr_assert_eq(account_charge(&workers[0], 60 * MIB, true), -EAGAIN);
	cr_assert_eq(account_may(&workers[0], 60 * MIB), -EAGAIN);
	cr_assert_eq(account_may(&workers[0], 66 * MIB), -ENOMEM);
	cr_assert_eq(tenants[0].events.oom, 1);
	cr_assert_eq(evicted_left(&workers[0], 60 * MIB), 60 * MIB);
	cr_assert_eq(b.evicted, 0);
	account_left(&tenants[0], &left, &total);
	cr_assert_eq(left, 64 * MIB);
	cr_assert_eq(account_charge(&workers[0], 60 * MIB, true), 0);
	used[0] = 60 * MIB;
	stop(0);
}

static uint64_t keep(unsigned i)
{
	return atomic_load(&pages[i].host_keep_bytes);
}

/* Copies in host memory of what is on the device have what the limits leave. */
Test(account, copies_in_host_memory)
{
	reset(100 * MIB);
	b.swap = 64 * MIB;
	for (unsigned i = 0; i < 3; i++) {
		start(i, 0);
		tenants[i].memory.swap_max = UINT64_MAX;
	}
	attach(0, &tenants[0]);
	attach(1, &tenants[0]);
	attach(2, &tenants[1]);
	tenants[0].memory.swap_max = 20 * MIB;
	cr_assert_eq(account_charge(&workers[0], 18 * MIB, false), 0);
	cr_assert_eq(account_charge(&workers[2], 6 * MIB, false), 0);
	swap_tell_keep(&b);
	cr_assert_eq(keep(0), 20 * MIB);
	cr_assert_eq(keep(1), 1, "it has nothing on the device; 0: as much as it likes");
	cr_assert_eq(keep(2), 16 * MIB);
	cr_assert_eq(evicted_left(&workers[0], 14 * MIB), 14 * MIB);
	cr_assert_eq(keep(0), 6 * MIB);
	cr_assert_eq(keep(2), 30 * MIB, "of others, too");
	cr_assert_eq(evicted_left(&workers[2], 6 * MIB), 6 * MIB);
	cr_assert_eq(keep(2), 1);
	cr_assert_eq(evicted_return(&workers[2], 6 * MIB), 0);
	cr_assert_eq(keep(2), 44 * MIB * 6 / 10, "before it is back");
	evicted_returned(&workers[2], 6 * MIB);
	cr_assert_eq(swap_tenant(&tenants[0]), 14 * MIB);
	atomic_store(&pages[0].kept_bytes, 2 * MIB);
	atomic_store(&pages[1].kept_bytes, 50 * MIB); /* it has nothing on the device */
	cr_assert_eq(swap_worker(&workers[0]), 16 * MIB);
	cr_assert_eq(swap_tenant(&tenants[0]), 16 * MIB);
	cr_assert_eq(swap_device(&b), 16 * MIB);
	cr_assert_eq(evicted_left(&workers[0], 4 * MIB), 4 * MIB);
	tenants[0].memory.swap_max = 18 * MIB;
	swap_tell_keep(&b);
	cr_assert_eq(keep(0), 1);
}
