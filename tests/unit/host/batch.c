/* SPDX-License-Identifier: Apache-2.0 */
/* Launches behind which another one lies: many at once, and nothing overtakes them.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codec.h"
#include "../device/band.h"
#include "ops.h"
#include "session/code.h"
#include "session/command.h"
#include "session/session.h"

#define CTX       handle_make(HANDLE_CONTEXT, 1, 1)
#define STREAM(n) handle_make(HANDLE_STREAM, 1, n)
#define EVENT     handle_make(HANDLE_EVENT, 1, 1)
#define FUNC(n)   handle_make(HANDLE_FUNCTION, 1, n)
#define KERNELS   100 /* more than a lane keeps */

static struct session *s;
static struct sess_lane lane, other;
static uint64_t seq;
static struct device_ops ops;
static struct sess_func *funcs[KERNELS];

/* Calls of the device, in order: "(1 2)" are launches with these parameters at once, "3"
 * one by itself, "e" an event. */
static char asked[1024];
/* The launch with this parameter fails. */
static uint32_t bad;
static CUresult failure;
/* Launches that were counted when the device was given the latest one. */
static uint64_t counted;

static void say(const char *fmt, ...)
{
	size_t n = strlen(asked);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(asked + n, sizeof(asked) - n, fmt, ap);
	va_end(ap);
}

static uint32_t value_of(const struct dev_launch *l)
{
	uint32_t v = 0;

	memcpy(&v, l->params, MIN(l->params_size, sizeof(v)));
	return v;
}

static CUresult launch(struct dev_ctx *ctx, struct dev_stream *st,
		       const struct dev_launch *l)
{
	say(" %u", value_of(l));
	counted = atomic_load(&s->count->launches);
	return value_of(l) == bad ? failure : CUDA_SUCCESS;
}

/* As a device does that finds something wrong with one of them. */
static unsigned launch_batch(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_launch *l, unsigned n)
{
	unsigned done;

	say(" (");
	counted = atomic_load(&s->count->launches);
	for (done = 0; done < n && value_of(&l[done]) != bad; done++)
		say("%s%u", done ? " " : "", value_of(&l[done]));
	say(")");
	return done;
}

static CUresult event_record(struct dev_ctx *ctx, struct dev_event *ev,
			     struct dev_stream *st)
{
	say(" e");
	return CUDA_SUCCESS;
}

/* Launches and records for streams from here on name what they come after. */
#define IN_ORDER UINT64_MAX
static uint64_t after;

static int handle_in(struct sess_lane *sl, uint16_t op, const void *body, size_t size,
		     uint64_t ticket, bool more)
{
	uint16_t apart = after == IN_ORDER ? 0 : WIRE_F_APART;
	struct lane_msg m = {.hdr = {.fixed = codec_shapes[op].cmd / 8,
				     .op = op,
				     .flags = WIRE_F_ASYNC | apart,
				     .seq = ticket},
			     .body = body,
			     .body_size = (uint32_t)size};

	sl->more = more;
	return sess_handle(sl, &m);
}

static int handle(uint16_t op, const void *body, size_t size, uint64_t ticket, bool more)
{
	return handle_in(&lane, op, body, size, ticket, more);
}

