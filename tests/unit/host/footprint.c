/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the device takes by itself: charged whenever it takes it, in any steps. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake.h"
#include "memory/space.h"
#include "session/code.h"
#include "session/footprint.h"

static struct session *s;
static struct sess_lane lane;
static struct sess_ctx *ctx, *other;

static void setup(void)
{
	s = fake_session();
	sess_lane_init(&lane, s, NULL, 0);
	cr_assert_eq(sess_ctx_new(s, handle_make(HANDLE_CONTEXT, 1, 1), 0, &ctx), 0);
	cr_assert_eq(sess_ctx_new(s, handle_make(HANDLE_CONTEXT, 1, 2), 0, &other), 0);
	fake.module_takes = 300;
	fake.function_takes = 70;
	fake.module_guess = 1000; /* somebody else took some meanwhile */
}

static void teardown(void)
{
	sess_lane_fini(&lane);
	obj_put(s, &ctx->obj);
	obj_put(s, &other->obj);
	sess_free(s);
	cr_assert(fake.contexts == 0 && fake.modules == 0);
	cr_assert_eq(fake_charged, 0);
}

TestSuite(footprint, .init = setup, .fini = teardown, .timeout = 20);

static CUresult load(enum handle_type type, struct sess_module **ret_m)
{
	struct image img = {0};
	struct dev_jit jit = {0};

	return sess_module_new(s, ctx, handle_make(type, 1, 1), &img, &img, &jit, ret_m);
}

static bool charged_soon(uint64_t bytes)
{
	uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;

	while (fake_charged != bytes && clock_now_ns() < until)
		usleep(1000);
	return fake_charged == bytes;
}

/* Looks a kernel of a library up in the other context, where it is loaded for that. */
static struct sess_func *look_up(struct sess_module *m)
{
	struct dev_func *dev = NULL;
	struct sess_func *f;
	struct sess_inst *inst;

	cr_assert_eq(sess_module_in(&lane, m, ctx, &inst), CUDA_SUCCESS);
	cr_assert_eq(
		sess_func_new(s, m, handle_make(HANDLE_KERNEL, 1, 1), "f", inst, dev, &f),
		CUDA_SUCCESS);
	cr_assert_eq(sess_func_in(&lane, f, other, &dev), CUDA_SUCCESS);
	return f;
}

Test(footprint, a_module_is_charged_what_it_took)
{
	struct sess_module *m;

	cr_assert_eq(load(HANDLE_MODULE, &m), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 300);
	obj_put(s, &m->obj);
	cr_assert_eq(fake_charged, 0);
}

/* A guess of nothing is no reason not to look, a little later. */
Test(footprint, what_seemed_nothing_is_charged_later)
{
	struct sess_module *m;

	fake.module_guess = 0;
	cr_assert_eq(load(HANDLE_MODULE, &m), CUDA_SUCCESS);
	cr_assert(charged_soon(300));
	obj_put(s, &m->obj);
	cr_assert_eq(fake_charged, 0);
}

Test(footprint, what_comes_with_a_look_up_is_charged)
{
	struct sess_module *m;
	struct sess_func *f;

	cr_assert_eq(load(HANDLE_LIBRARY, &m), CUDA_SUCCESS);
	f = look_up(m);
	cr_assert(charged_soon(2 * 300 + 70));
	obj_put(s, &f->obj);
	obj_put(s, &m->obj);
	while (lane.n_pins) /* the command ends */
		obj_put(s, lane.pins[--lane.n_pins].obj);
	cr_assert_eq(fake_charged, 0);
}

