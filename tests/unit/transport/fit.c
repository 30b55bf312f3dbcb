/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies between ends of different age, and what a guest does not send to an older host. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "carrier.h"
#include "fit.h"
#include "loopback.h"

#define OP 7

/* A body with a structure of `have` bytes, 1, 2, 3, ..., and parts, 101, 102, ... */
static void fill(uint8_t *body, uint32_t have, uint32_t parts)
{
	for (uint32_t i = 0; i < have; i++)
		body[i] = (uint8_t)(1 + i);
	for (uint32_t i = 0; i < parts; i++)
		body[have + i] = (uint8_t)(101 + i);
}

static void check(const uint8_t *body, uint32_t have, uint32_t fixed, uint32_t parts)
{
	for (uint32_t i = 0; i < fixed; i++)
		cr_assert_eq(body[i], i < have ? 1 + i : 0, "%u of %u", i, fixed);
	for (uint32_t i = 0; i < parts; i++)
		cr_assert_eq(body[fixed + i], 101 + i);
}

Test(fit, every_length_into_every_other_wherever_the_body_lies)
{
	uint8_t room[200], other[200];

	for (uint32_t have = 0; have <= 64; have += 8) {
		for (uint32_t fixed = 0; fixed <= 64; fixed += 8) {
			for (uint32_t parts = 0; parts <= 48; parts += 16) {
				uint8_t *at[] = {room, room + 8, other};

				for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
					memset(room, 0xee, sizeof(room));
					fill(at[i], have, parts);
					cr_assert_eq(fit_body(room, at[i], have + parts,
							      have, fixed),
						     fixed + parts);
					check(room, have, fixed, parts);
				}
			}
		}
	}
}

Test(fit, only_zeros_may_be_more)
{
	uint8_t body[32] = {1, 2, 3, 4, 5, 6, 7, 8};

	cr_assert(fit_is_known(body, 32, 8));
	cr_assert(fit_is_known(body, 8, 32), "shorter");
	cr_assert(!fit_is_known(body, 32, 0));
	for (unsigned i = 8; i < 32; i++) {
		body[i] = 1;
		cr_assert(!fit_is_known(body, 32, 8));
		body[i] = 0;
	}
}

static void open_pair(struct loopback *lb, const struct lane_known *known)
{
	struct loopback_opts o = {.carrier = WIRE_CARRIER_WINDOW};

	cr_assert_eq(loopback_init(lb, &o), 0);
	lb->guest->known = known;
}

/* Begins a command of 16 bytes whose byte `at` is 1. */
static bool begin(struct lane *l, uint16_t op, unsigned at)
{
	uint8_t *body = lane_begin(l, op, 16, 0, NULL);

	if (!body)
		return false;
	memset(body, 0, 16);
	body[at] = 1;
	return true;
}

Test(known, nothing_is_sent_that_the_worker_does_not_know)
{
	static const uint16_t size[OP + 1] = {[OP] = 1 + 12, [OP - 1] = 1};
	static const struct lane_known known = {OP + 1, size};
	lane_mark mark = 0;
	uint64_t after;
	struct lane_reply reply;
	struct loopback lb;
	struct lane_msg m;

	open_pair(&lb, &known);
	cr_assert(!lane_knows(lb.guest, OP + 1));
	cr_assert(!lane_knows(lb.guest, 1));
	cr_assert(lane_knows(lb.guest, OP - 1));
	for (uint16_t op = OP - 2; op <= OP + 1; op++) {
		if (lane_knows(lb.guest, op))
			continue;
		cr_assert(!begin(lb.guest, op, 0));
		cr_assert_eq(lane_post(lb.guest), -EOPNOTSUPP);
		cr_assert_eq(lane_call(lb.guest, &reply), -EOPNOTSUPP);
	}
	cr_assert(begin(lb.guest, OP, 12));
	cr_assert_eq(lane_post(lb.guest), -EOPNOTSUPP);
	cr_assert(begin(lb.guest, OP, 15));
	cr_assert_eq(lane_post_apart(lb.guest, &after, &mark, NULL), -EOPNOTSUPP);
	cr_assert(begin(lb.guest, OP - 1, 0));
	cr_assert_eq(lane_call(lb.guest, &reply), -EOPNOTSUPP);
	/* No ticket was taken for any of it, and the lane goes on. */
	cr_assert(begin(lb.guest, OP, 11));
	cr_assert_eq(lane_post(lb.guest), 0);
	cr_assert_eq(lane_recv(lb.worker, &m), 0);
	cr_assert_eq(m.hdr.seq, 1);
	cr_assert_eq(m.hdr.op, OP);
	cr_assert_eq(((const uint8_t *)m.body)[11], 1);
	loopback_fini(&lb);
}

static void worker_answers(struct lane *l, uint32_t structure, uint32_t size)
{
	uint8_t *body = lane_reply_begin(l, 0, size, 0, NULL);

	cr_assert_not_null(body);
	fill(body + 8, structure - 8, size - structure);
	lane_fixed(l, structure);
	cr_assert_eq(lane_reply(l), 0);
}

Test(fit, a_reply_gets_the_length_that_is_expected)
{
	static const uint32_t have[] = {8, 24, 40};

	for (unsigned i = 0; i < ARRAY_SIZE(have); i++) {
		struct lane_reply reply;
		struct loopback lb;
		struct lane_msg m;

		open_pair(&lb, &(const struct lane_known){0});
		cr_assert(begin(lb.guest, OP, 0));
		cr_assert_eq(lane_send(lb.guest), 0);
		cr_assert_eq(lane_recv(lb.worker, &m), 0);
		worker_answers(lb.worker, have[i], have[i] + 16);
		cr_assert_eq(lane_answer(lb.guest, &reply), 0);
		cr_assert_eq(reply.fixed, have[i]);
		lane_fit_reply(lb.guest, &reply, 24, NULL);
		cr_assert_eq(reply.body_size, 24 + 16);
		check((const uint8_t *)reply.body + 8, have[i] - 8, 16, 16);
		loopback_fini(&lb);
	}
}

/* A structure that is longer than its body is nobody's. */
Test(fit, structures_that_lie_end_the_lane)
{
	struct lane_reply reply;
	struct loopback lb;
	struct lane_msg m;

	open_pair(&lb, &(const struct lane_known){0});
	cr_assert(begin(lb.guest, OP, 0));
	lane_fixed(lb.guest, 24);
	cr_assert_eq(lane_post(lb.guest), 0);
	cr_assert_eq(lane_recv(lb.worker, &m), -EPROTO);
	loopback_fini(&lb);
	open_pair(&lb, &(const struct lane_known){0});
	cr_assert(begin(lb.guest, OP, 0));
	cr_assert_eq(lane_send(lb.guest), 0);
	cr_assert_eq(lane_recv(lb.worker, &m), 0);
	cr_assert_not_null(lane_reply_begin(lb.worker, 0, 8, 0, NULL));
	lane_fixed(lb.worker, 16);
	cr_assert_eq(lane_reply(lb.worker), 0);
	cr_assert_eq(lane_answer(lb.guest, &reply), -EPROTO);
	loopback_fini(&lb);
}
