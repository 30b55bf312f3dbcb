/* SPDX-License-Identifier: Apache-2.0 */
/* device_ops: launches, placement, preemption, faults, what kernels print and allocate.
 */
#define TEST_REWRITTEN
#include "test.h"
#include "ptx.h"
#include "device/soft/soft.h"

static const char image[] =
	PTX_HEAD PTX_NUMBER PTX_ADD PTX_SPIN PTX_EMPTY PTX_SMID PTX_MEET PTX_DYNAMIC
		PTX_POKE PTX_TRAP PTX_HELLO PTX_HEAP PTX_ASSERT PTX_LOOP PTX_ROUNDS;

static struct dev_module *load_text(struct fix *f, const char *text, size_t size)
{
	char log[4096] = "";
	struct dev_jit jit = {.error_log = log, .error_size = sizeof(log)};
	struct dev_module *mod;
	CUresult r = f->ops->module.load(f->ctx, text, size, &jit, &mod);

	cr_assert(!r, "%s: load: %d: %s", f->ops->name, (int)r, log);
	return mod;
}

static struct dev_module *load(struct fix *f)
{
	return load_text(f, image, sizeof(image));
}

struct args {
	CUdeviceptr p;
	union {
		uint32_t u32;
		uint64_t u64;
	};
};

/* Launches name; the parameters are as many bytes of a as the kernel has. */
static CUresult try_run(struct fix *f, struct dev_module *mod, struct dev_stream *st,
			const char *name, unsigned grid, unsigned block, struct args a,
			unsigned shared, bool cooperative)
{
	struct dev_launch l = {.grid = {grid, 1, 1},
			       .block = {block, 1, 1},
			       .params = &a,
			       .shared_bytes = shared,
			       .cooperative = cooperative};
	CUresult r = f->ops->module.function(mod, name, &l.func);
	struct dev_param p;

	if (r)
		return r;
	for (unsigned i = 0; f->ops->func.param(l.func, i, &p) == CUDA_SUCCESS; i++)
		l.params_size = p.offset + p.size;
	return f->ops->func.launch(f->ctx, st, &l);
}

#define RUN(name, grid, block, ...)                                                      \
	OK(try_run(f, mod, NULL, name, grid, block, (struct args){__VA_ARGS__}, 0, false))
#define RUN_IN(st, name, grid, block, ...)                                               \
	OK(try_run(f, mod, st, name, grid, block, (struct args){__VA_ARGS__}, 0, false))

static uint32_t get32(struct fix *f, struct dev_stream *st, CUdeviceptr at)
{
	uint32_t v = 0xdeadbeef;

	OK(f->ops->copy.read(f->ctx, st, &v, at, sizeof(v)));
	return v;
}

static void put32(struct fix *f, struct dev_stream *st, CUdeviceptr at, uint32_t v)
{
	OK(f->ops->copy.write(f->ctx, st, at, &v, sizeof(v)));
}

/* The context is lost: take a new one. */
static void renew(struct fix *f)
{
	f->ops->ctx.destroy(f->ctx);
	OK(f->ops->ctx.create(f->dev, 0, &f->ctx));
}

DEVICE_TEST(device_kernel, every_thread_runs_once)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 4 * MIB);
	static uint32_t out[1000000];

	RUN("number", 1000, 1000, m.addr, {.u32 = 5});
	OK(f->ops->copy.read(f->ctx, NULL, out, m.addr, sizeof(out)));
	for (uint32_t i = 0; i < ARRAY_SIZE(out); i++)
		cr_assert(out[i] == i + 5, "%u: %u", i, out[i]);
	fix_free(f, &m);
}

DEVICE_TEST(device_kernel, launches_of_a_stream_keep_their_order)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *st;

	OK(f->ops->stream.create(f->ctx, 0, 0, &st));
	for (uint32_t i = 0; i < 3000; i++)
		RUN_IN(st, "number", 2, 33, m.addr, {.u32 = i});
	for (uint32_t i = 0; i < 66; i += 65)
		cr_assert(get32(f, st, m.addr + 4 * i) == 2999 + i);
	f->ops->stream.destroy(st);
	fix_free(f, &m);
}

