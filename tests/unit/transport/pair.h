/* SPDX-License-Identifier: Apache-2.0 */
/* A lane of either carrier with a worker thread behind it, for the transport's tests. */
#ifndef WEFT_TEST_TRANSPORT_PAIR_H
#define WEFT_TEST_TRANSPORT_PAIR_H

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "carrier.h"
#include "loopback.h"

/* Defines a test that runs once per carrier, with a name for each. */
#define CARRIER_TEST(suite, name)                                                        \
	static void suite##_##name(enum wire_carrier carrier);                           \
	Test(suite, name##_stream, .timeout = 60)                                        \
	{                                                                                \
		suite##_##name(WIRE_CARRIER_STREAM);                                     \
	}                                                                                \
	Test(suite, name##_window, .timeout = 60)                                        \
	{                                                                                \
		suite##_##name(WIRE_CARRIER_WINDOW);                                     \
	}                                                                                \
	static void suite##_##name(enum wire_carrier carrier)

static inline void pair_open(struct loopback *lb, enum wire_carrier carrier,
			     unsigned spin_us)
{
	struct loopback_opts o = {.carrier = carrier, .spin_us = spin_us};

	cr_assert_eq(loopback_init(lb, &o), 0);
}

/* Starts a worker's thread. */
static inline pthread_t pair_serve(struct loopback *lb, void *(*serve)(void *))
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, serve, lb->worker), 0);
	return t;
}

/* The guest leaves; the worker's thread must notice. */
static inline void pair_close(struct loopback *lb, pthread_t t)
{
	lane_free(lb->guest);
	lb->guest = NULL;
	pthread_join(t, NULL);
	loopback_fini(lb);
}

#endif
