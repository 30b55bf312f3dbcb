/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent threads on the software GPU: kernels that stop between blocks and go on, and what the
 * device on the device shows of them. */
#include <stdlib.h>

#include "device/rewrite/cost.h"
#include "ptx/rewrite/persist.h"
#include "rewritten.h"

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

/* work(p): block b of a grid of 20 x 5 x 2 adds 1 to p[b] once, and what its threads have left in
 * shared memory, summed up behind a barrier, to p[200 + b]. */
static const char work[] =
	HEAD ".visible .entry work(.param .u64 p) {\n"
	     ".reg .b32 %r<20>; .reg .b64 %d<4>; .reg .pred %p<3>; .shared .b32 sum;\n"
	     "ld.param.u64 %d1, [p];\n"
	     "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;\n"
	     "mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;\n"
	     "mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;\n"
	     "mul.wide.u32 %d2, %r6, 4; add.u64 %d1, %d1, %d2;\n"
	     "mov.u32 %r7, %tid.x; setp.ne.u32 %p1, %r7, 0; @%p1 bra A;\n"
	     "st.shared.u32 [sum], 0;\n"
	     "A: bar.sync 0;\n"
	     "add.u32 %r8, %r6, %r7; atom.shared.add.u32 %r9, [sum], %r8;\n"
	     "bar.sync 0;\n"
	     "@%p1 ret;\n"
	     "ld.shared.u32 %r10, [sum]; atom.global.add.u32 %r11, [%d1], 1;\n"
	     "atom.global.add.u32 %r12, [%d1+800], %r10; ret; }\n";

#define BLOCKS  200u
#define THREADS 64u
#define STOPS   1000u

static struct dev_module *load(struct fix *f, const char *text, size_t size)
{
	struct dev_jit jit = {.optimization_level = 4};
	struct dev_module *mod;

	OK(f->ops->module.load(f->ctx, text, size, &jit, &mod));
	return mod;
}

static void check(const uint32_t *out, uint32_t times)
{
	for (uint32_t b = 0; b < BLOCKS; b++) {
		uint32_t sum = THREADS * b + THREADS * (THREADS - 1) / 2;

		cr_assert_eq(out[b], times, "block %u: %u", b, out[b]);
		cr_assert_eq(out[BLOCKS + b], times * sum, "block %u", b);
	}
}

/* Stops at random moments: each block is done once, whatever came in between. */
SOFT_TEST(device_persist, kernels_stop_and_go_on)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	uint32_t *out = (void *)(uintptr_t)m.addr;
	struct {
		CUdeviceptr p;
		struct ptx_persist_args args;
	} params = {m.addr, {.grid = {20, 5, 2}, .blocks = BLOCKS}};
	struct dev_launch l = {.block = {THREADS, 1, 1},
			       .params = &params,
			       .params_size = sizeof(params)};
	struct ptx_persist_control *control;
	unsigned grids = 0, stopped = 0, seed = 1;
	struct ptx_persist p;
	struct dev_module *mod;
	CUdeviceptr at;
	size_t size;

	cr_assert_eq(ptx_persist(work, sizeof(work), false, NULL, &p), 0);
	cr_assert(p.n_copies == 1);
	mod = load(f, p.text, p.len + 1);
	ptx_persist_fini(&p);
	OK(f->ops->module.global(mod, PTX_PERSIST_CONTROL, &at, &size));
	params.args.control = at;
	cr_assert_eq(size, PTX_PERSIST_SLOTS * sizeof(*control));
	OK(f->ops->module.function(mod, PTX_PERSIST_NAME "work", &l.func));
	control = (void *)(uintptr_t)params.args.control;
	memset(out, 0, sizeof(*out) * 2 * BLOCKS);
	for (unsigned i = 0; i < STOPS || control->next; i++) {
		l.grid[0] = params.args.launched = 1 + (unsigned)rand_r(&seed) % 7;
		l.grid[1] = l.grid[2] = 1;
		OK(f->ops->func.launch(f->ctx, NULL, &l));
		if (i < STOPS) {
			usleep((unsigned)rand_r(&seed) % 300);
			__atomic_store_n(&control->stop, UINT32_MAX, __ATOMIC_RELAXED);
		}
		OK(f->ops->ctx.synchronize(f->ctx));
		control->stop = 0;
		cr_assert_eq(control->ended, 0);
		stopped += control->next != 0;
		if (control->grids == grids)
			continue;
		grids = control->grids;
		cr_assert_eq(control->next, 0);
		check(out, grids);
	}
	cr_assert(grids > 0 && stopped > 0, "%u grids, stopped in %u", grids, stopped);
	f->ops->module.unload(mod);
	fix_free(f, &m);
}

