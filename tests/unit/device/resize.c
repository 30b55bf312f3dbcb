/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that run take fewer blocks, or more, and stop meanwhile. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "device/rewrite/rewrite.h"
#include "rewritten.h"

/* crowd(p, n): block b counts itself in p[0] as long as it runs, the most that there were in p[1],
 * all that have begun in p[2], and itself in p[3 + b] when n rounds are over. */
static const char text[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".visible .entry crowd(.param .u64 p, .param .u32 n) {\n"
	".reg .b32 %r<12>; .reg .b64 %d<6>; .reg .pred %p<4>;\n"
	"ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n];\n"
	"mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0;\n"
	"@%p1 bra IN; atom.global.add.u32 %r3, [%d1], 1;\n"
	"add.u32 %r3, %r3, 1; red.global.max.u32 [%d1+4], %r3;\n"
	"red.global.add.u32 [%d1+8], 1;\n"
	"IN: mov.u32 %r4, 0;\n"
	"L: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, %r1; @%p2 bra L;\n"
	"@%p1 bra OUT; red.global.add.u32 [%d1], -1;\n"
	"mov.u32 %r5, %ctaid.x; mul.wide.u32 %d2, %r5, 4; add.u64 %d2, %d1, %d2;\n"
	"red.global.add.u32 [%d2+12], 1;\n"
	"OUT: ret; }\n";

#define BLOCKS 12000u

static _Atomic uint64_t permille;

struct crowd {
	struct fix *f;
	struct fix_mem m;
	struct dev_module *mod;
	struct dev_stream *st;
	struct dev_event *behind;
	struct dev_launch l;
	struct {
		CUdeviceptr p;
		uint32_t n;
	} params;
	volatile uint32_t *words;
	unsigned most; /* blocks that there is room for */
};

static struct crowd begin(struct fix *f, uint32_t rounds)
{
	struct dev_jit jit = {.optimization_level = 4};
	struct crowd c = {.f = f, .m = fix_alloc(f, 2 * MIB)};
	int on_sm;

	OK(f->ops->module.load(f->ctx, text, sizeof(text), &jit, &c.mod));
	OK(f->ops->module.function(c.mod, "crowd", &c.l.func));
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &c.st));
	OK(f->ops->event.create(f->ctx, 0, &c.behind));
	OK(f->ops->func.occupancy(c.l.func, 32, 0, 0, &on_sm));
	c.most = (unsigned)on_sm * f->info.n_sms;
	c.words = (void *)(uintptr_t)c.m.addr;
	c.params.p = c.m.addr;
	c.params.n = rounds;
	c.l.grid[0] = BLOCKS;
	c.l.block[0] = 32;
	c.l.grid[1] = c.l.grid[2] = c.l.block[1] = c.l.block[2] = 1;
	c.l.params_size = sizeof(CUdeviceptr) + sizeof(uint32_t);
	f->ops->limit(f->dev, &permille);
	return c;
}

static void launch(struct crowd *c)
{
	struct fix *f = c->f;

	c->l.params = &c->params;
	memset((void *)(uintptr_t)c->m.addr, 0, (size_t)4 * (BLOCKS + 3));
	OK(f->ops->func.launch(f->ctx, c->st, &c->l));
	OK(f->ops->event.record(f->ctx, c->behind, c->st));
}

static bool is_done(const struct crowd *c)
{
	return c->f->ops->event.query(c->behind) == CUDA_SUCCESS;
}

/* Each block was done once. */
static void check(const struct crowd *c)
{
	struct fix *f = c->f;

	OK(f->ops->event.synchronize(c->behind));
	cr_assert_eq(c->words[0], 0);
	for (unsigned i = 0; i < c->l.grid[0]; i++)
		cr_assert_eq(c->words[3 + i], 1, "block %u: %u times", i,
			     c->words[3 + i]);
}

static void end(struct crowd *c)
{
	struct fix *f = c->f;

	f->ops->limit(f->dev, NULL);
	f->ops->event.destroy(c->behind);
	f->ops->stream.destroy(c->st);
	f->ops->module.unload(c->mod);
	fix_free(f, &c->m);
}

