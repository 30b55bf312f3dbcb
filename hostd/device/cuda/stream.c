/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events are the driver's. A host function must be able to last as long as a
 * guest likes without holding the thread on which the driver runs all callbacks. So it is
 * two operations: a callback that only starts it, and a wait of the stream for a number
 * in pinned memory, which host_func_done() writes.
 *
 * Each such number (slot) only grows: the n-th host function on a slot waits for n, so
 * the slot can be used again before the stream has looked at it.
 */
#include <string.h>

#include "device/cuda/freeze/freeze.h"
#include "device/cuda/mask.h"
#include "device/cuda/memory.h"
#include "device/cuda/output.h"
#include "device/cuda/stream.h"

struct host_op {
	struct list link; /* device.host_ops */
	struct dev_ctx *ctx;
	void (*fn)(void *arg, uint64_t token);
	void *arg;
	uint64_t token;
	unsigned slot;
	bool kept; /* the slot is a graph's */
};

/* ---- host functions ---- */

static int slot_get_locked(struct dev_ctx *ctx)
{
	for (unsigned i = 0; i < CUDA_HOST_SLOTS; i++) {
		unsigned slot = (ctx->next_slot + i) % CUDA_HOST_SLOTS;

		if (ctx->slot_busy[slot])
			continue;
		ctx->slot_busy[slot] = true;
		ctx->next_slot = slot + 1;
		ctx->slot_used[slot]++;
		return (int)slot;
	}
	return -1;
}

/* Lets the stream go on and forgets the operation. */
static void host_op_end_locked(struct host_op *h)
{
	struct dev_ctx *ctx = h->ctx;

	/* Release: what was done before is seen by what the stream does next. */
	__atomic_store_n(&ctx->slots[h->slot], ctx->slot_used[h->slot] + h->kept,
			 __ATOMIC_RELEASE);
	if (!h->kept)
		ctx->slot_busy[h->slot] = false;
	list_remove(&h->link);
	free(h);
}

/*
 * A graph's slot: between launches it holds what was used so far, a function that has run
 * sets the next number, and the graph sets it back.
 */
int cuda_slot_take(struct dev_ctx *ctx)
{
	int slot;

	scoped_lock(&ctx->dev->host_lock);
	slot = slot_get_locked(ctx);
	if (slot >= 0) /* whoever waited for the number before has seen it */
		__atomic_store_n(&ctx->slots[slot], ctx->slot_used[slot],
				 __ATOMIC_RELEASE);
	return slot;
}

void cuda_slot_drop(struct dev_ctx *ctx, int slot)
{
	scoped_lock(&ctx->dev->host_lock);
	ctx->slot_busy[slot] = false;
}

uint32_t cuda_slot_rest(struct dev_ctx *ctx, int slot)
{
	return ctx->slot_used[slot];
}

uint64_t cuda_slot_stands(struct dev_ctx *ctx, int slot)
{
	struct host_op *h = calloc(1, sizeof(*h));

	if (!h) { /* nobody can be told: the graph must go on */
		__atomic_store_n(&ctx->slots[slot], ctx->slot_used[slot] + 1,
				 __ATOMIC_RELEASE);
		return 0;
	}
	*h = (struct host_op){.ctx = ctx, .slot = (unsigned)slot, .kept = true};
	scoped_lock(&ctx->dev->host_lock);
	h->token = ++ctx->dev->last_token;
	list_append(&ctx->dev->host_ops, &h->link);
	return h->token;
}

static void CUDA_CB host_op_run(CUstream st, CUresult status, void *data)
{
	struct host_op *h = data;
	struct device *dev = h->ctx->dev;
	void (*fn)(void *, uint64_t) = h->fn;
	void *arg = h->arg;
	uint64_t token = h->token;

	if (status) { /* the context is lost */
		cuda_note(h->ctx, status);
		pthread_mutex_lock(&dev->host_lock);
		host_op_end_locked(h);
		pthread_mutex_unlock(&dev->host_lock);
		token = 0;
	}
	fn(arg, token); /* h may be gone from here on */
}