#define post(name, more, ...)                                                            \
	do {                                                                             \
		struct name##_cmd _c = {__VA_ARGS__};                                    \
		cr_assert_eq(handle(WIRE_OP_##name, &_c, sizeof(_c), ++seq, more), 0);   \
	} while (0)

struct launch_msg {
	struct launch_kernel_cmd cmd;
	uint32_t params[6000];
};

static int launch_in(struct sess_lane *sl, uint64_t ticket, uint32_t v, unsigned stream,
		     unsigned func, unsigned words, bool more)
{
	static _Thread_local struct launch_msg m;

	m.cmd = (struct launch_kernel_cmd){.func = FUNC(func),
					   .stream = stream ? STREAM(stream)
							    : SESS_STREAM_LEGACY,
					   .grid = {1, 1, 1},
					   .block = {1, 1, 1},
					   .after = after,
					   .params_size = words * 4};
	m.params[0] = v;
	return handle_in(sl, WIRE_OP_launch_kernel, &m, sizeof(m.cmd) + words * 4, ticket,
			 more);
}

static int post_launch(uint32_t v, unsigned stream, unsigned func, unsigned words,
		       bool more)
{
	return launch_in(&lane, ++seq, v, stream, func, words, more);
}

static void behind(uint32_t v) /* with another one behind it */
{
	cr_assert_eq(post_launch(v, 1, 0, 2, true), 0);
}

static void last(uint32_t v)
{
	cr_assert_eq(post_launch(v, 1, 0, 2, false), 0);
}

static void expect(const char *what)
{
	cr_assert_str_eq(asked, what);
	asked[0] = 0;
}

static uint32_t deferred(void)
{
	return atomic_exchange(&s->deferred, CUDA_SUCCESS);
}

static void make_functions(struct sess_ctx *ctx)
{
	struct sess_module *m = obj_new(HANDLE_MODULE, handle_make(HANDLE_MODULE, 1, 1),
					sizeof(*m), NULL, NULL);

	list_init(&m->insts);
	list_init(&m->funcs);
	list_init(&m->in_session);
	for (unsigned i = 0; i < KERNELS; i++) {
		struct sess_func *f =
			obj_new(HANDLE_FUNCTION, FUNC(i), sizeof(*f), ctx, NULL);

		f->mod = m;
		funcs[i] = f;
		cr_assert_eq(obj_publish(s, &f->obj), 0);
	}
}

static void setup(void)
{
	static const struct accounts nobody;
	struct device_config cfg = {.memory_bytes = 1u << 20, .threads = 1};
	struct sess_ctx *ctx;

	device_band_release();
	ops = device_soft_ops;
	ops.func.launch = launch;
	ops.func.launch_batch = launch_batch;
	ops.event.record = event_record;
	cr_assert_eq(sess_new(&ops, &cfg, &nobody, &s), 0);
	seq = 0;
	after = IN_ORDER;
	bad = UINT32_MAX;
	asked[0] = 0;
	cr_assert_eq(sess_ctx_new(s, CTX, 0, &ctx), CUDA_SUCCESS);
	cr_assert_eq(obj_publish(s, &ctx->obj), 0);
	sess_lane_init(&lane, s, NULL, 0);
	sess_lane_init(&other, s, NULL, 1);
	post(ctx_set_current, true, .ctx = CTX);
	post(stream_create, true, .stream = STREAM(1));
	post(stream_create, true, .stream = STREAM(2));
	post(event_create, true, .event = EVENT);
	make_functions(ctx);
	cr_assert_eq(deferred(), CUDA_SUCCESS);
}

static void teardown(void)
{
	sess_lane_fini(&other);
	sess_lane_fini(&lane);
	sess_free(s);
}

TestSuite(batch, .init = setup, .fini = teardown, .timeout = 20);

Test(batch, all_that_lie_there)
{
	last(1);
	expect(" 1");
	behind(2);
	behind(3);
	expect("");
	cr_expect_eq(atomic_load(&s->tickets.done), seq - 1, "others wait for them");
	last(4);
	expect(" (2 3 4)");
	cr_expect_eq(atomic_load(&s->tickets.done), seq + 1);
	behind(5);
	lane.more = false;
	kept_drop(&lane); /* as before sleep: there was none behind it after all */
	expect(" 5");
	cr_expect_eq(atomic_load(&s->tickets.done), seq + 1);
}

/* Counted while they still wait, they would be copies to a look for work. */
Test(batch, launches_are_counted_once_the_device_has_them)
{
	last(1);
	cr_expect_eq(counted, 0);
	behind(2);
	last(3);
	cr_expect_eq(counted, 1);
	cr_assert_eq(post_launch(4, 1, 0, BATCH_PARAMS / 4 + 2, true), 0);
	expect(" 1 (2 3) 4");
	cr_expect_eq(counted, 3);
	cr_expect_eq(atomic_load(&s->count->launches), 4);
}

Test(batch, as_many_as_a_device_takes)
{
	for (uint32_t i = 0; i < DEV_BATCH_MAX; i++)
		behind(7);
	cr_expect_eq(lane.batch.n, 0);
	cr_expect_eq(strlen(asked), strlen(" (7") + 2 * (DEV_BATCH_MAX - 1) + 1);
}

Test(batch, parameters_are_copied)
{
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(post_launch(i, 1, 0, BATCH_PARAMS / 8, true), 0);
	expect(" (0 1) (2 3)");
	/* too large to wait with others */
	cr_assert_eq(post_launch(9, 1, 0, BATCH_PARAMS / 4 + 2, true), 0);
	expect(" 4 9");
	cr_assert_eq(post_launch(8, 1, 0, 0, true), 0);
	last(6);
	expect(" (0 6)");
}

Test(batch, other_commands_come_after)
{
	behind(1);
	behind(2);
	post(event_record, true, .event = EVENT, .stream = STREAM(1));
	expect(" (1 2) e");
	behind(3);
	post(stream_destroy, true, .stream = STREAM(1));
	expect(" 3");
	cr_expect_eq(deferred(), CUDA_SUCCESS);
	cr_expect_eq(atomic_load(&s->tickets.done), seq + 1);
}

Test(batch, one_stream)
{
	behind(1);
	behind(2);
	cr_assert_eq(post_launch(3, 2, 0, 2, true), 0);
	expect(" (1 2)");
	cr_assert_eq(post_launch(4, 0, 0, 2, true), 0);
	expect(" 3");
	last(5);
	expect(" 4 5");
}

/* Objects that a batch names stay there, whatever kernels it has, however many. */
Test(batch, more_kernels_than_are_kept)
{
	for (unsigned i = 0; i < KERNELS; i++) {
		cr_assert_eq(post_launch(1, 1, i, 2, true), 0);
		for (unsigned n = 0; n < lane.batch.n; n++)
			cr_assert_gt(atomic_load(&funcs[i - n]->obj.refs), 1u);
	}
	cr_expect_eq(deferred(), CUDA_SUCCESS);
}

/* An object that goes, from whichever lane, takes what waits with it as it was. */
Test(batch, before_what_is_kept_goes)
{
	behind(1);
	atomic_fetch_add(&s->objs.taken, 1);
	behind(2);
	expect(" 1");
	last(3);
	expect(" (2 3)");
}

Test(batch, the_first_failure_of_a_batch_is_kept)
{
	bad = 2;
	failure = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	behind(1);
	behind(2);
	behind(5);
	cr_assert_eq(post_launch(3, 1, KERNELS, 2, true), 0); /* no such function */
	expect(" (1) 2 5");
	cr_expect_eq(deferred(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the first one");
	cr_expect_eq(atomic_load(&s->tickets.done), seq + 1);
	last(4);
	expect(" 4");
	cr_expect_eq(deferred(), CUDA_SUCCESS);
}

/* A ticket in between is another lane's; one that comes again is an attack. */
Test(batch, a_ticket_that_comes_again_breaks_the_protocol)
{
	behind(1);
	seq++;                   /* somebody else's */
	s->tickets.ended = true; /* or this would wait for him */
	cr_expect_eq(post_launch(2, 1, 0, 2, true), -EPIPE);
	expect(" 1");
	s->tickets.ended = false;
	tickets_done(&s->tickets, --seq);
	last(3);
	seq--;
	cr_expect_eq(post_launch(4, 1, 0, 2, true), -EPROTO);
	expect(" 3");
}

/* Launches that are apart wait for no other lane. */
Test(batch, lanes_have_batches_side_by_side)
{
	after = seq;
	behind(1);
	cr_assert_eq(launch_in(&other, ++seq, 2, 2, 0, 2, false), 0);
	expect(" 2");
	cr_expect_eq(atomic_load(&s->tickets.done), seq - 1, "1 is not submitted");
	behind(3);
	cr_assert_eq(launch_in(&other, ++seq, 4, 2, 0, 2, true), 0);
	last(5);
	expect(" (1 3 5)");
	cr_expect_eq(atomic_load(&s->tickets.done), seq - 1, "4 is not submitted");
	batch_end(&other);
	expect(" 4");
	cr_expect_eq(atomic_load(&s->tickets.done), seq + 1);
}

Test(batch, what_is_apart_comes_in_any_order)
{
	after = seq;
	seq++;
	behind(2);
	last(3);
	expect(" (2 3)");
	cr_expect_eq(atomic_load(&s->tickets.done), after + 1);
	cr_assert_eq(launch_in(&other, seq - 2, 1, 2, 0, 2, false), 0);
	expect(" 1");
	cr_expect_eq(atomic_load(&s->tickets.done), seq + 1);
}

static bool last_is_in_order;

static void *launch_two(void *arg)
{
	return (void *)(intptr_t)launch_in(&other, (uintptr_t)arg, 2, 1, 0, 2, false);
}

/* Another lane's launch on the same stream, or any that is in order, comes after. */
static void other_waits_for_a_batch(void)
{
	pthread_t th;
	void *r;

	after = seq;
	behind(1);
	after = last_is_in_order ? IN_ORDER : seq;
	cr_assert_eq(pthread_create(&th, NULL, launch_two, (void *)(uintptr_t)++seq), 0);
	while (!tickets_pressing(&s->tickets))
		sched_yield();
	expect("");
	after = seq;
	behind(3);
	cr_assert_eq(pthread_join(th, &r), 0);
	cr_expect_null(r);
	batch_end(&lane);
	expect(" 1 2 3");
	cr_expect_eq(atomic_load(&s->tickets.done), seq + 1);
}

Test(batch, launches_of_two_lanes_stay_in_order_on_a_stream)
{
	other_waits_for_a_batch();
}

Test(batch, one_in_order_comes_after_all_that_are_apart)
{
	last_is_in_order = true;
	other_waits_for_a_batch();
}

Test(batch, an_event_is_recorded_beside_other_streams)
{
	struct event_record_cmd c = {.event = EVENT, .stream = STREAM(2), .after = seq};

	after = seq;
	behind(1);
	cr_assert_eq(handle_in(&other, WIRE_OP_event_record, &c, sizeof(c), ++seq, false),
		     0);
	expect(" e");
	cr_expect_eq(atomic_load(&s->tickets.done), seq - 1, "1 is not submitted");
	last(2);
	expect(" (1 2)");
	c.event = FUNC(1);
	cr_assert_eq(handle_in(&other, WIRE_OP_event_record, &c, sizeof(c), ++seq, false),
		     0);
	cr_expect_eq(deferred(), CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(atomic_load(&s->tickets.done), seq + 1);
}

/* A guest that lies harms its own session at most. */
Test(batch, lies_about_order_are_refused)
{
	struct stream_destroy_cmd c = {.stream = STREAM(2)};

	after = seq + 1;
	cr_expect_eq(launch_in(&other, ++seq, 1, 1, 0, 2, false), -EPROTO, "itself");
	after = 0;
	cr_expect_eq(launch_in(&other, seq, 1, 1, 0, 2, false), -EPROTO, "twice");
	cr_expect_eq(handle(WIRE_OP_stream_destroy, &c, sizeof(c), ++seq, false), -EPROTO,
		     "for more than a stream");
	expect("");
}

Test(batch, an_ended_session_launches_nothing)
{
	behind(1);
	cr_assert_eq(gate_close(&s->gate, clock_now_ns() + NSEC_PER_SEC), 0);
	gate_end(&s->gate);
	batch_end(&lane);
	expect("");
	cr_expect_eq(lane.batch.n, 0);
}
