// SPDX-License-Identifier: Apache-2.0
/*
 * How long to poll before sleeping.
 *
 * Polling saves the two system calls and the wake-up of a sleep (5 to 20 us), but only
 * when the peer runs on another processor at that moment, and answers soon. So the budget
 * grows when a sleep turns out to have been short, and shrinks when it was long. A gap
 * between two looks at the clock means that the scheduler ran someone else here:
 * processors are scarce, perhaps the peer itself is waiting for this one, and polling
 * stops at once.
 */
#include <sched.h>

#include "base/clock.h"
#include "carrier.h"

#define SPIN_MIN_NS 1000u
/* Longer than anything but being scheduled away. */
#define SPIN_GAP_NS 20000u

void spin_init(struct spin *s, unsigned max_us)
{
	cpu_set_t cpus;

	s->max_ns = max_us * NSEC_PER_USEC;
	/* With one processor the peer cannot answer while this side polls. */
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) < 2)
		s->max_ns = 0;
	s->budget_ns = s->max_ns;
}

int spin_poll(struct spin *s, const struct spin_ask *ask)
{
	uint64_t start, last;

	if (!s->budget_ns)
		return ask->ready(ask->arg);
	start = last = clock_now_ns();
	for (;;) {
		uint64_t now;
		int r;

		for (unsigned i = 0; i < ask->batch; i++) {
			r = ask->ready(ask->arg);
			if (r)
				return r;
			cpu_relax();
		}
		now = clock_now_ns();
		if (now - last > SPIN_GAP_NS) {
			s->budget_ns = MIN(s->budget_ns, (uint64_t)SPIN_MIN_NS);
			return 0;
		}
		if (now - start > s->budget_ns)
			return 0;
		last = now;
	}
}

void spin_learn(struct spin *s, uint64_t waited_ns)
{
	if (!s->max_ns)
		return;
	if (waited_ns < s->max_ns)
		s->budget_ns = MIN(s->budget_ns * 2, s->max_ns);
	else
		s->budget_ns =
			MAX(s->budget_ns / 2, MIN(s->max_ns, (uint64_t)SPIN_MIN_NS));
}
