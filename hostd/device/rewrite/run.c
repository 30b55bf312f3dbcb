/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: nanosleep */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macros.h"
#include "device/rewrite/run.h"
#include "ptx/rewrite/yield.h"

/* Counters that are put back at once: words in one call. */
#define CLEAN_WORDS 6u
#define CLEAN_MAX   (DEV_MEM_OPS_MAX / CLEAN_WORDS)

static struct dev_mem_op write32(CUdeviceptr addr, uint32_t value)
{
	return (struct dev_mem_op){
		.op = CU_STREAM_MEM_OP_WRITE_VALUE_32, .addr = addr, .value = value};
}

static struct dev_mem_op write64(CUdeviceptr addr, uint64_t value)
{
	return (struct dev_mem_op){
		.op = CU_STREAM_MEM_OP_WRITE_VALUE_64, .addr = addr, .value = value};
}

/* Launches that are not done yet that one looks at: most streams' are done in order. */
#define REAP_MOST 4u

/* Launches that can be stopped at a time: each takes the room of five in its stream's queue, which
 * has some for a thousand, and programs may fill a queue before they let it go. */
#define RUNS_MAX 64u

/* How often one looks whether launches are to be launched again, and how long, at most, where they
 * are not waited for. */
#define LOOK_NS      (200 * NSEC_PER_USEC)
#define SETTLE_NS    NSEC_PER_SEC

#define WORD(member) offsetof(struct ptx_persist_control, member)

/* ---- counters ---- */

/* The stream in which a context's counters are written, which nothing keeps waiting. */
static struct dev_stream *words_stream_locked(struct dev_ctx *ctx)
{
	struct dev_stream *st = table_find(&codes.words_streams, ctx);

	if (st)
		return st;
	if (codes.under->stream.create(ctx, DEV_STREAM_NON_BLOCKING, 0, &st))
		return NULL;
	if (table_add(&codes.words_streams, ctx, st) < 0) {
		codes.under->stream.destroy(st);
		return NULL;
	}
	return st;
}

/* Takes back what was put in order, and has the device do so with what was used since. */
static void clean_locked(struct code *c)
{
	struct dev_mem_op ops[DEV_MEM_OPS_MAX];
	struct dev_stream *st;
	unsigned n = 0;

	if (c->n_cleaning && codes.under->event.query(c->cleaned) == CUDA_ERROR_NOT_READY)
		return;
	while (c->n_cleaning)
		atomic_store(&c->streams[c->cleaning[--c->n_cleaning]], NULL);
	st = c->n_dirty ? words_stream_locked((struct dev_ctx *)c->ctx) : NULL;
	if (!st || (!c->cleaned &&
		    codes.under->event.create((struct dev_ctx *)c->ctx,
					      CU_EVENT_DISABLE_TIMING, &c->cleaned)))
		return;
	while (c->n_dirty && c->n_cleaning < CLEAN_MAX) {
		unsigned slot = c->dirty[--c->n_dirty];
		CUdeviceptr at = c->control + slot * sizeof(struct ptx_persist_control);

		ops[n++] = write32(at + WORD(next), 0);
		ops[n++] = write32(at + WORD(ended), 0);
		ops[n++] = write32(at + WORD(done), 0);
		ops[n++] = write32(at + WORD(grids), 0);
		ops[n++] = write32(at + WORD(stop), 0);
		ops[n++] = write32(at + WORD(yield), 0);
		c->cleaning[c->n_cleaning++] = (uint16_t)slot;
	}
	/* Counters that cannot be put in order are not used again. */
	if (codes.under->stream.mem_ops((struct dev_ctx *)c->ctx, st, ops, n, 0) ||
	    codes.under->event.record((struct dev_ctx *)c->ctx, c->cleaned, st))
		c->n_cleaning = 0;
}

/* ---- what is kept ---- */

static uint64_t state_bytes(const struct run *r)
{
	const unsigned *b = r->l.block;
	int fixed = 0;

	if (!r->thread_bytes)
		return 0;
	(void)codes.under->func.attribute(r->l.func, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
					  &fixed);
	return ALIGN_UP(PTX_YIELD_BLOCK_BYTES + r->thread_bytes * b[0] * b[1] * b[2] +
				(uint64_t)MAX(fixed, 0) + PTX_YIELD_SHARED_SLACK +
				r->l.shared_bytes,
			(uint64_t)256);
}

/* Numbers of the blocks that are kept come first, as many in every area: all are 0 when nobody
 * uses it. */
#define BLOCKS_MAX 16384u
#define KEPT_BYTES (4ull * BLOCKS_MAX)

