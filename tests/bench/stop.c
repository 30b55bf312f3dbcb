/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that are stopped at random moments and go on: how long stopping takes, from asking until
 * the last block has ended, and whether the results are those of kernels that were left alone.
 * Usage:
 *
 *	bench_stop soft|cuda FILE [STOPS]
 *
 * FILE is PTX with the kernels of ../ptx/cu/loops.cu. Prints microseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "device/device.h"
#include "device/rewrite/rewrite.h"

#define MIB      (1ull << 20)
#define BLOCK    128u
#define SHARED   (BLOCK * 4)
#define LEAST_NS (20 * NSEC_PER_MSEC)
#define WARM_UP  12 /* launches: some are timed */

static const struct device_ops *ops;
static struct device *dev;
static struct dev_ctx *ctx;
static struct dev_stream *st;
static unsigned blocks;
static CUdeviceptr memory;
static uint64_t *results;

static void check(CUresult r, const char *what)
{
	if (!r)
		return;
	fprintf(stderr, "%s: error %d\n", what, (int)r);
	exit(1);
}

static size_t bytes(void)
{
	return (size_t)blocks * BLOCK * sizeof(*results);
}

static void open_device(const char *name, enum rewrite_mode mode)
{
	const struct device_config cfg = {.tpcs = 2};
	struct device_info info;
	struct dev_mem *mem;
	uint64_t size;

	ops = device_rewritten(!strcmp(name, "cuda") ? &device_cuda_ops
						     : &device_soft_ops);
	if (device_rewrite(mode) < 0 || ops->open(&cfg, &dev) < 0) {
		fprintf(stderr, "no device\n");
		exit(1);
	}
	ops->info(dev, &info);
	/* Some more than there is ever room for. */
	blocks = strcmp(name, "cuda") != 0 ? 40 : info.n_sms * 37;
	size = ALIGN_UP(bytes(), 2 * MIB);
	check(ops->ctx.create(dev, 0, &ctx), "context");
	check(ops->stream.create(ctx, DEV_STREAM_NON_BLOCKING, 0, &st), "stream");
	check(ops->memory.reserve(dev, size, 0, 0, &memory), "addresses");
	check(ops->memory.create(dev, size, DEV_MEMORY_DEVICE, &mem), "memory");
	check(ops->memory.map(dev, memory, mem), "mapping");
	check(ops->memory.set_access(dev, memory, size,
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
	      "access");
}

static void launch(struct dev_func *fn, unsigned n, struct dev_event *done)
{
	const struct {
		CUdeviceptr p;
		uint32_t n;
	} params = {memory, n};
	const struct dev_launch l = {.func = fn,
				     .grid = {blocks, 1, 1},
				     .block = {BLOCK, 1, 1},
				     .shared_bytes = SHARED,
				     .params = &params,
				     .params_size = 12};

	check(ops->copy.fill(ctx, st, memory, bytes(), 0, 1, bytes(), 1), "fill");
	check(ops->func.launch(ctx, st, &l), "launch");
	check(ops->event.record(ctx, done, st), "record");
}

static uint64_t time_of(struct dev_func *fn, unsigned n, struct dev_event *done)
{
	uint64_t t = clock_now_ns();

	launch(fn, n, done);
	check(ops->event.synchronize(done), "synchronize");
	return clock_now_ns() - t;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

struct kernel {
	const char *name;
	unsigned n; /* rounds, so that it takes a while */
	uint64_t *wanted;
};

/* As the kernel is. */
static void calibrate(struct dev_module *mod, struct kernel *k)
{
	struct dev_event *done;
	struct dev_func *fn;

	check(ops->module.function(mod, k->name, &fn), k->name);
	check(ops->event.create(ctx, 0, &done), "event");
	k->n = 16;
	while (time_of(fn, k->n, done) < LEAST_NS && k->n < 1u << 28)
		k->n *= 2;
	k->wanted = calloc(1, bytes());
	check(ops->copy.read(ctx, st, k->wanted, memory, bytes()), "read");
	ops->event.destroy(done);
}

static unsigned wrong(const struct kernel *k)
{
	check(ops->copy.read(ctx, st, results, memory, bytes()), "read");
	return memcmp(results, k->wanted, bytes()) != 0;
}

static void one(struct dev_module *mod, const struct kernel *k, unsigned stops)
{
	unsigned stopped = 0, grids = 0, bad = 0, asked = 0, seed = 1;
	uint64_t *ns = calloc(stops + 1, sizeof(*ns)), t;
	struct dev_event *done;
	struct dev_func *fn;

	check(ops->module.function(mod, k->name, &fn), k->name);
	check(ops->event.create(ctx, 0, &done), "event");
	for (unsigned i = 0; i < WARM_UP; i++) {
		(void)time_of(fn, k->n, done);
		bad += wrong(k);
	}
	t = time_of(fn, k->n, done);
	launch(fn, k->n, done);
	while (stopped < stops && asked++ < 4 * stops) {
		uint64_t began;
		enum device_rest rest;

		usleep((unsigned)rand_r(&seed) % 4000);
		if (ops->event.query(done) == CUDA_SUCCESS) {
			bad += wrong(k);
			grids++;
			launch(fn, k->n, done);
			continue;
		}
		began = clock_now_ns();
		ops->hold(dev);
		rest = ops->stop(dev);
		if (rest == DEVICE_REST_STOPPED)
			ns[stopped++] = clock_now_ns() - began;
		ops->go_on(dev);
	}
	check(ops->event.synchronize(done), "synchronize");
	bad += wrong(k);
	qsort(ns, stopped, sizeof(*ns), compare);
	printf("%-10s %8.1f ms, %4u stops in %4u grids: %7.0f half, "
	       "%7.0f 99 of 100, %7.0f "
	       "most; %u wrong\n",
	       k->name, (double)t / NSEC_PER_MSEC, stopped, grids + 1,
	       (double)ns[stopped / 2] / 1000, (double)ns[stopped * 99 / 100] / 1000,
	       (double)ns[stopped ? stopped - 1 : 0] / 1000, bad);
	ops->event.destroy(done);
	free(ns);
}

/* Prints what became of each kernel. */
static void print_forms(void)
{
	struct device_form f[DEV_FORMS_MAX];
	unsigned n = ops->forms(dev, f);

	for (unsigned i = 0; i < n; i++)
		printf("%s takes %u per mille of its time%s%s%s%s\n", f[i].name,
		       f[i].cost, *f[i].why ? ": " : "", f[i].why,
		       *f[i].no_yield ? ", a loop " : "", f[i].no_yield);
}

static char *text_of(const char *path, size_t *ret_size)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 4 * MIB);

	if (!f || !text) {
		perror(path);
		exit(1);
	}
	*ret_size = fread(text, 1, 4 * MIB - 1, f) + 1;
	fclose(f);
	return text;
}