/* Functions and variables of ours are not to be seen; a program that has such names keeps them. */
static void what_is_seen(struct fix *f)
{
	static const char ours[] = HEAD ".visible .entry weft_pt$x() { ret; }\n";
	struct dev_module *mod = load(f, work, sizeof(work));
	struct dev_func *fn;
	const char *name;
	CUdeviceptr p;
	unsigned n;
	size_t size;

	OK(f->ops->module.function_count(mod, &n));
	cr_assert_eq(n, 1);
	OK(f->ops->module.function_at(mod, 0, &fn, &name));
	cr_assert_str_eq(name, "work");
	cr_assert(f->ops->module.function_at(mod, 1, &fn, &name) != CUDA_SUCCESS);
	FAILS(f->ops->module.function(mod, PTX_PERSIST_NAME "work", &fn),
	      CUDA_ERROR_NOT_FOUND);
	FAILS(f->ops->module.global(mod, PTX_PERSIST_CONTROL, &p, &size),
	      CUDA_ERROR_NOT_FOUND);
	f->ops->module.unload(mod);
	mod = load(f, ours, sizeof(ours));
	OK(f->ops->module.function(mod, "weft_pt$x", &fn));
	f->ops->module.unload(mod);
}

/* Grids larger than the device, in many streams, with and without shared memory to spare. */
static void what_is_done(struct fix *f)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	uint32_t *out = (void *)(uintptr_t)m.addr;
	struct dev_launch l = {.grid = {20, 5, 2},
			       .block = {THREADS, 1, 1},
			       .params = &m.addr,
			       .params_size = sizeof(m.addr)};
	struct dev_module *mod = load(f, work, sizeof(work));
	struct dev_stream *st[4];
	struct device_rewrites n;
	unsigned times = 0;

	OK(f->ops->module.function(mod, "work", &l.func));
	memset(out, 0, sizeof(*out) * 2 * BLOCKS);
	for (unsigned i = 0; i < 4; i++)
		OK(f->ops->stream.create(f->ctx, 0, 0, &st[i]));
	for (unsigned i = 0; i < 100; i++, times++) {
		l.shared_bytes = i % 3 ? 0 : (48 << 10) - 4;
		OK(f->ops->func.launch(f->ctx, i % 5 ? st[i % 4] : NULL, &l));
	}
	OK(f->ops->ctx.synchronize(f->ctx));
	check(out, times);
	f->ops->rewrites(f->dev, &n);
	cr_assert_eq(n.launches, n.copies ? 66 : 0, "those with shared memory to spare");
	for (unsigned i = 0; i < 4; i++)
		f->ops->stream.destroy(st[i]);
	f->ops->module.unload(mod);
	fix_free(f, &m);
}

Test(device_persist, the_device_shows_nothing_of_it)
{
	with_mode(REWRITE_ALWAYS, what_is_seen);
}

Test(device_persist, grids_that_do_not_fit_share)
{
	with_mode(REWRITE_SHARE, what_is_done);
}

/* Images are loaded as they are. */
static void nothing_is_done(struct fix *f)
{
	struct device_rewrites n;

	what_is_done(f);
	f->ops->rewrites(f->dev, &n);
	cr_assert(!n.kernels && !n.copies && !n.launches);
}

Test(device_persist, off_is_off)
{
	with_mode(REWRITE_OFF, nothing_is_done);
	cr_assert_eq(device_rewrite((enum rewrite_mode)7), -EINVAL);
}