DEVICE_TEST(device_kernel, atomics_of_all_threads_add_up)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);

	put32(f, NULL, m.addr, 0);
	for (int i = 0; i < 10; i++)
		RUN("add", 64, 256, m.addr, {.u32 = 3});
	cr_assert(get32(f, NULL, m.addr) == 10 * 64 * 256 * 3);
	fix_free(f, &m);
}

DEVICE_TEST(device_kernel, launches_are_checked)
{
	struct dev_module *mod = load(f);
	struct dev_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}}, ok;
	const unsigned bad_grid[][3] = {{0, 1, 1},     {1, 0, 1},
					{1, 1, 0},     {1, 65536, 1},
					{1, 1, 65536}, {0x80000000u, 1, 1}};
	const unsigned bad_block[][3] = {{0, 1, 1},    {1, 0, 1},    {1, 1, 0},
					 {1025, 1, 1}, {1, 1025, 1}, {1, 1, 65},
					 {32, 32, 2}};

	OK(f->ops->module.function(mod, "empty", &l.func));
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	ok = l;
	for (size_t i = 0; i < ARRAY_SIZE(bad_grid); i++) {
		memcpy(l.grid, bad_grid[i], sizeof(l.grid));
		FAILS(f->ops->func.launch(f->ctx, NULL, &l), CUDA_ERROR_INVALID_VALUE);
	}
	l = ok;
	for (size_t i = 0; i < ARRAY_SIZE(bad_block); i++) {
		memcpy(l.block, bad_block[i], sizeof(l.block));
		FAILS(f->ops->func.launch(f->ctx, NULL, &l), CUDA_ERROR_INVALID_VALUE);
	}
	l = ok;
	l.shared_bytes = (48 << 10) + 1;
	FAILS(f->ops->func.launch(f->ctx, NULL, &l), CUDA_ERROR_INVALID_VALUE);
	l.shared_bytes = 48 << 10;
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	OK(f->ops->ctx.synchronize(f->ctx));
}

DEVICE_TEST(device_kernel, parameters_have_the_right_size)
{
	const size_t bad[] = {0, 8, 11, 13, 16, 64};
	struct dev_module *mod = load(f);
	uint64_t params[8] = {0};
	struct dev_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params};

	OK(f->ops->module.function(mod, "number", &l.func));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		l.params_size = bad[i];
		FAILS(f->ops->func.launch(f->ctx, NULL, &l),
		      CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	}
}

DEVICE_TEST(device_kernel, dynamic_shared_memory_up_to_the_limit)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_func *fn;
	uint32_t out[128];
	int v = 0;

	OK(try_run(f, mod, NULL, "dynamic", 1, 128, (struct args){m.addr}, 512, false));
	OK(f->ops->copy.read(f->ctx, NULL, out, m.addr, sizeof(out)));
	for (uint32_t i = 0; i < 128; i++)
		cr_assert(out[i] == 3 * (127 - i));
	OK(f->ops->module.function(mod, "dynamic", &fn));
	OK(f->ops->func.attribute(fn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				  &v));
	cr_assert(v == 48 << 10);
	FAILS(try_run(f, mod, NULL, "dynamic", 1, 128, (struct args){m.addr}, 100 << 10,
		      false),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->func.set_attribute(
		      fn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->func.set_attribute(fn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				      100 << 10));
	OK(try_run(f, mod, NULL, "dynamic", 4, 128, (struct args){m.addr}, 100 << 10,
		   false));
	OK(f->ops->ctx.synchronize(f->ctx));
	fix_free(f, &m);
}

