/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of a launch in the worker up to the call of the device, which does nothing here:
 * decoding, finding objects, the gate, counting; and, through a window, receiving from
 * another thread, while the device takes as long as a driver does. Processor time of the
 * worker's thread, the least of many bursts, so that it may run beside other work. Usage:
 *
 *	bench_submit
 *	bench_submit --wait     the last line only
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "codec.h"
#include "loopback.h"
#include "memory/touch.h"
#include "ipc/trace.h"
#include "session/code.h"
#include "session/command.h"
#include "session/session.h"

#define BURSTS        400
#define LAUNCHES      5000u
#define DEVICE_SPINS  4000u /* about a microsecond */
#define WINDOW_PARAMS 16
#define KERNELS       12 /* in turn: as many as a program of some layers has */

#define CTX           handle_make(HANDLE_CONTEXT, 1, 1)
#define STREAM        handle_make(HANDLE_STREAM, 1, 1)
#define CODE(type)    handle_make(type, 1, 1)

static struct sess_lane lane;
static struct dev_func *func; /* never looked into */
static uint64_t seq, launched;
static unsigned spins; /* of the device, for each launch */
static bool batches;   /* the next one is there already */

static CUresult launch(struct dev_ctx *ctx, struct dev_stream *st,
		       const struct dev_launch *l)
{
	launched += l->func == func;
	for (unsigned i = 0; i < spins; i++)
		__asm__ __volatile__("");
	return CUDA_SUCCESS;
}

static unsigned launch_batch(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_launch *l, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		(void)launch(ctx, st, &l[i]);
	return n;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "cannot make %s\n", what);
	exit(1);
}

static double thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Functions of a module, or kernels of a library, that are in ctx already. */
static void make_code(struct session *s, struct sess_ctx *ctx, enum handle_type code,
		      enum handle_type type)
{
	struct sess_module *m = obj_new(code, CODE(code), sizeof(*m), NULL, NULL);
	struct sess_inst *inst = obj_new(HANDLE_NONE, 0, sizeof(*inst), ctx, NULL);

	must(m && inst, "code");
	list_init(&m->insts);
	list_init(&m->funcs);
	list_init(&m->in_session);
	list_append(&m->insts, &inst->in_mod);
	for (uint32_t i = 0; i < KERNELS; i++) {
		struct sess_func *f =
			obj_new(type, handle_make(type, 1, i), sizeof(*f), NULL, NULL);

		must(f, "a function");
		f->name = (char *)"kernel";
		f->mod = m;
		f->inst = inst;
		f->dev = func;
		must(obj_publish(s, &f->obj) == 0, "a function");
	}
}

/* A posted launch as a lane receives it. */
static void compose(struct lane_msg *msg, uint64_t func_handle, unsigned n_params)
{
	static _Alignas(8) char body[4096];
	struct launch_kernel_cmd *c = (void *)body;

	memset(body, 0, sizeof(body));
	c->func = func_handle;
	c->stream = STREAM;
	c->grid[0] = c->grid[1] = c->grid[2] = 1;
	c->block[0] = 256;
	c->block[1] = c->block[2] = 1;
	c->params_size = 8 * n_params;
	*msg = (struct lane_msg){.hdr = {.fixed = sizeof(*c) / 8,
					 .op = WIRE_OP_launch_kernel,
					 .flags = WIRE_F_ASYNC},
				 .body = body,
				 .body_size = (uint32_t)(sizeof(*c) + c->params_size)};
}

static double burst(struct lane_msg *msg, enum handle_type type)
{
	struct launch_kernel_cmd *c = (void *)(uintptr_t)msg->body;
	double t = thread_ns();

	for (uint32_t i = 0; i < LAUNCHES; i++) {
		c->func = handle_make(type, 1, i % KERNELS);
		msg->hdr.seq = ++seq;
		lane.more = batches && i + 1 < LAUNCHES;
		must(sess_handle(&lane, msg) == 0, "a launch");
	}
	return (thread_ns() - t) / LAUNCHES;
}

