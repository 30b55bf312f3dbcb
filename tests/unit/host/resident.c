/* SPDX-License-Identifier: Apache-2.0 */
/* A session wants memory back that it is to share: it waits for room, as a charge does,
 * and is told of one thing at a time that returns. */
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

#define MIB     (1ull << 20)
#define DEVICE  (64 * MIB)
#define WORKERS 2

static struct broker b;
static struct tenant tenants[WORKERS]; /* one each */
static struct worker workers[WORKERS];
static struct worker_page pages[WORKERS];
static int socks[WORKERS]; /* the workers' ends */
static uint64_t now;

void child_kill(struct child *c)
{
	cr_assert_fail("a worker cannot be told");
}

static void start(unsigned i)
{
	struct worker *w = &workers[i];
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	*w = (struct worker){
		.b = &b, .count = &pages[i], .state = WORKER_READY, .slice = -1};
	w->ctl.fd = pair[0];
	outbox_init(&w->out, b.loop, &w->ctl);
	socks[i] = pair[1];
	list_append(&b.workers, &w->link);
	account_ready(w, 0);
	cr_assert_eq(account_attach(w, &tenants[i]), 0);
	w->state = WORKER_SESSION;
	account_begin(w);
}

static void setup(void)
{
	memset(&b, 0, sizeof(b));
	memset(pages, 0, sizeof(pages));
	list_init(&b.tenants);
	list_init(&b.workers);
	list_init(&b.waiters);
	b.device_total = DEVICE;
	b.swap = 256 * MIB;
	b.piece = 2 * MIB;
	b.placement = placement_at(0);
	b.time = &time_fair;
	now = NSEC_PER_SEC;
	for (unsigned i = 0; i < WORKERS; i++) {
		tenants[i] = (struct tenant){.b = &b};
		tenants[i].memory = (struct conf_memory){.high = UINT64_MAX,
							 .max = 1024 * MIB,
							 .swap_max = UINT64_MAX,
							 .weight = 100};
		list_init(&tenants[i].shares);
		list_init(&tenants[i].workers);
		waiters_init(&tenants[i]);
		list_append(&b.tenants, &tenants[i].link);
		start(i);
	}
}

static void teardown(void)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		reclaim_end(&workers[i]);
		account_end(&workers[i]);
		close(workers[i].ctl.fd);
		close(socks[i]);
	}
	cr_assert(list_empty(&b.waiters) && !b.granted && !b.evicted && !b.returning);
	free(b.seen);
	free(b.shares);
}

TestSuite(resident, .init = setup, .fini = teardown);

/* Sets the bytes that a worker has and could move. */
static void has(unsigned i, uint64_t bytes)
{
	cr_assert_eq(account_charge(&workers[i], bytes, false), 0);
	atomic_store(&pages[i].movable_bytes, bytes);
}

static void has_evicted(unsigned i, uint64_t bytes)
{
	has(i, bytes);
	cr_assert_eq(evicted_left(&workers[i], bytes), bytes);
	atomic_store(&pages[i].movable_bytes, 0);
}

static bool hears(unsigned i, struct msg *ret_m)
{
	int fd[2];

	return msg_recv(socks[i], ret_m, &fd[0], &fd[1]) == 0;
}

static void pass(uint64_t ns)
{
	for (uint64_t end = now + ns; now < end; now += NSEC_PER_MSEC)
		(void)reclaim_tick(&b, now);
}

static void home(unsigned i, uint32_t id, uint64_t bytes)
{
	cr_assert_eq(waiters_make_resident(&workers[i], id, bytes, now), 0);
	pass(NSEC_PER_MSEC);
}

static void answered(unsigned i, uint32_t id, int result, uint64_t bytes)
{
	struct msg m;

	cr_assert(hears(i, &m));
	cr_assert(m.type == MSG_RESIDENT_GRANTED && m.id == id);
	cr_assert_eq(m.resident_granted.result, result);
	cr_assert_eq(m.resident_granted.bytes, bytes);
}

static void says(unsigned i, enum msg_type type, uint32_t id, uint64_t bytes)
{
	const struct msg_moved m = {.bytes = bytes};

	cr_assert_eq(type == MSG_RESTORED ? reclaim_returned(&workers[i], id, &m, now)
					  : reclaim_ended(&workers[i], id, &m, now),
		     0);
	pass(NSEC_PER_MSEC);
}

static void silence(unsigned i)
{
	struct msg m;

	cr_assert(!hears(i, &m), "type %u", m.type);
}

Test(resident, at_once)
{
	has_evicted(0, 20 * MIB);
	home(0, 7, 12 * MIB);
	answered(0, 7, 0, 12 * MIB);
	cr_assert_eq(tenants[0].returning, 12 * MIB);
	cr_assert_eq(waiters_make_resident(&workers[0], 8, MIB, now), 0,
		     "one at a time is held");
	cr_assert_eq(waiters_make_resident(&workers[0], 9, MIB, now), -EPROTO);
	pass(NSEC_PER_MSEC);
	silence(0); /* as long as the first has not arrived */
	says(0, MSG_RESTORED, 7, 10 * MIB);
	cr_assert_eq(workers[0].evicted, 10 * MIB);
	cr_assert_eq(account_worker(&workers[0]), 11 * MIB, "the rest is given up");
	answered(0, 8, 0, MIB);
	says(0, MSG_RESTORED, 8, MIB);
}

/* More than is evicted, and nothing that is. */
Test(resident, no_more_than_is_evicted)
{
	has_evicted(0, 4 * MIB);
	home(0, 1, UINT64_MAX);
	answered(0, 1, 0, 4 * MIB);
	says(0, MSG_RESTORED, 1, 4 * MIB);
	home(0, 2, 4 * MIB);
	answered(0, 2, 0, 0);
	silence(0);
}

Test(resident, others_give_way)
{
	struct msg m;

	has_evicted(0, 20 * MIB);
	has(1, 60 * MIB);
	home(0, 1, 20 * MIB);
	silence(0);
	cr_assert(hears(1, &m) && m.type == MSG_RECLAIM && m.reclaim.bytes >= 16 * MIB);
	says(1, MSG_RECLAIMED, m.id, m.reclaim.bytes);
	answered(0, 1, 0, 20 * MIB);
	cr_assert_leq(b.granted, DEVICE);
	says(0, MSG_RESTORED, 1, 20 * MIB);
}

/* While its own memory is on its way out, or back, for another reason. */
Test(resident, after_another_move)
{
	struct msg m;

	has_evicted(0, 20 * MIB);
	pass(50 * NSEC_PER_MSEC); /* it comes back by itself */
	cr_assert(hears(0, &m) && m.type == MSG_RESTORE);
	home(0, 1, 20 * MIB);
	silence(0);
	says(0, MSG_RESTORED, m.id, 20 * MIB);
	answered(0, 1, 0, 0); /* nothing is evicted any more */
}

Test(resident, no_room)
{
	has_evicted(0, 20 * MIB);
	has(1, 60 * MIB);
	tenants[1].memory.min = UINT64_MAX;
	home(0, 1, 20 * MIB);
	silence(0);
	pass(100 * NSEC_PER_MSEC);
	answered(0, 1, -ENOMEM, 0);
	cr_assert(!workers[0].move.makes_resident && workers[0].evicted == 20 * MIB);
}

Test(resident, ends_while_it_waits)
{
	has_evicted(0, 20 * MIB);
	has(1, 60 * MIB);
	home(0, 1, 20 * MIB);
	cr_assert(!list_empty(&b.waiters));
	reclaim_end(&workers[0]);
	cr_assert(list_empty(&b.waiters));
}
