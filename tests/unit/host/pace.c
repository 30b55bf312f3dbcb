/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a tenant with a cap are held when it has had its quota. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/pace.h"
#include "broker/compute/plugin.h"
#include "broker/memory/ledger.h"
#include "broker/memory/snapshot.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "pace.h"
#include "peer.h"
#include "policies/blocks.h"
#include "policies/time.h"

struct broker b;
struct tenant tenants[3];
struct worker workers[N];
struct worker_page pages[N];
uint64_t now;
static int theirs[N];

/* ---- memory: what a worker has is all its charge ---- */

uint64_t account_worker(const struct worker *w)
{
	return w->charged;
}

uint64_t snapshot_movable(const struct worker *w, uint64_t now_ns)
{
	return w->charged / 2;
}

uint64_t snapshot_cold(const struct worker *w)
{
	return w->count->cold_bytes;
}

uint64_t snapshot_cold_out(const struct worker *w)
{
	return w->count->cold_out_bytes;
}

uint64_t account_set_aside(const struct broker *broker, uint64_t *ret_missing)
{
	*ret_missing = 0;
	return 0;
}

static void setup(void)
{
	memset(&b, 0, sizeof(b));
	memset(pages, 0, sizeof(pages));
	cr_assert_eq(loop_new(&b.loop), 0);
	list_init(&b.tenants);
	list_init(&b.workers);
	b.time = &time_fair;
	b.blocks = &blocks_all;
	now = 5 * NSEC_PER_SEC;
	for (unsigned i = 0; i < ARRAY_SIZE(tenants); i++) {
		tenants[i] = (struct tenant){.b = &b, .compute = {.weight = 100}};
		list_init(&tenants[i].workers);
		list_append(&b.tenants, &tenants[i].link);
	}
	for (unsigned i = 0; i < N; i++) {
		theirs[i] = peer_open(&workers[i], &tenants[MIN(i, 2u)], &pages[i]);
		workers[i].slice_us = 1000;
	}
}

static void teardown(void)
{
	for (unsigned i = 0; i < N; i++)
		peer_close(&workers[i], theirs[i]);
	plugin_fini(&b);
	loop_free(b.loop);
}

TestSuite(pace, .init = setup, .fini = teardown);

void cap(unsigned tenant, uint32_t quota, uint32_t period)
{
	tenants[tenant].compute.max = (struct cap){quota, period};
	pace_changed(&tenants[tenant]);
}

struct msg_pace told(unsigned i)
{
	struct msg m = {.pace.look_us = 1};

	(void)peer_hears(theirs[i], MSG_PACE, &m);
	return m.pace;
}

static bool nothing_told(unsigned i)
{
	return told(i).look_us == 1;
}

void works(unsigned i, bool on)
{
	pages[i].computing = 1;
	pages[i].pending = on;
}

/* Looks for so long, as often as that is due. Those in `who` have work until they are held;
 * adds how long each tenant had the device. */
static void run(unsigned ms, unsigned who, uint64_t had[3])
{
	for (uint64_t end = now + ms * MS; now < end;) {
		uint64_t all = 0;

		for (unsigned i = 0; i < N; i++) {
			works(i, who & 1u << i &&
					 now >= workers[i].tenant->pace.held_until_ns);
			all += pages[i].pending;
		}
		for (unsigned i = 0; i < N && all; i++)
			had[MIN(i, 2u)] += pages[i].pending * MS / all;
		now += MS;
		cr_assert_eq(pace_tick(&b, now), now + MS);
	}
}

void run_told(unsigned ms, const uint64_t had_us[N])
{
	for (unsigned n = 0; n < ms; n++) {
		for (unsigned i = 0; i < N; i++)
			pages[i].had_ns += had_us[i] * NSEC_PER_USEC;
		now += MS;
		pace_due(&b);
		(void)pace_tick(&b, now);
	}
}

Test(pace, nobody_looks_where_there_is_no_cap)
{
	works(0, true);
	works(1, true);
	pace_due(&b);
	cr_assert_eq(pace_tick(&b, now), now + 50 * MS, "counts now and then");
	for (unsigned i = 0; i < N; i++)
		cr_assert(nothing_told(i));
	cap(2, 25000, 100000);
	cr_assert_eq(pace_tick(&b, now), now + 50 * MS, "it does not compute");
	cr_assert(told(2).bound && told(3).bound);
	cr_assert(nothing_told(0));
}

