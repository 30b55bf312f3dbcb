/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that have more of the device than was granted to them, or only seem to. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/shared.h"
#include "broker/child/child.h"
#include "broker/memory/account.h"
#include "broker/memory/held.h"
#include "broker/memory/ledger.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"

#define GIB   (1ull << 30)
#define LOOKS 60

static struct broker b;
static struct tenant t;
static struct worker w;
static struct worker_page page;
static unsigned n_killed;

void child_kill(struct child *c)
{
	n_killed++;
}

/* Functions that nobody here needs. */
int shared_lost(struct worker *w)
{
	return 0;
}

struct worker *workers_ready(struct broker *broker, enum worker_kind kind)
{
	return NULL;
}

void workers_probed(struct worker *worker, uint32_t id)
{
}

static void reset(bool own_memory)
{
	memset(&b, 0, sizeof(b));
	memset(&t, 0, sizeof(t));
	memset(&w, 0, sizeof(w));
	b.own_memory = own_memory;
	b.device_total = 64 * GIB;
	t.b = w.b = &b;
	w.tenant = &t;
	w.count = &page;
	w.state = WORKER_SESSION;
	list_init(&b.workers);
	list_init(&b.waiters);
	list_init(&t.workers);
	list_append(&b.workers, &w.link);
	list_append(&t.workers, &w.tenant_link);
	n_killed = 0;
	log_set_level(LOG_LVL_NONE);
}

/* The first look that ends it, or 0. */
static unsigned ended_after(uint64_t has)
{
	for (unsigned i = 1; i <= LOOKS; i++) {
		held_check(&w, has);
		if (n_killed)
			return i;
	}
	return 0;
}

Test(held, more_than_was_granted)
{
	reset(true);
	account_grant(&w, GIB);
	cr_expect_eq(ended_after(GIB), 0);
	cr_expect_eq(ended_after(4 * GIB), HELD_TIMES);
}

Test(held, gave_back_what_it_keeps)
{
	reset(true);
	account_grant(&w, 8 * GIB);
	account_ungrant(&w, 8 * GIB);
	cr_expect_eq(ended_after(8 * GIB), 2 * HELD_TIMES, "a while after it said so");
}

/* A driver's number is a moment old, and memory is given back later than it was freed. */
Test(held, takes_and_gives_in_turn)
{
	reset(true);
	for (unsigned i = 0; i < LOOKS; i++) {
		uint64_t before = w.charged;

		if (i / 3 % 2)
			account_ungrant(&w, 6 * GIB);
		else
			account_grant(&w, 6 * GIB);
		held_check(&w, MAX(before, w.charged));
		cr_assert_eq(n_killed, 0, "look %u", i);
	}
}

Test(held, a_driver_is_not_taken_at_its_word)
{
	reset(false);
	account_grant(&w, GIB);
	cr_expect_eq(ended_after(8 * GIB), 0);
}