/* ---- how many blocks ---- */

static struct device_ops counted;
static unsigned launched;
static uint32_t launched_params;

static CUresult count_blocks(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_launch *l)
{
	launched = l->grid[0];
	launched_params = (uint32_t)l->params_size;
	return device_soft_ops.func.launch(ctx, st, l);
}

/* Launches of work() on a device that counts blocks. */
struct run {
	struct fix *f;
	struct fix_mem m;
	struct dev_module *mod;
	struct dev_launch l;
};

static struct run begin(enum rewrite_mode mode)
{
	struct device_config cfg = {.tpcs = 2};
	struct fix *f = calloc(1, sizeof(*f));
	struct run r = {.f = f,
			.l = {.grid = {20, 5, 2},
			      .block = {THREADS, 1, 1},
			      .shared_bytes = 24 << 10,
			      .params_size = sizeof(CUdeviceptr)}};

	counted = device_soft_ops;
	counted.func.launch = count_blocks;
	counted.func.launch_batch = NULL;
	device_band_release();
	f->ops = device_rewritten(&counted);
	cr_assert_eq(device_rewrite(mode), 0);
	cr_assert_eq(f->ops->open(&cfg, &f->dev), 0);
	f->ops->info(f->dev, &f->info);
	OK(f->ops->ctx.create(f->dev, 0, &f->ctx));
	r.m = fix_alloc(f, 2 * MIB);
	memset((void *)(uintptr_t)r.m.addr, 0, sizeof(uint32_t) * 2 * BLOCKS);
	r.mod = load(f, work, sizeof(work));
	OK(f->ops->module.function(r.mod, "work", &r.l.func));
	return r;
}

/* Launches, and waits. Returns whether that was the copy. */
static bool launch(struct run *r)
{
	struct fix *f = r->f;

	r->l.params = &r->m.addr;
	OK(f->ops->func.launch(f->ctx, NULL, &r->l));
	OK(f->ops->ctx.synchronize(f->ctx));
	return launched_params > r->l.params_size;
}

static uint64_t copies_launched(const struct run *r)
{
	struct device_rewrites n;

	r->f->ops->rewrites(r->f->dev, &n);
	return n.launches;
}

/* Ends it when each block has been done so often. */
static void end(struct run *r, uint32_t times)
{
	struct fix *f = r->f;

	check((void *)(uintptr_t)r->m.addr, times);
	f->ops->module.unload(r->mod);
	fix_free(f, &r->m);
	f->ops->ctx.destroy(f->ctx);
	f->ops->close(f->dev);
	free(f);
}

static _Atomic uint64_t permille;

Test(device_persist, blocks_are_limited)
{
	struct run r = begin(REWRITE_SHARE);
	struct fix *f = r.f;
	struct device_kernel k;
	unsigned all;

	cr_assert(!f->ops->busiest(f->dev, &k), "nothing has run");
	(void)launch(&r);
	all = launched;
	cr_assert(f->ops->busiest(f->dev, &k));
	cr_assert(k.blocks && all == k.blocks * f->info.n_sms);
	for (unsigned i = 0; i < DEV_SM_RESOURCES; i++)
		cr_assert(k.need[i] && k.need[i] * (uint64_t)k.blocks <= DEV_SM_PARTS,
			  "%u: %u of %u", i, k.need[i], k.blocks);
	cr_assert(!k.speed[0] && !k.speed[3], "nobody has timed it");
	cr_assert(!f->ops->busiest(f->dev, &k), "not since then");
	f->ops->limit(f->dev, &permille);
	for (permille = 1; permille <= 1100; permille += 157) {
		unsigned want = all / f->info.n_sms;

		want = permille < 1000 ? MAX(1u, (unsigned)(want * permille / 1000))
				       : want;
		(void)launch(&r);
		cr_assert_eq(launched, want * f->info.n_sms, "%llu: %u",
			     (unsigned long long)permille, launched);
	}
	permille = DEV_BLOCKS_PLAIN;
	cr_assert(!launch(&r), "as it is");
	cr_assert(f->ops->busiest(f->dev, &k) && !k.fixed);
	end(&r, 10);
}

