/* SPDX-License-Identifier: Apache-2.0 */
/* device_ops: words of memory in stream order; events of whole contexts. */
#include "test.h"

static struct dev_stream *stream_new(struct fix *f)
{
	struct dev_stream *st;

	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &st));
	return st;
}

static CUresult put(struct fix *f, struct dev_stream *st, CUstreamBatchMemOpType op,
		    CUdeviceptr addr, uint64_t value, unsigned flags)
{
	const struct dev_mem_op o = {op, flags, addr, value};

	return f->ops->stream.mem_ops(f->ctx, st, &o, 1, 0);
}

static uint64_t word(struct fix *f, CUdeviceptr addr)
{
	struct dev_stream *st = stream_new(f); /* waits for nobody */
	uint64_t v = 0;

	OK(f->ops->copy.read(f->ctx, st, &v, addr, sizeof(v)));
	f->ops->stream.destroy(st);
	return v;
}

static void set_word(struct fix *f, CUdeviceptr addr, uint64_t v)
{
	struct dev_stream *st = stream_new(f);

	OK(f->ops->copy.write(f->ctx, st, addr, &v, sizeof(v)));
	f->ops->stream.destroy(st);
}

DEVICE_TEST(device_words, a_stream_waits_for_what_another_writes)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *a = stream_new(f), *b = stream_new(f);

	set_word(f, m.addr, 0);
	set_word(f, m.addr + 8, 0);
	OK(put(f, b, CU_STREAM_MEM_OP_WAIT_VALUE_32, m.addr, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(put(f, b, CU_STREAM_MEM_OP_WRITE_VALUE_64, m.addr + 8, 1ull << 40, 0));
	FAILS(f->ops->stream.query(f->ctx, b), CUDA_ERROR_NOT_READY);
	cr_assert_eq(word(f, m.addr + 8), 0);
	OK(put(f, a, CU_STREAM_MEM_OP_WRITE_VALUE_32, m.addr, 7, 0));
	OK(f->ops->stream.synchronize(f->ctx, b));
	cr_assert_eq(word(f, m.addr), 7);
	cr_assert_eq(word(f, m.addr + 8), 1ull << 40);
	f->ops->stream.destroy(a);
	f->ops->stream.destroy(b);
	fix_free(f, &m);
}

/* More waits than anything has threads, in the order that helps least. */
DEVICE_TEST(device_words, many_streams_wait_for_one_another)
{
	/* A real GPU has 8 queues for all streams (CUDA_DEVICE_MAX_CONNECTIONS): those
	 * that share one wait for each other besides. */
	const unsigned n = f->soft ? 24 : 6;
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *st[24];

	for (unsigned i = 0; i <= n; i++)
		set_word(f, m.addr + 8 * i, 0);
	for (unsigned i = 0; i < n; i++) {
		const struct dev_mem_op ops[] = {
			{CU_STREAM_MEM_OP_WAIT_VALUE_64, CU_STREAM_WAIT_VALUE_GEQ,
			 m.addr + 8 * (i + 1), 1},
			{CU_STREAM_MEM_OP_WRITE_VALUE_64, 0, m.addr + 8 * i, 1},
		};

		st[i] = stream_new(f);
		OK(f->ops->stream.mem_ops(f->ctx, st[i], ops, 2, 0));
	}
	cr_assert_eq(word(f, m.addr), 0);
	set_word(f, m.addr + 8 * n, 1);
	OK(f->ops->stream.synchronize(f->ctx, st[0]));
	cr_assert_eq(word(f, m.addr), 1);
	for (unsigned i = 0; i < n; i++)
		f->ops->stream.destroy(st[i]);
	fix_free(f, &m);
}

DEVICE_TEST(device_words, a_wait_ends_when_its_condition_holds)
{
	static const struct {
		CUstreamBatchMemOpType op;
		unsigned flags;
		uint64_t value, no, yes;
	} t[] = {
		{CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6},
		/* cyclic: what is less by little is not reached yet */
		{CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_GEQ, 2, 0xfffffffe,
		 3},
		{CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
		{CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_AND, 6, 9, 4},
		{CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0,
		 0xf, 7},
		{CU_STREAM_MEM_OP_WAIT_VALUE_64, CU_STREAM_WAIT_VALUE_GEQ, 1ull << 40,
		 0xffffffff, 1ull << 41},
		{CU_STREAM_MEM_OP_WAIT_VALUE_64, CU_STREAM_WAIT_VALUE_EQ, 1ull << 40, 0,
		 1ull << 40},
		{CU_STREAM_MEM_OP_WAIT_VALUE_64, CU_STREAM_WAIT_VALUE_AND, 1ull << 40, 1,
		 3ull << 40},
	};
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *st = stream_new(f);

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		set_word(f, m.addr, t[i].no);
		OK(put(f, st, t[i].op, m.addr, t[i].value, t[i].flags));
		usleep(1000); /* some rounds of looking; a device that is slow passes */
		FAILS(f->ops->stream.query(f->ctx, st), CUDA_ERROR_NOT_READY);
		set_word(f, m.addr, t[i].yes);
		OK(f->ops->stream.synchronize(f->ctx, st));
	}
	f->ops->stream.destroy(st);
	fix_free(f, &m);
}

DEVICE_TEST(device_words, what_makes_no_sense_is_refused)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	const struct dev_mem_op barrier = {.op = CU_STREAM_MEM_OP_BARRIER};

	FAILS(put(f, NULL, CU_STREAM_MEM_OP_WRITE_VALUE_32, 0x10, 1, 0),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(put(f, NULL, CU_STREAM_MEM_OP_WRITE_VALUE_32, m.addr + 2, 1, 0),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(put(f, NULL, CU_STREAM_MEM_OP_WAIT_VALUE_64, m.addr + 4, 1, 0),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(put(f, NULL, CU_STREAM_MEM_OP_WAIT_VALUE_32, m.addr + m.size, 1, 0),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(put(f, NULL, CU_STREAM_MEM_OP_WAIT_VALUE_32, m.addr, 1, 77),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(put(f, NULL, (CUstreamBatchMemOpType)77, m.addr, 1, 0),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->stream.mem_ops(f->ctx, NULL, &barrier, 0, 0));
	OK(f->ops->ctx.synchronize(f->ctx));
	fix_free(f, &m);
}

SOFT_TEST(device_words, a_word_that_goes_away_is_a_fault)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);

	set_word(f, m.addr, 0);
	OK(put(f, NULL, CU_STREAM_MEM_OP_WAIT_VALUE_32, m.addr, 1,
	       CU_STREAM_WAIT_VALUE_EQ));
	fix_free(f, &m);
	FAILS(f->ops->ctx.synchronize(f->ctx), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- events of a context ---- */

DEVICE_TEST(device_words, a_context_s_record_comes_after_all_its_work)
{
	struct dev_stream *a = stream_new(f), *b = stream_new(f);
	struct block block;
	struct dev_event *ev;

	OK(f->ops->event.create(f->ctx, CU_EVENT_DISABLE_TIMING, &ev));
	OK(f->ops->ctx.record_event(f->ctx, ev));
	OK(f->ops->event.synchronize(ev));
	block_put(f, b, &block);
	block_wait(&block);
	OK(f->ops->ctx.record_event(f->ctx, ev));
	FAILS(f->ops->event.query(ev), CUDA_ERROR_NOT_READY);
	OK(f->ops->stream.synchronize(f->ctx, a)); /* which does not wait for it */
	block_release(&block);
	OK(f->ops->event.synchronize(ev));
	OK(f->ops->stream.query(f->ctx, b));
	f->ops->event.destroy(ev);
	f->ops->stream.destroy(a);
	f->ops->stream.destroy(b);
}

DEVICE_TEST(device_words, all_later_work_of_a_context_waits)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *a = stream_new(f), *b = stream_new(f), *later;
	struct block block;
	struct dev_event *ev;

	set_word(f, m.addr, 0);
	OK(f->ops->event.create(f->ctx, CU_EVENT_DISABLE_TIMING, &ev));
	block_put(f, a, &block);
	block_wait(&block);
	OK(f->ops->event.record(f->ctx, ev, a));
	OK(f->ops->ctx.wait_event(f->ctx, ev));
	OK(f->ops->copy.fill(f->ctx, b, m.addr, 0, 1, 4, 1, 1));
	later = stream_new(f);
	OK(f->ops->copy.fill(f->ctx, later, m.addr + 4, 0, 1, 4, 1, 1));
	FAILS(f->ops->stream.query(f->ctx, b), CUDA_ERROR_NOT_READY);
	block_release(&block);
	OK(f->ops->stream.synchronize(f->ctx, b));
	OK(f->ops->ctx.synchronize(f->ctx));
	cr_assert_eq(word(f, m.addr), 0x100000001ull);
	f->ops->event.destroy(ev);
	f->ops->stream.destroy(a);
	f->ops->stream.destroy(b);
	f->ops->stream.destroy(later);
	fix_free(f, &m);
}

/* While kernels are off, what is behind a word that one of them has written does not happen. */
DEVICE_TEST(device_words, who_waits_for_a_word_that_is_there_does_not_stand)
{
	volatile uint32_t *w;
	struct dev_stream *st;
	struct fix_mem m;
	uint32_t before;

	if (!f->soft) /* a stand-in for the driver has no kernels to take off */
		return;
	m = fix_alloc(f, 2 * MIB);
	w = (uint32_t *)(uintptr_t)m.addr;
	st = stream_new(f);
	for (unsigned i = 0; i < 300; i++) {
		w[0] = w[1] = 0;
		OK(f->ops->stream.wait_for_kernels(f->ctx, st, m.addr, 1));
		OK(put(f, st, CU_STREAM_MEM_OP_WRITE_VALUE_32, m.addr + 4, 1, 0));
		cr_assert(f->ops->freeze(f->dev), "nothing goes on");
		f->ops->thaw(f->dev);
		w[0] = 1;
		if (f->ops->freeze(f->dev)) {
			before = w[1];
			usleep(200);
			cr_assert_eq(w[1], before, "%u", i);
			f->ops->thaw(f->dev);
		}
		OK(f->ops->stream.synchronize(f->ctx, st));
		cr_assert_eq(w[1], 1);
	}
	f->ops->stream.destroy(st);
	fix_free(f, &m);
}
