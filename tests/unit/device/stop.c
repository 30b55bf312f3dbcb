/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that are stopped by the device on the device, and go on: within their blocks, between
 * them, in several streams, and those that do not stop in time. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "device/rewrite/rewrite.h"
#include "rewritten.h"

/* work(p, n): thread t of block b leaves at p[b * 64 + t] what n rounds make of its number.
 * spin(p, n): does so after one round, once p[n] is not 0; p[n + 1] is 1 when it has begun. */
static const char text[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
#define BEGIN                                                                            \
	"(.param .u64 p, .param .u32 n) {\n"                                             \
	".reg .b32 %r<20>; .reg .b64 %d<8>; .reg .pred %p<3>;\n"                         \
	"ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n];\n"                                \
	"mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"            \
	"mad.lo.u32 %r5, %r2, %r3, %r4;\n"                                               \
	"mul.wide.u32 %d2, %r5, 4; add.u64 %d2, %d1, %d2; mov.u32 %r6, 0;\n"
	".visible .entry work" BEGIN
	"L: mad.lo.u32 %r5, %r5, 5, %r6; add.u32 %r6, %r6, 1;\n"
	"setp.lt.u32 %p1, %r6, %r1; @%p1 bra L;\n"
	"st.global.u32 [%d2], %r5; ret; }\n"
	".visible .entry spin" BEGIN "mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d1, %d3;\n"
	"mov.u32 %r7, 1; st.volatile.global.u32 [%d3+4], %r7;\n"
	"L: ld.volatile.global.u32 %r6, [%d3]; setp.eq.u32 %p1, %r6, 0; @%p1 bra L;\n"
	"mul.lo.u32 %r5, %r5, 5; st.global.u32 [%d2], %r5; ret; }\n";

static enum device_rest hold_and_stop(struct fix *f)
{
	f->ops->hold(f->dev);
	return f->ops->stop(f->dev);
}

#define BLOCKS  40u
#define THREADS 64u
#define FLAG    (BLOCKS * THREADS)

struct params {
	CUdeviceptr p;
	uint32_t n;
};

struct work {
	struct fix *f;
	struct fix_mem m;
	struct dev_module *mod;
	struct dev_stream *st;
	struct dev_event *behind;
	struct params params;
	struct dev_launch l;
};

static struct work begin(struct fix *f, const char *kernel, uint32_t n)
{
	struct dev_jit jit = {.optimization_level = 4};
	struct work w = {.f = f, .m = fix_alloc(f, 2 * MIB)};

	OK(f->ops->module.load(f->ctx, text, sizeof(text), &jit, &w.mod));
	OK(f->ops->module.function(w.mod, kernel, &w.l.func));
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &w.st));
	OK(f->ops->event.create(f->ctx, 0, &w.behind));
	w.params = (struct params){w.m.addr, n};
	w.l.grid[0] = BLOCKS;
	w.l.grid[1] = w.l.grid[2] = 1;
	w.l.block[0] = THREADS;
	w.l.block[1] = w.l.block[2] = 1;
	w.l.params_size = sizeof(CUdeviceptr) + sizeof(uint32_t);
	return w;
}

static void launch(struct work *w)
{
	struct fix *f = w->f;

	w->l.params = &w->params;
	memset((void *)(uintptr_t)w->m.addr, 0, 4 * (FLAG + 2));
	OK(f->ops->func.launch(f->ctx, w->st, &w->l));
	OK(f->ops->event.record(f->ctx, w->behind, w->st));
}

static bool is_done(const struct work *w)
{
	return w->f->ops->event.query(w->behind) == CUDA_SUCCESS;
}

static void check(const struct work *w)
{
	const uint32_t *out = (void *)(uintptr_t)w->m.addr;
	struct fix *f = w->f;

	OK(f->ops->event.synchronize(w->behind));
	for (uint32_t i = 0; i < BLOCKS * THREADS; i++) {
		uint32_t x = i;

		for (uint32_t k = 0; k < w->params.n && w->params.n != FLAG; k++)
			x = x * 5 + k;
		if (w->params.n == FLAG)
			x *= 5;
		cr_assert_eq(out[i], x, "%u: %u, not %u", i, out[i], x);
	}
}

static void end(struct work *w)
{
	struct fix *f = w->f;

	f->ops->event.destroy(w->behind);
	f->ops->stream.destroy(w->st);
	if (w->mod)
		f->ops->module.unload(w->mod);
	fix_free(f, &w->m);
}

