/* SPDX-License-Identifier: Apache-2.0 */
/* Replies that something else than the worker sends, as a device does. */
#include "pair.h"

#define OP 7

static uint64_t *begin(struct lane *l)
{
	uint64_t *b = lane_begin(l, OP, 8, 0, NULL);

	cr_assert_not_null(b);
	*b = 0;
	return b;
}

enum sent {
	SENT_BY_ANOTHER,
	SENT_NOT_YET, /* when the worker takes it to be */
	SENT_ANOTHER, /* reply, instead */
	SENT_WAYS
};

static void put_reply(struct lane *l, uint64_t v)
{
	uint64_t *b = lane_reply_begin(l, 0, 16, 0, NULL);

	cr_assert_not_null(b);
	b[1] = v;
}

static void *sent_by_another(void *arg)
{
	struct lane *l = arg;
	struct lane_msg m;

	while (lane_recv(l, &m) == 0) {
		uint64_t v = *(const uint64_t *)m.body, value;
		_Atomic uint64_t *word;

		put_reply(l, v % SENT_WAYS == SENT_ANOTHER ? ~v : v);
		word = lane_reply_prepare(l, &value);
		if (!word) {
			put_reply(l, v);
			cr_assert_eq(lane_reply(l), 0);
			continue;
		}
		if (v % SENT_WAYS == SENT_BY_ANOTHER)
			atomic_store(word, value);
		if (v % SENT_WAYS == SENT_ANOTHER) {
			put_reply(l, v);
			cr_assert_eq(lane_reply(l), 0);
			continue;
		}
		cr_assert_eq(lane_reply_settle(l), 0);
	}
	return NULL;
}

static void exchange(enum wire_carrier carrier, unsigned spin_us, uint64_t n)
{
	struct lane_reply rep;
	struct loopback lb;
	pthread_t t;

	pair_open(&lb, carrier, spin_us);
	t = pair_serve(&lb, sent_by_another);
	for (uint64_t i = 0; i < n; i++) {
		*begin(lb.guest) = i;
		cr_assert_eq(lane_call(lb.guest, &rep), 0);
		cr_assert_eq(rep.body_size, 16);
		cr_assert_eq(((const uint64_t *)rep.body)[1], i);
	}
	pair_close(&lb, t);
}

CARRIER_TEST(sent, a_reply_may_be_sent_by_something_else)
{
	exchange(carrier, 50, 20000); /* the ring wraps */
}

/* A guest that sleeps is woken when the worker takes the reply to be out. */
CARRIER_TEST(sent, a_reply_that_something_else_sends_wakes)
{
	exchange(carrier, 0, 1000);
}

CARRIER_TEST(sent, a_command_that_was_there_is_prompt)
{
	bool window = carrier == WIRE_CARRIER_WINDOW;
	struct loopback lb;
	struct lane_msg m;

	pair_open(&lb, carrier, 0);
	begin(lb.guest);
	cr_assert_eq(lane_post(lb.guest), 0);
	begin(lb.guest);
	cr_assert_eq(lane_send(lb.guest), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(lane_recv(lb.worker, &m), 0);
		cr_assert_eq(lane_prompt(lb.worker), window);
	}
	loopback_fini(&lb);
}

static void *call_later(void *arg)
{
	usleep(50000);
	begin(arg);
	cr_assert_eq(lane_send(arg), 0);
	return NULL;
}

CARRIER_TEST(sent, a_command_that_was_waited_for_is_not)
{
	struct loopback lb;
	struct lane_msg m;
	pthread_t t;

	pair_open(&lb, carrier, 0);
	cr_assert_eq(pthread_create(&t, NULL, call_later, lb.guest), 0);
	cr_assert_eq(lane_recv(lb.worker, &m), 0);
	cr_assert(!lane_prompt(lb.worker));
	pthread_join(t, NULL);
	loopback_fini(&lb);
}