/* A kernel that waits for a copy of another stream: they must run at the same time. */
DEVICE_TEST(device_kernel, a_kernel_and_copies_overlap)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *a, *b;

	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &a));
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &b));
	/* Once before: a driver that loads code at its first use waits for the device. */
	RUN_IN(b, "number", 1, 32, m.addr + 4096, {.u32 = 0});
	put32(f, b, m.addr, 0);
	RUN_IN(a, "spin", 1, 32, m.addr);
	FAILS(f->ops->stream.query(f->ctx, a), CUDA_ERROR_NOT_READY);
	RUN_IN(b, "number", 1, 32, m.addr + 4096, {.u32 = 1}); /* goes by */
	cr_assert(get32(f, b, m.addr + 4096) == 1);
	FAILS(f->ops->stream.query(f->ctx, a), CUDA_ERROR_NOT_READY);
	put32(f, b, m.addr, 1);
	OK(f->ops->stream.synchronize(f->ctx, a));
	f->ops->stream.destroy(a);
	f->ops->stream.destroy(b);
	fix_free(f, &m);
}

/* One that fills every SM and never ends does not starve another (the soft device). */
DEVICE_TEST_CFG(device_kernel, a_full_device_still_takes_others, true, .tpcs = 1)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *a, *b;

	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &a));
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &b));
	RUN_IN(a, "spin", 100, 1024, m.addr);
	for (uint32_t i = 0; i < 20; i++) {
		RUN_IN(b, "number", 8, 32, m.addr + 4096, {.u32 = i});
		cr_assert(get32(f, b, m.addr + 4096 + 255 * 4) == i + 255);
	}
	put32(f, b, m.addr, 1);
	OK(f->ops->stream.synchronize(f->ctx, a));
	f->ops->stream.destroy(a);
	f->ops->stream.destroy(b);
	fix_free(f, &m);
}

DEVICE_TEST_CFG(device_kernel, blocks_are_spread_over_the_sms, false, .tpcs = 4)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	unsigned n = MIN(f->info.n_sms, 256u), seen = 0;
	uint32_t sm[256];
	bool used[1024] = {false};

	if (f->rewritten) /* one block after the other */
		return;
	RUN("smid", n, 1024, m.addr);
	OK(f->ops->copy.read(f->ctx, NULL, sm, m.addr, n * sizeof(sm[0])));
	for (unsigned i = 0; i < n; i++) {
		cr_assert(sm[i] < f->info.n_sms);
		seen += !used[sm[i]];
		used[sm[i]] = true;
	}
	cr_assert(seen > n / 2 && (!f->soft || seen == n), "%u of %u", seen, n);
	fix_free(f, &m);
}

DEVICE_TEST(device_kernel, a_cooperative_grid_meets)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_func *fn;
	int per_sm = 0;
	unsigned blocks;

	OK(f->ops->module.function(mod, "meet", &fn));
	OK(f->ops->func.occupancy(fn, 256, 0, 0, &per_sm));
	cr_assert(per_sm >= 1 && per_sm <= 32);
	blocks = (unsigned)per_sm * f->info.n_sms;
	put32(f, NULL, m.addr, 0);
	OK(try_run(f, mod, NULL, "meet", blocks, 256, (struct args){m.addr}, 0, true));
	cr_assert(get32(f, NULL, m.addr) == blocks);
	FAILS(try_run(f, mod, NULL, "meet", blocks + 1, 256, (struct args){m.addr}, 0,
		      true),
	      CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	OK(f->ops->ctx.status(f->ctx));
	fix_free(f, &m);
}

/* Blocks that wait for each other without saying so, as many as are resident. */
DEVICE_TEST(device_kernel, resident_blocks_take_turns)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);

	if (f->rewritten) /* one block after the other */
		return;
	put32(f, NULL, m.addr, 0);
	RUN("meet", f->info.n_sms * 2, 64, m.addr);
	cr_assert(get32(f, NULL, m.addr) == f->info.n_sms * 2);
	fix_free(f, &m);
}