/* In two streams; while they stand nothing is written, and what is behind them does not happen. */
static void stop_and_go(struct fix *f, uint32_t rounds, unsigned stops)
{
	struct work w[2] = {begin(f, "work", rounds), begin(f, "work", rounds + 1)};
	unsigned stopped = 0, seed = 1, launches = 0;
	static uint32_t before[FLAG];

	for (unsigned i = 0; (stopped < stops || launches <= 4) && i < 100 * stops; i++) {
		for (unsigned k = 0; k < 2; k++) {
			if (launches >= 2 && !is_done(&w[k]))
				continue;
			if (launches >= 2)
				check(&w[k]);
			launch(&w[k]);
			launches++;
		}
		usleep((unsigned)rand_r(&seed) % 400);
		if (hold_and_stop(f) != DEVICE_REST_STOPPED) {
			f->ops->go_on(f->dev);
			continue;
		}
		stopped++;
		memcpy(before, (void *)(uintptr_t)w[0].m.addr, sizeof(before));
		if (i % 16 == 0)
			usleep(2000);
		cr_assert(
			!memcmp(before, (void *)(uintptr_t)w[0].m.addr, sizeof(before)));
		f->ops->go_on(f->dev);
	}
	cr_assert(stopped >= stops && launches > 4, "%u stops, %u launches", stopped,
		  launches);
	for (unsigned k = 0; k < 2; k++) {
		check(&w[k]);
		end(&w[k]);
	}
}

static void within_blocks(struct fix *f)
{
	stop_and_go(f, moments(4000), moments(208));
}

static void between_blocks(struct fix *f)
{
	stop_and_go(f, moments(4000), moments(56));
}

Test(device_stop, blocks_stop_within_their_loops, .timeout = 300)
{
	with_mode(REWRITE_ALWAYS_YIELD, within_blocks);
}

Test(device_stop, grids_stop_between_blocks, .timeout = 300)
{
	with_mode(REWRITE_ALWAYS, between_blocks);
}

/* Nothing that could be stopped: whoever asks waits as always. */
static void nothing(struct fix *f)
{
	cr_assert_eq(hold_and_stop(f), DEVICE_REST_NONE);
	f->ops->go_on(f->dev);
}

Test(device_stop, nothing_runs)
{
	with_mode(REWRITE_ALWAYS_YIELD, nothing);
	with_mode(REWRITE_OFF, nothing);
}

/* A device that is slow to tell that a wait for a word is over, as one is that others have. */
#define LATE_NS  (3 * NSEC_PER_MSEC)
#define LATE_MAX 256u

static struct late {
	const struct dev_event *ev;
	uint64_t since_ns; /* 0: not over yet */
	bool told;
} late[LATE_MAX];
static unsigned n_late;
static bool is_late; /* what is recorded next */
/* Launches beside this stream are late; NULL: none is. */
static const struct dev_stream *in_time;

static CUresult late_mem_ops(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_mem_op *ops, unsigned n, unsigned flags)
{
	is_late = false;
	return device_soft_ops.stream.mem_ops(ctx, st, ops, n, flags);
}

static CUresult late_wait(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr addr,
			  uint32_t value)
{
	is_late = !in_time;
	return device_soft_ops.stream.wait_for_kernels(ctx, st, addr, value);
}

static CUresult late_launch(struct dev_ctx *ctx, struct dev_stream *st,
			    const struct dev_launch *l)
{
	is_late = in_time && st != in_time;
	return device_soft_ops.func.launch(ctx, st, l);
}

static struct late *find_late(const struct dev_event *ev)
{
	for (unsigned i = 0; i < n_late; i++) {
		if (late[i].ev == ev)
			return &late[i];
	}
	return NULL;
}

static CUresult late_record(struct dev_ctx *ctx, struct dev_event *ev,
			    struct dev_stream *st)
{
	struct late *l = find_late(ev);

	if (is_late && !l && n_late < LATE_MAX)
		l = &late[n_late++];
	if (l)
		*l = (struct late){.ev = is_late ? ev : NULL};
	is_late = false;
	return device_soft_ops.event.record(ctx, ev, st);
}

