/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of portions, by a device that is a number. */
#include <criterion/criterion.h>

#include "base/macros.h"
#include "policies/time.h"
#include "session/portion.h"

#define US NSEC_PER_USEC

static struct portion b;

static void setup(void)
{
	portion_init(&b);
}

TestSuite(portion, .init = setup, .timeout = 60);

/* Portions of commands of so long, during one in `of` of which others have the device; 0: none. */
static void run(unsigned portions, uint64_t each_ns, unsigned of)
{
	for (unsigned i = 1; i <= portions; i++)
		portion_done(&b, b.n, b.n * each_ns + (of && !(i % of) ? 2200 * US : 0));
}

Test(portion, is_what_the_device_does_in_the_time)
{
	run(200, 10 * US, 0);
	cr_assert_eq(b.n, 150);
	run(200, 20000 * US, 0);
	cr_assert_eq(b.n, 1);
	run(1000, 1, 0);
	cr_assert_eq(b.n, PORTION_MAX);
	run(200, 100 * US, 0);
	cr_assert_eq(b.n, 15);
}

Test(portion, is_the_same_beside_neighbours)
{
	run(200, 10 * US, 0);
	for (unsigned of = 2; of < 6; of++) {
		run(200, 10 * US, of);
		cr_assert_eq(b.n, 150, "%u", b.n);
	}
}

/* A kernel of 1 ms and an event, by turns: some four are a portion. */
Test(portion, does_not_go_by_commands_that_cost_nothing)
{
	unsigned kinds = 0, sum = 0;
	uint64_t took;

	for (unsigned i = 0; i < 1000; i++) {
		took = 0;
		for (unsigned n = 0; n < b.n; n++)
			took += kinds++ % 2 ? 5 * US : 1000 * US;
		portion_done(&b, b.n, took);
		sum += b.n;
	}
	cr_assert_leq(sum, 6 * 1000);
}

/* Two that lie before the device are done before a lane has brought more, and a neighbour has
 * it then; of 16 some are always there. */
Test(portion, gets_out_of_being_too_small)
{
	b.n = 1;
	for (unsigned i = 0; i < 1000; i++)
		portion_done(&b, b.n, b.n * 50 * US + (b.n < 4 || i % 3 == 0 ? 2200 * US : 0));
	cr_assert_eq(b.n, 30);
}

/* ---- a device that goes round ---- */

/* By steps of 1 us: a program with four kernels on the way, each with an event behind it that it
 * waits for; a gate (gate.c) that lets it in by portions; and a device that it has for a slice
 * at a time, as long as it has something to do, and then its neighbours. */
#define QUEUED    4u
#define COMMANDS  (2u * QUEUED)
#define SLICE_US  2000u
#define SWITCH_US (TIME_LOAD_US + TIME_SWITCH_US)
#define EVENT_US  2u
#define SUBMIT_US 6u

struct model {
	unsigned kernel_us, neighbours, wake_us,
		gate_us; /* of who waits, until it goes on */

	unsigned now;
	/* The device: whether the program has it, for how long somebody still does. */
	bool ours;
	unsigned left, ran;
	unsigned queue[COMMANDS], first, n;
	/* The program. */
	unsigned submitted, done, next, done_us[COMMANDS];
	/* The gate. */
	unsigned entered, entered_us, of_portion, portion_us, done_at, answer, answered;
};

/* Others have had their slices, and the device comes back, if there is something to do. */
static unsigned others_us(const struct model *m)
{
	return (m->neighbours + 1) * SWITCH_US + m->neighbours * SLICE_US;
}

static void device_step(struct model *m)
{
	if (m->ours && (!m->n || !m->left)) {
		m->ours = false;
		m->left = others_us(m);
	}
	if (!m->left && !m->ours) {
		m->ours = m->n > 0;
		m->left = SLICE_US;
	}
	m->left--;
	if (!m->ours)
		return;
	m->ran++;
	if (--m->queue[m->first])
		return;
	m->done_us[m->done++ % COMMANDS] = m->now;
	m->first = (m->first + 1) % COMMANDS;
	m->n--;
	if (m->done == m->done_at)
		m->answer = m->now + m->gate_us;
}

static void ask(struct model *m)
{
	m->of_portion = m->entered;
	m->portion_us = m->entered_us;
	m->entered = 0;
	m->done_at = m->submitted;
	m->answer = m->n ? UINT32_MAX : m->now + m->gate_us;
}

static void gate_step(struct model *m)
{
	if (!m->of_portion || m->now < m->answer)
		return;
	portion_done(&b, m->of_portion, (m->now - MAX(m->portion_us, m->answered)) * US);
	m->of_portion = 0;
	m->answered = m->now;
}

static bool program_waits(const struct model *m)
{
	unsigned i = m->submitted;

	if (m->now < m->next)
		return true;
	/* A kernel waits for the event of the one so many before. */
	if (i % 2 || i < COMMANDS)
		return false;
	return m->done < i + 2 - COMMANDS ||
	       m->now < m->done_us[(i + 1) % COMMANDS] + m->wake_us;
}

static void program_step(struct model *m)
{
	if (program_waits(m))
		return;
	if (m->entered >= b.n && m->of_portion)
		return;
	if (m->entered >= b.n)
		ask(m);
	if (!m->entered++)
		m->entered_us = m->now;
	m->queue[(m->first + m->n++) % COMMANDS] =
		m->submitted++ % 2 ? EVENT_US : m->kernel_us;
	m->next = m->now + SUBMIT_US;
}

/* Returns how much of the device the program has, of what there is for it, in per cent. */
static unsigned run_model(struct model m)
{
	const unsigned all = 2000000;

	portion_init(&b);
	for (; m.now < all; m.now++) {
		device_step(&m);
		gate_step(&m);
		program_step(&m);
	}
	return (unsigned)((uint64_t)m.ran * (SLICE_US + others_us(&m)) * 100 / SLICE_US /
			  all);
}

Test(portion, a_device_does_not_run_dry_beside_neighbours)
{
	static const unsigned kernels[] = {20, 100, 400, 1000, 4000, 20000};
	static const unsigned wakes[] = {40, 150, 250}, gates[] = {60, 150, 300};

	for (unsigned k = 0; k < ARRAY_SIZE(kernels); k++) {
		for (unsigned n = 1; n < 9; n += 7) {
			for (unsigned w = 0; w < ARRAY_SIZE(wakes); w++) {
				struct model m = {.kernel_us = kernels[k],
						  .neighbours = n,
						  .wake_us = wakes[w],
						  .gate_us = gates[w]};
				unsigned has;

				/* Kernels on the way that end before it has woken. */
				if (m.kernel_us * (QUEUED - 1) < m.wake_us)
					continue;
				has = run_model(m);
				cr_assert_geq(has, 90,
					      "%u us, %u neighbours, %u us: %u %%, %u",
					      m.kernel_us, n, m.wake_us, has, b.n);
			}
		}
	}
}
