/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills. Addresses are checked when the call is made, so that a wrong one is
 * CUDA_ERROR_INVALID_VALUE as on a GPU, and again when the bytes move, because memory may
 * have been unmapped in between: that loses the context, as a fault of a copy engine
 * does.
 *
 * Bytes move in slices (memory.h). What a caller waits for anyway, and small copies
 * in a stream that has nothing else to do, run in the caller's thread; the rest goes to
 * an engine.
 */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "device/digest.h"
#include "device/soft/soft.h"

/* Copied in one slice: some tens of microseconds. */
#define SLICE_BYTES (256u << 10)

/* Up to here a call that does not wait does the work itself: cheaper than a wake-up. */
#define INLINE_BYTES (64u << 10)

enum copy_kind {
	COPY_IN,
	COPY_OUT,
	COPY_DEV,
	COPY_FILL,
};

struct copy {
	struct soft_op op;
	enum copy_kind kind;
	CUdeviceptr dst, src; /* device addresses, as far as the kind has them */
	char *host;           /* packed rows */
	size_t dst_pitch, src_pitch;
	size_t width, height; /* bytes a row, rows */
	uint32_t value;       /* COPY_FILL */
	unsigned elem_bytes;
	void (*done)(void *);
	void *arg;
};

static char *as_host(uint64_t addr)
{
	return (char *)(uintptr_t)addr;
}

/* Device memory lies where sanitizers that shadow memory expect none. */
#ifdef __SANITIZE_THREAD__
static void move_bytes(char *dst, const char *src, size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
}
#else
static void move_bytes(char *dst, const char *src, size_t n)
{
	memmove(dst, src, n);
}
#endif

__attribute__((no_sanitize("thread"))) static void fill_bytes(char *dst, uint32_t value,
							      unsigned elem_bytes,
							      size_t n)
{
	if (elem_bytes == 1) {
#ifdef __SANITIZE_THREAD__
		__asm__ volatile("rep stosb"
				 : "+D"(dst), "+c"(n)
				 : "a"(value)
				 : "memory");
#else
		memset(dst, (int)value, n);
#endif
	} else if (elem_bytes == 2) {
		for (size_t i = 0; i < n / 2; i++)
			((uint16_t *)(void *)dst)[i] = (uint16_t)value;
	} else {
		for (size_t i = 0; i < n / 4; i++)
			((uint32_t *)(void *)dst)[i] = value;
	}
}

static bool copy_writes(const struct copy *c)
{
	return c->kind != COPY_OUT;
}

static bool copy_reads(const struct copy *c)
{
	return c->kind == COPY_OUT || c->kind == COPY_DEV;
}

/* Whether all rows of one side may be touched. */
static bool side_ok(const struct soft_memory *m, uint64_t addr, size_t pitch,
		    const struct copy *c, bool write)
{
	size_t span;

	if (!c->width || !c->height)
		return true;
	if (c->height == 1 || pitch == c->width) {
		if (__builtin_mul_overflow(c->width, c->height, &span))
			return false;
		return soft_memory_may(m, addr, span, write);
	}
	if (__builtin_mul_overflow(pitch, c->height - 1, &span) ||
	    __builtin_add_overflow(span, c->width, &span) || addr + span < addr)
		return false;
	/* The ends first: a nonsensical span must not cost a walk through its rows. */
	if (!soft_memory_may(m, addr + span - c->width, c->width, write))
		return false;
	for (size_t i = 0; i < c->height; i++) {
		if (!soft_memory_may(m, addr + i * pitch, c->width, write))
			return false;
	}
	return true;
}

static bool copy_ok(const struct soft_memory *m, const struct copy *c)
{
	if (copy_writes(c) && !side_ok(m, c->dst, c->dst_pitch, c, true))
		return false;
	return !copy_reads(c) || side_ok(m, c->src, c->src_pitch, c, false);
}

/* Moves n bytes at off of row. False if the device memory is not there any more. */
static bool copy_piece(struct soft_memory *m, const struct copy *c, size_t row,
		       size_t off, size_t n)
{
	uint64_t dst = c->dst + row * c->dst_pitch + off;
	uint64_t src = c->src + row * c->src_pitch + off;
	char *host = c->host ? c->host + row * c->width + off : NULL;
	bool ok;

	soft_memory_enter(m);
	ok = (!copy_writes(c) || soft_memory_may(m, dst, n, true)) &&
	     (!copy_reads(c) || soft_memory_may(m, src, n, false));
	if (ok) {
		switch (c->kind) {
		case COPY_IN:
			move_bytes(as_host(dst), host, n);
			break;
		case COPY_OUT:
			move_bytes(host, as_host(src), n);
			break;
		case COPY_DEV:
			move_bytes(as_host(dst), as_host(src), n);
			break;
		case COPY_FILL:
			fill_bytes(as_host(dst), c->value, c->elem_bytes, n);
			break;
		}
	}
	soft_memory_leave(m);
	return ok;
}