/* One thread for all blocks, so that nobody else could get them on. */
DEVICE_TEST_CFG(device_kernel, no_thread_sleeps_while_a_block_can_run, true, .threads = 1)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);

	if (f->rewritten) /* one block after the other */
		return;
	for (unsigned blocks = 1; blocks <= 64; blocks *= 4) {
		put32(f, NULL, m.addr, 0);
		RUN("rounds", blocks, 128, m.addr, {.u32 = 50});
		OK(f->ops->ctx.synchronize(f->ctx));
		cr_assert(get32(f, NULL, m.addr) == 50 * blocks);
		cr_expect(f->dev->exec.naps == 0, "%u blocks: %llu naps", blocks,
			  (unsigned long long)f->dev->exec.naps);
	}
	fix_free(f, &m);
}

DEVICE_TEST(device_kernel, a_launch_records_the_events_of_its_attributes)
{
	struct dev_module *mod = load(f);
	struct dev_launch_attr attrs[] = {
		{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		 .value.programmaticStreamSerializationAllowed = 1},
		{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = -2},
		{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT},
		{.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT},
	};
	struct dev_launch l = {.grid = {4, 1, 1},
			       .block = {32, 1, 1},
			       .attrs = attrs,
			       .n_attrs = ARRAY_SIZE(attrs)};
	struct dev_event *ev[2];

	for (unsigned i = 0; i < 2; i++) {
		OK(f->ops->event.create(f->ctx, CU_EVENT_DISABLE_TIMING, &ev[i]));
		attrs[2 + i].event = ev[i];
	}
	OK(f->ops->module.function(mod, "empty", &l.func));
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	OK(f->ops->event.synchronize(ev[0]));
	OK(f->ops->event.synchronize(ev[1]));
	OK(f->ops->ctx.synchronize(f->ctx));
	OK(f->ops->event.query(ev[0]));
	f->ops->event.destroy(ev[0]);
	f->ops->event.destroy(ev[1]);
	f->ops->module.unload(mod);
}

DEVICE_TEST(device_kernel, clusters_are_counted)
{
	struct dev_module *mod = load(f);
	struct dev_launch l = {.grid = {32, 1, 1}, .block = {128, 1, 1}};
	int alone, pairs = 0;

	OK(f->ops->module.function(mod, "empty", &l.func));
	OK(f->ops->func.clusters(l.func, &l, true, &alone));
	cr_expect_eq(alone, 8);
	l.cluster[0] = l.cluster[1] = l.cluster[2] = 1;
	OK(f->ops->func.clusters(l.func, &l, false, &alone));
	l.cluster[0] = 2;
	OK(f->ops->func.clusters(l.func, &l, false, &pairs));
	cr_expect_gt(pairs, 0);
	cr_expect_eq(alone, 2 * pairs);
	l.cluster[0] = 16;
	FAILS(f->ops->func.clusters(l.func, &l, false, &pairs),
	      CUDA_ERROR_INVALID_CLUSTER_SIZE);
	f->ops->module.unload(mod);
}