Test(pace, all_look_while_one_with_a_cap_computes)
{
	cap(0, 25000, 100000);
	works(0, true);
	cr_assert_eq(pace_tick(&b, now), now + MS);
	cr_assert_eq(told(0).look_us, 1000);
	for (unsigned i = 1; i < N; i++) {
		struct msg_pace p = told(i);

		cr_assert_eq(p.look_us, 1000);
		cr_assert(!p.bound && !p.held_until_ns);
	}
	pages[0].computing = 0;
	pace_due(&b);
	now += MS;
	cr_assert_eq(pace_tick(&b, now), UINT64_MAX);
	cr_assert_eq(told(1).look_us, 0);
}

/* A tenant has had a quarter of so much time, within some looks in each second. */
static void had_a_quarter(uint64_t had, unsigned ms)
{
	cr_assert(had >= (ms / 4 - ms / 200) * MS && had <= (ms / 4 + ms / 100) * MS,
		  "%u of %u ms", (unsigned)(had / MS), ms);
}

Test(pace, who_has_had_its_quota_is_held)
{
	uint64_t had[3] = {0}, until;
	struct msg_pace p;

	cap(0, 25000, 100000);
	run(10, 1, had);
	cr_assert_eq(told(0).held_until_ns, 0);
	run(20, 1, had);
	until = tenants[0].pace.held_until_ns;
	p = told(0);
	cr_assert_eq(p.held_until_ns, until);
	cr_assert(until > now && until <= now + 100 * MS);
	run(2000 - 30, 1, had);
	had_a_quarter(had[0], 2000);
	cr_assert_geq(tenants[0].pace.n_held, 19);
	cr_assert_geq(tenants[0].pace.held_ns, 1400 * MS);
	/* Nothing waits for it: its program has nothing to do meanwhile. */
	cr_assert_eq(tenants[0].pace.stalled_ns, 0);
	pages[0].waiting = 1;
	run(1000, 1, had);
	cr_assert_geq(tenants[0].pace.stalled_ns, 700 * MS);
}

/* Has worker 0 of a tenant with a cap of 25 ms in 100 work until it is held, and for a look more. */
static void overdraw(void)
{
	cap(0, 25000, 100000);
	works(0, true);
	pages[0].had_ns = 1;
	pace_due(&b);
	(void)pace_tick(&b, now);
	while (!tenants[0].pace.held_until_ns)
		run_told(1, (uint64_t[N]){1000});
	cr_assert(!workers[0].pace.preempt, "what is queued may end soon");
	run_told(1, (uint64_t[N]){1000});
}

/* Until the tenant may go on; what that costs is nobody's. */
Test(pace, what_goes_on_is_taken_off)
{
	uint64_t used;
	struct msg_pace p;

	b.pace.preempt_us = 300;
	overdraw();
	p = told(0);
	cr_assert(p.preempt && p.held_until_ns > now);
	used = tenants[0].pace.used_ns;
	works(0, false);
	run_told(1, (uint64_t[N]){700});
	cr_assert_eq(tenants[0].pace.used_ns, used + 400 * NSEC_PER_USEC);
	run_told(10, (uint64_t[N]){1000});
	cr_assert_eq(tenants[0].pace.used_ns, used + 400 * NSEC_PER_USEC,
		     "it stands still");
	cr_assert(!tenants[0].pace.late && nothing_told(0));
	now = tenants[0].pace.held_until_ns;
	run_told(1, (uint64_t[N]){0});
	p = told(0);
	cr_assert(!p.preempt && !p.held_until_ns);
}

/* One of them is on the device. */
Test(pace, to_take_several_off_costs_as_much_as_one)
{
	uint64_t used;

	b.pace.preempt_us = 300;
	cap(2, 25000, 100000);
	works(2, true);
	works(3, true);
	pages[2].had_ns = pages[3].had_ns = 1;
	pace_due(&b);
	(void)pace_tick(&b, now);
	while (!tenants[2].pace.preempt)
		run_told(1, (uint64_t[N]){0, 0, 500, 500});
	used = tenants[2].pace.used_ns;
	works(2, false);
	works(3, false);
	run_told(1, (uint64_t[N]){0, 0, 400, 400});
	cr_assert_eq(tenants[2].pace.used_ns, used + 500 * NSEC_PER_USEC);
}

