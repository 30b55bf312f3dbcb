/* SPDX-License-Identifier: Apache-2.0 */
/* Posts that say themselves what they come after. */
#include "pair.h"

#define OP 7

/* The ticket that a post on lb which is apart says it comes after, as the worker reads. */
static uint64_t after_of(struct loopback *lb, lane_mark *stream, lane_mark *event)
{
	uint64_t *body = lane_begin(lb->guest, OP, 8, 0, NULL);
	struct lane_msg m;

	cr_assert_eq(lane_post_apart(lb->guest, body, stream, event), 0);
	cr_assert_eq(lane_recv(lb->worker, &m), 0);
	cr_assert_eq(m.hdr.flags, WIRE_F_ASYNC | WIRE_F_APART);
	return *(const uint64_t *)m.body;
}

static void post(struct loopback *lb)
{
	struct lane_msg m;

	lane_begin(lb->guest, OP, 8, 0, NULL);
	cr_assert_eq(lane_post(lb->guest), 0);
	cr_assert_eq(lane_recv(lb->worker, &m), 0);
}

CARRIER_TEST(apart, posts_apart_say_what_they_come_after)
{
	struct lane_tickets tickets = {.next = 1};
	struct loopback_opts o = {.carrier = carrier, .tickets = &tickets};
	lane_mark one = 0, two = 0, event = 0;
	struct loopback a, b;

	cr_assert_eq(loopback_init(&a, &o), 0);
	cr_assert_eq(loopback_init(&b, &o), 0);
	cr_expect_eq(after_of(&a, &one, NULL), 0);                   /* ticket 1 */
	cr_expect_eq(after_of(&b, &two, NULL), 0);                   /* 2 */
	cr_expect_eq(after_of(&a, &one, NULL), 0, "its own lane's"); /* 3 */
	cr_expect_eq(after_of(&b, &one, NULL), 3, "the other's for the stream"); /* 4 */
	cr_expect_eq(after_of(&a, &one, NULL), 4);                               /* 5 */
	post(&b);                                                                /* 6 */
	cr_expect_eq(after_of(&a, &one, &event), 6);                             /* 7 */
	cr_expect_eq(after_of(&b, &two, &event), 7, "the event's");              /* 8 */
	cr_expect_eq(after_of(&a, NULL, NULL), 6, "a stream of the lane's own"); /* 9 */
	cr_expect_eq(tickets.next, 10);
	loopback_fini(&a);
	loopback_fini(&b);
}

/* A lane that takes another one's place is another one. */
CARRIER_TEST(apart, a_later_lane_comes_after_an_earlier_one)
{
	struct lane_tickets tickets = {.next = 1};
	struct loopback_opts o = {.carrier = carrier, .tickets = &tickets};
	struct loopback lb;
	lane_mark one = 0;

	cr_assert_eq(loopback_init(&lb, &o), 0);
	cr_expect_eq(after_of(&lb, &one, NULL), 0);
	loopback_fini(&lb);
	cr_assert_eq(loopback_init(&lb, &o), 0);
	cr_expect_eq(after_of(&lb, &one, NULL), 1);
	loopback_fini(&lb);
}