DEVICE_TEST(device_kernel, blocks_of_a_cluster_run_together)
{
	const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n" PTX_CLUSTER;
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_launch l = {.grid = {24, 1, 1},
			       .block = {64, 1, 1},
			       .params = &m.addr,
			       .params_size = 8,
			       .cluster = {4, 1, 1}};
	struct dev_module *mod;
	uint32_t out[24];

	OK(f->ops->module.load(f->ctx, text, sizeof(text), NULL, &mod));
	OK(f->ops->module.function(mod, "neighbour", &l.func));
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	OK(f->ops->copy.read(f->ctx, NULL, out, m.addr, sizeof(out)));
	for (uint32_t i = 0; i < 24;
	     i++) /* what the next block of the cluster put there */
		cr_assert(out[i] == 100 + (i & ~3u) + ((i + 1) & 3), "%u: %u", i, out[i]);
	l.grid[0] = 25;
	cr_assert(f->ops->func.launch(f->ctx, NULL, &l) != CUDA_SUCCESS);
	l.grid[0] = 32;
	l.cluster[0] = 16; /* more than the portable 8 */
	FAILS(f->ops->func.launch(f->ctx, NULL, &l), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	f->ops->module.unload(mod);
	fix_free(f, &m);
}

/* On one SM that is full, blocks of the more important stream go first. On a busy machine
 * they may come when most of the others have run, but not each time. */
DEVICE_TEST_CFG(device_kernel, priorities_matter, true, .tpcs = 1, .threads = 1)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_event *start, *low_end, *high_end;
	struct dev_stream *low, *high;
	float low_ms = 0, high_ms = 0;

	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &low));
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, -5, &high));
	OK(f->ops->event.create(f->ctx, 0, &start));
	OK(f->ops->event.create(f->ctx, 0, &low_end));
	OK(f->ops->event.create(f->ctx, 0, &high_end));
	for (unsigned i = 0; i < 10 && high_ms >= 0.6f * low_ms; i++) {
		OK(f->ops->event.record(f->ctx, start, low));
		RUN_IN(low, "loop", 400, 256, m.addr, {.u32 = 3000});
		RUN_IN(high, "loop", 100, 256, m.addr, {.u32 = 3000});
		OK(f->ops->event.record(f->ctx, low_end, low));
		OK(f->ops->event.record(f->ctx, high_end, high));
		OK(f->ops->ctx.synchronize(f->ctx));
		OK(f->ops->event.elapsed(start, low_end, &low_ms));
		OK(f->ops->event.elapsed(start, high_end, &high_ms));
	}
	cr_assert(high_ms < 0.6f * low_ms, "%f against %f ms", (double)high_ms,
		  (double)low_ms);
	f->ops->stream.destroy(low);
	f->ops->stream.destroy(high);
	fix_free(f, &m);
}

DEVICE_TEST(device_kernel, events_time_kernels)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_event *start, *end;
	uint64_t memory, busy = f->ops->busy_ns(f->dev, &memory);
	float ms = 0;

	OK(f->ops->event.create(f->ctx, 0, &start));
	OK(f->ops->event.create(f->ctx, 0, &end));
	OK(f->ops->event.record(f->ctx, start, NULL));
	RUN("loop", 1, 32, m.addr, {.u32 = 1000000});
	OK(f->ops->event.record(f->ctx, end, NULL));
	OK(f->ops->event.synchronize(end));
	OK(f->ops->event.elapsed(start, end, &ms));
	cr_assert(ms > 0.5f && ms < 20000, "%f ms", (double)ms);
	if (f->soft)
		cr_assert(f->ops->busy_ns(f->dev, &memory) - busy > 500000);
	f->ops->event.destroy(start);
	f->ops->event.destroy(end);
	fix_free(f, &m);
}

/* ---- faults ---- */

static void expect_fault(struct fix *f, CUresult code)
{
	struct dev_stream *st;
	char text[512], b[4];

	FAILS(f->ops->ctx.synchronize(f->ctx), code);
	FAILS(f->ops->ctx.synchronize(f->ctx), code);
	FAILS(f->ops->ctx.status(f->ctx), code);
	FAILS(f->ops->stream.create(f->ctx, 0, 0, &st), code);
	FAILS(f->ops->copy.write(f->ctx, NULL, DEVICE_BAND_BASE, b, 4), code);
	f->ops->ctx.fault(f->ctx, text, sizeof(text));
	cr_assert(text[0], "no text");
	if (f->soft)
		cr_assert(strstr(text, "kernel "), "%s", text);
}

DEVICE_TEST(device_kernel, a_fault_is_sticky)
{
	struct dev_module *mod = load(f);
	struct block block;

	RUN("poke", 1, 1, DEVICE_BAND_BASE + (6ull << 40));
	expect_fault(f, CUDA_ERROR_ILLEGAL_ADDRESS);
	FAILS(f->ops->stream.host_func(f->ctx, NULL, block_enter, &block),
	      CUDA_ERROR_ILLEGAL_ADDRESS);
	FAILS(try_run(f, mod, NULL, "empty", 1, 1, (struct args){0}, 0, false),
	      CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Host functions and copies queued behind a fault are let go of. */
DEVICE_TEST(device_kernel, what_waits_behind_a_fault_is_released)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct block first, second;
	static char buf[65536];
	struct dev_stream *st;

	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &st));
	block_put(f, st, &first);
	block_wait(&first);
	RUN_IN(st, "poke", 1, 1, 16);
	OK(f->ops->copy.write_taken(f->ctx, st, m.addr, 0, buf, sizeof(buf), 1));
	block_put(f, st, &second);
	block_release(&first);
	FAILS(f->ops->stream.synchronize(f->ctx, st), CUDA_ERROR_ILLEGAL_ADDRESS);
	block_wait(&second);
	cr_assert(second.token == 0, "token %llu", (unsigned long long)second.token);
}

