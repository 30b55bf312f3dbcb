/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of struct device_ops, tested on every device that this machine has: a test
 * written with DEVICE_TEST() runs on soft, and on cuda where a driver and a GPU are; where
 * TEST_REWRITTEN is defined, also on soft with kernels as persistent threads.
 */
#ifndef WEFT_TEST_DEVICE_H
#define WEFT_TEST_DEVICE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "device/device.h"
#include "device/rewrite/rewrite.h"
#include "band.h"

#define MIB (1ull << 20)

struct fix {
	const struct device_ops *ops;
	struct device *dev;
	struct device_info info;
	struct dev_ctx *ctx;
	bool soft, rewritten;
	pthread_mutex_t lock;
	char output[1 << 16]; /* what kernels printed */
	size_t output_size;
};

/* Memory made of one allocation. */
struct fix_mem {
	CUdeviceptr addr;
	uint64_t size;
	struct dev_mem *mem;
};

#define OK(call)                                                                         \
	do {                                                                             \
		CUresult _r = (call);                                                    \
		cr_assert(_r == CUDA_SUCCESS, "%s: %s: error %d", f->ops->name, #call,   \
			  (int)_r);                                                      \
	} while (0)

#define FAILS(call, code)                                                                \
	do {                                                                             \
		CUresult _r = (call);                                                    \
		cr_assert(_r == (code), "%s: %s: %d, not %d", f->ops->name, #call,       \
			  (int)_r, (int)(code));                                         \
	} while (0)

static inline void fix_output(void *arg, const char *text, size_t size)
{
	struct fix *f = arg;

	pthread_mutex_lock(&f->lock);
	size = MIN(size, sizeof(f->output) - 1 - f->output_size);
	memcpy(f->output + f->output_size, text, size);
	f->output_size += size;
	f->output[f->output_size] = 0;
	pthread_mutex_unlock(&f->lock);
}

static inline struct fix_mem fix_alloc(struct fix *f, uint64_t bytes)
{
	struct fix_mem m = {.size = ALIGN_UP(bytes, f->info.granularity)};

	OK(f->ops->memory.reserve(f->dev, m.size, 0, 0, &m.addr));
	OK(f->ops->memory.create(f->dev, m.size, DEV_MEMORY_DEVICE, &m.mem));
	OK(f->ops->memory.map(f->dev, m.addr, m.mem));
	OK(f->ops->memory.set_access(f->dev, m.addr, m.size,
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	return m;
}

static inline void fix_free(struct fix *f, struct fix_mem *m)
{
	OK(f->ops->memory.unmap(f->dev, m->addr, m->size));
	f->ops->memory.release(f->dev, m->mem);
	OK(f->ops->memory.unreserve(f->dev, m->addr, m->size));
}

/* Runs body on every device that can be opened; false if there was none. */
static inline void fix_run(void (*body)(struct fix *f), struct device_config cfg,
			   bool soft_only)
{
#ifdef TEST_REWRITTEN
	const struct device_ops *all[] = {
		&device_soft_ops, device_rewritten(&device_soft_ops), &device_cuda_ops};
#else
	const struct device_ops *all[] = {&device_soft_ops, &device_cuda_ops};
#endif

	device_cuda_nests = true;
	device_band_release();
	for (size_t i = 0; i < ARRAY_SIZE(all) - soft_only; i++) {
		struct fix *f = calloc(1, sizeof(*f));
		int r;

		f->ops = all[i];
		f->soft = i < ARRAY_SIZE(all) - 1;
		f->rewritten = f->soft && i;
		device_rewrite(f->rewritten ? REWRITE_ALWAYS : REWRITE_OFF);
		pthread_mutex_init(&f->lock, NULL);
		cfg.output = fix_output;
		cfg.output_arg = f;
		r = f->ops->open(&cfg, &f->dev);
		if (r == -ENODEV && !f->soft) {
			fprintf(stderr, "cuda: no driver or no GPU here, skipped\n");
			free(f);
			continue;
		}
		cr_assert(r == 0, "%s: open: %d", f->ops->name, r);
		f->ops->info(f->dev, &f->info);
		OK(f->ops->ctx.create(f->dev, 0, &f->ctx));
		body(f);
		if (f->ctx)
			f->ops->ctx.destroy(f->ctx);
		f->ops->close(f->dev);
		free(f);
	}
}

#define DEVICE_TEST_CFG(suite, name, soft_only, ...)                                     \
	static void suite##_##name(struct fix *f);                                       \
	Test(suite, name)                                                                \
	{                                                                                \
		fix_run(suite##_##name, (struct device_config){__VA_ARGS__}, soft_only); \
	}                                                                                \
	static void suite##_##name(struct fix *f)

#define DEVICE_TEST(suite, name) DEVICE_TEST_CFG(suite, name, false, .tpcs = 0)
#define SOFT_TEST(suite, name)   DEVICE_TEST_CFG(suite, name, true, .tpcs = 0)

/* A host function that keeps its stream waiting until block_release(). */
struct block {
	struct fix *f;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool entered;
	uint64_t token;
};

static inline void block_enter(void *arg, uint64_t token)
{
	struct block *b = arg;

	pthread_mutex_lock(&b->lock);
	b->token = token;
	b->entered = true;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

static inline void block_put(struct fix *f, struct dev_stream *st, struct block *b)
{
	*b = (struct block){.f = f};
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->cond, NULL);
	OK(f->ops->stream.host_func(f->ctx, st, block_enter, b));
}

/* Waits until the stream has reached it. */
static inline void block_wait(struct block *b)
{
	pthread_mutex_lock(&b->lock);
	while (!b->entered)
		pthread_cond_wait(&b->cond, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

static inline void block_release(struct block *b)
{
	block_wait(b);
	b->f->ops->stream.host_func_done(b->f->dev, b->token);
}

#endif