static void say(uint64_t n)
{
	atomic_store(&permille, n);
}

/* As meters do, until there are so many at once, and no more, while some come and go. */
static void wait_for(struct crowd *c, unsigned n)
{
	unsigned begun, most = 0;

	while (!is_done(c) && most != n) {
		begun = c->words[2];
		c->words[1] = 0;
		while (!is_done(c) && c->words[2] < begun + 2 * c->most) {
			c->f->ops->resize(c->f->dev);
			usleep(1000);
		}
		most = c->words[1];
	}
	cr_assert_eq(most, n, "%u, not %u of %u", most, n, c->most);
}

static void fewer_and_more(struct fix *f)
{
	struct crowd c = begin(f, 4000);

	say(500);
	launch(&c);
	wait_for(&c, c.most / 2);
	say(125);
	wait_for(&c, c.most / 8);
	say(0);
	wait_for(&c, c.most);
	say(250);
	wait_for(&c, c.most / 4);
	say(500);
	wait_for(&c, c.most / 2);
	say(750);
	wait_for(&c, c.most * 3 / 4);
	say(DEV_BLOCKS_PLAIN);
	wait_for(&c, c.most * 3 / 4);
	check(&c);
	end(&c);
}

Test(device_resize, blocks_become_fewer_and_more, .timeout = 300)
{
	with_mode(REWRITE_SHARE, fewer_and_more);
}

/* One that has not begun gets no further blocks, which would not wait for what is in front of it. */
static void behind_another(struct fix *f)
{
	struct crowd c = begin(f, 3000), other = begin(f, 3000);
	struct dev_event *first;

	OK(f->ops->event.create(f->ctx, 0, &first));
	say(1000);
	launch(&c);
	OK(f->ops->event.record(f->ctx, first, c.st));
	OK(f->ops->stream.wait_event(f->ctx, other.st, first));
	say(250);
	launch(&other);
	say(1000);
	while (!is_done(&c)) {
		cr_assert(!other.words[0] || is_done(&c));
		f->ops->resize(f->dev);
		usleep(1000);
	}
	check(&c);
	wait_for(&other, c.most);
	check(&other);
	f->ops->event.destroy(first);
	end(&c);
	end(&other);
}

Test(device_resize, one_that_has_not_begun, .timeout = 300)
{
	with_mode(REWRITE_SHARE, behind_another);
}

/* Numbers at random, stops among them: each block is done once. */
static void at_random(struct fix *f)
{
	struct crowd c[2] = {begin(f, 900), begin(f, 901)};
	unsigned seed = 1, launches = 0, stopped = 0, n = moments(200);

	c[0].l.grid[0] = c[1].l.grid[0] = BLOCKS / 8;
	for (unsigned i = 0; i < n || launches < 6; i++) {
		for (unsigned k = 0; k < 2; k++) {
			if (launches >= 2 && !is_done(&c[k]))
				continue;
			if (launches >= 2)
				check(&c[k]);
			launch(&c[k]);
			launches++;
		}
		say(1 + (unsigned)rand_r(&seed) % 1000);
		f->ops->resize(f->dev);
		usleep((unsigned)rand_r(&seed) % 2000);
		if (i % 4)
			continue;
		f->ops->hold(f->dev);
		stopped += f->ops->stop(f->dev) == DEVICE_REST_STOPPED;
		f->ops->resize(f->dev);
		f->ops->go_on(f->dev);
	}
	cr_assert(stopped > n / 10, "%u", stopped);
	for (unsigned k = 0; k < 2; k++) {
		check(&c[k]);
		end(&c[k]);
	}
}

Test(device_resize, numbers_at_random, .timeout = 300)
{
	with_mode(REWRITE_SHARE, at_random);
	with_mode(REWRITE_ALWAYS, at_random);
}

Test(device_resize, numbers_at_random_within_loops, .timeout = 300)
{
	with_mode(REWRITE_ALWAYS_YIELD, at_random);
}