static CUresult late_query(struct dev_event *ev)
{
	CUresult r = device_soft_ops.event.query(ev);
	struct late *l = find_late(ev);

	if (!l || r)
		return r;
	if (!l->since_ns)
		l->since_ns = clock_now_ns();
	l->told = clock_now_ns() - l->since_ns >= LATE_NS;
	return l->told ? r : CUDA_ERROR_NOT_READY;
}

static void late_unload(struct dev_module *mod)
{
	for (unsigned i = 0; i < n_late; i++)
		cr_assert(!in_time || !late[i].ev || late[i].told, "its blocks run");
	device_soft_ops.module.unload(mod);
}

/* Kernels that are done are not taken for stopped ones: what is behind them goes on. */
static void behind(struct fix *f)
{
	struct work w[2] = {begin(f, "work", 40), begin(f, "work", 5000)};
	size_t bytes = 4 * FLAG;
	static uint32_t before[FLAG];
	unsigned stopped = 0;

	for (unsigned i = 0; i < moments(20); i++) {
		w[1].params.n = 5000 + i * 500;
		launch(&w[0]);
		memset((void *)(uintptr_t)w[1].m.addr, 0, bytes);
		w[1].l.params = &w[1].params;
		OK(f->ops->func.launch(f->ctx, w[0].st, &w[1].l));
		OK(f->ops->event.record(f->ctx, w[1].behind, w[0].st));
		if (hold_and_stop(f) == DEVICE_REST_STOPPED) {
			stopped++;
			memcpy(before, (void *)(uintptr_t)w[1].m.addr, bytes);
			usleep(5000);
			cr_assert(!memcmp(before, (void *)(uintptr_t)w[1].m.addr, bytes),
				  "what was behind went on, %u", i);
		}
		f->ops->go_on(f->dev);
		check(&w[0]);
		check(&w[1]);
	}
	cr_assert_gt(stopped, 0);
	end(&w[0]);
	end(&w[1]);
}

static void with_late(enum rewrite_mode mode, void (*body)(struct fix *f))
{
	static struct device_ops ops;

	ops = device_soft_ops;
	ops.stream.mem_ops = late_mem_ops;
	ops.stream.wait_for_kernels = late_wait;
	ops.func.launch = late_launch;
	ops.event.record = late_record;
	ops.event.query = late_query;
	ops.module.unload = late_unload;
	with_mode_of(&ops, mode, body);
}

Test(device_stop, kernels_that_are_done, .timeout = 120)
{
	with_late(REWRITE_ALWAYS_YIELD, behind);
}

Test(device_stop, grids_that_are_done, .timeout = 120)
{
	with_late(REWRITE_ALWAYS, behind);
}

/* The grid is done, and so is its stream; some blocks of the launch that did its rest look for
 * more. */
static void last_blocks(struct fix *f)
{
	unsigned stopped = 0;

	/* On a machine with much else to do the kernel may be done before it is stopped. */
	for (unsigned i = 0; stopped < 5 && i < 50; i++) {
		struct work w = begin(f, "work", 8000);

		in_time = w.st;
		launch(&w);
		usleep(1000);
		stopped += hold_and_stop(f) == DEVICE_REST_STOPPED;
		f->ops->go_on(f->dev);
		check(&w);
		end(&w);
	}
	cr_assert_eq(stopped, 5);
	cr_assert_gt(n_late, 0);
}

Test(device_stop, modules_end_when_the_last_blocks_have, .timeout = 60)
{
	with_late(REWRITE_ALWAYS_YIELD, last_blocks);
}

static void *ask(void *arg)
{
	struct fix *f = arg;

	return (void *)(uintptr_t)f->ops->stop(f->dev);
}

/* A kernel waits for what the program writes, and does not stop. Others that have must not wait
 * for it when nobody waits for them any more. */
static void not_in_time(struct fix *f)
{
	struct work other = begin(f, "work", 2000), w = begin(f, "spin", FLAG);
	void *came;
	pthread_t t;

	for (unsigned i = 0; i < 5; i++) {
		launch(&w);
		launch(&other);
		while (!*(volatile uint32_t *)(uintptr_t)(w.m.addr + 4 * FLAG + 4))
			usleep(100);
		f->ops->hold(f->dev);
		cr_assert_eq(pthread_create(&t, NULL, ask, f), 0);
		usleep(20000 + 2000 * i);
		f->ops->go_on(f->dev);
		cr_assert_eq(pthread_join(t, &came), 0);
		cr_assert_neq((uintptr_t)came, DEVICE_REST_STOPPED);
		check(&other);
		cr_assert(!is_done(&w));
		*(volatile uint32_t *)(uintptr_t)(w.m.addr + 4 * FLAG) = 1;
		check(&w);
	}
	end(&other);
	end(&w);
}