CUresult cuda_host_func(struct dev_ctx *ctx, struct dev_stream *st,
			void (*fn)(void *arg, uint64_t token), void *arg)
{
	CUresult res = cuda_enter(ctx);
	struct host_op *h;
	uint32_t number;
	int slot;

	if (res)
		return res;
	h = calloc(1, sizeof(*h));
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*h = (struct host_op){.ctx = ctx, .fn = fn, .arg = arg};
	pthread_mutex_lock(&ctx->dev->host_lock);
	slot = slot_get_locked(ctx);
	if (slot >= 0) {
		h->slot = (unsigned)slot;
		h->token = ++ctx->dev->last_token;
		number = ctx->slot_used[slot];
		list_append(&ctx->dev->host_ops, &h->link);
	}
	pthread_mutex_unlock(&ctx->dev->host_lock);
	if (slot < 0) {
		free(h);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	res = cu.cuStreamAddCallback(cuda_stream_of(st), host_op_run, h, 0);
	if (res) {
		scoped_lock(&ctx->dev->host_lock);
		host_op_end_locked(h);
		return cuda_note(ctx, res);
	}
	/* fn will be called now, whatever comes of this. */
	(void)cuda_note(ctx, cu.cuStreamWaitValue32(cuda_stream_of(st),
						    ctx->slots_addr + 4 * (unsigned)slot,
						    number, CU_STREAM_WAIT_VALUE_GEQ));
	return CUDA_SUCCESS;
}

void cuda_host_func_done(struct device *dev, uint64_t token)
{
	struct host_op *h;

	scoped_lock(&dev->host_lock);
	list_for_each (h, &dev->host_ops, link) {
		if (h->token != token)
			continue;
		host_op_end_locked(h);
		return;
	}
}

void cuda_host_ops_drop(struct dev_ctx *ctx)
{
	struct host_op *h, *tmp;

	scoped_lock(&ctx->dev->host_lock);
	list_for_each_safe (h, tmp, &ctx->dev->host_ops, link) {
		if (h->ctx == ctx)
			host_op_end_locked(h);
	}
}

/* ---- streams ---- */

CUresult cuda_stream_create(struct dev_ctx *ctx, unsigned flags, int priority,
			    struct dev_stream **ret_stream)
{
	CUresult res = cuda_enter(ctx);
	struct dev_stream *st;

	if (res)
		return res;
	if (flags & ~(unsigned)DEV_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	st = calloc(1, sizeof(*st));
	if (!st)
		return CUDA_ERROR_OUT_OF_MEMORY;
	st->ctx = ctx;
	res = cu.cuStreamCreateWithPriority(
		&st->cu, flags ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, priority);
	if (res) {
		free(st);
		return cuda_note(ctx, res);
	}
	scoped_lock(&ctx->dev->lock);
	list_append(&ctx->streams, &st->link);
	*ret_stream = st;
	return CUDA_SUCCESS;
}

CUresult cuda_stream_keep_to(struct dev_ctx *ctx, struct dev_stream *st,
			     const uint64_t tpcs[2])
{
	if (!ctx->dev->tpc_map.n || !cuda_mask_need())
		return CUDA_ERROR_NOT_SUPPORTED;
	memcpy(st->tpcs, tpcs, sizeof(st->tpcs));
	st->kept = true;
	atomic_store(&st->alone, true);
	return CUDA_SUCCESS;
}

struct dev_tpcs cuda_stream_tpcs(const struct dev_stream *st)
{
	const struct device *dev = st->ctx->dev;
	struct dev_tpcs set = {.n = 0};

	if (cuda_mask_get(set.bits)) {
		set.n = atomic_load(&dev->tpcs);
		set.n_in_gpc = atomic_load(&dev->tpcs_in_gpc);
	}
	return dev_tpcs_pick(&dev->tpc_map, &set, st->tpcs);
}

CUresult cuda_stream_set_attribute(struct dev_ctx *ctx, struct dev_stream *st,
				   CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	atomic_store(st ? &st->alone : &ctx->legacy_alone, true);
	return cuda_note(ctx, cu.cuStreamSetAttribute(cuda_stream_of(st), attr, value));
}

bool cuda_mem_op(struct device *dev, const struct dev_mem_op *op,
		 CUstreamBatchMemOpParams *ret_p)
{
	CUstreamBatchMemOpParams p = {.operation = op->op};
	unsigned bytes = 0;

	switch ((int)op->op) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		bytes = op->op == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 4 : 8;
		p.waitValue.flags = op->flags;
		p.waitValue.address = op->addr;
		p.waitValue.value64 = op->value;
		break;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		bytes = op->op == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8;
		p.writeValue.flags = op->flags;
		p.writeValue.address = op->addr;
		p.writeValue.value64 = op->value;
		break;
	case CU_STREAM_MEM_OP_BARRIER:
		p.memoryBarrier.flags = op->flags;
		break;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		p.flushRemoteWrites.flags = op->flags;
		break;
	default:
		return false;
	}
	*ret_p = p;
	return !bytes || (op->addr % bytes == 0 && cuda_may(dev, op->addr, bytes));
}

CUresult cuda_stream_mem_ops(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_mem_op *ops, unsigned n, unsigned flags)
{
	CUstreamBatchMemOpParams p[DEV_MEM_OPS_MAX];
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (n > DEV_MEM_OPS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++) {
		if (!cuda_mem_op(ctx->dev, &ops[i], &p[i]))
			return CUDA_ERROR_INVALID_VALUE;
	}
	cuda_is_other(ctx, st);
	res = cuda_note(ctx, cu.cuStreamBatchMemOp(cuda_stream_of(st), n, p, flags));
	cuda_was_other(ctx, st);
	return res;
}

CUresult cuda_stream_wait_for_kernels(struct dev_ctx *ctx, struct dev_stream *st,
				      CUdeviceptr addr, uint32_t value)
{
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	cuda_is_kernel(ctx, st);
	return cuda_note(ctx, cu.cuStreamWaitValue32(cuda_stream_of(st), addr, value,
						     CU_STREAM_WAIT_VALUE_GEQ));
}

void cuda_stream_destroy(struct dev_stream *st)
{
	struct dev_ctx *ctx = st->ctx;

	if (!cuda_enter(ctx))
		cuda_run_leave(st);
	/* First: cuda_pending() asks those in the list. */
	pthread_mutex_lock(&ctx->dev->lock);
	list_remove(&st->link);
	pthread_mutex_unlock(&ctx->dev->lock);
	if (!cuda_enter(ctx)) {
		cuda_run_drop(&st->run);
		cuda_note(ctx, cu.cuStreamDestroy(st->cu));
	}
	free(st);
}

CUresult cuda_stream_query(struct dev_ctx *ctx, struct dev_stream *st)
{
	CUresult res = cuda_enter(ctx);

	return res ? res : cuda_note(ctx, cu.cuStreamQuery(cuda_stream_of(st)));
}

CUresult cuda_stream_synchronize(struct dev_ctx *ctx, struct dev_stream *st)
{
	CUresult res = cuda_enter(ctx);

	if (!res)
		res = cuda_note(ctx, cu.cuStreamSynchronize(cuda_stream_of(st)));
	cuda_output_look(ctx);
	return res;
}

CUresult cuda_stream_wait_event(struct dev_ctx *ctx, struct dev_stream *st,
				struct dev_event *ev)
{
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	return cuda_note(ctx, cu.cuStreamWaitEvent(cuda_stream_of(st), ev->cu, 0));
}

/* ---- events ---- */

CUresult cuda_event_create(struct dev_ctx *ctx, unsigned flags,
			   struct dev_event **ret_event)
{
	CUresult res = cuda_enter(ctx);
	struct dev_event *ev;

	if (res)
		return res;
	if (flags & CU_EVENT_INTERPROCESS)
		return CUDA_ERROR_NOT_SUPPORTED;
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ev->ctx = ctx;
	res = cu.cuEventCreate(&ev->cu, flags);
	if (res) {
		free(ev);
		return cuda_note(ctx, res);
	}
	scoped_lock(&ctx->dev->lock);
	list_append(&ctx->events, &ev->link);
	*ret_event = ev;
	return CUDA_SUCCESS;
}

void cuda_event_destroy(struct dev_event *ev)
{
	struct dev_ctx *ctx = ev->ctx;

	if (!cuda_enter(ctx))
		cuda_note(ctx, cu.cuEventDestroy(ev->cu));
	scoped_lock(&ctx->dev->lock);
	list_remove(&ev->link);
	free(ev);
}

CUresult cuda_event_record(struct dev_ctx *ctx, struct dev_event *ev,
			   struct dev_stream *st)
{
	CUresult res = cuda_enter(ctx);

	if (!res && ev->ctx != ctx)
		res = CUDA_ERROR_INVALID_HANDLE;
	return res ? res : cuda_note(ctx, cu.cuEventRecord(ev->cu, cuda_stream_of(st)));
}

CUresult cuda_ctx_record_event(struct dev_ctx *ctx, struct dev_event *ev)
{
	CUresult res = cuda_enter(ctx);

	return res ? res : cuda_note(ctx, cu.cuCtxRecordEvent(ctx->cu, ev->cu));
}

CUresult cuda_ctx_wait_event(struct dev_ctx *ctx, struct dev_event *ev)
{
	CUresult res = cuda_enter(ctx);

	return res ? res : cuda_note(ctx, cu.cuCtxWaitEvent(ctx->cu, ev->cu));
}

CUresult cuda_event_query(struct dev_event *ev)
{
	CUresult res = cuda_enter(ev->ctx);

	return res ? res : cuda_note(ev->ctx, cu.cuEventQuery(ev->cu));
}

CUresult cuda_event_synchronize(struct dev_event *ev)
{
	CUresult res = cuda_enter(ev->ctx);

	if (!res)
		res = cuda_note(ev->ctx, cu.cuEventSynchronize(ev->cu));
	cuda_output_look(ev->ctx);
	return res;
}

CUresult cuda_event_elapsed(struct dev_event *start, struct dev_event *end, float *ret_ms)
{
	CUresult res = cuda_enter(start->ctx);

	if (res)
		return res;
	return cuda_note(start->ctx, cu.cuEventElapsedTime(ret_ms, start->cu, end->cu));
}