/* Memory for a launch that nobody uses, made if need be. */
static struct area *find_area_locked(const struct run *r)
{
	uint64_t size = KEPT_BYTES + state_bytes(r) * r->most;
	struct dev_ctx *ctx = r->ctx;
	struct area *a;

	if (r->most > BLOCKS_MAX)
		return NULL;
	list_for_each (a, &codes.areas, link) {
		if (a->ctx == ctx && !a->used && a->size >= size)
			return a;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	*a = (struct area){.ctx = ctx, .size = size};
	if (codes.under->memory.own(ctx, size, &a->addr)) {
		free(a);
		return NULL;
	}
	list_append(&codes.areas, &a->link);
	return a;
}

/* ---- launches ---- */

static void spare_locked(struct run *r)
{
	if (r->area)
		r->area->used = false;
	r->area = NULL;
	list_append(&codes.spare_runs, &r->link);
}

static bool is_ready(struct dev_event *ev)
{
	return codes.under->event.query(ev) != CUDA_ERROR_NOT_READY;
}

bool run_may_have_begun(const struct run *r)
{
	return is_ready(r->front);
}

bool run_is_over(const struct run *r)
{
	for (unsigned i = 0; i < RUN_ASIDES; i++) {
		if (r->asides[i].used && !is_ready(r->asides[i].over))
			return false;
	}
	return is_ready(r->over);
}

bool run_is_done(const struct run *r)
{
	return is_ready(r->done);
}

void run_reap_locked(unsigned most)
{
	struct run *r, *tmp;

	list_for_each_safe (r, tmp, &codes.runs, link) {
		if (r->state == RUN_STOPPED || !run_is_done(r) || !run_is_over(r)) {
			if (!--most)
				return;
			continue;
		}
		list_remove(&r->link);
		if (r->code)
			r->code->dirty[r->code->n_dirty++] = (uint16_t)r->slot;
		spare_locked(r);
		codes.n_runs--;
	}
}

static bool make_event(struct dev_ctx *ctx, struct dev_event **ev)
{
	return *ev || !codes.under->event.create(ctx, CU_EVENT_DISABLE_TIMING, ev);
}

static struct run *new_locked(struct dev_ctx *ctx)
{
	struct run *r;

	list_for_each (r, &codes.spare_runs, link) {
		if (r->ctx == ctx) {
			list_remove(&r->link);
			return r;
		}
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->ctx = ctx;
	if (make_event(ctx, &r->front) && make_event(ctx, &r->over) &&
	    make_event(ctx, &r->done))
		return r;
	if (r->front)
		codes.under->event.destroy(r->front);
	if (r->over)
		codes.under->event.destroy(r->over);
	free(r);
	return NULL;
}

/* A launch with a counter of its own; NULL: there is none. */
static struct run *take(struct dev_ctx *ctx, struct code *c)
{
	struct run *r = NULL;

	pthread_mutex_lock(&codes.run_lock);
	run_reap_locked(REAP_MOST);
	if (codes.n_runs >= RUNS_MAX) {
		pthread_mutex_unlock(&codes.run_lock);
		return NULL;
	}
	codes.n_runs++;
	if (c->n_dirty || c->n_cleaning)
		clean_locked(c);
	if (c->control)
		r = new_locked(ctx);
	if (r)
		r->control = code_control_free(c, &r->slot);
	if (r && !r->control) {
		spare_locked(r);
		r = NULL;
	}
	codes.n_runs -= !r;
	pthread_mutex_unlock(&codes.run_lock);
	return r;
}

static void fill(struct run *r, struct dev_stream *st, const struct dev_launch *l,
		 struct kernel *k, unsigned on_sm, unsigned room)
{
	size_t at = ALIGN_UP(l->params_size, (size_t)8);
	uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	struct ptx_persist_args args = {.control = r->control,
					.blocks = (uint32_t)blocks};

	r->st = st;
	r->code = k->code;
	r->grid = (uint32_t)blocks;
	r->room = room;
	r->n = (unsigned)MIN(blocks, (uint64_t)on_sm * codes.n_sms);
	r->most = (unsigned)MIN(blocks, (uint64_t)MAX(on_sm, room) * codes.n_sms);
	r->launched = r->may = r->n;
	r->thread_bytes = k->thread_bytes;
	for (unsigned i = 0; i < RUN_ASIDES; i++)
		r->asides[i].used = false;
	r->state = RUN_GOES;
	r->l = *l;
	r->l.func = k->copy;
	r->l.grid[0] = r->n;
	r->l.grid[1] = r->l.grid[2] = 1;
	r->l.params = r->params;
	r->l.params_size = at + sizeof(args);
	args.stride = state_bytes(r);
	memcpy(args.grid, l->grid, sizeof(args.grid));
	if (l->params_size)
		memcpy(r->params, l->params, l->params_size);
	memset(r->params + l->params_size, 0, at - l->params_size);
	memcpy(r->params + at, &args, sizeof(args));
}

bool run_launch(struct dev_ctx *ctx, struct dev_stream *st, const struct dev_launch *l,
		struct kernel *k, unsigned on_sm, unsigned room, CUresult *ret)
{
	const struct device_ops *ops = codes.under;
	struct run *r = take(ctx, k->code);
	bool waits = false, front;