Test(footprint, a_load_over_the_limit_fails)
{
	struct sess_module *m, *more;

	cr_assert_eq(load(HANDLE_MODULE, &m), CUDA_SUCCESS);
	fake_quota = 500;
	cr_assert_eq(load(HANDLE_MODULE, &more), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(fake.modules, 1);
	cr_assert_eq(fake_charged, 300);
	fake_quota = 600;
	cr_assert_eq(load(HANDLE_MODULE, &more), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 600);
	obj_put(s, &m->obj);
	obj_put(s, &more->obj);
	fake_quota = UINT64_MAX;
}

/* Memory that was freed is kept for a moment, but not from code. */
Test(footprint, what_lies_idle_is_in_nobodys_way)
{
	struct sess_module *m;
	CUdeviceptr p;

	fake.limit = 4 << 20;
	cr_assert_eq(space_alloc(s->space, 4 << 20, ctx->id, &p), CUDA_SUCCESS);
	cr_assert_eq(load(HANDLE_MODULE, &m), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(space_release(s->space, p), CUDA_SUCCESS);
	cr_assert_eq(load(HANDLE_MODULE, &m), CUDA_SUCCESS);
	obj_put(s, &m->obj);
}

/* Memory that is there already stays, and is asked for until it is granted. */
Test(footprint, what_cannot_be_charged_is_owed)
{
	struct sess_module *m;

	cr_assert_eq(load(HANDLE_MODULE, &m), CUDA_SUCCESS);
	fake_quota = 300;
	fake.takes += 50;
	footprint_changed(s);
	usleep(300000);
	cr_assert_eq(fake_charged, 300);
	fake_quota = 350;
	cr_assert(charged_soon(350));
	fake.takes -= 50;
	obj_put(s, &m->obj);
	cr_assert_eq(fake_charged, 0);
	fake_quota = UINT64_MAX;
}

/* Contexts, limits and arrays are charged when they are made. */
Test(footprint, what_is_charged_apart_is_not_charged_twice)
{
	fake.overhead = fake.takes = 500;
	cr_assert_eq(sess_overhead(s), 500);
	tally_making(&s->apart, 40);
	footprint_changed(s);
	fake.takes += 40;
	tally_made(&s->apart, 40);
	fake.takes += 5;
	cr_assert(charged_soon(5));
	tally_ending(&s->apart, 40);
	fake.takes -= 40;
	tally_ended(&s->apart, 40);
	footprint_shrunk(s);
	cr_assert_eq(fake_charged, 5);
	s->primary->apart = 0;
	tally_ending(&s->apart, 500);
	fake.takes -= 500 + 5;
	tally_ended(&s->apart, 500);
	footprint_shrunk(s);
	/* By that, or by the thread, which may have seen it first. */
	cr_assert(charged_soon(0));
	s->overhead = 0;
}

/* While it is not sharp what there is, the charge moves no further than it must. */
Test(footprint, what_may_be_somebody_elses_changes_nothing)
{
	struct sess_module *m;

	cr_assert_eq(load(HANDLE_MODULE, &m), CUDA_SUCCESS);
	fake.takes += 100; /* of pieces that are being made */
	fake.unsure = 120;
	footprint_shrunk(s);
	cr_assert_eq(fake_charged, 300);
	footprint_changed(s);
	usleep(250000);
	cr_assert_eq(fake_charged, 300);
	fake.takes -= 100;
	fake.unsure = 0;
	obj_put(s, &m->obj);
	cr_assert_eq(fake_charged, 0);
}

/* If nobody says how much it is, the modules' guesses have to do. */
Test(footprint, nobody_says)
{
	struct sess_module *m, *more;

	fake.silent = true;
	cr_assert_eq(load(HANDLE_MODULE, &m), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 1000);
	fake_quota = 1999;
	cr_assert_eq(load(HANDLE_MODULE, &more), CUDA_ERROR_OUT_OF_MEMORY);
	fake_quota = UINT64_MAX;
	cr_assert_eq(fake_charged, 1000);
	obj_put(s, &m->obj);
	cr_assert_eq(fake_charged, 0);
	fake.silent = false;
}

/* An unload while a charge waits for its answer leaves what is right in the end. */
static struct sess_module *to_unload;

static void unload_meanwhile(void)
{
	struct sess_module *m = to_unload;

	to_unload = NULL;
	if (m)
		obj_put(s, &m->obj);
}

Test(footprint, an_unload_while_a_charge_waits)
{
	struct sess_module *m;

	cr_assert_eq(load(HANDLE_MODULE, &to_unload), CUDA_SUCCESS);
	fake_while_charging = unload_meanwhile;
	cr_assert_eq(load(HANDLE_MODULE, &m), CUDA_SUCCESS);
	fake_while_charging = NULL;
	cr_assert(charged_soon(300));
	obj_put(s, &m->obj);
	cr_assert_eq(fake_charged, 0);
}

/* Four threads make and end things while another one looks: never is more there than at
 * most, or less than at least. */
static struct tally tally;
static _Atomic uint64_t there;
static _Atomic bool stop;

static void *make_and_end(void *arg)
{
	while (!atomic_load(&stop)) {
		tally_making(&tally, 10);
		atomic_fetch_add(&there, 10);
		tally_made(&tally, 10);
		tally_making(&tally, 3);
		tally_unmade(&tally, 3);
		tally_ending(&tally, 10);
		atomic_fetch_sub(&there, 10);
		tally_ended(&tally, 10);
	}
	return NULL;
}

Test(footprint, bounds_hold)
{
	uint64_t least, most, now;
	struct tally_look look;
	pthread_t t[4];

	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, make_and_end, NULL), 0);
	for (unsigned i = 0; i < 100000; i++) {
		look = tally_look(&tally);
		now = atomic_load(&there);
		tally_bounds(&tally, look, &least, &most);
		cr_assert(least <= now && now <= most, "%llu <= %llu <= %llu",
			  (unsigned long long)least, (unsigned long long)now,
			  (unsigned long long)most);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	look = tally_look(&tally);
	tally_bounds(&tally, look, &least, &most);
	cr_assert(least == 0 && most == 0);
}

/* The ticks until one of them asks. */
static unsigned ticks_to_a_question(void)
{
	unsigned n = 1;

	while (!footprint_tick(s))
		n++;
	return n;
}

Test(footprint, while_nothing_changes_it_asks_less_often)
{
	static const unsigned ticks[] = {1, 1, 2, 4, 8, 8, 8};

	for (unsigned i = 0; i < ARRAY_SIZE(ticks); i++)
		cr_expect_eq(ticks_to_a_question(), ticks[i]);
	fake.takes += 50; /* a kernel was loaded when it was launched */
	(void)ticks_to_a_question();
	cr_assert(charged_soon(50));
	cr_expect_eq(ticks_to_a_question(), 1);
	footprint_changed(s);
	cr_expect_eq(ticks_to_a_question(), 1, "somebody knows of a change");
	fake.takes -= 50;
	footprint_shrunk(s);
	cr_assert_eq(fake_charged, 0);
}
