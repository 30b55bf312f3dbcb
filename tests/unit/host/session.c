/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as a guest sees them: commands over loopback lanes to a fake device. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "../guest/call.h"
#include "fake.h"
#include "feature.h"
#include "memory/space.h"
#include "session/image.h"

static struct session *s;
static struct loopback lb[2];
static struct lane_tickets *tickets;
static _Atomic int ended = 1; /* end_reason, once the session has ended */

static void on_end(void *arg)
{
	atomic_store(&ended, s->end_reason);
}

static void open_lane(unsigned i)
{
	struct loopback_opts o = {.carrier = WIRE_CARRIER_STREAM};

	cr_assert_eq(loopback_init(&lb[i], &o), 0);
	cr_assert_eq(sess_lane_reserve(s), (int)i);
	cr_assert_eq(sess_lane_start(s, steal(lb[i].worker), i), 0);
}

static void setup(void)
{
	s = fake_session();
	s->hooks.end = on_end;
	open_lane(0);
	tickets = &lb[0].tickets;
}

/* The guest goes away; the session's threads end by themselves. */
static void teardown(void)
{
	for (unsigned i = 0; i < 2; i++)
		loopback_fini(&lb[i]);
	sess_join(s);
	cr_assert_neq(ended, 1, "the session did not end");
	sess_free(s);
	cr_assert(fake.contexts == 0 && fake.streams == 0 && fake.events == 0);
	cr_assert_eq(fake_charged, 0);
}

TestSuite(session, .init = setup, .fini = teardown, .timeout = 20);

#define G   (lb[0].guest)
#define CTX handle_make(HANDLE_CONTEXT, 1, 1)

static void retain(void)
{
	begin(G, primary_retain)->ctx = CTX;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	begin(G, ctx_set_current)->ctx = CTX;
	cr_assert_eq(lane_post(G), 0);
}

static uint32_t sync_now(void)
{
	begin(G, cuCtxSynchronize);
	return call(G, NULL);
}

static CUdeviceptr alloc(uint64_t bytes)
{
	const struct cuMemAlloc_v2_rep *rep;

	begin(G, cuMemAlloc_v2)->bytesize = bytes;
	cr_assert_eq(call(G, (const void **)&rep), CUDA_SUCCESS);
	return rep->dptr;
}

static void new_stream(uint64_t h)
{
	begin(G, stream_create)->stream = h;
	cr_assert_eq(lane_post(G), 0);
}

Test(session, a_session_opens_and_says_what_the_host_is)
{
	const struct session_open_rep *rep;
	struct operations_reply ops;
	const void *body;

	*begin(G, session_open) = (struct session_open_cmd){.library = "0.0.1"};
	cr_assert_eq(call(G, (const void **)&rep), CUDA_SUCCESS);
	cr_assert_eq(rep->api, WIRE_API_HASH);
	cr_assert_str_eq((const char *)rep->release, WEFT_VERSION);
	cr_assert(rep->features & FEATURE_APART);
	cr_assert_str_eq((const char *)rep->name, "fake");
	cr_assert_eq(rep->attribute[50], 50);
	cr_assert_eq(rep->attribute_known[0], ~1u, "0 is no attribute");
	cr_assert_eq(rep->attribute_known[3], 15, "100 and more are not known");
	begin(G, operations);
	cr_assert_eq(call(G, &body), CUDA_SUCCESS);
	cr_assert_eq(
		operations_reply_decode(body, operations_rep_size(WIRE_NUM_OPS), &ops),
		0);
	cr_assert_eq(ops.known[0], 0, "nobody's");
	cr_assert_eq(ops.known[WIRE_OP_cuCtxSynchronize], 1, "no fields");
	cr_assert_eq(ops.known[WIRE_OP_cuMemAlloc_v2], 9);
}

Test(session, no_context)
{
	begin(G, cuMemAlloc_v2)->bytesize = 100;
	cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_CONTEXT);
	cr_assert_eq(sync_now(), CUDA_ERROR_INVALID_CONTEXT);
	begin(G, ctx_set_current)->ctx = CTX;
	lane_post(G);
	cr_assert_eq(sync_now(), CUDA_ERROR_INVALID_CONTEXT);
}