/* Does the whole copy. On a fault the context is lost. */
static CUresult copy_all(struct dev_ctx *ctx, void *arg)
{
	struct copy *c = arg;
	char text[128];

	for (size_t row = 0; row < c->height; row++) {
		for (size_t off = 0; off < c->width; off += SLICE_BYTES) {
			size_t n = MIN(c->width - off, (size_t)SLICE_BYTES);

			if (copy_piece(&ctx->dev->mem, c, row, off, n))
				continue;
			snprintf(text, sizeof(text),
				 "copy of %zu bytes: device memory at 0x%llx is gone", n,
				 (unsigned long long)(copy_writes(c) ? c->dst : c->src) +
					 off);
			scoped_lock(&ctx->dev->lock);
			soft_ctx_lose_locked(ctx, CUDA_ERROR_ILLEGAL_ADDRESS, text);
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		}
	}
	return CUDA_SUCCESS;
}

/* Rows without gaps are one row: longer slices, fewer checks. Rows of nothing, however
 * many, are none. */
static void copy_flatten(struct copy *c)
{
	size_t span;

	if (!c->width)
		c->height = 0;
	if (c->height <= 1 || (copy_writes(c) && c->dst_pitch != c->width) ||
	    (copy_reads(c) && c->src_pitch != c->width) ||
	    __builtin_mul_overflow(c->width, c->height, &span))
		return;
	c->width = span;
	c->height = 1;
}

static void copy_free(struct soft_op *op)
{
	free(container_of(op, struct copy, op));
}

enum soft_engine_kind soft_copy_engine(const struct soft_op *op)
{
	switch (container_of(op, struct copy, op)->kind) {
	case COPY_IN:
		return SOFT_ENGINE_IN;
	case COPY_OUT:
		return SOFT_ENGINE_OUT;
	case COPY_DEV:
	case COPY_FILL:
		return SOFT_ENGINE_DEV;
	}
	return SOFT_ENGINE_DEV;
}

void soft_copy_run(struct soft_op *op)
{
	struct copy *c = container_of(op, struct copy, op);
	struct dev_ctx *ctx = op->st->ctx;

	if (soft_ctx_status(ctx) == CUDA_SUCCESS)
		copy_all(ctx, c);
	if (c->done)
		c->done(c->arg);
	scoped_lock(&ctx->dev->lock);
	soft_op_finish_locked(op);
}

/* Copies without waiting: here and now if that is quick, else by an engine. */
static CUresult copy_submit(struct dev_ctx *ctx, struct dev_stream *st, struct copy *c)
{
	struct device *dev = ctx->dev;
	bool quick = c->width * c->height <= INLINE_BYTES;
	CUresult res = soft_ctx_status(ctx);
	struct copy *queued;

	if (res)
		return res;
	st = soft_stream_of(ctx, st);
	copy_flatten(c);
	if (!copy_ok(&dev->mem, c))
		return CUDA_ERROR_INVALID_VALUE;
	if (quick) {
		pthread_mutex_lock(&dev->lock);
		quick = soft_stream_idle_locked(st);
		if (quick) {
			c->op = (struct soft_op){.kind = SOFT_OP_CALLER};
			res = soft_op_submit_locked(st, &c->op);
		}
		pthread_mutex_unlock(&dev->lock);
		if (res)
			return res;
	}
	if (quick) { /* the operation has started: nothing was before it */
		res = copy_all(ctx, c);
		if (!res && c->done)
			c->done(c->arg);
		scoped_lock(&dev->lock);
		soft_op_finish_locked(&c->op);
		return res;
	}
	queued = malloc(sizeof(*queued));
	if (!queued)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*queued = *c;
	queued->op = (struct soft_op){.kind = SOFT_OP_COPY, .free = copy_free};
	scoped_lock(&dev->lock);
	res = soft_op_submit_locked(st, &queued->op);
	if (res)
		free(queued);
	return res;
}

static CUresult copy_wait(struct dev_ctx *ctx, struct dev_stream *st, struct copy *c)
{
	CUresult res = soft_ctx_status(ctx);

	if (!res && !copy_ok(&ctx->dev->mem, c))
		res = CUDA_ERROR_INVALID_VALUE;
	return res ? res : soft_run_in_order(ctx, st, copy_all, c);
}

/* ---- device_ops ---- */

static struct copy copy_in(CUdeviceptr dst, size_t pitch, const void *host_buf,
			   size_t width, size_t height)
{
	return (struct copy){.kind = COPY_IN,
			     .dst = dst,
			     .dst_pitch = pitch,
			     .host = (char *)(uintptr_t)host_buf,
			     .width = width,
			     .height = height};
}

