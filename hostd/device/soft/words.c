/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for words of memory, and writing them, in the order of a stream. Who else
 * writes such a word (a kernel, another stream, the guest's processor) tells nobody, so
 * one engine looks at all words that are waited for, again and again.
 *
 * Addresses are checked as those of copies are: when the call is made, and when the word
 * is touched.
 */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "device/soft/soft.h"

struct words {
	struct soft_op op;
	unsigned n, next;
	struct dev_mem_op ops[];
};

enum step {
	STEP_DONE,
	STEP_WAIT,
	STEP_FAULT,
};

static bool is_wait(const struct dev_mem_op *o)
{
	return o->op == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
	       o->op == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static bool is_write(const struct dev_mem_op *o)
{
	return o->op == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
	       o->op == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static unsigned word_bytes(const struct dev_mem_op *o)
{
	return o->op == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
			       o->op == CU_STREAM_MEM_OP_WRITE_VALUE_64
		       ? 8
		       : 4;
}

static bool flags_ok(const struct dev_mem_op *o)
{
	if (is_wait(o))
		return o->flags <= CU_STREAM_WAIT_VALUE_NOR;
	if (is_write(o))
		return !(o->flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
	return o->op == CU_STREAM_MEM_OP_BARRIER &&
	       o->flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
}

static bool word_ok(const struct soft_memory *m, const struct dev_mem_op *o)
{
	unsigned bytes = word_bytes(o);

	if (!is_wait(o) && !is_write(o))
		return true;
	return o->addr % bytes == 0 && soft_memory_may(m, o->addr, bytes, is_write(o));
}

static bool reached(const struct dev_mem_op *o, uint64_t v)
{
	bool wide = word_bytes(o) == 8;
	uint64_t want = wide ? o->value : (uint32_t)o->value;

	switch (o->flags) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return wide ? (int64_t)(v - want) >= 0
			    : (int32_t)((uint32_t)v - (uint32_t)want) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return v == want;
	case CU_STREAM_WAIT_VALUE_AND:
		return v & want;
	case CU_STREAM_WAIT_VALUE_NOR:
		return (wide ? ~(v | want) : (uint32_t) ~(v | want)) != 0;
	}
	return true;
}

/*
 * Device memory lies where sanitizers that shadow memory expect none. Acquire and release
 * pair with whatever the other side does: kernels' fences, the guest's processor.
 */
__attribute__((no_sanitize("thread"))) static uint64_t load(uint64_t addr, unsigned bytes)
{
	if (bytes == 8)
		return __atomic_load_n((uint64_t *)(uintptr_t)addr, __ATOMIC_ACQUIRE);
	return __atomic_load_n((uint32_t *)(uintptr_t)addr, __ATOMIC_ACQUIRE);
}

__attribute__((no_sanitize("thread"))) static void store(uint64_t addr, unsigned bytes,
							 uint64_t v)
{
	if (bytes == 8)
		__atomic_store_n((uint64_t *)(uintptr_t)addr, v, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)(uintptr_t)addr, (uint32_t)v,
				 __ATOMIC_RELEASE);
}

static enum step step(struct soft_memory *m, const struct dev_mem_op *o)
{
	if (!word_ok(m, o))
		return STEP_FAULT;
	if (is_write(o))
		store(o->addr, word_bytes(o), o->value);
	else if (is_wait(o) && !reached(o, load(o->addr, word_bytes(o))))
		return STEP_WAIT;
	return STEP_DONE;
}

bool soft_words_run(struct soft_op *op)
{
	struct words *w = container_of(op, struct words, op);
	struct dev_ctx *ctx = op->st->ctx;
	struct soft_memory *m = &ctx->dev->mem;
	bool lost = soft_ctx_status(ctx) != CUDA_SUCCESS;
	enum step s = STEP_DONE;
	char fault[64];

	soft_memory_enter(m);
	while (!lost && w->next < w->n && s == STEP_DONE) {
		s = step(m, &w->ops[w->next]);
		w->next += s == STEP_DONE;
	}
	soft_memory_leave(m);
	if (s == STEP_WAIT)
		return false;
	scoped_lock(&ctx->dev->lock);
	if (s == STEP_FAULT) {
		snprintf(fault, sizeof(fault), "word at 0x%llx",
			 (unsigned long long)w->ops[w->next].addr);
		soft_ctx_lose_locked(ctx, CUDA_ERROR_ILLEGAL_ADDRESS, fault);
	}
	soft_op_finish_locked(op);
	return true;
}

bool soft_words_wait(const struct soft_op *op)
{
	const struct dev_mem_op *o = container_of(op, struct words, op)->ops;

	return !reached(o, load(o->addr, word_bytes(o)));
}

static void words_free(struct soft_op *op)
{
	free(container_of(op, struct words, op));
}

static CUresult check(struct soft_memory *m, const struct dev_mem_op *ops, unsigned n)
{
	CUresult res = CUDA_SUCCESS;

	soft_memory_enter(m);
	for (unsigned i = 0; i < n && !res; i++) {
		if (ops[i].op == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
			res = CUDA_ERROR_NOT_SUPPORTED; /* attr.c says so */
		else if (!flags_ok(&ops[i]) || !word_ok(m, &ops[i]))
			res = CUDA_ERROR_INVALID_VALUE;
	}
	soft_memory_leave(m);
	return res;
}

static CUresult submit(struct dev_ctx *ctx, struct dev_stream *st,
		       const struct dev_mem_op *ops, unsigned n, bool for_kernels)
{
	CUresult res = soft_ctx_status(ctx);
	struct words *w;

	if (res)
		return res;
	res = check(&ctx->dev->mem, ops, n);
	if (res || !n)
		return res;
	w = calloc(1, sizeof(*w) + n * sizeof(*ops));
	if (!w)
		return CUDA_ERROR_OUT_OF_MEMORY;
	w->op.kind = SOFT_OP_WORDS;
	w->op.for_kernels = for_kernels;
	w->op.free = words_free;
	w->n = n;
	memcpy(w->ops, ops, n * sizeof(*ops));
	scoped_lock(&ctx->dev->lock);
	res = soft_op_submit_locked(soft_stream_of(ctx, st), &w->op);
	if (res)
		free(w);
	return res;
}

CUresult soft_stream_mem_ops(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_mem_op *ops, unsigned n, unsigned flags)
{
	if (n > DEV_MEM_OPS_MAX || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return submit(ctx, st, ops, n, false);
}

CUresult soft_stream_wait_for_kernels(struct dev_ctx *ctx, struct dev_stream *st,
				      CUdeviceptr addr, uint32_t value)
{
	const struct dev_mem_op wait = {.op = CU_STREAM_MEM_OP_WAIT_VALUE_32,
					.flags = CU_STREAM_WAIT_VALUE_GEQ,
					.addr = addr,
					.value = value};

	return submit(ctx, st, &wait, 1, true);
}