static void measure(const char *what, enum handle_type type, unsigned n_params)
{
	struct lane_msg msg;
	uint64_t before = launched;
	double best = 1e9;

	compose(&msg, handle_make(type, 1, 0), n_params);
	for (unsigned i = 0; i < BURSTS; i++) {
		double ns = burst(&msg, type);

		best = ns < best ? ns : best;
	}
	must(launched - before == (uint64_t)BURSTS * LAUNCHES, "every launch");
	printf("%-28s %8.1f ns\n", what, best);
}

/* While an operator records a trace of the session. */
static void measure_traced(struct session *s)
{
	struct trace_area *area = calloc(1, sizeof(*area));

	must(area, "a ring");
	sess_set_trace(s, area);
	atomic_store(&s->count->tracing, 1);
	measure("the same, traced", HANDLE_KERNEL, 16);
	batches = true;
	measure("traced, in batches", HANDLE_KERNEL, 16);
	batches = false;
	atomic_store(&s->count->tracing, 0);
}

/* ---- through a window ---- */

static void *guest_main(void *arg)
{
	struct loopback *lb = arg;

	for (uint32_t i = 0; i < BURSTS * LAUNCHES; i++) {
		struct launch_kernel_cmd *c =
			lane_begin(lb->guest, WIRE_OP_launch_kernel,
				   sizeof(*c) + 8 * WINDOW_PARAMS, 0, NULL);

		must(c, "a command");
		c->func = handle_make(HANDLE_KERNEL, 1, i % KERNELS);
		c->stream = STREAM;
		c->grid[0] = c->block[0] = 1;
		c->params_size = 8 * WINDOW_PARAMS;
		lane_fixed(lb->guest, sizeof(*c));
		must(lane_post(lb->guest) == 0, "a post");
	}
	return NULL;
}

/* How long the device itself takes. */
static double device_ns(void)
{
	const struct dev_launch l = {0};
	double t = thread_ns();

	for (unsigned i = 0; i < LAUNCHES; i++)
		(void)launch(NULL, NULL, &l);
	return (thread_ns() - t) / LAUNCHES;
}

static void measure_window(void)
{
	struct loopback_opts opts = {.carrier = WIRE_CARRIER_WINDOW, .spin_us = 1000};
	double best = 1e9, device = 1e9;
	struct loopback lb;
	pthread_t guest;

	spins = DEVICE_SPINS;
	must(loopback_init(&lb, &opts) == 0, "a lane");
	lane.lane = lb.worker;
	must(pthread_create(&guest, NULL, guest_main, &lb) == 0, "a thread");
	tickets_init(&lane.s->tickets);
	for (unsigned n = 0; n < BURSTS; n++) {
		double t = device_ns();

		device = t < device ? t : device;
		t = thread_ns();
		for (unsigned i = 0; i < LAUNCHES; i++) {
			struct lane_msg msg;

			must(lane_recv(lb.worker, &msg) == 0, "a command");
			lane.more = lane_peek(lb.worker) == WIRE_OP_launch_kernel;
			must(sess_handle(&lane, &msg) == 0, "a launch");
		}
		t = (thread_ns() - t) / LAUNCHES;
		best = t < best ? t : best;
	}
	pthread_join(guest, NULL);
	printf("%-28s %8.1f ns beside the device's %.0f\n", "the same through a window",
	       best - device, device);
}

/* ---- a launch, and waiting for it ---- */

/* Waits, of which the quickest tenth is told: others on the processors are not in it. */
#define WAITS 100000u

static double waited[WAITS];

static void post_launch(struct lane *l)
{
	struct launch_kernel_cmd *c =
		lane_begin(l, WIRE_OP_launch_kernel, sizeof(*c), 0, NULL);

	must(c, "a command");
	c->func = handle_make(HANDLE_KERNEL, 1, 0);
	c->stream = STREAM;
	c->grid[0] = c->block[0] = 1;
	must(lane_post(l) == 0, "a post");
}

