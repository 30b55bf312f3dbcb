/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for a stream: who sends the reply, the worker or the device. */
#include <criterion/criterion.h>
#include <string.h>

#include "codec.h"
#include "../device/band.h"
#include "loopback.h"
#include "ops.h"
#include "session/command.h"
#include "session/session.h"

#define CTX       handle_make(HANDLE_CONTEXT, 1, 1)
#define STREAM(n) handle_make(HANDLE_STREAM, 1, n)
#define WAITS     64

static struct session *s;
static struct sess_lane lane;
static struct loopback lb;
static struct device_ops ops;
static unsigned by_device, by_worker;
/* The result that the device has for a wait; CUDA_SUCCESS: it stores the word. */
static CUresult answer;

static CUresult copy_rows(struct dev_ctx *ctx, struct dev_stream *st,
			  const struct dev_copy_2d *c)
{
	return CUDA_SUCCESS;
}

static CUresult synchronize(struct dev_ctx *ctx, struct dev_stream *st)
{
	by_worker++;
	return answer == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : answer;
}

static CUresult synchronize_to(struct dev_ctx *ctx, struct dev_stream *st,
			       _Atomic uint64_t *word, uint64_t value)
{
	by_device++;
	if (answer == CUDA_SUCCESS)
		atomic_store(word, value);
	return answer;
}

/* The worker's half of a command that the guest has sent. */
static void serve(void)
{
	struct lane_msg m;

	cr_assert_eq(lane_recv(lb.worker, &m), 0);
	cr_assert_eq(sess_handle(&lane, &m), 0);
}