Test(pace, what_cannot_be_taken_off_is_late)
{
	struct msg m;

	overdraw();
	workers[0].version = 3;
	run_told(2, (uint64_t[N]){1000});
	cr_assert(!tenants[0].pace.late && !workers[0].pace.preempt);
	list_append(&b.workers, &workers[1].link);
	workers[1].state = WORKER_READY;
	(void)told(1);
	run_told(1, (uint64_t[N]){1000});
	cr_assert(tenants[0].pace.late);
	cr_assert(peer_hears(theirs[1], MSG_FILL, &m) && m.fill.on, "it has the rest");
	cr_assert_eq(b.filler, &workers[1]);
	works(0, false);
	run_told(1, (uint64_t[N]){0});
	cr_assert(peer_hears(theirs[1], MSG_FILL, &m) && !m.fill.on);
	cr_assert(!b.filler && !tenants[0].pace.late);
	list_remove(&workers[1].link);
}

/* A neighbour takes half of the time in which both have work. */
Test(pace, only_its_own_part_is_charged)
{
	uint64_t had[3] = {0};

	cap(0, 25000, 100000);
	run(4000, 3, had);
	had_a_quarter(had[0], 4000);
	cr_assert_geq(had[1], 2900 * MS, "the rest is its");
}

Test(pace, sessions_of_a_tenant_are_charged_together)
{
	uint64_t had[3] = {0};

	cap(2, 25000, 100000);
	run(2000, 12, had);
	had_a_quarter(had[2], 2000);
	cr_assert_eq(workers[2].pace.held_until_ns, workers[3].pace.held_until_ns);
}

Test(pace, a_change_holds_at_once)
{
	uint64_t had[3] = {0};

	cap(0, 1000, 1000000);
	run(50, 1, had);
	cr_assert_gt(told(0).held_until_ns, now + 900 * MS);
	cap(0, 0, CAP_PERIOD_US);
	cr_assert_eq(pace_tick(&b, now), now + 50 * MS);
	cr_assert_eq(told(0).held_until_ns, 0);
	cr_assert(!workers[0].pace.bound);
}

/* One tenant at a time, and the next one when what the last submitted has ended. */
Test(pace, tenants_take_turns)
{
	unsigned turns = 0, last = N;

	b.time = &time_exclusive;
	pace_due(&b);
	for (unsigned ms = 0; ms < 1000; ms++) {
		unsigned n = 0, who = N;

		for (unsigned i = 0; i < 3; i++) {
			bool goes = now >= workers[i].pace.held_until_ns;

			/* Work ends 3 ms after its tenant may not go any more. */
			works(i, goes || now < tenants[i].pace.since_ns + 3 * MS);
			pages[i].waiting = 1;
			n += goes;
			who = goes ? i : who;
		}
		if (ms > 10) {
			cr_assert_leq(n, 1);
			turns += who != N && who != last;
			last = who != N ? who : last;
		}
		now += MS;
		(void)pace_tick(&b, now);
	}
	cr_assert(turns >= 35 && turns <= 50, "%u turns", turns);
	b.time = &time_fair;
	now += MS;
	(void)pace_tick(&b, now);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(workers[i].pace.held_until_ns, 0);
}

/* A kernel that does not end holds nobody up for long. */
Test(pace, who_does_not_drain_is_waited_for_in_vain)
{
	uint64_t begin;

	b.time = &time_exclusive;
	works(0, true);
	works(1, false);
	pace_due(&b);
	for (unsigned ms = 0; ms < 30; ms++) {
		now += MS;
		(void)pace_tick(&b, now);
	}
	pages[1].waiting = 1;
	begin = now;
	do {
		now += MS;
		(void)pace_tick(&b, now);
	} while (tenants[1].pace.stopped && now < begin + NSEC_PER_SEC);
	cr_assert_leq(now, begin + (TIME_DRAIN_US + TIME_TURN_US) * 1000ull + 2 * MS);
}

/* Looks until tenant 0, whose kernel goes on, loses its turn to tenant 1, and then until the kernel
 * is to be taken off. Returns for how long it went on, in milliseconds; 0: for more than 500. */