int main(int argc, char **argv)
{
	struct kernel kernels[] = {
		{"apart"}, {"kinds"}, {"together"}, {"several"}, {"tree"}};
	/* Modes that may leave a kernel as it is do so on the software GPU, where it is slow in any
	 * other form. */
	static const enum rewrite_mode modes[] = {REWRITE_OFF, REWRITE_ALWAYS_YIELD,
						  REWRITE_YIELD, REWRITE_AUTO,
						  REWRITE_ALWAYS};
	static const char *const names[] = {
		"as they are", "at yield points, one block on each SM",
		"at yield points, as far as that costs little",
		"between blocks, as far as that costs little",
		"between blocks, one block on each SM"};
	unsigned stops = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1000;
	struct dev_jit jit = {.optimization_level = 4};
	struct dev_module *mod;
	size_t size;
	char *text;

	if (argc < 3) {
		fprintf(stderr, "usage: bench_stop soft|cuda FILE [STOPS]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0); /* who reads along sees how far it is */
	text = text_of(argv[2], &size);
	for (unsigned m = 0; m < ARRAY_SIZE(modes); m++) {
		uint64_t began;

		open_device(argv[1], modes[m]);
		results = calloc(1, bytes());
		began = clock_now_ns();
		check(ops->module.load(ctx, text, size, &jit, &mod), "load");
		printf("%s: loaded in %.1f s\n", names[m],
		       (double)(clock_now_ns() - began) / NSEC_PER_SEC);
		for (unsigned i = 0; i < ARRAY_SIZE(kernels); i++) {
			if (m)
				one(mod, &kernels[i], stops);
			else
				calibrate(mod, &kernels[i]);
		}
		if (m)
			print_forms();
		ops->module.unload(mod);
		ops->ctx.destroy(ctx);
		ops->close(dev);
		free(results);
	}
	free(text);
	return 0;
}
