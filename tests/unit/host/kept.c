/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that lanes keep after use: found again without a lock, gone when destroyed. */
#include <criterion/criterion.h>
#include <string.h>

#include "codec.h"
#include "fake.h"

#define CTX    handle_make(HANDLE_CONTEXT, 1, 1)
#define STREAM handle_make(HANDLE_STREAM, 1, 1)
#define EVENT  handle_make(HANDLE_EVENT, 1, 1)

static struct session *s;
static struct sess_lane lanes[2];
static uint64_t seq;

/* A lane receives a command that nobody waits for. */
#define post(lane, name, ...)                                                            \
	do {                                                                             \
		struct name##_cmd _c = {__VA_ARGS__};                                    \
		struct lane_msg _m = {.hdr = {.op = WIRE_OP_##name,                      \
					      .fixed = sizeof(_c) / 8,                   \
					      .flags = WIRE_F_ASYNC,                     \
					      .seq = ++seq},                             \
				      .body = &_c,                                       \
				      .body_size = sizeof(_c)};                          \
		cr_assert_eq(sess_handle(lane, &_m), 0);                                 \
	} while (0)

static uint32_t failure(void)
{
	return atomic_exchange(&s->deferred, CUDA_SUCCESS);
}

static void setup(void)
{
	struct sess_ctx *ctx;

	s = fake_session();
	seq = 0;
	cr_assert_eq(sess_ctx_new(s, CTX, 0, &ctx), CUDA_SUCCESS);
	cr_assert_eq(obj_publish(s, &ctx->obj), 0);
	for (unsigned i = 0; i < 2; i++) {
		sess_lane_init(&lanes[i], s, NULL, i);
		post(&lanes[i], ctx_set_current, .ctx = CTX);
	}
	post(&lanes[0], stream_create, .stream = STREAM);
	post(&lanes[0], event_create, .event = EVENT);
	post(&lanes[0], event_record, .event = EVENT, .stream = STREAM);
	post(&lanes[0], event_record, .event = EVENT, .stream = STREAM);
	cr_assert_eq(failure(), CUDA_SUCCESS);
	cr_assert_eq(fake.streams, 1);
}

static void teardown(void)
{
	for (unsigned i = 0; i < 2; i++)
		sess_lane_fini(&lanes[i]);
	sess_free(s);
	cr_assert(fake.contexts == 0 && fake.streams == 0 && fake.events == 0);
}

TestSuite(kept, .init = setup, .fini = teardown, .timeout = 20);

/* Found without the table: as long as nothing is destroyed, nobody takes its lock. */
Test(kept, found_without_a_lock)
{
	pthread_mutex_lock(&s->objs.lock);
	post(&lanes[0], event_record, .event = EVENT, .stream = STREAM);
	pthread_mutex_unlock(&s->objs.lock);
	cr_expect_eq(failure(), CUDA_SUCCESS);
}

Test(kept, of_the_right_type_only)
{
	post(&lanes[0], event_record, .event = STREAM, .stream = STREAM);
	cr_expect_eq(failure(), CUDA_ERROR_INVALID_HANDLE);
	post(&lanes[0], event_record, .event = EVENT, .stream = EVENT);
	cr_expect_eq(failure(), CUDA_ERROR_INVALID_HANDLE);
	post(&lanes[0], event_record, .event = EVENT | 1, .stream = STREAM);
	cr_expect_eq(failure(), CUDA_ERROR_INVALID_HANDLE);
}

Test(kept, own_destruction)
{
	post(&lanes[0], stream_destroy, .stream = STREAM);
	cr_expect_eq(fake.streams, 0, "at once");
	post(&lanes[0], event_record, .event = EVENT, .stream = STREAM);
	cr_expect_eq(failure(), CUDA_ERROR_INVALID_HANDLE);
	/* the same handle again is another object */
	post(&lanes[0], stream_create, .stream = STREAM);
	post(&lanes[0], event_record, .event = EVENT, .stream = STREAM);
	cr_expect_eq(failure(), CUDA_SUCCESS);
	cr_expect_eq(fake.streams, 1);
}

Test(kept, destroyed_by_another_lane)
{
	post(&lanes[1], stream_destroy, .stream = STREAM);
	post(&lanes[0], event_record, .event = EVENT, .stream = STREAM);
	cr_expect_eq(failure(), CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(fake.streams, 0, "when the lane has noticed");
}

Test(kept, dropped_before_sleep)
{
	post(&lanes[1], stream_destroy, .stream = STREAM);
	kept_drop(&lanes[0]);
	cr_expect_eq(fake.streams, 0);
	cr_expect_eq(lanes[0].kept.n, 0);
}

Test(kept, lent_and_given_back)
{
	kept_lend(&lanes[0]);
	cr_expect_eq(s->lent, 1);
	cr_expect_null(kept_find(&lanes[0].kept, &s->objs, KEPT_OBJECT(EVENT)));
	kept_back(&lanes[0]);
	cr_expect_eq(s->lent, 0);
	pthread_mutex_lock(&s->objs.lock);
	post(&lanes[0], event_record, .event = EVENT, .stream = STREAM);
	pthread_mutex_unlock(&s->objs.lock);
	cr_expect_eq(failure(), CUDA_SUCCESS);
}

Test(kept, what_is_lent_ends_with_its_destruction)
{
	s->lanes[0] = &lanes[0];
	s->lanes[1] = &lanes[1];
	kept_lend(&lanes[0]);
	post(&lanes[1], stream_destroy, .stream = STREAM);
	cr_expect_eq(fake.streams, 0, "although the first lane's command still waits");
	cr_expect(s->lent == 0 && lanes[0].kept.n == 0);
	kept_back(&lanes[0]);
	cr_expect_eq(s->lent, 0);
	post(&lanes[0], event_record, .event = EVENT, .stream = STREAM);
	cr_expect_eq(failure(), CUDA_ERROR_INVALID_HANDLE);
	s->lanes[0] = s->lanes[1] = NULL;
}

Test(kept, a_command_that_waits_destroys_what_its_own_lane_has_lent)
{
	s->lanes[0] = &lanes[0];
	kept_lend(&lanes[0]);
	obj_put(s, obj_take(s, HANDLE_STREAM, STREAM));
	cr_expect_eq(fake.streams, 0);
	kept_back(&lanes[0]);
	s->lanes[0] = NULL;
}

Test(kept, what_was_destroyed_before_is_not_lent)
{
	post(&lanes[1], stream_destroy, .stream = STREAM);
	cr_expect_eq(fake.streams, 1);
	kept_lend(&lanes[0]);
	cr_expect(fake.streams == 0 && s->lent == 0);
	kept_back(&lanes[0]);
}

/* More objects than there are places, used in turn, and none is lost or confused. */
Test(kept, more_than_fit)
{
	const unsigned n = 3 * KEPT_SLOTS;

	for (unsigned i = 0; i < n; i++)
		post(&lanes[0], event_create,
		     .event = handle_make(HANDLE_EVENT, 2, 10 + i));
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < n; i++)
			post(&lanes[0], event_record,
			     .event = handle_make(HANDLE_EVENT, 2, 10 + i),
			     .stream = STREAM);
	}
	cr_expect_eq(failure(), CUDA_SUCCESS);
	cr_expect_leq(lanes[0].kept.n, KEPT_SLOTS);
	cr_expect_eq(fake.events, n + 1);
}