#define post(name, ...)                                                                  \
	do {                                                                             \
		struct name##_cmd _c = {__VA_ARGS__};                                    \
                                                                                         \
		memcpy(lane_begin(lb.guest, WIRE_OP_##name, sizeof(_c), 0, NULL), &_c,   \
		       sizeof(_c));                                                      \
		cr_assert_eq(lane_post(lb.guest), 0);                                    \
	} while (0)

static void setup(void)
{
	struct loopback_opts opts = {.carrier = WIRE_CARRIER_WINDOW};
	struct device_config cfg = {.memory_bytes = 1u << 20, .threads = 1};
	static const struct accounts nobody;
	struct sess_ctx *ctx;

	device_band_release();
	ops = device_soft_ops;
	ops.copy.rows = copy_rows;
	ops.stream.synchronize = synchronize;
	ops.stream.synchronize_to = synchronize_to;
	cr_assert_eq(loopback_init(&lb, &opts), 0);
	cr_assert_eq(sess_new(&ops, &cfg, &nobody, &s), 0);
	cr_assert_eq(sess_ctx_new(s, CTX, 0, &ctx), CUDA_SUCCESS);
	cr_assert_eq(obj_publish(s, &ctx->obj), 0);
	sess_lane_init(&lane, s, lb.worker, 0);
	post(ctx_set_current, .ctx = CTX);
	serve();
	for (unsigned i = 1; i <= 2; i++) {
		post(stream_create, .stream = STREAM(i));
		serve();
	}
	cr_assert_eq(atomic_load(&s->deferred), CUDA_SUCCESS);
	answer = CUDA_SUCCESS;
	by_device = by_worker = 0;
}

static void teardown(void)
{
	sess_lane_fini(&lane);
	sess_free(s);
	loopback_fini(&lb);
}

TestSuite(answer, .init = setup, .fini = teardown, .timeout = 20);

static void submit(unsigned stream)
{
	post(copy_dtod, .stream = STREAM(stream), .width = 1, .height = 1);
}

static void begin_wait(unsigned stream)
{
	struct stream_synchronize_cmd *c =
		lane_begin(lb.guest, WIRE_OP_stream_synchronize, sizeof(*c), 0, NULL);

	*c = (struct stream_synchronize_cmd){.stream = STREAM(stream)};
	cr_assert_eq(lane_send(lb.guest), 0);
}

static CUresult end_wait(void)
{
	struct lane_reply rep;
	struct wire_result res;

	cr_assert_eq(lane_answer(lb.guest, &rep), 0);
	cr_assert_eq(rep.body_size, sizeof(res));
	memcpy(&res, rep.body, sizeof(res));
	return res.result;
}

/* Work, and a guest that waits for it when the worker has submitted it. */
static CUresult work_and_wait(void)
{
	submit(1);
	begin_wait(1);
	serve();
	serve();
	return end_wait();
}

Test(answer, the_device_answers_who_waits_for_what_was_just_submitted)
{
	for (unsigned i = 0; i < WAITS; i++)
		cr_assert_eq(work_and_wait(), CUDA_SUCCESS);
	cr_expect_gt(by_device, WAITS / 2);
	cr_expect_eq(by_device + by_worker, WAITS);
}

Test(answer, the_worker_answers_who_came_later_or_asks_for_other_streams)
{
	for (unsigned i = 0; i < WAITS; i++) {
		submit(2);
		begin_wait(1);
		serve();
		serve();
		cr_assert_eq(end_wait(), CUDA_SUCCESS);
		begin_wait(2); /* once it was waited for, or other work came */
		serve();
		cr_assert_eq(end_wait(), CUDA_SUCCESS);
	}
	cr_expect_eq(by_device, 0);
	cr_expect_eq(by_worker, 2 * WAITS);
}

Test(answer, failures_are_told_whoever_answers)
{
	for (unsigned i = 0; i < WAITS; i++) {
		answer = i % 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
		cr_assert_eq(work_and_wait(), answer);
	}
	cr_expect_gt(by_device, WAITS / 2);
	answer = CUDA_SUCCESS;
	/* what failed without a reply is told first, and once */
	sess_defer(s, CUDA_ERROR_OUT_OF_MEMORY);
	cr_expect_eq(work_and_wait(), CUDA_ERROR_OUT_OF_MEMORY);
	cr_expect_eq(work_and_wait(), CUDA_SUCCESS);
	answer = CUDA_ERROR_ILLEGAL_ADDRESS;
	cr_expect_eq(work_and_wait(), CUDA_ERROR_ILLEGAL_ADDRESS);
	by_device = 0;
	cr_expect_eq(work_and_wait(), CUDA_ERROR_ILLEGAL_ADDRESS);
	cr_expect_eq(by_device, 0, "a lost context is not asked");
}

Test(answer, a_device_that_cannot_is_seldom_asked)
{
	answer = CUDA_ERROR_NOT_SUPPORTED;
	for (unsigned i = 0; i < WAITS; i++)
		cr_assert_eq(work_and_wait(), CUDA_SUCCESS);
	cr_expect_eq(by_worker, WAITS);
	cr_expect_leq(by_device, WAITS / 16);
	cr_expect_gt(by_device, 0);
}

Test(answer, text_goes_ahead)
{
	for (unsigned i = 0; i < WAITS; i++)
		cr_assert_eq(work_and_wait(), CUDA_SUCCESS);
	by_device = 0;
	sess_output(s, "x", 1);
	cr_expect_eq(work_and_wait(), CUDA_SUCCESS);
	cr_expect_eq(by_device, 0);
}

/* Submits, and waits for that. */
static void submit_and_wait(unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		submit(1);
	begin_wait(1);
	for (unsigned i = 0; i < times + 1; i++)
		serve();
	cr_assert_eq(end_wait(), CUDA_SUCCESS);
}

Test(answer, commands_come_in_bursts_or_few_at_a_time)
{
	cr_assert(!sess_in_burst(&lane));
	for (unsigned i = lane.run; i < SESS_BURST; i++) {
		cr_assert(!sess_in_burst(&lane));
		submit(1);
		serve();
	}
	cr_assert(sess_in_burst(&lane));
	submit_and_wait(0);
	cr_assert(sess_in_burst(&lane), "and will again");
	submit_and_wait(SESS_BURST - 1);
	cr_assert(!sess_in_burst(&lane));
	submit_and_wait(SESS_BURST);
	cr_assert(sess_in_burst(&lane));
}

Test(answer, whatever_gathers_is_answered)
{
	gate_gather(&s->gate, NSEC_PER_SEC);
	submit_and_wait(2 * SESS_BURST);
	submit_and_wait(2 * SESS_BURST);
	submit_and_wait(1);
	gate_gather(&s->gate, 0);
	submit_and_wait(1);
	cr_assert_eq(by_device + by_worker, 4);
}
