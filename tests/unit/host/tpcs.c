/* SPDX-License-Identifier: Apache-2.0 */
/* Workers are told which TPCs their tenant's kernels run on. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/tpcs.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "peer.h"
#include "util/conf.h"

#define N 3

static struct broker b;
static struct conf conf;
static struct tenant tenants[N];
static struct worker workers[N];
static int theirs[N];
static uint64_t now = NSEC_PER_SEC;

static void begin(unsigned i)
{
	struct tenant *t = &tenants[i];

	*t = (struct tenant){.b = &b};
	list_init(&t->workers);
	list_append(&b.tenants, &t->link);
	theirs[i] = peer_open(&workers[i], t, NULL);
}

/* Eight TPCs in GPCs of 2, 3 and 3; TPC k has bit 2k, and the last one 100. */
static struct msg_tpc_map map(void)
{
	struct msg_tpc_map m = {.n = 8, .gpc = {0, 0, 1, 1, 1, 2, 2, 2}};

	for (uint8_t i = 0; i < 8; i++)
		m.bit[i] = i < 7 ? 2 * i : 100;
	return m;
}

static void setup(void)
{
	const struct msg_tpc_map m = map();

	cr_assert_eq(loop_new(&b.loop), 0);
	list_init(&b.tenants);
	b.conf = &conf;
	for (unsigned i = 0; i < N; i++)
		begin(i);
	cr_assert(tpcs_unknown(&b));
	cr_assert_eq(tpcs_found(&b, &m), 0);
	cr_assert_not(tpcs_unknown(&b));
}

static void teardown(void)
{
	for (unsigned i = 0; i < N; i++)
		peer_close(&workers[i], theirs[i]);
	tpcs_fini(&b);
	loop_free(b.loop);
}

/* Reads until the last message to a worker; false: there is none. */
static bool told(unsigned i, struct msg_tpcs *ret)
{
	struct msg m;

	if (!peer_hears(theirs[i], MSG_TPCS, &m))
		return false;
	*ret = m.tpcs;
	return true;
}

static void decide(void)
{
	tpcs_due(&b);
	cr_assert_eq(tpcs_tick(&b, now), UINT64_MAX);
}

static void want(unsigned i, uint64_t tpcs)
{
	tenants[i].space.tpcs.bits[0] = tpcs;
}

TestSuite(tpcs, .init = setup, .fini = teardown);

Test(tpcs, nothing_is_said_where_all_have_all)
{
	struct msg_tpcs m;

	decide();
	for (unsigned i = 0; i < N; i++)
		cr_assert_not(told(i, &m));
}

Test(tpcs, bits_are_the_devices)
{
	struct msg_tpcs m;

	want(0, 0x87);
	decide();
	cr_assert(told(0, &m));
	cr_assert_eq(m.bits[0], 1 | 1 << 2 | 1 << 4);
	cr_assert_eq(m.bits[1], 1ull << 36);
	cr_assert_eq(m.n, 4);
	cr_assert_eq(m.n_in_gpc, 2);
	cr_assert_not(told(1, &m), "it has all");
	decide();
	cr_assert_not(told(0, &m), "it has been told");
	want(0, 0);
	decide();
	cr_assert(told(0, &m));
	cr_assert_eq(m.n, 0, "all");
}

Test(tpcs, what_one_has_alone_the_others_have_not)
{
	struct msg_tpcs m;

	tenants[0].space.count = 3;
	tenants[0].space.exclusive = true;
	decide();
	cr_assert(told(0, &m));
	cr_assert_eq(m.n, 3);
	cr_assert_eq(m.n_in_gpc, 3);
	cr_assert(told(1, &m));
	cr_assert_eq(m.n, 5);
}

Test(tpcs, before_a_session_begins)
{
	int fd0, fd1;
	struct msg m;

	want(0, 1);
	tpcs_due(&b);
	cr_assert_eq(tpcs_begin(&workers[0]), 0);
	cr_assert_eq(msg_recv(theirs[0], &m, &fd0, &fd1), 0);
	cr_assert_eq(m.type, MSG_TPC_MAP);
	cr_assert_eq(m.tpc_map.n, b.conf->space.n);
	cr_assert_eq(m.tpc_map.bit[1], b.tpcs.bit[1]);
	cr_assert_eq(msg_recv(theirs[0], &m, &fd0, &fd1), 0);
	cr_assert_eq(m.type, MSG_TPCS);
	cr_assert_eq(m.tpcs.n, 1);
	workers[1].version = 1;
	cr_assert_eq(tpcs_begin(&workers[1]), 0);
	want(1, 2);
	tpcs_due(&b);
	cr_assert_lt(tpcs_begin(&workers[1]), 0, "a worker of the version before");
}

/* Nobody knows what the weftd before it has said. */
Test(tpcs, after_a_restart)
{
	struct msg_tpcs m;

	workers[0].tpcs_unsure = true;
	decide();
	cr_assert(told(0, &m));
	cr_assert_eq(m.n, 0);
}

/* Workers keep what the weftd before it has said. */
Test(tpcs, nobody_is_told_before_the_device_is_known)
{
	struct msg_tpcs m;

	conf.space_known = false;
	want(0, 1);
	workers[0].tpcs_unsure = true;
	decide();
	cr_assert_not(told(0, &m));
	conf.space_known = true;
	cr_assert_eq(tpcs_tick(&b, now), UINT64_MAX);
	cr_assert(told(0, &m));
	cr_assert_eq(m.n, 1);
}

Test(tpcs, one_that_does_not_read_hears_of_it_later)
{
	struct msg_tpcs m;
	uint64_t next;

	do {
		want(0, tenants[0].space.tpcs.bits[0] % 200 + 1);
		tpcs_due(&b);
		next = tpcs_tick(&b, now);
	} while (next == UINT64_MAX);
	cr_assert_gt(next, now);
	while (!outbox_is_read(&workers[0].out)) {
		told(0, &m);
		cr_assert_eq(outbox_write(&workers[0].out), 0);
	}
	cr_assert_eq(tpcs_tick(&b, next), UINT64_MAX);
	cr_assert(told(0, &m));
	cr_assert_eq(m.n, (unsigned)__builtin_popcountll(tenants[0].space.tpcs.bits[0]));
}

Test(tpcs, a_worker_that_says_nonsense_is_refused)
{
	struct msg_tpc_map m = map();

	m.bit[3] = m.bit[2];
	cr_assert_lt(tpcs_found(&b, &m), 0);
	m.bit[3] = 200;
	cr_assert_lt(tpcs_found(&b, &m), 0);
	m = map();
	m.n = 0;
	cr_assert_eq(tpcs_found(&b, &m), 0, "the first has said it");
	cr_assert_eq(conf.space.n, 8);
}

/* A file may say so before the device is known: the others have theirs. */
Test(tpcs, one_that_asks_for_too_much_has_what_is_left)
{
	struct msg_tpcs m;

	want(0, 1ull << 20);
	want(1, 1);
	tenants[1].space.exclusive = true;
	decide();
	cr_assert(told(1, &m));
	cr_assert_eq(m.n, 1);
	cr_assert(told(0, &m));
	cr_assert_eq(m.n, 7);
}
