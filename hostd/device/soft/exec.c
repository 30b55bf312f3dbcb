/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run blocks in slices (which one is place.c's choice), what comes of
 * faults, and the beginning and end of kernels.
 *
 * Threads that wait for the device help (soft_exec_help_locked()); together there are
 * never more than n_threads in a slice. They take only what would be picked anyway, so
 * that waiting for a stream does not make it more important.
 *
 * #syscalls: nanosleep
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"
#include "device/futex.h"
#include "device/soft/soft.h"
#include "device/soft/place.h"

/*
 * Instructions of a warp in one slice: half a millisecond or so. Unmapping waits for it.
 */
#define SLICE 8192

/* Blocks of a cooperative grid mostly wait for each other: shorter turns. */
#define SLICE_COOPERATIVE 2048

/* Cost of a turn in the fair share, whether the block runs or not. */
#define TURN_COST 64

/* How often is looked whether turns that are waited for have ended. */
#define TURN_LOOK_NS (50 * NSEC_PER_USEC)

/* How often parked threads look whether a kernel without room has become starved. */
#define WATCH_NS (2 * NSEC_PER_MSEC)

/* How long a thread sleeps when all blocks wait: doubled from the first to the last. */
#define NAP_MIN_NS (20 * NSEC_PER_USEC)
#define NAP_MAX_NS (1 * NSEC_PER_MSEC)

/* ---- running ---- */

/* Numbers of the block of that rank in the slot's cluster. */
static void block_id(const struct soft_slot *s, unsigned rank, uint32_t ret_id[3])
{
	const struct simt_launch *l = &s->kernel->launch;
	uint64_t cluster = s->cluster;

	for (int d = 0; d < 3; d++) {
		uint32_t size = l->is_cluster ? l->cluster[d] : 1;
		uint64_t clusters = l->grid[d] / size;

		ret_id[d] = (uint32_t)(cluster % clusters) * size + rank % size;
		cluster /= clusters;
		rank /= size;
	}
}

static int slot_start(struct soft_slot *s)
{
	struct simt_cta *ctas[SIMT_MAX_CLUSTER];
	uint32_t id[3];
	int r;

	for (unsigned i = 0; i < s->n; i++) {
		struct soft_block *b = &s->blocks[i];

		block_id(s, i, id);
		r = simt_cta_start(b->cta, &s->kernel->launch, id, b->sm);
		if (r < 0)
			return r;
		ctas[i] = b->cta;
	}
	s->started = true;
	return s->kernel->launch.is_cluster ? simt_cta_cluster(ctas, s->n) : 0;
}

static uint64_t slot_instr(const struct soft_slot *s)
{
	struct simt_stats stats;
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->n; i++) {
		simt_cta_stats(s->blocks[i].cta, &stats);
		sum += stats.warp_instr;
	}
	return sum;
}

/*
 * One turn. Returns what the slot as a whole did: DONE; MORE if any block can go on,
 * PAUSE if none can and any got on, WAIT if none did; or FAULT and *ret_fault (NULL: no
 * memory to start).
 */
static enum simt_status slot_run(struct soft_slot *s, const struct simt_fault **ret_fault)
{
	uint64_t slice = s->kernel->cooperative ? SLICE_COOPERATIVE : SLICE;
	bool done = true, more = false, ran = false;

	*ret_fault = NULL;
	if (!s->started && slot_start(s) < 0)
		return SIMT_FAULT;
	for (unsigned i = 0; i < s->n; i++) {
		struct soft_block *b = &s->blocks[i];
		enum simt_status one;

		if (b->done)
			continue;
		one = simt_cta_run(b->cta, MAX(slice / s->n, 1u));
		if (one == SIMT_FAULT) {
			*ret_fault = simt_cta_fault(b->cta);
			return one;
		}
		b->done = one == SIMT_DONE;
		done &= b->done;
		more |= one == SIMT_MORE;
		ran |= one != SIMT_WAIT;
	}
	return done ? SIMT_DONE : more ? SIMT_MORE : ran ? SIMT_PAUSE : SIMT_WAIT;
}