/* Asks for the whole grid, and has no copy. */
static const char other[] =
	HEAD ".visible .entry other() { .reg .b32 %r<2>; mov.b32 %r1, %envreg1; ret; }\n";

/* A kernel with a copy is known for as long as nothing else is launched, however late one looks. */
Test(device_persist, others_are_told_apart)
{
	struct run r = begin(REWRITE_SHARE);
	struct fix *f = r.f;
	struct dev_module *mod = load(f, other, sizeof(other));
	struct dev_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
	struct device_kernel k;

	OK(f->ops->module.function(mod, "other", &l.func));
	(void)launch(&r);
	cr_assert(f->ops->busiest(f->dev, &k) && k.blocks);
	cr_assert(!f->ops->busiest(f->dev, &k));
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	cr_assert(f->ops->busiest(f->dev, &k) && !k.blocks, "only another was launched");
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	(void)launch(&r);
	cr_assert(f->ops->busiest(f->dev, &k) && k.blocks, "the copy has done most");
	cr_assert(!f->ops->busiest(f->dev, &k));
	f->ops->module.unload(mod);
	end(&r, 2);
}

Test(device_persist, a_small_grid_is_known)
{
	struct run r = begin(REWRITE_SHARE);
	struct device_kernel k;

	(void)launch(&r);
	r.l.grid[1] = r.l.grid[2] = 1;
	r.l.grid[0] = 0;
	cr_assert_neq(r.f->ops->func.launch(r.f->ctx, NULL, &r.l), CUDA_SUCCESS);
	cr_assert(r.f->ops->busiest(r.f->dev, &k) && !k.fixed);
	end(&r, 1);
	r = begin(REWRITE_SHARE);
	r.l.grid[1] = r.l.grid[2] = 1;
	r.l.grid[0] = r.f->info.n_sms + 1;
	cr_assert(!launch(&r), "fits at once");
	cr_assert(r.f->ops->busiest(r.f->dev, &k) && k.fixed && k.blocks == 2);
	r.l.grid[0] = BLOCKS;
	memset((void *)(uintptr_t)r.m.addr, 0, sizeof(uint32_t) * 2 * BLOCKS);
	(void)launch(&r);
	end(&r, 1);
}

/* k has one part of its threads vote, by their column. */
static const char of_rows[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".visible .entry k(.param .u64 p) {\n.reg .b32 %r<4>; .reg .pred %p<3>;\n"
	"mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 31; @%p1 bra E;\n"
	"vote.sync.any.pred %p2, %p1, -1;\nE: ret; }\n";

Test(device_persist, copies_for_blocks_of_rows)
{
	static const struct {
		unsigned x, y, z;
		bool copy;
	} blocks[] = {{64, 1, 1, true},  {48, 1, 1, true},  {32, 4, 2, true},
		      {16, 4, 1, false}, {48, 2, 1, false}, {1, 1, 64, false}};
	struct run r = begin(REWRITE_ALWAYS);
	struct fix *f = r.f;
	struct dev_module *mod = load(f, of_rows, sizeof(of_rows));

	OK(f->ops->module.function(mod, "k", &r.l.func));
	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		r.l.block[0] = blocks[i].x;
		r.l.block[1] = blocks[i].y;
		r.l.block[2] = blocks[i].z;
		cr_assert_eq(launch(&r), blocks[i].copy, "%zu", i);
	}
	f->ops->module.unload(mod);
	end(&r, 0);
}

/* The first launches are timed, in turn as the kernel is and as a copy; then one of the two is
 * used, whichever that is here. Results are right all the time. */
Test(device_persist, launches_are_timed)
{
	struct run r = begin(REWRITE_AUTO);
	uint64_t before;

	for (unsigned i = 0; i < 40; i++) {
		bool copy = launch(&r);

		cr_assert(i >= 2 * COST_SAMPLES || copy == !(i % 2), "%u", i);
	}
	before = copies_launched(&r);
	for (unsigned i = 0; i < 10; i++)
		(void)launch(&r);
	cr_assert(copies_launched(&r) == before || copies_launched(&r) == before + 10);
	cr_assert(before == COST_SAMPLES || before == 40 - COST_SAMPLES, "%llu",
		  (unsigned long long)before);
	end(&r, 50);
}