static void wait_for_stream(struct lane *l)
{
	struct stream_synchronize_cmd *c =
		lane_begin(l, WIRE_OP_stream_synchronize, sizeof(*c), 0, NULL);
	struct lane_reply reply;

	must(c, "a command");
	c->stream = STREAM;
	must(lane_call(l, &reply) == 0, "a call");
}

static void *waiting_guest(void *arg)
{
	struct loopback *lb = arg;

	for (unsigned i = 0; i < WAITS; i++) {
		uint64_t t = clock_now_ns();

		post_launch(lb->guest);
		wait_for_stream(lb->guest);
		waited[i] = (double)(clock_now_ns() - t);
	}
	lane_kill(lb->guest);
	return NULL;
}

static CUresult wait_for_nothing(struct dev_ctx *ctx, struct dev_stream *st)
{
	return CUDA_SUCCESS;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* All that lies between a guest and a device that takes no time. */
static void measure_waiting(void)
{
	struct loopback_opts opts = {.carrier = WIRE_CARRIER_WINDOW, .spin_us = 1000};
	struct loopback lb;
	struct lane_msg msg;
	pthread_t guest;

	spins = 0;
	must(loopback_init(&lb, &opts) == 0, "a lane");
	lane.lane = lb.worker;
	tickets_init(&lane.s->tickets);
	must(pthread_create(&guest, NULL, waiting_guest, &lb) == 0, "a thread");
	while (lane_recv(lb.worker, &msg) == 0) {
		lane.more = lane_peek(lb.worker) == WIRE_OP_launch_kernel;
		must(sess_handle(&lane, &msg) == 0, "a launch");
	}
	pthread_join(guest, NULL);
	qsort(waited, WAITS, sizeof(*waited), by_time);
	printf("%-28s %8.1f ns, the quickest tenth below %.1f\n",
	       "a launch and waiting for it", waited[WAITS / 2], waited[WAITS / 10]);
}

int main(int argc, char **argv)
{
	struct device_ops ops = device_soft_ops;
	struct device_config cfg = {.memory_bytes = 64ull << 20, .threads = 1};
	struct accounts nobody = {0};
	struct sess_stream *st;
	struct sess_ctx *ctx;
	struct session *s;

	ops.func.launch = launch;
	ops.func.launch_batch = launch_batch;
	ops.stream.synchronize = wait_for_nothing;
	must(sess_new(&ops, &cfg, &nobody, &s) == 0, "a session");
	func = malloc(1);
	sess_lane_init(&lane, s, NULL, 0);
	must(sess_ctx_new(s, CTX, 0, &ctx) == CUDA_SUCCESS && func, "a context");
	must(obj_publish(s, &ctx->obj) == 0, "a context");
	must(sess_stream_new(s, ctx, STREAM, 0, 0, &st) == CUDA_SUCCESS, "a stream");
	must(obj_publish(s, &st->obj) == 0, "a stream");
	make_code(s, ctx, HANDLE_MODULE, HANDLE_FUNCTION);
	make_code(s, ctx, HANDLE_LIBRARY, HANDLE_KERNEL);
	if (argc > 1 && !strcmp(argv[1], "--wait")) {
		measure_waiting();
		return 0;
	}
	measure("function, no parameters", HANDLE_FUNCTION, 0);
	measure("function, 16 parameters", HANDLE_FUNCTION, 16);
	measure("kernel of a library, 16", HANDLE_KERNEL, 16);
	batches = true;
	measure("the same in batches", HANDLE_KERNEL, 16);
	batches = false;
	must(touch_init(&s->touch) == 0, "a map of pages");
	measure("the same where memory moves", HANDLE_KERNEL, 16);
	measure_traced(s);
	measure_window();
	measure_waiting();
	return 0; /* what was made by hand is not taken apart */
}