/* The failure of a command without a reply comes with the next synchronising call. */
Test(session, deferred_errors)
{
	retain();
	begin(G, stream_destroy)->stream = handle_make(HANDLE_STREAM, 9, 9);
	lane_post(G);
	begin(G, ctx_set_current)->ctx = CTX;
	lane_post(G);
	cr_assert_neq(alloc(100), 0, "not a synchronising call");
	cr_assert_eq(sync_now(), CUDA_ERROR_INVALID_HANDLE);
	cr_assert_eq(sync_now(), CUDA_SUCCESS, "reported once");
}

Test(session, handles_of_all_kinds)
{
	uint64_t st = handle_make(HANDLE_STREAM, 5, 70000);
	const uint64_t wrong[] = {
		0,
		3,
		UINT64_MAX,
		handle_make(HANDLE_STREAM, 6, 70000), /* another generation */
		handle_make(HANDLE_STREAM, 5, 70001),
		handle_make(HANDLE_EVENT, 5, 70000),
		st + 1,
		st | 1ull << 50,
		CTX,
	};

	retain();
	new_stream(st);
	begin(G, stream_synchronize)->stream = st;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		begin(G, stream_synchronize)->stream = wrong[i];
		cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_HANDLE, "%u", i);
	}
	begin(G, stream_synchronize)->stream = SESS_STREAM_LEGACY;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	begin(G, stream_synchronize)->stream = SESS_STREAM_THREAD;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	cr_assert_eq(fake.streams, 2, "the thread's own stream was made");
	begin(G, stream_destroy)->stream = st;
	lane_post(G);
	begin(G, stream_synchronize)->stream = st;
	cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_HANDLE);
	cr_assert_eq(fake.streams, 1);
}

