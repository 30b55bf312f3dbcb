/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker memory: the limits of tenants, and the one of all, are exact, whatever is
 * granted ahead: random charges against a model that only adds up.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "broker/broker.h"
#include "broker/compute/shared.h"
#include "broker/child/child.h"
#include "broker/loop/loop.h"
#include "broker/loop/outbox.h"
#include "broker/memory/account_host.h"
#include "broker/tenant.h"
#include "broker/worker_msg.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"

#define MIB     (1ull << 20)
#define TENANTS 2
#define WORKERS 8
#define STEPS   20000

static struct broker b;
static struct tenant tenants[TENANTS];
static struct worker workers[WORKERS];
static struct worker_page pages[WORKERS];
static uint64_t used[WORKERS], pinned[WORKERS]; /* the model */

/* Functions that nobody here needs. */
int shared_lost(struct worker *w)
{
	return 0;
}

struct worker *workers_ready(struct broker *broker, enum worker_kind kind)
{
	return NULL;
}

void child_kill(struct child *c)
{
}

void workers_probed(struct worker *w, uint32_t id)
{
}

static void reset(uint64_t host_max, uint64_t tenant_max)
{
	memset(&b, 0, sizeof(b));
	memset(tenants, 0, sizeof(tenants));
	memset(workers, 0, sizeof(workers));
	memset(pages, 0, sizeof(pages));
	memset(used, 0, sizeof(used));
	memset(pinned, 0, sizeof(pinned));
	list_init(&b.tenants);
	b.host_max = host_max;
	for (unsigned i = 0; i < TENANTS; i++) {
		tenants[i].b = &b;
		list_init(&tenants[i].workers);
		tenants[i].host_max = tenants[i].wmem_max = tenant_max;
		list_append(&b.tenants, &tenants[i].link);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i].b = &b;
		workers[i].count = &pages[i];
		workers[i].slice = -1;
		workers[i].tenant = &tenants[i % TENANTS];
		workers[i].state = WORKER_SESSION;
		list_append(&workers[i].tenant->workers, &workers[i].tenant_link);
	}
}

static uint64_t sum(const uint64_t *of, const struct tenant *t)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < WORKERS; i++)
		n += !t || workers[i].tenant == t ? of[i] : 0;
	return n;
}

/* As a worker does it. */
static int charge(unsigned i, uint64_t bytes)
{
	if (credit_take(&pages[i].wmem, bytes))
		return 0;
	return account_wmem_charge(&workers[i], bytes);
}

static void check(void)
{
	for (unsigned i = 0; i < WORKERS; i++)
		cr_assert_eq(account_wmem(&workers[i]), used[i]);
	for (unsigned i = 0; i < TENANTS; i++) {
		cr_assert_eq(account_wmem_tenant(&tenants[i]), sum(used, &tenants[i]));
		cr_assert_leq(tenants[i].wmem, tenants[i].wmem_max);
	}
	cr_assert_leq(b.host, b.host_max);
}

static void step_wmem(unsigned i)
{
	uint64_t bytes =
		rand() % 3 ? (uint64_t)rand() % MIB : (uint64_t)rand() % (20 * MIB);
	struct tenant *t = workers[i].tenant;
	bool fits = sum(used, t) + bytes <= t->wmem_max &&
		    sum(used, NULL) + sum(pinned, NULL) + bytes <= b.host_max;

	cr_assert_eq(charge(i, bytes), fits ? 0 : -EDQUOT);
	used[i] += fits ? bytes : 0;
}

static void step_pinned(unsigned i)
{
	uint64_t bytes = 1 + (uint64_t)rand() % (8 * MIB), offset;
	struct tenant *t = workers[i].tenant;
	bool fits = sum(pinned, t) + bytes <= t->host_max &&
		    sum(used, NULL) + sum(pinned, NULL) + bytes <= b.host_max;

	cr_assert_eq(account_host_charge(&workers[i], bytes, &offset),
		     fits ? 0 : -EDQUOT);
	pinned[i] += fits ? bytes : 0;
}

static void step(unsigned i)
{
	uint64_t part = used[i] ? (uint64_t)rand() % (used[i] + 1) : 0;

	switch (rand() % 5) {
	case 0:
		step_pinned(i);
		break;
	case 1:
		account_host_uncharge(&workers[i], 0, pinned[i]);
		pinned[i] = 0;
		break;
	case 2:
		credit_put(&pages[i].wmem, part);
		used[i] -= part;
		break;
	default:
		step_wmem(i);
	}
}