SOFT_TEST(device_kernel, a_wild_store_loses_the_context_only)
{
	struct dev_module *mod = load(f), *mod2;
	struct dev_ctx *other, *mine = f->ctx;
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	const CUdeviceptr bad[] = {0,
				   64,
				   0x7fff00000000ull,
				   m.addr + m.size,
				   DEVICE_BAND_BASE + DEVICE_BAND_SIZE,
				   ~3ull,
				   (CUdeviceptr)(uintptr_t)&m};

	OK(f->ops->ctx.create(f->dev, 0, &other));
	f->ctx = other;
	mod2 = load(f);
	f->ctx = mine;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		RUN("poke", 4, 64, bad[i]);
		expect_fault(f, CUDA_ERROR_ILLEGAL_ADDRESS);
		FAILS(try_run(f, mod, NULL, "empty", 1, 1, (struct args){0}, 0, false),
		      CUDA_ERROR_ILLEGAL_ADDRESS);
		f->ctx = other;
		OK(try_run(f, mod2, NULL, "number", 1, 32, (struct args){m.addr}, 0,
			   false));
		OK(f->ops->ctx.synchronize(f->ctx));
		f->ctx = mine;
		renew(f);
		mine = f->ctx;
		mod = load(f);
	}
	f->ops->ctx.destroy(other);
	fix_free(f, &m);
}

SOFT_TEST(device_kernel, each_fault_has_its_code)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);

	RUN("poke", 1, 1, m.addr + 2);
	expect_fault(f, CUDA_ERROR_MISALIGNED_ADDRESS);
	renew(f);
	mod = load(f);
	RUN("fall", 1, 1);
	expect_fault(f, CUDA_ERROR_LAUNCH_FAILED);
	renew(f);
	mod = load(f);
	RUN("check", 1, 1, 1);
	OK(f->ops->ctx.synchronize(f->ctx));
	RUN("check", 1, 2, 0);
	expect_fault(f, CUDA_ERROR_ASSERT);
	cr_assert(strstr(f->output, "a.cu:12: check: block: [0,0,0], thread: [0,0,0] "
				    "Assertion `v == 1` failed."),
		  "%s", f->output);
	fix_free(f, &m);
}

/* Work queued behind a fault finishes without being done; waiters are released. */
SOFT_TEST(device_kernel, a_fault_lets_go_of_everything)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *a, *b;
	struct dev_event *ev;
	static char buf[65536];
	struct block block;

	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &a));
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &b));
	OK(f->ops->event.create(f->ctx, 0, &ev));
	RUN_IN(a, "spin", 16, 256, m.addr);
	OK(f->ops->copy.write_taken(f->ctx, a, m.addr, 0, buf, sizeof(buf), 1));
	block_put(f, a, &block);
	OK(f->ops->event.record(f->ctx, ev, a));
	RUN_IN(a, "number", 1, 1, m.addr);
	RUN_IN(b, "poke", 1, 1, 0);
	FAILS(f->ops->stream.synchronize(f->ctx, a), CUDA_ERROR_ILLEGAL_ADDRESS);
	FAILS(f->ops->event.synchronize(ev), CUDA_ERROR_ILLEGAL_ADDRESS);
	block_wait(&block);
	cr_assert(block.token == 0);
	f->ops->ctx.destroy(f->ctx);
	OK(f->ops->ctx.create(f->dev, 0, &f->ctx));
	fix_free(f, &m);
}