static CUresult fault_result(const struct simt_fault *f)
{
	if (!f)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	switch (f->code) {
	case SIMT_FAULT_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case SIMT_FAULT_MISALIGNED:
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	case SIMT_FAULT_SPACE:
		return CUDA_ERROR_INVALID_ADDRESS_SPACE;
	case SIMT_FAULT_PC:
		return CUDA_ERROR_INVALID_PC;
	case SIMT_FAULT_INSTR:
		return CUDA_ERROR_ILLEGAL_INSTRUCTION;
	case SIMT_FAULT_STACK:
		return CUDA_ERROR_HARDWARE_STACK_ERROR;
	case SIMT_FAULT_ASSERT:
		return CUDA_ERROR_ASSERT;
	case SIMT_FAULT_MEMORY:
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	case SIMT_FAULT_TRAP:
	case SIMT_FAULT_NONE:
	case SIMT_FAULT_KILLED:
		break;
	}
	return CUDA_ERROR_LAUNCH_FAILED;
}

static void fault_text(const struct soft_kernel *k, const struct simt_fault *f, char *buf,
		       size_t size)
{
	const char *name = simt_func_name(k->launch.func);
	int n;

	if (!f) {
		snprintf(buf, size, "kernel %s: no host memory for a block", name);
		return;
	}
	n = snprintf(buf, size, "kernel %.200s: %s", name, simt_fault_name(f->code));
	if (f->addr || f->bytes)
		n += snprintf(buf + n, size - (size_t)n, ": %s of %u bytes at 0x%llx",
			      f->write ? "write" : "read", f->bytes,
			      (unsigned long long)f->addr);
	n += snprintf(buf + n, size - (size_t)n, ", block (%u,%u,%u) thread (%u,%u,%u)",
		      f->block[0], f->block[1], f->block[2], f->thread[0], f->thread[1],
		      f->thread[2]);
	if (f->line && (size_t)n < size)
		snprintf(buf + n, size - (size_t)n, ", PTX line %u", f->line);
}

static void tell_ran(const struct soft_exec *e, const struct soft_kernel *k)
{
	const struct device_config *cfg = &e->dev->cfg;
	const struct dev_ran r = {
		.traced = k->traced,
		.track = k->track,
		.blocks = k->total * k->launch.cluster_size,
		.begin_ns = k->begin_ns,
		.end_ns = clock_now_ns(),
	};

	if (cfg->ran)
		cfg->ran(cfg->output_arg, &r);
}

static void kernel_finish_if_over_locked(struct soft_exec *e, struct soft_kernel *k)
{
	if (k->resident || k->next < k->total)
		return;
	list_remove(&k->link);
	if (k->traced)
		tell_ran(e, k);
	soft_op_finish_locked(&k->op); /* the next one begins */
	if (list_empty(&e->active))
		soft_turn_leave(&e->turn, clock_now_ns());
}

static void exec_wake_locked(struct soft_exec *e)
{
	struct soft_exec_thread *t;

	if (list_empty(&e->idle) || e->n_running >= e->n_threads ||
	    !soft_kernel_pick_locked(e))
		return;
	t = list_entry(e->idle.next, struct soft_exec_thread, link);
	list_remove(&t->link);
	soft_unpark(&t->word);
}

/* After a turn: files the slot where it belongs. */
static void slot_after_locked(struct soft_exec *e, struct soft_slot *s,
			      enum simt_status status, const struct simt_fault *f)
{
	struct soft_kernel *k = s->kernel;
	char text[sizeof(k->ctx->fault)];

	if (status == SIMT_FAULT && !k->stop) {
		fault_text(k, f, text, sizeof(text));
		soft_ctx_lose_locked(k->ctx, fault_result(f), text);
	}
	if (k->stop || status == SIMT_DONE || status == SIMT_FAULT) {
		soft_slot_free_locked(e, s);
		kernel_finish_if_over_locked(e, k);
		return;
	}
	soft_slot_wait_turn_locked(e, s);
}

/* Gives s its turn, with the lock dropped. */
static enum simt_status exec_turn_locked(struct soft_exec *e, struct soft_slot *s)
{
	struct soft_kernel *k = s->kernel;
	const struct simt_fault *f;
	enum simt_status status;
	uint64_t instr;