Test(wmem, worker_memory_adds_up_after_random_steps)
{
	srand(5);
	reset(200 * MIB, 120 * MIB);
	for (unsigned n = 0; n < STEPS; n++) {
		step((unsigned)rand() % WORKERS);
		check();
	}
	for (unsigned i = 0; i < WORKERS; i++)
		account_host_drop(&workers[i]);
	cr_assert(b.host == 0 && tenants[0].wmem == 0 && tenants[1].host_used == 0);
}

/* Any number of sessions together have no more than one may. */
Test(wmem, of_the_tenant_and_not_of_a_session)
{
	reset(UINT64_MAX, 100 * MIB);
	for (unsigned i = 0; i < WORKERS; i++) {
		while (charge(i, MIB) == 0)
			used[i] += MIB;
	}
	cr_assert_eq(sum(used, &tenants[0]), 100 * MIB);
	cr_assert_eq(sum(used, &tenants[1]), 100 * MIB);
	check();
	cr_assert_eq(account_wmem_charge(&workers[0], UINT64_MAX), -EDQUOT);
	cr_assert_eq(account_wmem_charge(&workers[0], UINT64_MAX - MIB), -EDQUOT);
}

/* Credit that says more than was granted is believed up to that. */
Test(wmem, a_liar)
{
	reset(UINT64_MAX, 100 * MIB);
	cr_assert_eq(charge(0, 10 * MIB), 0);
	credit_put(&pages[0].wmem, 1ull << 60);
	cr_assert_eq(account_wmem(&workers[0]), 0);
	cr_assert_eq(charge(2, 100 * MIB), 0, "taken back");
	cr_assert_eq(tenants[0].wmem, 100 * MIB);
	account_host_drop(&workers[0]);
	account_host_drop(&workers[2]);
	cr_assert(b.host == 0 && tenants[0].wmem == 0);
}

/* Each lane takes something, however often threads come and go. */
Test(wmem, lanes_are_charged_until_they_end)
{
	unsigned n = 0;

	reset(UINT64_MAX, 4 * MIB);
	while (account_wmem_lane(&workers[0]) == 0 && n < 100)
		workers[0].n_passed = ++n;
	cr_assert_eq(n, 4);
	for (unsigned i = 0; i < 100; i++) {
		atomic_store(&pages[0].lanes_ended, i + 1);
		cr_assert_eq(account_wmem_lane(&workers[0]), 0);
		workers[0].n_passed++;
	}
	cr_assert_eq(tenants[0].wmem, 4 * MIB);
	atomic_store(&pages[0].lanes_ended, 0);
	cr_assert_eq(account_wmem_lane(&workers[0]), -EDQUOT);
}

/* Lanes that the worker was told of count until it says that they are no more. */
Test(wmem, lanes_on_their_way)
{
	reset(UINT64_MAX, 100 * MIB);
	workers[0].n_passed = 5;
	cr_assert_eq(account_lanes(&workers[0]), 5);
	atomic_store(&pages[0].lanes_ended, 2);
	cr_assert_eq(account_lanes(&workers[0]), 3);
	atomic_store(&pages[0].lanes_ended, UINT64_MAX);
	cr_assert_eq(account_lanes(&workers[0]), 0);
	workers[0].n_passed = 0;
}

#define ASKING 400u

static void on_event(struct source *src, uint32_t events)
{
}

/* More threads than messages that fit: all are answered, and nobody is broken. */
Test(wmem, answered_however_many_ask_at_once)
{
	struct msg m = {.type = MSG_WMEM_CHARGE, .wmem_charge.bytes = 1};
	int pair[2], fd = -1, fd1;
	unsigned n = 0;

	reset(UINT64_MAX, 100 * MIB);
	cr_assert_eq(loop_new(&b.loop), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	outbox_init(&workers[0].out, b.loop, &workers[0].ctl);
	cr_assert_eq(source_add(b.loop, &workers[0].ctl, pair[0], EPOLLIN, on_event), 0);
	for (m.id = 1; m.id <= ASKING; m.id++)
		cr_assert_eq(worker_said(&workers[0], &m, &fd), 0, "message %u", m.id);
	cr_assert_not(outbox_is_read(&workers[0].out), "a pair does not take that many");
	while (n < ASKING && msg_recv(pair[1], &m, &fd, &fd1) == 0) {
		cr_assert_eq(m.id, ++n, "in order");
		cr_assert_eq(m.type, MSG_WMEM_CHARGED);
		cr_assert_eq(m.wmem_charged.result, 0);
		cr_assert_eq(outbox_write(&workers[0].out), 0);
	}
	cr_assert_eq(n, ASKING);
	outbox_drop(&workers[0].out);
	source_remove(b.loop, &workers[0].ctl);
	close(pair[1]);
	loop_free(b.loop);
}