static unsigned went_on(const struct time_policy *policy)
{
	uint64_t begin;

	b.time = policy;
	works(0, true);
	works(1, false);
	pages[1].waiting = 1;
	pace_due(&b);
	while (!tenants[0].pace.stopped) {
		now += MS;
		(void)pace_tick(&b, now);
	}
	for (begin = now; now < begin + 500 * MS; now += MS) {
		(void)pace_tick(&b, now);
		if (tenants[0].pace.preempt)
			return (unsigned)((now - begin) / MS);
	}
	return 0;
}

/* The next one has the device to itself, and need not wait for that kernel. */
Test(pace, what_goes_on_when_a_turn_ends_is_taken_off)
{
	struct msg_pace p;

	cr_assert_eq(went_on(&time_exclusive), 4);
	p = told(0);
	cr_assert(p.preempt && p.held_until_ns > now);
	cr_assert(tenants[1].pace.stopped);
	works(0, false);
	pages[0].waiting = 1;
	now += MS;
	(void)pace_tick(&b, now);
	cr_assert(!tenants[1].pace.stopped && tenants[0].pace.preempt);
	works(1, true);
	while (tenants[0].pace.stopped) {
		now += MS;
		works(1, !tenants[1].pace.stopped);
		(void)pace_tick(&b, now);
	}
	p = told(0);
	cr_assert(!p.preempt && !p.held_until_ns, "and goes on in its next turn");
}

/* A worker waits for kernels to end before memory leaves from under them. */
Test(pace, what_has_memory_that_is_to_leave_is_waited_for)
{
	struct time_policy by_memory = time_exclusive;

	by_memory.by_memory = true;
	cr_assert_eq(went_on(&by_memory), 100);
}

/* Memory of one whose turn is over can leave at once, though it could not in its turn. */
Test(pace, who_does_not_go_is_asked_again)
{
	struct time_policy alone = time_exclusive;

	alone.by_memory = true;
	b.time = &alone;
	for (unsigned i = 0; i < 2; i++) {
		pages[i].waiting = 1;
		workers[i].move = (struct worker_move){
			.at_gate = i, .n_busy = 3, .busy_ns = UINT64_MAX};
	}
	pace_due(&b);
	for (unsigned ms = 0, seen = 0; seen != 3; ms++) {
		cr_assert_lt(ms, 1000);
		for (unsigned i = 0; i < 2; i++) {
			works(i, now >= workers[i].pace.held_until_ns);
			seen |= tenants[i].pace.stopped << i;
		}
		now += MS;
		(void)pace_tick(&b, now);
	}
	cr_assert_lt(workers[0].move.busy_ns, now);
	cr_assert_eq(workers[0].move.n_busy, 3, "though less and less often");
	cr_assert_eq(workers[1].move.busy_ns, UINT64_MAX, "says when it is quiet");
}

/* An allocation that waits is no work of the device: nobody is held for it. */
Test(pace, who_waits_for_memory_takes_no_turn)
{
	b.time = &time_exclusive;
	tenants[1].held = 1;
	pace_due(&b);
	for (unsigned ms = 0; ms < 200; ms++) {
		works(0, true);
		now += MS;
		(void)pace_tick(&b, now);
		cr_assert_not(tenants[0].pace.stopped);
	}
}