	if (!r)
		return false;
	fill(r, st, l, k, on_sm, room);
	front = !ops->event.record(ctx, r->front, st);
	*ret = ops->func.launch(ctx, st, &r->l);
	if (*ret == CUDA_SUCCESS && front && !ops->event.record(ctx, r->over, st))
		waits = !ops->stream.wait_for_kernels(ctx, st, r->control + WORD(grids),
						      1);
	pthread_mutex_lock(&codes.run_lock);
	if (*ret == CUDA_SUCCESS && !ops->event.record(ctx, r->done, st)) {
		if (!waits) /* it ends as others do */
			r->state = RUN_LEFT;
		list_append(&codes.runs, &r->link);
		/* Memory for its blocks is made before that is urgent. */
		if (waits && r->thread_bytes)
			(void)find_area_locked(r);
	} else { /* its counter is lost with it */
		spare_locked(r);
		codes.n_runs--;
	}
	pthread_mutex_unlock(&codes.run_lock);
	if (*ret == CUDA_SUCCESS)
		atomic_fetch_add_explicit(&codes.launches, 1, memory_order_relaxed);
	return true;
}

/* ---- stopping and going on ---- */

static CUresult write_words(struct run *r, const struct dev_mem_op *ops, unsigned n)
{
	struct dev_stream *st = words_stream_locked(r->ctx);

	return st ? codes.under->stream.mem_ops(r->ctx, st, ops, n, 0)
		  : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult run_ask_locked(struct run *r)
{
	struct dev_mem_op ops[4];
	unsigned n = 0;

	if (r->thread_bytes && !r->area) {
		r->area = find_area_locked(r);
		if (r->area)
			r->area->used = true;
	}
	if (r->area) {
		ops[n++] = write64(r->control + WORD(kept), r->area->addr);
		ops[n++] = write64(r->control + WORD(states), r->area->addr + KEPT_BYTES);
		ops[n++] = write32(r->control + WORD(yield), 1);
	}
	ops[n++] = write32(r->control + WORD(stop), UINT32_MAX);
	r->state = RUN_ASKED;
	return write_words(r, ops, n);
}

/* A stream in which nothing is queued; the last one, if there is none. */
static struct aside *find_aside(struct run *r)
{
	unsigned i = 0;

	while (i < RUN_ASIDES - 1 && r->asides[i].used && !is_ready(r->asides[i].over))
		i++;
	return &r->asides[i];
}

/* Launches blocks with numbers from first to n, behind all words that were written. */
static CUresult launch_aside(struct run *r, unsigned first, unsigned n, bool resume)
{
	const struct device_ops *ops = codes.under;
	struct ptx_persist_args *args =
		(void *)(r->params + r->l.params_size - sizeof(*args));
	struct aside *a = find_aside(r);
	CUresult res = CUDA_SUCCESS;

	if (!a->st)
		res = ops->stream.create(r->ctx, DEV_STREAM_NON_BLOCKING, 0, &a->st);
	if (!res && !make_event(r->ctx, &a->over))
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (!res)
		res = ops->event.record(r->ctx, a->over, words_stream_locked(r->ctx));
	if (!res)
		res = ops->stream.wait_event(r->ctx, a->st, a->over);
	args->first = first;
	args->resume = resume;
	r->l.grid[0] = n - first;
	if (!res)
		res = ops->func.launch(r->ctx, a->st, &r->l);
	if (!res) {
		r->launched += r->l.grid[0];
		a->used = true;
		res = ops->event.record(r->ctx, a->over, a->st);
	}
	return res;
}

static struct dev_mem_op limit_word(const struct run *r)
{
	return write32(r->control + WORD(stop), ~r->may);
}

/* Launches its blocks again, for what is left. */
static CUresult launch_again(struct run *r)
{
	const struct dev_mem_op go[] = {write32(r->control + WORD(yield), 0),
					limit_word(r)};
	CUresult res = write_words(r, go, ARRAY_SIZE(go));

	return res ? res : launch_aside(r, 0, r->n, r->area);
}

CUresult run_limit_locked(struct run *r, unsigned n)
{
	struct dev_mem_op word;

	r->may = n;
	word = limit_word(r);
	return write_words(r, &word, 1);
}

CUresult run_add_locked(struct run *r, unsigned n)
{
	unsigned first = r->may;
	CUresult res = run_limit_locked(r, n);

	r->n = MAX(r->n, n);
	return res ? res : launch_aside(r, first, n, false);
}

static CUresult read_words(struct run *r, uint32_t *ret, size_t word, unsigned n)
{
	struct dev_stream *st = words_stream_locked(r->ctx);

	return st ? codes.under->copy.read(r->ctx, st, ret, r->control + word,
					   n * sizeof(*ret))
		  : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult run_left_locked(struct run *r, bool *ret_left)
{
	uint32_t grids;
	CUresult res = read_words(r, &grids, WORD(grids), 1);

	*ret_left = !res && !grids;
	return res;
}

CUresult run_progress_locked(struct run *r, uint32_t *ret_taken, uint32_t *ret_ended)
{
	uint32_t words[2];
	CUresult res;

	static_assert(WORD(ended) == WORD(next) + 4, "one copy reads both");
	res = read_words(r, words, WORD(next), 2);
	if (!res) {
		*ret_taken = words[0];
		*ret_ended = words[1];
	}
	return res;
}

CUresult run_go_on_locked(struct run *r)
{
	/* A block that is kept from now on has to be looked after; else it may be asked again. */
	r->state = r->state == RUN_ASKED && r->area ? RUN_LEFT : RUN_GOES;
	return launch_again(r);
}

bool run_mind_locked(struct run *r)
{
	if (r->state != RUN_LEFT || !r->area)
		return false;
	if (!run_is_over(r) || run_is_done(r))
		return true;
	r->state = RUN_GOES;
	return launch_again(r) != CUDA_SUCCESS;
}

/* ---- ends ---- */

void run_forget_stream(const struct dev_stream *st)
{
	struct run *r;

	pthread_mutex_lock(&codes.run_lock);
	list_for_each (r, &codes.runs, link) {
		if (r->st == st) /* no stream's address */
			r->st = (struct dev_stream *)r;
	}
	pthread_mutex_unlock(&codes.run_lock);
}

/* Whether launches of a module (NULL: of all) in a context may be launched again, or the last blocks
 * of one run whose grid is done, which its program has been told. */
static bool may_go_on_locked(const struct dev_ctx *ctx, const struct code *c)
{
	const struct run *r;

	run_reap_locked(UINT32_MAX);
	list_for_each (r, &codes.runs, link) {
		if (r->ctx != ctx || (c && r->code != c))
			continue;
		if (r->state == RUN_ASKED || r->state == RUN_STOPPED ||
		    (r->state == RUN_LEFT && r->area) || run_is_done(r))
			return true; /* done, and not over, or it would have been reaped */
	}
	return false;
}

static void settle_locked(const struct dev_ctx *ctx, const struct code *c,
			  uint64_t until_ns)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};

	while (may_go_on_locked(ctx, c) && clock_now_ns() < until_ns) {
		pthread_mutex_unlock(&codes.run_lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&codes.run_lock);
	}
}

void run_forget_module(const struct code *c)
{
	struct run *r;

	pthread_mutex_lock(&codes.run_lock);
	settle_locked(c->ctx, c, UINT64_MAX);
	list_for_each (r, &codes.runs, link) {
		if (r->code == c)
			r->code = NULL;
	}
	if (c->cleaned)
		codes.under->event.destroy(c->cleaned);
	pthread_mutex_unlock(&codes.run_lock);
}

static void forget_runs(struct list *runs, const struct dev_ctx *ctx)
{
	struct run *r, *tmp;

	list_for_each_safe (r, tmp, runs, link) {
		if (ctx && r->ctx != ctx)
			continue;
		list_remove(&r->link);
		codes.n_runs -= runs == &codes.runs;
		free(r);
	}
}

void run_forget_ctx(const struct dev_ctx *ctx)
{
	struct area *a, *tmp;

	pthread_mutex_lock(&codes.run_lock);
	if (ctx)
		settle_locked(ctx, NULL, clock_now_ns() + SETTLE_NS);
	forget_runs(&codes.runs, ctx);
	forget_runs(&codes.spare_runs, ctx);
	list_for_each_safe (a, tmp, &codes.areas, link) {
		if (ctx && a->ctx != ctx)
			continue;
		list_remove(&a->link);
		free(a);
	}
	if (ctx)
		(void)table_remove(&codes.words_streams, ctx);
	pthread_mutex_unlock(&codes.run_lock);
}
