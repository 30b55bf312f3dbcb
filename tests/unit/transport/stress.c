/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends at full speed with pauses wherever a wake-up could be lost: each side stops
 * at random for long enough to park, rings fill and drain, and every byte is accounted
 * for. Runs under TSan as well.
 */
#include "pair.h"

#define OP_SUM  1 /* post: payload and body are added up */
#define OP_ASK  2 /* call: returns the sum and count so far */
#define OP_MANY 3 /* call: returns records of payload */

/* Enough for thousands of parks; a third under a sanitizer's slowdown is still many. */
#define ROUNDS 6000

static uint32_t rnd(uint64_t *s)
{
	*s = *s * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*s >> 33);
}

/* Now and then nothing, a little spinning, or a sleep. */
static void dawdle(uint64_t *s)
{
	uint32_t what = rnd(s) % 256;

	if (what == 0)
		usleep(rnd(s) % 200);
	else if (what < 8)
		for (unsigned i = rnd(s) % 2000; i; i--)
			cpu_relax();
}

static uint64_t sum_bytes(const void *p, size_t n)
{
	const unsigned char *c = p;
	uint64_t sum = n;

	while (n--)
		sum += *c++;
	return sum;
}

static void *worker(void *arg)
{
	struct lane *l = arg;
	uint64_t sum = 0, count = 0, seed = 99;
	struct lane_msg m;

	while (lane_recv(l, &m) == 0) {
		uint64_t *b;
		void *to;

		dawdle(&seed);
		if (m.hdr.op == OP_SUM) {
			sum += sum_bytes(m.body, m.body_size) +
			       sum_bytes(m.payload, m.payload_size);
			count++;
			continue;
		}
		for (uint64_t n = m.hdr.op == OP_MANY ? *(const uint64_t *)m.body : 1; n;
		     n--) {
			uint32_t size = m.hdr.op == OP_MANY ? 1 + rnd(&seed) % 9000 : 0;

			b = lane_reply_begin(l, n > 1 ? WIRE_F_MORE : 0, 32, size, &to);
			if (!b)
				return NULL;
			if (size)
				memset(to, (int)n, size);
			b[1] = sum;
			b[2] = count;
			b[3] = n;
			if (lane_reply(l) < 0)
				return NULL;
			dawdle(&seed);
		}
	}
	return NULL;
}

struct guest {
	struct lane *l;
	uint64_t seed, sum, count;
};

static void post(struct guest *g)
{
	uint32_t body = rnd(&g->seed) % 40 * 8, size = 0;
	void *b, *to = NULL;

	if (rnd(&g->seed) % 16 == 0)
		size = rnd(&g->seed) % (rnd(&g->seed) % 8 ? 3000 : 300000);
	b = lane_begin(g->l, OP_SUM, body, size, &to);
	cr_assert_not_null(b);
	memset(b, (int)rnd(&g->seed), body);
	if (size)
		memset(to, (int)rnd(&g->seed), size);
	g->sum += sum_bytes(b, body) + sum_bytes(to, size);
	g->count++;
	cr_assert_eq(lane_post(g->l), 0);
}

static void ask(struct guest *g)
{
	struct lane_reply rep;
	const uint64_t *b;

	cr_assert_not_null(lane_begin(g->l, OP_ASK, 0, 0, NULL));
	cr_assert_eq(lane_call(g->l, &rep), 0);
	b = rep.body;
	cr_assert_eq(b[2], g->count);
	cr_assert_eq(b[1], g->sum);
}

static void many(struct guest *g)
{
	struct lane_reply rep;
	uint64_t n = 1 + rnd(&g->seed) % 20;
	uint64_t *req = lane_begin(g->l, OP_MANY, 8, 0, NULL);
	int r;

	cr_assert_not_null(req);
	*req = n;
	for (r = lane_call(g->l, &rep); r == 0; r = lane_next(g->l, &rep)) {
		const unsigned char *p = rep.payload;

		cr_assert_eq(((const uint64_t *)rep.body)[3], n);
		cr_assert_eq(sum_bytes(p, rep.payload_size),
			     rep.payload_size * (1 + (n & 0xff)));
		dawdle(&g->seed);
		if (!rep.more)
			break;
		n--;
	}
	cr_assert_eq(r, 0);
	cr_assert_eq(n, 1);
}

static void run(enum wire_carrier carrier, unsigned spin_us, uint64_t lane_size)
{
	struct loopback_opts o = {
		.carrier = carrier, .spin_us = spin_us, .lane_size = lane_size};
	struct loopback lb;
	struct guest g = {.seed = 1 + spin_us};
	pthread_t t;

	cr_assert_eq(loopback_init(&lb, &o), 0);
	t = pair_serve(&lb, worker);
	g.l = lb.guest;
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (unsigned n = rnd(&g.seed) % 8; n; n--)
			post(&g);
		if (rnd(&g.seed) % 4 == 0)
			ask(&g);
		else if (rnd(&g.seed) % 16 == 0)
			many(&g);
		dawdle(&g.seed);
	}
	ask(&g);
	pair_close(&lb, t);
}

CARRIER_TEST(stress, never_polling)
{
	run(carrier, 0, 0);
}

CARRIER_TEST(stress, polling_briefly)
{
	run(carrier, 3, 0);
}

CARRIER_TEST(stress, polling)
{
	run(carrier, 50, 0);
}

Test(stress, smallest_window, .timeout = 60)
{
	run(WIRE_CARRIER_WINDOW, 5, RING_LANE_MIN);
}