/* Three that fit two at a time: one goes, and placement knows who is next. */
Test(pace, those_that_do_not_fit_stand_in_line)
{
	b.time = &time_sets;
	b.swap = b.device_total = 20;
	for (unsigned i = 0; i < 3; i++) {
		works(i, true);
		workers[i].charged = 8;
		workers[i].evicted = i == 2 ? 2 : 0;
	}
	pace_due(&b);
	for (unsigned ms = 0; ms < 100; ms++) {
		unsigned places = 0;

		for (unsigned i = 0; i < 3; i++)
			works(i, now >= workers[i].pace.held_until_ns);
		for (unsigned i = 0; i < 3; i++)
			pages[i].waiting = 1;
		now += MS;
		(void)pace_tick(&b, now);
		if (ms < 60)
			continue;
		for (unsigned i = 0; i < 3; i++) {
			places |= 1u << tenants[i].pace.place;
			cr_assert_eq(tenants[i].pace.stopped, tenants[i].pace.place != 0);
		}
		cr_assert_eq(places, 1 << 0 | 1 << 1 | 1 << 2);
	}
	cr_assert(b.reclaim_due);
	cr_assert(told(0).bound);
	/* With room for all nobody does, and it is looked now and then. */
	b.device_total = 27;
	b.reclaim_due = false;
	now += MS;
	(void)pace_tick(&b, now);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_not(tenants[i].pace.stopped);
		cr_assert_eq(tenants[i].pace.place, 0);
	}
	cr_assert(b.reclaim_due);
	now += MS;
	cr_assert_eq(pace_tick(&b, now), now + 50 * MS);
	/* Nor where they do without a part. */
	b.device_total = 20;
	for (unsigned i = 0; i < 3; i++)
		pages[i].cold_bytes = 2;
	pages[2].cold_out_bytes = 2;
	now += 50 * MS;
	(void)pace_tick(&b, now);
	cr_assert(workers[0].pace.bound);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_not(tenants[i].pace.stopped);
		pages[i].cold_bytes = pages[i].cold_out_bytes = 0;
	}
	/* A rest does not keep a turn from being one. */
	workers[0].evicted = workers[0].charged = 100;
	workers[2].evicted = 0;
	now += 50 * MS;
	(void)pace_tick(&b, now);
	cr_assert_eq(tenants[0].pace.out, 100);
	workers[0].evicted = 2;
	workers[0].charged = 198;
	now += 50 * MS;
	(void)pace_tick(&b, now);
	cr_assert_eq(tenants[0].pace.out, 0);
	workers[0].evicted = 0;
	workers[0].charged = 8;
	workers[1].evicted = 2;
	/* Memory that an idle one cannot give is not theirs. */
	pages[2].computing = pages[2].waiting = 0;
	b.device_total = 19;
	now += 50 * MS;
	(void)pace_tick(&b, now);
	cr_assert(tenants[0].pace.stopped || tenants[1].pace.stopped);
	/* An idle one may have memory out, if the others have theirs. */
	workers[2].evicted = b.evicted = 2;
	workers[1].evicted = 0;
	b.device_total = 27;
	now += 50 * MS;
	(void)pace_tick(&b, now);
	cr_assert_not(workers[0].pace.bound);
}

/* Memory that comes in, in three seconds, is waited for; what is left of it a second more. */
Test(pace, who_is_next_begins_when_its_memory_is_there)
{
	b.time = &time_sets;
	b.swap = b.device_total = 200;
	for (unsigned i = 0; i < 3; i++) {
		workers[i].charged = i == 2 ? 0 : 80;
		workers[i].evicted = i == 2 ? 84 : 0;
	}
	pace_due(&b);
	for (unsigned ms = 0; ms < 5000; ms++) {
		for (unsigned i = 0; i < 3; i++) {
			works(i, now >= workers[i].pace.held_until_ns);
			pages[i].waiting = 1;
		}
		if (ms % 150 == 149 && workers[2].evicted > 4) {
			workers[2].charged += 4;
			workers[2].evicted -= 4;
		}
		now += MS;
		(void)pace_tick(&b, now);
		cr_assert(ms < 1 || ms > 3900 || tenants[2].pace.stopped, "%u", ms);
	}
	cr_assert_geq(tenants[2].pace.n_turns, 1);
}

/* Three of which two fit, that have work on the device in one of so many milliseconds. Returns in
 * how many of 2000 two went. */
static unsigned went_together(unsigned every)
{
	unsigned both = 0;

	b.time = &time_sets;
	b.swap = b.device_total = 20;
	for (unsigned i = 0; i < 3; i++)
		workers[i].charged = 8;
	pace_due(&b);
	for (unsigned ms = 0; ms < 2000; ms++) {
		unsigned n = 0;

		for (unsigned i = 0; i < 3; i++) {
			works(i, ms % every == 0 && now >= workers[i].pace.held_until_ns);
			pages[i].waiting = now < workers[i].pace.held_until_ns;
		}
		now += MS;
		(void)pace_tick(&b, now);
		for (unsigned i = 0; i < 3; i++)
			n += !tenants[i].pace.stopped;
		cr_assert(ms < 2 || n < 3);
		both += n == 2;
	}
	return both;
}