/* Memory that goes away under a running kernel is a fault of the kernel. */
SOFT_TEST(device_kernel, unmapping_under_a_kernel_is_its_fault)
{
	struct dev_module *mod = load(f);

	for (int i = 0; i < 20; i++) {
		struct fix_mem m = fix_alloc(f, 2 * MIB);

		RUN("spin", 16, 64, m.addr);
		usleep(i * 200);
		fix_free(f, &m);
		expect_fault(f, CUDA_ERROR_ILLEGAL_ADDRESS);
		renew(f);
		mod = load(f);
	}
}

SOFT_TEST(device_kernel, closing_ends_an_endless_kernel)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);

	RUN("spin", 1000, 64, m.addr);
	f->ctx = NULL; /* close() finds it */
}

/* ---- printf, malloc ---- */

DEVICE_TEST(device_kernel, printed_text_comes_at_the_next_wait)
{
	struct dev_module *mod = load(f);
	struct args a = {.p = 7};
	char want[256] = "";

	OK(try_run(f, mod, NULL, "hello", 1, 4, a, 0, false));
	OK(f->ops->ctx.synchronize(f->ctx));
	for (int i = 0; i < 4; i++)
		strcat(want, "hello 7\n");
	cr_assert(!strcmp(f->output, want), "'%s'", f->output);
}

/* ---- waits that the device tells others of ---- */

static _Atomic uint64_t told;

/* Code that cannot print. */
static struct dev_module *load_quiet(struct fix *f)
{
	static const char quiet[] = PTX_HEAD PTX_NUMBER;

	return load_text(f, quiet, sizeof(quiet));
}

DEVICE_TEST(device_kernel, a_word_says_when_work_is_done)
{
	struct dev_module *mod = load_quiet(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *streams[2] = {NULL};

	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &streams[1]));
	for (uint64_t i = 1; i <= 20; i++) {
		struct args a = {.p = m.addr, .u32 = (uint32_t)i};
		struct dev_stream *st = streams[i % 2];
		uint32_t got = 0;
		CUresult r;

		OK(try_run(f, mod, st, "number", 1, 1, a, 0, false));
		r = f->ops->stream.synchronize_to(f->ctx, st, &told, i);
		if (r == CUDA_ERROR_NOT_SUPPORTED && !f->soft)
			break;
		OK(r);
		cr_assert_eq(told, i);
		OK(f->ops->copy.read(f->ctx, st, &got, m.addr, sizeof(got)));
		cr_assert_eq(got, i);
	}
	f->ops->stream.destroy(streams[1]);
	fix_free(f, &m);
}

DEVICE_TEST(device_kernel, no_word_says_that_work_has_failed)
{
	struct dev_module *mod = load_quiet(f);
	CUresult r;

	told = 0;
	OK(try_run(f, mod, NULL, "number", 1, 1, (struct args){.p = 8}, 0, false));
	r = f->ops->stream.synchronize_to(f->ctx, NULL, &told, 1);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		r = f->ops->stream.synchronize(f->ctx, NULL);
	FAILS(r, CUDA_ERROR_ILLEGAL_ADDRESS);
	cr_assert_eq(told, 0);
}

DEVICE_TEST(device_kernel, text_goes_ahead_of_the_word)
{
	struct dev_module *mod = load(f);

	told = 0;
	OK(try_run(f, mod, NULL, "hello", 1, 1, (struct args){.p = 7}, 0, false));
	FAILS(f->ops->stream.synchronize_to(f->ctx, NULL, &told, 1),
	      CUDA_ERROR_NOT_SUPPORTED);
	cr_assert_eq(told, 0);
	OK(f->ops->stream.synchronize(f->ctx, NULL));
	cr_assert(!strcmp(f->output, "hello 7\n"), "'%s'", f->output);
}

