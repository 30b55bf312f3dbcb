/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of the gate: entering and leaving, by lanes that do nothing else, and closing and
 * opening it under them. Usage:
 *
 *	bench_gate [lanes]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "session/gate.h"

#define LANES_MAX 64
#define ENTRIES   20000000ull
#define CLOSINGS  200
#define PATIENCE  (10 * NSEC_PER_SEC)

static struct gate gate;
static struct gate_lane lanes[LANES_MAX];
static _Atomic bool stop;

static bool quiet(void *arg)
{
	return false;
}

static void catch_up(void *arg)
{
}

static void *lane_main(void *arg)
{
	struct gate_lane *l = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		if (gate_enter(&gate, l) < 0)
			break;
		gate_leave(l);
	}
	return NULL;
}

static void bench_entering(void)
{
	uint64_t t = clock_now_ns();

	for (uint64_t i = 0; i < ENTRIES; i++) {
		(void)gate_enter(&gate, &lanes[0]);
		gate_leave(&lanes[0]);
	}
	printf("enter and leave          %8.2f ns\n",
	       (double)(clock_now_ns() - t) / ENTRIES);
}

static void bench_closing(unsigned n)
{
	uint64_t closing = 0, opening = 0;
	pthread_t t[LANES_MAX];

	for (unsigned i = 0; i < n; i++)
		pthread_create(&t[i], NULL, lane_main, &lanes[i]);
	for (unsigned i = 0; i < CLOSINGS; i++) {
		uint64_t at[3];

		at[0] = clock_now_ns();
		(void)gate_close(&gate, at[0] + PATIENCE);
		at[1] = clock_now_ns();
		gate_open(&gate);
		at[2] = clock_now_ns();
		closing += at[1] - at[0];
		opening += at[2] - at[1];
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("close, %2u lanes          %8.2f us\n", n,
	       (double)closing / CLOSINGS / 1000);
	printf("open                     %8.2f us\n", (double)opening / CLOSINGS / 1000);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;

	n = MIN(n, (unsigned)LANES_MAX);
	gate_init(&gate, &(const struct gate_ops){quiet, catch_up, NULL, NULL}, NULL);
	for (unsigned i = 0; i < LANES_MAX; i++)
		gate_lane_add(&gate, &lanes[i]);
	bench_entering();
	bench_closing(n);
	gate_fini(&gate);
	return 0;
}