Test(pace, who_leaves_the_device_idle_is_not_alone)
{
	cr_assert_gt(went_together(2), 1000);
}

Test(pace, who_has_work_all_the_time_goes_alone)
{
	cr_assert_eq(went_together(1), 0);
}

/* One that another weftd has held is let go, whatever that said. */
Test(pace, sessions_taken_over_are_told)
{
	workers[0].pace_unsure = true;
	pace_due(&b);
	cr_assert_eq(pace_tick(&b, now), UINT64_MAX);
	cr_assert_eq(told(0).held_until_ns, 0);
	cr_assert(!workers[0].pace_unsure);
	cr_assert(nothing_told(1));
}

Test(pace, old_workers_are_left_alone)
{
	uint64_t had[3] = {0};

	workers[0].version = 2;
	cap(0, 25000, 100000);
	run(100, 1, had);
	cr_assert(nothing_told(0));
}

/* ---- blocks of class shared ---- */

/* A kernel of which 16 blocks fit on an SM, as quick with a half as with all of them. */
static void has_kernel(unsigned i)
{
	static const uint64_t speed[] = {500, 1000, 1000, 1000};

	workers[i].kind = WORKER_SHARED;
	pages[i].kernel_blocks = 16;
	for (unsigned k = 0; k < PAGE_KERNEL_RESOURCES; k++)
		pages[i].kernel_need[k] = 1000000 / 16;
	for (unsigned k = 0; k < PAGE_KERNEL_PARTS; k++)
		pages[i].kernel_speed[k] = speed[k];
	works(i, true);
}

static void look(void)
{
	pace_due(&b);
	now += MS;
	(void)pace_tick(&b, now);
}

Test(pace, blocks_are_divided_while_several_have_work)
{
	b.blocks = &blocks_sim;
	has_kernel(0);
	look();
	cr_assert_eq(pages[0].kernel_limit, PAGE_KERNEL_ALONE);
	has_kernel(1);
	look();
	cr_assert(pages[0].kernel_limit == 500 && pages[1].kernel_limit == 500);
	has_kernel(2);
	pages[2].kernel_blocks = 0; /* nobody knows */
	look();
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(pages[i].kernel_limit, PAGE_KERNEL_PLAIN);
	cr_assert_eq(pages[2].kernel_limit, PAGE_KERNEL_ALL, "whatever it begins with");
	works(1, false);
	works(2, false);
	look();
	cr_assert_eq(pages[0].kernel_limit, PAGE_KERNEL_PLAIN,
		     "that was between two kernels");
	now += 240 * MS;
	look();
	cr_assert_eq(pages[0].kernel_limit, PAGE_KERNEL_PLAIN, "likewise");
	now += 20 * MS;
	look();
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(pages[i].kernel_limit, PAGE_KERNEL_ALONE);
}

Test(pace, who_takes_turns_has_no_part_in_blocks)
{
	b.blocks = &blocks_sim;
	has_kernel(0);
	has_kernel(1);
	workers[1].kind = WORKER_ISOLATED;
	look();
	cr_assert(pages[0].kernel_limit == PAGE_KERNEL_ALONE && !pages[1].kernel_limit);
	b.blocks = &blocks_all;
	workers[1].kind = WORKER_SHARED;
	look();
	cr_assert(!pages[0].kernel_limit && !pages[1].kernel_limit);
}

/* Numbers that a worker might write. */
Test(pace, pages_are_not_believed)
{
	b.blocks = &blocks_sim;
	for (unsigned round = 0; round < 64; round++) {
		uint64_t any = round % 2 ? UINT64_MAX >> round : 1ull << round;

		has_kernel(0);
		has_kernel(1);
		pages[0].kernel_blocks = any;
		pages[0].kernel_fixed = any;
		pages[0].kernel_need[round % PAGE_KERNEL_RESOURCES] = any;
		pages[0].kernel_speed[round % PAGE_KERNEL_PARTS] = any;
		look();
		for (unsigned i = 0; i < 2; i++)
			cr_assert(pages[i].kernel_limit <= PAGE_KERNEL_ALL ||
				  pages[i].kernel_limit == PAGE_KERNEL_PLAIN);
	}
}