CUresult soft_write(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		    const void *host_buf, size_t size)
{
	struct copy c = copy_in(dst, 0, host_buf, size, 1);

	return copy_wait(ctx, st, &c);
}

CUresult soft_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
		   CUdeviceptr src, size_t size)
{
	struct copy c = {.kind = COPY_OUT,
			 .src = src,
			 .host = host_buf,
			 .width = size,
			 .height = 1};

	return copy_wait(ctx, st, &c);
}

CUresult soft_write_rows(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			 size_t pitch, const void *host_buf, size_t width, size_t height)
{
	struct copy c = copy_in(dst, pitch, host_buf, width, height);

	return copy_wait(ctx, st, &c);
}

CUresult soft_read_rows(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			CUdeviceptr src, size_t pitch, size_t width, size_t height)
{
	struct copy c = {.kind = COPY_OUT,
			 .src = src,
			 .src_pitch = pitch,
			 .host = host_buf,
			 .width = width,
			 .height = height};

	return copy_wait(ctx, st, &c);
}

/* Bytes that all streams may have before them. A copy counts as so many: a stream that has
 * SOFT_QUEUE_MAX operations before it keeps who queues another. */
#define TAKEN_MAX   (16u << 20)
#define TAKEN_LEAST (2 * TAKEN_MAX / SOFT_QUEUE_MAX)

struct taken {
	struct device *dev;
	size_t cost;
	char data[];
};

static void taken_done(void *arg)
{
	struct taken *t = arg;

	atomic_fetch_sub(&t->dev->taken, t->cost);
	free(t);
}

CUresult soft_write_taken(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			  size_t pitch, const void *host_buf, size_t width, size_t height)
{
	size_t size = width * height;
	struct taken *t = malloc(sizeof(*t) + size);
	struct copy c;
	CUresult res;

	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	t->dev = ctx->dev;
	t->cost = MAX(size, TAKEN_LEAST);
	memcpy(t->data, host_buf, size);
	c = copy_in(dst, pitch, t->data, width, height);
	c.done = taken_done;
	c.arg = t;
	if (atomic_fetch_add(&t->dev->taken, t->cost) + t->cost > TAKEN_MAX)
		res = CUDA_ERROR_NOT_READY;
	else
		res = copy_submit(ctx, st, &c);
	if (res)
		taken_done(t);
	return res;
}

CUresult soft_copy(struct dev_ctx *ctx, struct dev_stream *st,
		   const struct dev_copy_2d *d)
{
	struct copy c = {.kind = COPY_DEV,
			 .dst = d->dst,
			 .src = d->src,
			 .dst_pitch = d->dst_pitch,
			 .src_pitch = d->src_pitch,
			 .width = d->width,
			 .height = d->height};

	if (d->height > 1 && (d->dst_pitch < d->width || d->src_pitch < d->width))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_submit(ctx, st, &c);
}

CUresult soft_fill(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		   size_t pitch, uint32_t value, unsigned elem_bytes, size_t width,
		   size_t height)
{
	struct copy c = {.kind = COPY_FILL,
			 .dst = dst,
			 .dst_pitch = pitch,
			 .value = value,
			 .elem_bytes = elem_bytes,
			 .height = height};

	if ((elem_bytes != 1 && elem_bytes != 2 && elem_bytes != 4) || dst % elem_bytes ||
	    (height > 1 && pitch % elem_bytes) ||
	    __builtin_mul_overflow(width, (size_t)elem_bytes, &c.width) ||
	    (height > 1 && pitch < c.width))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_submit(ctx, st, &c);
}

/* Returns false if the memory is not there. */
static bool digest_range(struct soft_memory *m, const struct digest_key *key,
			 const struct digest_range *r, struct digest *ret)
{
	bool ok = true;

	*ret = (struct digest){{0, 0}};
	for (uint64_t b = 0; b < r->bytes / DIGEST_BLOCK && ok; b++) {
		uint64_t at = r->addr + b * DIGEST_BLOCK;

		soft_memory_enter(m);
		ok = soft_memory_may(m, at, DIGEST_BLOCK, false);
		if (ok)
			digest_add(key, as_host(at), b, ret);
		soft_memory_leave(m);
	}
	return ok;
}

CUresult soft_digest(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct digest_key *key, const struct digest_range *r,
		     unsigned n, struct digest *ret)
{
	CUresult res = soft_stream_synchronize(ctx, st);

	for (unsigned i = 0; i < n && !res; i++) {
		if (!digest_range(&ctx->dev->mem, key, &r[i], &ret[i]))
			res = CUDA_ERROR_INVALID_VALUE;
	}
	return res;
}