	e->n_running++;
	exec_wake_locked(e); /* one wakes the next, as long as there is work */
	pthread_mutex_unlock(&e->dev->lock);
	soft_memory_enter(&e->dev->mem);
	status = slot_run(s, &f);
	soft_memory_leave(&e->dev->mem);
	instr = s->started ? slot_instr(s) : 0;
	pthread_mutex_lock(&e->dev->lock);
	e->n_running--;
	e->waits = status == SIMT_WAIT ? e->waits + 1 : 0;
	k->paused = status == SIMT_PAUSE || status == SIMT_WAIT;
	k->runtime += instr - s->instr + TURN_COST;
	s->instr = instr;
	slot_after_locked(e, s, status, f);
	return status;
}

bool soft_exec_help_locked(struct soft_exec *e, struct dev_ctx *ctx,
			   const struct dev_stream *st)
{
	struct soft_slot *s;
	bool good;

	if (e->n_running >= e->n_threads || list_empty(&e->active) || e->off ||
	    !soft_turn_take(&e->turn, clock_now_ns()))
		return false;
	s = soft_slot_pick_locked(e, ctx, st);
	if (!s)
		return false;
	good = exec_turn_locked(e, s) != SIMT_WAIT;
	exec_wake_locked(e);
	return good;
}

/* ---- threads ---- */

/* Sleeps until there is work, or, with a nap, for that long. */
static void thread_park_locked(struct soft_exec *e, struct soft_exec_thread *t,
			       uint64_t nap_ns)
{
	struct timespec nap = {.tv_nsec = (long)nap_ns};

	t->word = SOFT_WORD_PARKED;
	list_insert_after(&e->idle, &t->link);
	pthread_mutex_unlock(&e->dev->lock);
	futex_wait(&t->word, SOFT_WORD_PARKED, nap_ns ? &nap : NULL);
	pthread_mutex_lock(&e->dev->lock);
	list_remove(&t->link);
}

/* How long a thread should leave blocks alone that all wait; 0: not at all. */
static uint64_t nap_ns_locked(const struct soft_exec *e)
{
	unsigned rounds = e->waits / (e->n_turns + 1);

	if (rounds <= SOFT_PATIENCE)
		return 0;
	return MIN(NAP_MIN_NS << MIN(rounds - SOFT_PATIENCE - 1, 8u), NAP_MAX_NS);
}

/* True while a starved kernel has to be looked after though nothing can run now. */
static uint64_t exec_watch_ns(const struct soft_exec *e)
{
	struct soft_kernel *k;

	list_for_each (k, &e->active, link) {
		if (k->next < k->total)
			return WATCH_NS;
	}
	return 0;
}

/* Another process that is shared has faulted. */
static void lose_shared_locked(struct soft_exec *e)
{
	uint32_t error = soft_turn_faulted(&e->turn);
	struct dev_ctx *ctx;

	if (likely(!error))
		return;
	list_for_each (ctx, &e->dev->contexts, link)
		soft_ctx_lose_locked(ctx, (CUresult)error,
				     "a fault of another program of class shared");
}

/* Waits until this process has the device, if there is anything to run. Returns false after
 * a while, or if something has changed. */
static bool thread_turn_locked(struct soft_exec *e)
{
	struct soft_turn_word word = soft_turn_word(&e->turn);

	if (list_empty(&e->active) || e->off || soft_turn_take(&e->turn, clock_now_ns()))
		return true;
	pthread_mutex_unlock(&e->dev->lock);
	soft_turn_wait(word);
	pthread_mutex_lock(&e->dev->lock);
	return false;
}

static void *thread_main(void *arg)
{
	struct soft_exec_thread *t = arg;
	struct soft_exec *e = t->exec;
	struct soft_slot *s;
	uint64_t nap;

	pthread_mutex_lock(&e->dev->lock);
	while (!e->stop) {
		lose_shared_locked(e);
		if (!thread_turn_locked(e))
			continue;
		s = e->n_running < e->n_threads ? soft_slot_pick_locked(e, NULL, NULL)
						: NULL;
		if (!s) {
			thread_park_locked(e, t, exec_watch_ns(e));
			continue;
		}
		exec_turn_locked(e, s);
		nap = nap_ns_locked(e);
		if (nap) {
			e->naps++;
			soft_turn_yield(&e->turn, clock_now_ns());
			thread_park_locked(e, t, nap);
		}
	}
	pthread_mutex_unlock(&e->dev->lock);
	return NULL;
}