Test(device_stop, what_does_not_stop_in_time, .timeout = 300)
{
	with_mode(REWRITE_ALWAYS_YIELD, not_in_time);
	with_mode(REWRITE_ALWAYS, not_in_time);
}

/* One that has not begun, was asked to stop and goes on, still waits for what is in front of it. */
static void not_begun(struct fix *f)
{
	struct work first = begin(f, "spin", FLAG), w = begin(f, "work", 200);
	const volatile uint32_t *out = (void *)(uintptr_t)w.m.addr;
	volatile uint32_t *words = (void *)(uintptr_t)(first.m.addr + 4 * FLAG);
	pthread_t t;

	launch(&first);
	OK(f->ops->stream.wait_event(f->ctx, w.st, first.behind));
	launch(&w);
	while (!words[1])
		usleep(100);
	for (unsigned i = 0; i < 3; i++) {
		f->ops->hold(f->dev);
		cr_assert_eq(pthread_create(&t, NULL, ask, f), 0);
		usleep(10000);
		f->ops->go_on(f->dev);
		cr_assert_eq(pthread_join(t, NULL), 0);
		usleep(10000);
		cr_assert_eq(out[1], 0, "it has begun");
	}
	words[0] = 1;
	check(&first);
	check(&w);
	end(&first);
	end(&w);
}

Test(device_stop, one_that_has_not_begun, .timeout = 60)
{
	with_mode(REWRITE_ALWAYS_YIELD, not_begun);
	with_mode(REWRITE_ALWAYS, not_begun);
}

/* Stops nothing: it has gone on already. */
static void too_late(struct fix *f)
{
	struct work w = begin(f, "work", 20000);

	launch(&w);
	f->ops->hold(f->dev);
	f->ops->go_on(f->dev);
	cr_assert_eq(f->ops->stop(f->dev), DEVICE_REST_CANCELLED);
	check(&w);
	end(&w);
}

Test(device_stop, a_question_that_is_late, .timeout = 60)
{
	with_mode(REWRITE_ALWAYS_YIELD, too_late);
}

/* Modules that end when their kernels were asked to stop, and told to go on before they had. */
static void unloaded(struct fix *f)
{
	unsigned seed = 1;
	pthread_t t;

	for (unsigned i = 0; i < moments(25); i++) {
		struct work w = begin(f, "work", 8000);

		launch(&w);
		usleep((unsigned)rand_r(&seed) % 1000);
		f->ops->hold(f->dev);
		cr_assert_eq(pthread_create(&t, NULL, ask, f), 0);
		usleep((unsigned)rand_r(&seed) % 300);
		f->ops->go_on(f->dev);
		f->ops->module.unload(w.mod);
		w.mod = NULL;
		cr_assert_eq(pthread_join(t, NULL), 0);
		check(&w);
		end(&w);
	}
}

Test(device_stop, modules_that_end, .timeout = 300)
{
	with_mode(REWRITE_ALWAYS_YIELD, unloaded);
	with_mode(REWRITE_ALWAYS, unloaded);
}

/* More launches than a module has counters, and ends of streams, modules and contexts while
 * some are stopped. */
static void many(struct fix *f)
{
	struct work w = begin(f, "work", 3), last = begin(f, "work", 40000);
	struct device_rewrites n;

	for (unsigned i = 0; i < moments(3000); i++) {
		launch(&w);
		if (i % 7 == 0)
			check(&w);
	}
	check(&w);
	f->ops->rewrites(f->dev, &n);
	cr_assert_eq(n.launches, moments(3000));
	launch(&last);
	usleep(1000);
	cr_assert_eq(hold_and_stop(f), DEVICE_REST_STOPPED);
	f->ops->stream.destroy(last.st);
	OK(f->ops->stream.create(f->ctx, 0, 0, &last.st));
	f->ops->go_on(f->dev);
	check(&last);
	launch(&last);
	usleep(1000);
	cr_assert_eq(hold_and_stop(f), DEVICE_REST_STOPPED);
}

Test(device_stop, many_launches_and_ends, .timeout = 60)
{
	with_mode(REWRITE_ALWAYS_YIELD, many);
}