Test(session, context_takes_all_along)
{
	uint64_t st = handle_make(HANDLE_STREAM, 0, 1);
	struct event_create_cmd *ev;
	uint64_t used, peak;

	retain();
	new_stream(st);
	ev = begin(G, event_create);
	ev->event = handle_make(HANDLE_EVENT, 0, 1);
	lane_post(G);
	(void)alloc(100);
	(void)alloc(50 << 20);
	begin(G, primary_release)->ctx = CTX;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	cr_assert(fake.contexts == 0 && fake.streams == 0 && fake.events == 0);
	space_usage(s->space, &used, &peak);
	cr_assert_eq(used, 0);
	cr_assert_geq(peak, 52u << 20);
	/* and a new one can be had */
	retain();
	cr_assert_eq(fake.contexts, 1);
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
	begin(G, stream_synchronize)->stream = st;
	cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void lose_context(void)
{
	struct sess_obj *o = obj_find(s, HANDLE_CONTEXT, CTX);

	*(CUresult *)container_of(o, struct sess_ctx, obj)->dev =
		CUDA_ERROR_ILLEGAL_ADDRESS;
	obj_put(s, o);
}

Test(session, lost_context_is_sticky)
{
	struct lane_reply r;

	retain();
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
	lose_context();
	cr_assert_eq(sync_now(), CUDA_ERROR_ILLEGAL_ADDRESS);
	begin(G, cuMemGetInfo_v2);
	cr_assert_eq(lane_call(G, &r), 0);
	cr_assert_eq(((const struct wire_result *)r.body)->sticky,
		     CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- two lanes ---- */

struct late {
	uint32_t result;
	_Atomic bool done;
};

static void *sync_later(void *arg)
{
	struct late *late = arg;

	begin(lb[1].guest, device_status);
	late->result = call(lb[1].guest, NULL);
	atomic_store(&late->done, true);
	return NULL;
}

/* Makes lane 1 number its commands with the tickets of the session. */
static void second_lane(uint64_t next)
{
	open_lane(1);
	atomic_store(&lb[1].tickets.next, next);
}

/* Functions queued in a lost context are told how it ended, also when it is gone. */
Test(session, functions_outlive_their_context)
{
	struct host_func_cmd *f;
	struct lane_reply r;

	retain();
	for (uint64_t id = 1; id <= 2; id++) {
		f = begin(G, host_func);
		f->stream = SESS_STREAM_LEGACY;
		f->id = id;
		cr_assert_eq(lane_post(G), 0);
		cr_assert_eq(sync_now(),
			     id == 1 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS);
		lose_context();
	}
	begin(G, primary_release)->ctx = CTX;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	cr_assert_eq(fake.contexts, 0);
	second_lane(100); /* one that waits for functions keeps no session alive */
	begin(lb[1].guest, host_func_wait)->done_id = 0;
	cr_assert_eq(lane_call(lb[1].guest, &r), 0);
	cr_assert_eq(((const struct host_func_wait_rep *)r.body)->id, 2);
	cr_assert_eq(((const struct host_func_wait_rep *)r.body)->status,
		     CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* A copy of a graph that the guest could not carry out is told to who waits. */
Test(session, tells_of_copies_that_failed)
{
	struct host_func_wait_cmd *w;
	struct host_func_cmd *f;
	struct lane_reply r;

	retain();
	fake.reaches_functions = true;
	for (uint64_t id = 1; id <= 2; id++) {
		f = begin(G, host_func);
		f->stream = SESS_STREAM_LEGACY;
		f->id = id;
		cr_assert_eq(lane_post(G), 0);
	}
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
	second_lane(100);
	begin(lb[1].guest, host_func_wait)->done_id = 0;
	cr_assert_eq(lane_call(lb[1].guest, &r), 0);
	w = begin(lb[1].guest, host_func_wait);
	w->done_id = 1;
	w->done_result = CUDA_ERROR_INVALID_VALUE;
	cr_assert_eq(lane_call(lb[1].guest, &r), 0);
	cr_assert_eq(((const struct host_func_wait_rep *)r.body)->id, 2);
	cr_assert_eq(fake.asked_status, 0, "a launch may keep the driver's locks");
	cr_assert_eq(sync_now(), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
}

/* An object that one thread used and another destroys is gone when the first sleeps. */
Test(session, destroyed_elsewhere)
{
	uint64_t st = handle_make(HANDLE_STREAM, 1, 1),
		 ev = handle_make(HANDLE_EVENT, 1, 1);
	struct event_record_cmd *c;

	retain();
	new_stream(st);
	begin(G, event_create)->event = ev;
	cr_assert_eq(lane_post(G), 0);
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
	c = begin(G, event_record);
	c->event = ev;
	c->stream = st;
	cr_assert_eq(lane_post(G), 0);
	second_lane(atomic_load(&tickets->next));
	begin(lb[1].guest, stream_destroy)->stream = st;
	cr_assert_eq(lane_post(lb[1].guest), 0);
	while (fake.streams) /* or the test's time-out */
		sched_yield();
}

/* A thread that does nothing keeps no context, nor does its default stream. */
Test(session, contexts_end_while_others_sleep)
{
	struct event_record_cmd *c;

	retain();
	begin(G, event_create)->event = handle_make(HANDLE_EVENT, 1, 1);
	cr_assert_eq(lane_post(G), 0);
	c = begin(G, event_record);
	c->event = handle_make(HANDLE_EVENT, 1, 1);
	c->stream = SESS_STREAM_THREAD;
	cr_assert_eq(lane_post(G), 0);
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
	cr_assert_eq(fake.streams, 1);
	second_lane(atomic_load(&tickets->next));
	begin(lb[1].guest, primary_release)->ctx = CTX;
	cr_assert_eq(call(lb[1].guest, NULL), CUDA_SUCCESS);
	while (fake.contexts) /* or the test's time-out */
		sched_yield();
	cr_assert_eq(fake.streams, 0);
	cr_assert_eq(sync_now(), CUDA_ERROR_INVALID_CONTEXT);
}

Test(session, order_across_lanes)
{
	struct late late = {0};
	pthread_t th;

	retain(); /* uses ticket 1 */
	/* lane 1 waits for ticket 3, which nobody has sent */
	second_lane(4);
	pthread_create(&th, NULL, sync_later, &late);
	new_stream(handle_make(HANDLE_STREAM, 0, 1)); /* ticket 2 */
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
	usleep(20000);
	cr_assert(!atomic_load(&late.done));
	new_stream(handle_make(HANDLE_STREAM, 0, 2)); /* ticket 3 */
	pthread_join(th, NULL);
	cr_assert_eq(late.result, CUDA_SUCCESS);
}

static void expect_end(int reason)
{
	for (unsigned i = 0; i < 2000 && ended == 1; i++)
		usleep(1000);
	cr_assert_eq(ended, reason);
}

Test(session, replayed_ticket_ends_it)
{
	struct lane_reply r;

	retain();
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
	atomic_store(&tickets->next, 1);
	new_stream(handle_make(HANDLE_STREAM, 0, 1));
	begin(G, cuCtxSynchronize);
	cr_assert_lt(lane_call(G, &r), 0);
	expect_end(-EPROTO);
}

Test(session, reused_handle_ends_it)
{
	retain();
	new_stream(handle_make(HANDLE_STREAM, 0, 1));
	new_stream(handle_make(HANDLE_STREAM, 0, 1));
	expect_end(-EPROTO);
}

Test(session, operation_zero_ends_it)
{
	void *body = lane_begin(G, 0, 8, 0, NULL);

	memset(body, 0, 8);
	lane_post(G);
	expect_end(-EPROTO);
}

Test(session, call_sent_as_post_ends_it)
{
	begin(G, cuMemAlloc_v2)->bytesize = 4;
	lane_post(G);
	expect_end(-EPROTO);
}

/* One session's end takes its other lanes along, but nothing else. */
Test(session, one_lane_ends_all)
{
	struct lane_reply r;

	second_lane(1);
	begin(G, cuMemAlloc_v2)->bytesize = 4;
	lane_post(G);
	expect_end(-EPROTO);
	begin(lb[1].guest, device_status);
	cr_assert_eq(lane_call(lb[1].guest, &r), -EPIPE);
}

Test(session, ends_with_its_last_lane)
{
	second_lane(1);
	lane_free(steal(lb[0].guest));
	usleep(20000);
	cr_assert_eq(ended, 1, "a lane is still open");
	lane_free(steal(lb[1].guest));
	expect_end(0);
}

/* ---- at the gate ---- */

static void post_fill(CUdeviceptr dst)
{
	struct fill_cmd *c = begin(G, fill);

	c->dst = dst;
	c->width = c->height = 1;
	c->elem_bytes = 1;
	c->stream = SESS_STREAM_LEGACY;
	cr_assert_eq(lane_post(G), 0);
}

static void close_gate(void)
{
	cr_assert_eq(gate_close(&s->gate, clock_now_ns() + 100 * NSEC_PER_SEC), 0);
}

static void wait_at_gate(void)
{
	while (!gate_wanted(&s->gate))
		sched_yield();
}

/* Calls that touch memory wait, and later ones behind them; other calls go on. */
Test(session, waits_at_the_gate)
{
	struct late late = {0};
	CUdeviceptr a;
	pthread_t th;

	retain();
	a = alloc(100);
	close_gate();
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
	(void)alloc(5 << 20);
	begin(G, mem_free)->dptr = a;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	cr_assert(!gate_wanted(&s->gate));
	second_lane(3);
	post_fill(DEVICE_BAND_BASE); /* ticket 2 */
	pthread_create(&th, NULL, sync_later, &late);
	wait_at_gate();
	cr_assert(!atomic_load(&late.done));
	gate_open(&s->gate);
	pthread_join(th, NULL);
	cr_assert_eq(late.result, CUDA_SUCCESS);
}

Test(session, ends_at_the_gate)
{
	retain();
	close_gate();
	post_fill(DEVICE_BAND_BASE);
	wait_at_gate();
	sess_end(s, -EIO);
	expect_end(-EIO);
}

/* Every context is waited for, also one that only a lane still has. */
Test(session, quiet_means_all_contexts)
{
	uint64_t other = handle_make(HANDLE_CONTEXT, 1, 2), before;

	retain();
	begin(G, ctx_create)->ctx = other;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	before = fake.synchronized;
	close_gate();
	gate_open(&s->gate);
	cr_assert_eq(fake.synchronized, before + 2);
	begin(G, ctx_destroy)->ctx = other;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	before = fake.synchronized;
	close_gate();
	gate_open(&s->gate);
	cr_assert_eq(fake.synchronized, before + 1);
}

/* ---- what the guest was refused ---- */

static void report(uint32_t kind, uint64_t count, const char *what)
{
	struct refused_cmd *cmd = begin(G, refused);

	cmd->kind = kind;
	cmd->count = count;
	memset(cmd->what, 0, sizeof(cmd->what));
	memcpy(cmd->what, what, strnlen(what, sizeof(cmd->what)));
	lane_post(G);
}

Test(session, refusals_are_kept)
{
	const struct worker_page *c = s->count;
	report(REFUSAL_FUNCTION, 1, "cuOne");
	report(REFUSAL_FUNCTION, 4, "cuOne");
	report(REFUSAL_FUNCTION, 2, "cuOne");
	report(REFUSAL_FEATURE, 1, "cuOne");
	report(REFUSAL_TABLE, 1, "\033[2Jclear\n");
	begin(G, device_status);
	call(G, NULL);
	cr_assert_eq(c->n_refusals, 3);
	cr_expect_str_eq(c->refusals[0].what, "cuOne");
	cr_expect_eq(c->refusals[0].count, 4);
	cr_expect_eq(c->refusals[1].count, 1);
	cr_expect_str_eq(c->refusals[2].what, "?[2Jclear?");
}

Test(session, refusals_have_an_end)
{
	char text[16];

	for (unsigned i = 0; i < REFUSAL_MAX + 5; i++) {
		snprintf(text, sizeof(text), "cu%u", i);
		report(REFUSAL_FUNCTION, 1, text);
	}
	begin(G, device_status);
	call(G, NULL);
	cr_expect_eq(s->count->n_refusals, REFUSAL_MAX);
	cr_expect_eq(s->count->other_refusals, 5);
}

Test(session, refusals_of_a_liar)
{
	char text[REFUSAL_TEXT];

	memset(text, 'x', sizeof(text)); /* no NUL */
	report(REFUSAL_FUNCTION, 1, text);
	expect_end(-EPROTO);
}

/* A session that said so when it came has no context, and gets none. */
Test(session, a_monitor_makes_no_context)
{
	cr_assert_eq(fake.contexts, 1);
	cr_assert_eq(sess_monitor(s), 0);
	pthread_join(s->drop_thread, NULL);
	s->dropping = false;
	cr_assert_eq(fake.contexts, 0);
	begin(G, primary_retain)->ctx = CTX;
	cr_expect_eq(call(G, NULL), CUDA_ERROR_NOT_PERMITTED);
	begin(G, ctx_create)->ctx = CTX;
	cr_expect_eq(call(G, NULL), CUDA_ERROR_NOT_PERMITTED);
	begin(G, device_status);
	cr_expect_eq(call(G, NULL), 0);
	cr_expect_eq(s->count->computes, 0);
}

#define ARRAY(n) handle_make(HANDLE_ARRAY, 1, n)

static uint32_t new_array(uint64_t h, uint64_t width, uint32_t levels)
{
	struct array_create_cmd *c = begin(G, array_create);

	c->array = h;
	c->width = width;
	c->height = 10;
	c->levels = levels;
	return call(G, NULL);
}

static uint32_t drop_array(uint64_t h)
{
	begin(G, array_destroy)->array = h;
	return call(G, NULL);
}

/* One that seemed to take nothing, because something else went meanwhile, is no credit
 * for the next. */
Test(session, contexts_are_charged)
{
	retain();
	s->overhead = 100;
	fake.overhead = 1000;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t h = handle_make(HANDLE_CONTEXT, 1, 2 + i);

		fake.context_takes = i ? 100 : -100ull;
		begin(G, ctx_create)->ctx = h;
		cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
		cr_assert_eq(fake_charged, i ? 100 : 0);
		begin(G, ctx_destroy)->ctx = h;
		cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
		cr_assert_eq(fake_charged, 0);
	}
	/* the first one is */
	begin(G, primary_release)->ctx = CTX;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	cr_assert_eq(s->paid, 1);
	s->overhead = 0;
}

/* Arrays are charged before they are made, and only those that are made. */
Test(session, arrays_are_charged)
{
	uint64_t before;

	cr_assert_eq(new_array(ARRAY(1), 100, 0), CUDA_ERROR_INVALID_CONTEXT);
	retain();
	before = fake_charged;
	cr_assert_eq(new_array(ARRAY(1), 100, 0), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, before + 1000);
	cr_assert_eq(new_array(ARRAY(2), 0, 0), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(new_array(ARRAY(2), 100, 30), CUDA_ERROR_INVALID_VALUE);
	fake_quota = before + 2000;
	cr_assert_eq(new_array(ARRAY(2), 1000, 0), CUDA_ERROR_OUT_OF_MEMORY);
	fake_quota = UINT64_MAX;
	cr_assert_eq(fake_charged, before + 1000);
	cr_assert_eq(new_array(ARRAY(2), 7, 3), CUDA_SUCCESS);
	cr_assert_eq(drop_array(ARRAY(1)), CUDA_SUCCESS);
	/* by the next command it is gone: its last reference may outlive the reply */
	cr_assert_eq(drop_array(ARRAY(1)), CUDA_ERROR_INVALID_HANDLE);
	cr_assert_eq(fake_charged, before + 70);
	/* teardown finds that the other one went with its context */
}

Test(session, arrays_that_are_not_there)
{
	struct array_copy_cmd *c;
	struct surface_create_cmd *s;

	retain();
	cr_assert_eq(new_array(ARRAY(1), 64, 3), CUDA_SUCCESS);
	c = begin(G, array_copy);
	c->stream = SESS_STREAM_LEGACY;
	cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_VALUE, "no array at all");
	c = begin(G, array_copy);
	c->stream = SESS_STREAM_LEGACY;
	c->dst.array = ARRAY(1);
	c->dst.level = 3;
	cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_VALUE, "no such level");
	c = begin(G, array_copy);
	c->stream = SESS_STREAM_LEGACY;
	c->dst.array = ARRAY(1);
	c->src.array = ARRAY(2);
	cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_HANDLE);
	s = begin(G, surface_create);
	s->surface = handle_make(HANDLE_SURFACE, 1, 1);
	s->array = CTX;
	cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_HANDLE, "not an array");
	begin(G, texture_destroy)->texture = handle_make(HANDLE_TEXTURE, 1, 1);
	cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* ---- linking ---- */

#define LINK(n)     handle_make(HANDLE_LINK, 1, n)
#define INPUT_BYTES 1000u

static _Atomic CUresult loads; /* what loading comes to */

static CUresult linking_load(struct dev_ctx *ctx, const void *image, size_t size,
			     struct dev_jit *jit, struct dev_module **ret)
{
	*ret = NULL;
	return loads;
}

static void linking_unload(struct dev_module *mod)
{
}

struct dev_link {
	char result[INPUT_BYTES];
};

static CUresult linking_create(struct dev_ctx *ctx, const struct dev_jit *jit,
			       struct dev_link **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return CUDA_SUCCESS;
}

static CUresult linking_add(struct dev_link *l, CUjitInputType type, const void *data,
			    size_t size, const char *name, struct dev_jit *jit)
{
	return CUDA_SUCCESS;
}

static CUresult linking_complete(struct dev_link *l, struct dev_jit *jit,
				 const void **ret_data, size_t *ret_size)
{
	*ret_data = l->result;
	*ret_size = sizeof(l->result);
	return CUDA_SUCCESS;
}

static void linking_destroy(struct dev_link *l)
{
	free(l);
}

/* A device that links by itself, or one that has it done. */
static void linking(bool itself)
{
	static struct device_ops ops;

	ops = fake_ops;
	ops.module.load = linking_load;
	ops.module.unload = linking_unload;
	if (itself) {
		static const struct device_link_ops link = {
			.create = linking_create,
			.add = linking_add,
			.complete = linking_complete,
			.destroy = linking_destroy,
		};

		ops.link = &link;
	}
	s->ops = &ops;
	retain();
}

static void new_link(uint64_t h)
{
	begin(G, link_create)->link = h;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
}

/* Text that leaves something to others to define. */
static uint32_t add_input(uint64_t h)
{
	const struct link_add_rep *rep;
	struct image_data_cmd *data;
	struct link_add_cmd *add;
	void *text;

	data = lane_begin(G, WIRE_OP_image_data, sizeof(*data), INPUT_BYTES, &text);
	*data = (struct image_data_cmd){.image = 1, .total = INPUT_BYTES};
	memset(text, ' ', INPUT_BYTES);
	memcpy(text, ".extern", strlen(".extern"));
	cr_assert_eq(lane_post(G), 0);
	add = lane_begin(G, WIRE_OP_link_add, link_add_cmd_size(1), 0, NULL);
	lane_fixed(G, sizeof(*add));
	link_add_cmd_init(add, 1);
	add->link = h;
	add->image = 1;
	add->input_type = CU_JIT_INPUT_PTX;
	*link_add_cmd_name(add) = '\0';
	cr_assert_eq(call(G, (const void **)&rep), CUDA_SUCCESS);
	return rep->status;
}

static uint32_t complete_link(uint64_t h)
{
	const struct link_complete_rep *rep;

	begin(G, link_complete)->link = h;
	cr_assert_eq(call(G, (const void **)&rep), CUDA_SUCCESS);
	return rep->status;
}

static void drop_link(uint64_t h)
{
	begin(G, link_destroy)->link = h;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	(void)sync_now(); /* by the next command it is gone */
}

/* Leaves room for so many bytes of images that are kept. */
static struct image leave(uint64_t bytes)
{
	struct image img = {malloc(1), IMAGES_KEPT_MAX - bytes}, kept;

	cr_assert_eq(images_keep(s->images, &img, &kept), 0, "more is kept");
	return kept;
}

static bool fits(uint64_t bytes)
{
	struct image img = {malloc(1), bytes}, kept;
	bool ok = images_keep(s->images, &img, &kept) == 0;

	if (ok)
		images_unkeep(s->images, &kept);
	free(img.data);
	return ok;
}

/* Memory that a link holds on to is counted until it is destroyed, the result as well. */
static void link_is_counted(bool itself)
{
	struct image others;

	linking(itself);
	others = leave(3 * INPUT_BYTES);
	loads = CUDA_ERROR_INVALID_PTX;
	new_link(LINK(1));
	new_link(LINK(2));
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(add_input(LINK(1)), CUDA_SUCCESS);
	cr_assert_eq(add_input(LINK(2)), CUDA_SUCCESS);
	cr_assert_eq(add_input(LINK(1)), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(add_input(LINK(2)), CUDA_ERROR_OUT_OF_MEMORY);
	loads = CUDA_SUCCESS;
	cr_assert_eq(complete_link(LINK(2)), CUDA_ERROR_OUT_OF_MEMORY);
	drop_link(LINK(1));
	cr_assert_eq(complete_link(LINK(2)), CUDA_SUCCESS);
	cr_assert_not(fits(INPUT_BYTES + 1), "input and result of the other");
	drop_link(LINK(2));
	images_unkeep(s->images, &others);
	cr_assert(fits(IMAGES_KEPT_MAX), "nothing is kept");
}

Test(session, links_of_ours_are_counted)
{
	link_is_counted(false);
}

Test(session, links_of_the_device_are_counted)
{
	link_is_counted(true);
}

/* Links that are left behind go with the session; a link that fails keeps no result. */
Test(session, links_left_behind)
{
	struct image others;

	linking(false);
	others = leave(10 * INPUT_BYTES);
	loads = CUDA_ERROR_INVALID_PTX;
	new_link(LINK(1));
	cr_assert_eq(add_input(LINK(1)), CUDA_SUCCESS);
	cr_assert_eq(complete_link(LINK(1)), CUDA_ERROR_INVALID_PTX);
	cr_assert(fits(9 * INPUT_BYTES) && !fits(9 * INPUT_BYTES + 1));
	images_unkeep(s->images, &others);
}
