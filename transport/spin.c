/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long to poll before sleeping.
 *
 * Polling saves the doorbell and the wake-up of a sleep (5 to 20 us on one machine, 80 us
 * and more from or into a VM), but only when the peer runs on another processor at that
 * moment and answers soon. So the budget grows when a sleep turns out to have been short,
 * and shrinks when it was long. A large gap between two looks at the clock means that the
 * scheduler ran someone else here: processors are scarce, perhaps the peer itself is
 * waiting for this one, and polling stops at once. As sleeping makes the peer sleep too,
 * two sides could stay in that state for ever; so now and then one polls for the whole
 * time.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "carrier.h"

#define SPIN_MIN_NS 1000u
/*
 * With that many processors one of them may wait busily, as the driver itself does in a
 * program that synchronises: waking up took 100 to 200 us on a 16-core VM, which a wait
 * of a millisecond feels.
 */
#define SPIN_MANY_CPUS      8
#define SPIN_PATIENCE       100u
#define SPIN_PATIENT_MAX_NS (5 * NSEC_PER_MSEC)
/*
 * Time for which a worker's thread may linger where there are so many processors: a
 * program that computes for a while between two questions to its GPU finds the worker
 * awake (asleep: 25 to 70 us more on that machine). A session that is idle for longer
 * soon polls no more, and no process polls in more threads than this.
 */
#define SPIN_LINGER_NS (2 * NSEC_PER_MSEC)
#define SPIN_LINGERERS 2
/* Being scheduled away takes longer; a slow processor, or an emulated one, does not. */
#define SPIN_GAP_NS 200000u
/* Every how many waits to poll for the whole time, whatever was learnt. */
#define SPIN_PROBE 32
/* A pause takes some 40 ns; emulators leave their loop for it, which takes a few us. */
#define PAUSES         8
#define PAUSES_SLOW_NS 3000u

static atomic_bool pause_is_slow;
static atomic_int lingerers;

static void time_pause(void)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < 4; i++) {
		uint64_t t = clock_now_ns();

		for (unsigned j = 0; j < PAUSES; j++)
			cpu_relax();
		best = MIN(best, clock_now_ns() - t);
	}
	atomic_store_explicit(&pause_is_slow, best > PAUSES_SLOW_NS,
			      memory_order_relaxed);
}

void spin_init(struct spin *s, unsigned max_us, unsigned cpus)
{
	*s = (struct spin){.max_ns = max_us * NSEC_PER_USEC, .min_ns = SPIN_MIN_NS};
	/* With one processor the peer cannot answer while this side polls. */
	if (cpus < 2)
		s->max_ns = 0;
	s->min_ns = MIN(s->min_ns, s->max_ns);
	s->budget_ns = s->brief_ns = s->max_ns;
	if (s->max_ns)
		time_pause();
}

void spin_patient(struct spin *s)
{
	if (!s->max_ns || cpus_allowed() < SPIN_MANY_CPUS)
		return;
	s->min_ns = s->max_ns;
	s->max_ns = MIN(s->max_ns * SPIN_PATIENCE, SPIN_PATIENT_MAX_NS);
	s->budget_ns = s->brief_ns = s->max_ns;
}

void spin_linger(struct spin *s)
{
	if (!s->max_ns || cpus_allowed() < SPIN_MANY_CPUS)
		return;
	s->max_ns = MAX(s->max_ns, (uint64_t)SPIN_LINGER_NS);
	s->budget_ns = s->max_ns;
}

/* As ask->ready(), 0 if it did not become so in time; *ret_gap: something else ran here.
 */
static int poll_for(const struct spin_ask *ask, uint64_t ns, bool *ret_gap)
{
	bool slow = atomic_load_explicit(&pause_is_slow, memory_order_relaxed);
	uint64_t start = clock_now_ns(), last = start;

	for (;;) {
		uint64_t now;
		int r;

		for (unsigned i = 0; i < ask->batch; i++) {
			r = ask->ready(ask->arg);
			if (r)
				return r;
			if (!slow)
				cpu_relax();
		}
		now = clock_now_ns();
		*ret_gap = now - last > SPIN_GAP_NS;
		if (*ret_gap || now - start > ns)
			return 0;
		last = now;
	}
}

/* relaxed: it only counts. */
static int linger(const struct spin_ask *ask, uint64_t ns, bool *ret_gap)
{
	int r = 0;

	if (atomic_fetch_add_explicit(&lingerers, 1, memory_order_relaxed) <
	    SPIN_LINGERERS)
		r = poll_for(ask, ns, ret_gap);
	atomic_fetch_sub_explicit(&lingerers, 1, memory_order_relaxed);
	return r;
}

int spin_poll(struct spin *s, const struct spin_ask *ask)
{
	uint64_t budget = s->budget_ns;
	bool gap = false;
	int r;

	if (!s->max_ns)
		return ask->ready(ask->arg);
	if (++s->waits % SPIN_PROBE == 0)
		budget = s->max_ns;
	r = poll_for(ask, MIN(budget, s->brief_ns), &gap);
	if (!r && !gap && budget > s->brief_ns)
		r = linger(ask, budget - s->brief_ns, &gap);
	if (r)
		s->budget_ns = budget;
	else if (gap)
		s->budget_ns = MIN(s->budget_ns, (uint64_t)SPIN_MIN_NS);
	return r;
}

void spin_learn(struct spin *s, uint64_t waited_ns)
{
	if (!s->max_ns)
		return;
	if (waited_ns < s->max_ns)
		s->budget_ns = MIN(s->budget_ns * 2, s->max_ns);
	else
		s->budget_ns = MAX(s->budget_ns / 2, s->min_ns);
}