int soft_exec_init(struct soft_exec *e, struct device *dev)
{
	int r;

	*e = (struct soft_exec){.dev = dev,
				.n_sms = dev->cfg.tpcs * SOFT_SMS_PER_TPC,
				.n_threads = dev->cfg.threads};
	list_init(&e->idle);
	list_init(&e->active);
	r = soft_turn_init(&e->turn, dev->cfg.runlist_fd ? dev->cfg.runlist_fd : -1,
			   dev->cfg.shared);
	if (r < 0)
		return r;
	e->sms = calloc(e->n_sms, sizeof(*e->sms));
	e->threads = calloc(e->n_threads, sizeof(*e->threads));
	e->spare =
		calloc(e->n_threads * SOFT_SPARE_PER_THREAD, sizeof(struct simt_cta *));
	if (!e->sms || !e->threads || !e->spare)
		return -ENOMEM;
	for (unsigned i = 0; i < e->n_sms; i++)
		e->sms[i] = soft_sm_empty();
	for (unsigned i = 0; i < e->n_threads; i++) {
		struct soft_exec_thread *t = &e->threads[i];

		t->exec = e;
		list_init(&t->link);
		r = pthread_create(&t->thread, NULL, thread_main, t);
		if (r)
			return -r;
		e->n_started++;
	}
	return 0;
}

void soft_exec_fini(struct soft_exec *e)
{
	if (e->n_started) {
		pthread_mutex_lock(&e->dev->lock);
		e->stop = true;
		for (unsigned i = 0; i < e->n_started; i++)
			soft_unpark(&e->threads[i].word);
		pthread_mutex_unlock(&e->dev->lock);
	}
	for (unsigned i = 0; i < e->n_started; i++)
		pthread_join(e->threads[i].thread, NULL);
	for (unsigned i = 0; i < e->n_spare; i++)
		simt_cta_free(e->spare[i]);
	free(e->spare);
	free(e->threads);
	free(e->sms);
	soft_turn_fini(&e->turn);
}

/* ---- kernels ---- */

void soft_exec_start_locked(struct soft_exec *e, struct soft_op *op)
{
	struct soft_kernel *k = container_of(op, struct soft_kernel, op), *other;
	bool first = true;

	k->since_ns = k->begin_ns = clock_now_ns();
	k->no_room_at = UINT64_MAX;
	if (list_empty(&e->active) && !e->off)
		(void)soft_turn_take(&e->turn, k->since_ns);
	list_for_each (other, &e->active, link) { /* nobody starts with an advantage */
		k->runtime = first ? other->runtime : MIN(k->runtime, other->runtime);
		first = false;
	}
	list_append(&e->active, &k->link);
	exec_wake_locked(e);
}

static struct soft_kernel *kernel_to_kill_locked(struct soft_exec *e,
						 const struct dev_ctx *ctx)
{
	struct soft_kernel *k;

	list_for_each (k, &e->active, link) {
		if (k->ctx == ctx && !k->stop)
			return k;
	}
	return NULL;
}

void soft_exec_kill_locked(struct soft_exec *e, struct dev_ctx *ctx)
{
	struct soft_kernel *k;
	struct soft_slot *s;

	while ((k = kernel_to_kill_locked(e, ctx))) {
		/* Relaxed: running blocks see it some time during their slice. */
		__atomic_store_n(&k->stop, true, __ATOMIC_RELAXED);
		k->next = k->total;
		while ((s = soft_slot_next_turn_locked(e, k)))
			soft_slot_free_locked(e, s);
		kernel_finish_if_over_locked(e, k);
	}
}

void soft_exec_off_locked(struct soft_exec *e, enum soft_off why)
{
	const struct timespec pause = {.tv_nsec = TURN_LOOK_NS};

	e->off |= why;
	while (e->n_running) {
		pthread_mutex_unlock(&e->dev->lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&e->dev->lock);
	}
	soft_turn_leave(&e->turn, clock_now_ns());
}

void soft_exec_on_locked(struct soft_exec *e, enum soft_off why)
{
	e->off &= ~(unsigned)why;
	if (e->off)
		return;
	if (!list_empty(&e->active))
		(void)soft_turn_take(&e->turn, clock_now_ns());
	exec_wake_locked(e);
}

uint64_t soft_exec_busy_locked(const struct soft_exec *e)
{
	return soft_turn_had_ns(&e->turn, clock_now_ns());
}