/* Beside others, too, with all blocks, or a slow copy might be used for ever; and again once there
 * are no others. */
Test(device_persist, launches_beside_others_are_timed_again)
{
	struct run r = begin(REWRITE_AUTO);
	unsigned all = 0, n_sms = r.f->info.n_sms;
	uint64_t before, after;

	permille = 500;
	r.f->ops->limit(r.f->dev, &permille);
	for (unsigned i = 0; i < 2 * COST_SAMPLES; i++) {
		cr_assert_eq(launch(&r), !(i % 2), "%u", i);
		if (!(i % 2) && all)
			cr_assert_eq(launched, all);
		all = i % 2 ? all : launched;
	}
	before = copies_launched(&r);
	for (unsigned i = 0; i < 10; i++) {
		bool copy = launch(&r);

		cr_assert(!copy || launched == all / n_sms / 2 * n_sms, "%u of %u",
			  launched, all);
	}
	after = copies_launched(&r);
	cr_assert(after == before || after == before + 10, "no parts are timed");
	permille = 0;
	for (unsigned i = 0; i < 2 * COST_SAMPLES; i++)
		cr_assert_eq(launch(&r), !(i % 2), "%u", i);
	end(&r, 4 * COST_SAMPLES + 10);
}

/* ---- machine code that was compiled of a rewritten text ---- */

static const char machine_code[] =
	"\177ELF\0.nv.constant0.work\0.nv.constant0.weft_pt$work\0"
	".text.weft_pt$work\0.nv.constant0.left_alone\0"
	"weft_pt$work\0weft_pt_control_3";
static char taken;

static CUresult take(struct dev_ctx *ctx, const void *image, size_t size,
		     struct dev_jit *jit, struct dev_module **ret_module)
{
	*ret_module = (struct dev_module *)&taken;
	return CUDA_SUCCESS;
}

static void drop(struct dev_module *mod)
{
	cr_assert_eq((char *)mod, &taken);
}

static void code_is_known_again(enum rewrite_mode mode, uint64_t kernels, uint64_t copies,
				const char *code, size_t size)
{
	struct device_ops under = device_soft_ops;
	struct device_rewrites n;
	struct dev_module *mod;
	struct device *dev;
	struct device_config cfg = {.tpcs = 2};
	const struct device_ops *ops;

	under.module.load = take;
	under.module.unload = drop;
	device_band_release();
	ops = device_rewritten(&under);
	cr_assert_eq(device_rewrite(mode), 0);
	cr_assert_eq(ops->open(&cfg, &dev), 0);
	cr_assert_eq(ops->module.load(NULL, code, size, NULL, &mod), CUDA_SUCCESS);
	ops->rewrites(dev, &n);
	cr_assert(n.kernels == kernels && n.copies == copies, "%llu, %llu",
		  (unsigned long long)n.kernels, (unsigned long long)n.copies);
	cr_assert_eq(n.version, mode == REWRITE_OFF ? 0 : 2 * PTX_PERSIST_VERSION);
	ops->module.unload(mod);
	ops->close(dev);
}

Test(device_persist, compiled_code_has_its_copies)
{
	code_is_known_again(REWRITE_SHARE, 2, 1, machine_code, sizeof(machine_code));
}

/* A program may have kept it: its copies are not shown, and not used. */
Test(device_persist, compiled_code_is_known_where_nothing_is_rewritten)
{
	code_is_known_again(REWRITE_OFF, 2, 1, machine_code, sizeof(machine_code));
}

Test(device_persist, other_versions_of_code_are_not_known)
{
	char other[sizeof(machine_code)];

	memcpy(other, machine_code, sizeof(other));
	other[sizeof(other) - 2] = '0';
	code_is_known_again(REWRITE_SHARE, 0, 0, other, sizeof(other));
}