SOFT_TEST(device_kernel, a_full_printf_buffer_keeps_the_newest)
{
	struct dev_module *mod = load(f);

	OK(f->ops->ctx.set_limit(f->ctx, CU_LIMIT_PRINTF_FIFO_SIZE, 4096));
	RUN("hello", 64, 32, 1);
	RUN("hello", 1, 1, 2);
	OK(f->ops->ctx.synchronize(f->ctx));
	cr_assert(f->output_size > 100 && f->output_size < 8192);
	cr_assert(!strcmp(f->output + f->output_size - 16, "hello 1\nhello 2\n"));
}

DEVICE_TEST(device_kernel, device_malloc_gives_room_of_its_own)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	static uint64_t p[1024];
	unsigned got = 0;

	for (int round = 0; round < 3; round++) {
		RUN("heap", 8, 128, m.addr, {.u64 = 40});
		OK(f->ops->copy.read(f->ctx, NULL, p, m.addr, sizeof(p)));
		for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
			cr_assert(p[i] && !(p[i] & 15));
			for (size_t j = 0; j < i; j++)
				cr_assert(p[j] + 40 <= p[i] || p[i] + 40 <= p[j]);
		}
		RUN("unheap", 8, 128, m.addr);
		OK(f->ops->ctx.synchronize(f->ctx));
	}
	RUN("heap", 1, 32, m.addr, {.u64 = 1 << 20}); /* 8 MiB are not 32 */
	OK(f->ops->copy.read(f->ctx, NULL, p, m.addr, 32 * sizeof(p[0])));
	for (int i = 0; i < 32; i++)
		got += p[i] != 0;
	cr_assert(got >= 4 && got <= 16, "%u", got);
	RUN("unheap", 1, 32, m.addr);
	OK(f->ops->ctx.synchronize(f->ctx));
	fix_free(f, &m);
}

SOFT_TEST(device_kernel, a_bad_device_free_is_a_fault)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	uint64_t p = 0x1230;

	OK(f->ops->copy.write(f->ctx, NULL, m.addr, &p, sizeof(p)));
	RUN("unheap", 1, 1, m.addr);
	cr_assert(f->ops->ctx.synchronize(f->ctx) != CUDA_SUCCESS);
	fix_free(f, &m);
}

/* ---- several of everything ---- */

struct worker {
	struct fix *f;
	struct dev_module *mod;
	struct fix_mem *m;
	unsigned number;
	bool ok;
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct fix *f = w->f;
	struct dev_module *mod = w->mod;
	CUdeviceptr at = w->m->addr + w->number * 65536;
	struct dev_stream *st;

	OK(f->ops->stream.create(f->ctx, w->number & 1, -(int)w->number, &st));
	w->ok = true;
	for (uint32_t i = 0; i < 200; i++) {
		RUN_IN(st, "number", 3, 100, at, {.u32 = i});
		RUN_IN(st, "add", 2, 50, at + 40, {.u32 = 1});
		w->ok &= get32(f, st, at + 40) == i + 10 + 100;
	}
	f->ops->stream.destroy(st);
	return NULL;
}

DEVICE_TEST_CFG(device_kernel, many_streams_at_once, false, .tpcs = 2, .threads = 3)
{
	struct dev_module *mod = load(f);
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct worker w[8];
	pthread_t t[8];

	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct worker){f, mod, &m, i, false};
		pthread_create(&t[i], NULL, worker_main, &w[i]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		pthread_join(t[i], NULL);
		cr_assert(w[i].ok);
	}
	fix_free(f, &m);
}

#define IDLE_WINDOWS 10

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

SOFT_TEST(device_kernel, an_idle_device_uses_no_cpu)
{
	struct dev_module *mod = load(f);
	uint64_t took = UINT64_MAX;

	RUN("empty", 1, 1);
	OK(f->ops->ctx.synchronize(f->ctx));
	/* A thread may still be on its way to sleep; what polls has no such window. */
	for (unsigned i = 0; i < IDLE_WINDOWS && took >= 3 * NSEC_PER_MSEC; i++) {
		uint64_t before;

		usleep(20000);
		before = cpu_ns();
		usleep(300000);
		took = cpu_ns() - before;
	}
	cr_assert_lt(took, 3 * NSEC_PER_MSEC);
}
