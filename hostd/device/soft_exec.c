/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block (a cluster of blocks, where there are clusters) becomes resident when an SM has
 * room for it, in the order of its number; the slot that it then holds takes turns with
 * all other resident ones, so blocks that wait for one another get on, and so do kernels
 * beside one that never ends. Blocks become resident as late as possible: when a thread
 * looks for work and finds room. Who is picked:
 *
 *	the higher priority first, but now and then someone of a lower one;
 *	among equals the kernel that has had the least time;
 *	within a kernel first a new block, if there is room, then the slots in turn.
 *
 * A GPU leaves a kernel waiting while another one fills all SMs. Where that lasts, this
 * one gives the newcomer a few blocks beyond the resources of the SMs, as if the others
 * had been preempted: in tests and small devices a spinning kernel is common.
 *
 * Threads that wait for the device help (soft_exec_help_locked()); together there are
 * never more than n_threads in a slice.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"
#include "device/futex.h"
#include "device/soft.h"

/* Instructions of a warp in one slice: half a millisecond or so. Unmapping waits for it.
 */
#define SLICE 8192

/* Blocks of a cooperative grid mostly wait for each other: shorter turns. */
#define SLICE_COOPERATIVE 2048

/* What a turn costs in the fair share, run or not. */
#define TURN_COST 64

/* Each so many picks somebody of a lower priority may go first. */
#define LOW_PRIORITY_TURN 16

/* A kernel that could place nothing for so long is squeezed in. */
#define STARVED_NS (2 * NSEC_PER_MSEC)

/* Spare ctas kept per thread. */
#define SPARE_PER_THREAD 4

/* How long a thread sleeps when all blocks wait: doubled from the first to the last. */
#define NAP_MIN_NS (20 * NSEC_PER_USEC)
#define NAP_MAX_NS (1 * NSEC_PER_MSEC)

struct soft_block {
	struct simt_cta *cta;
	unsigned sm;
	bool done;
};

/* The place of a resident block or cluster. */
struct soft_slot {
	struct list link; /* soft_kernel.turns */
	struct soft_kernel *kernel;
	uint64_t cluster; /* which */
	uint64_t instr;   /* run so far */
	bool started;
	unsigned n;
	struct soft_block blocks[];
};

/* ---- room on SMs ---- */

static bool sm_fits(const struct soft_need *left, const struct soft_need *n)
{
	return left->blocks >= n->blocks && left->threads >= n->threads &&
	       left->regs >= n->regs && left->shared_bytes >= n->shared_bytes;
}

static void sm_take(struct soft_need *left, const struct soft_need *n, int sign)
{
	left->blocks -= sign * n->blocks;
	left->threads -= sign * n->threads;
	left->regs -= sign * n->regs;
	left->shared_bytes -= sign * n->shared_bytes;
}

static struct soft_need sm_empty(void)
{
	return (struct soft_need){SOFT_SM_THREADS, SOFT_SM_REGS, SOFT_SM_SHARED_BYTES,
				  SOFT_SM_BLOCKS};
}

unsigned soft_exec_blocks_per_sm(const struct soft_need *n)
{
	struct soft_need sm = sm_empty();
	int r = MIN(sm.blocks, sm.threads / MAX(n->threads, 1));

	r = MIN(r, sm.regs / MAX(n->regs, 1));
	return (unsigned)MIN(r, sm.shared_bytes / MAX(n->shared_bytes, 1));
}

/* An SM for one block, searched in turn so that blocks spread; -1: none. */
static int sm_find_locked(struct soft_exec *e, const struct soft_need *need, bool squeeze)
{
	for (unsigned i = 0; i < e->n_sms; i++) {
		unsigned sm = e->next_sm + i;

		sm -= sm >= e->n_sms ? e->n_sms : 0;
		if (squeeze || sm_fits(&e->sms[sm], need))
			return (int)sm;
	}
	return -1;
}

/* ---- slots ---- */

static struct simt_cta *cta_get_locked(struct soft_exec *e)
{
	struct simt_cta *c;

	if (e->n_spare)
		return e->spare[--e->n_spare];
	return simt_cta_new(&c) < 0 ? NULL : c;
}

static void cta_put_locked(struct soft_exec *e, struct simt_cta *c)
{
	if (c && e->n_spare < e->n_threads * SPARE_PER_THREAD)
		e->spare[e->n_spare++] = c;
	else
		simt_cta_free(c);
}

/* Gives back what the slot holds. The kernel may have nothing left to do then. */
static void slot_free_locked(struct soft_exec *e, struct soft_slot *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		sm_take(&e->sms[s->blocks[i].sm], &s->kernel->need, -1);
		cta_put_locked(e, s->blocks[i].cta);
	}
	s->kernel->resident--;
	free(s);
}

/* A slot for the kernel's next cluster, or NULL if there is no room (or memory) now. */
static struct soft_slot *slot_place_locked(struct soft_exec *e, struct soft_kernel *k)
{
	unsigned n = k->launch.cluster_size;
	struct soft_slot *s = calloc(1, sizeof(*s) + n * sizeof(s->blocks[0]));
	int sm;

	if (!s)
		return NULL;
	s->kernel = k;
	k->resident++;
	for (; s->n < n; s->n++) {
		struct soft_block *b = &s->blocks[s->n];

		sm = sm_find_locked(e, &k->need, k->squeezed);
		if (sm < 0)
			break;
		b->cta = cta_get_locked(e);
		if (!b->cta)
			break;
		b->sm = (unsigned)sm;
		sm_take(&e->sms[sm], &k->need, 1);
		e->next_sm = b->sm + 1 == e->n_sms ? 0 : b->sm + 1;
	}
	if (s->n < n) {
		slot_free_locked(e, s);
		return NULL;
	}
	s->cluster = k->next++;
	return s;
}

/* Queues a slot for its next turn. */
static void slot_wait_turn_locked(struct soft_exec *e, struct soft_slot *s)
{
	list_append(&s->kernel->turns, &s->link);
	e->n_turns++;
}

static struct soft_slot *slot_next_turn_locked(struct soft_exec *e, struct soft_kernel *k)
{
	struct soft_slot *s;

	if (list_empty(&k->turns))
		return NULL;
	s = list_entry(k->turns.next, struct soft_slot, link);
	list_remove(&s->link);
	e->n_turns--;
	return s;
}

/* All blocks of a cooperative kernel, or none. */
static bool place_all_locked(struct soft_exec *e, struct soft_kernel *k)
{
	struct soft_slot *s;

	while (k->next < k->total) {
		s = slot_place_locked(e, k);
		if (s) {
			slot_wait_turn_locked(e, s);
			continue;
		}
		while ((s = slot_next_turn_locked(e, k)))
			slot_free_locked(e, s);
		k->next = 0;
		return false;
	}
	return true;
}

/* ---- picking ---- */

/*
 * A kernel with nothing resident that has waited long may exceed the SMs' resources: by
 * one cluster a thread, or if it is cooperative by all of its blocks.
 */
static bool exec_starved_locked(struct soft_exec *e, struct soft_kernel *k)
{
	if (!k->squeezed && !k->resident && clock_now_ns() - k->since_ns >= STARVED_NS)
		k->squeezed = true;
	return k->squeezed && (k->cooperative || k->resident < e->n_threads);
}

/* Once it was starved, a kernel's share is the squeezed one. */
static bool has_new_block_locked(struct soft_exec *e, struct soft_kernel *k)
{
	bool room;

	if (k->next >= k->total)
		return false;
	room = !k->squeezed && sm_find_locked(e, &k->need, false) >= 0;
	if (!room && !exec_starved_locked(e, k))
		return false;
	return !k->cooperative || place_all_locked(e, k);
}

static bool kernel_before(const struct soft_kernel *a, const struct soft_kernel *b,
			  bool by_priority)
{
	if (by_priority && a->priority != b->priority)
		return a->priority < b->priority; /* CUDA: lower numbers go first */
	return a->runtime < b->runtime;
}

static struct soft_kernel *kernel_pick_locked(struct soft_exec *e,
					      const struct dev_ctx *ctx,
					      const struct dev_stream *st)
{
	bool by_priority = e->picks % LOW_PRIORITY_TURN;
	struct soft_kernel *k, *best = NULL;

	list_for_each (k, &e->active, link) {
		if ((ctx && k->ctx != ctx) || (st && k->op.st != st))
			continue;
		if (list_empty(&k->turns) && !has_new_block_locked(e, k))
			continue;
		if (!best || kernel_before(k, best, by_priority))
			best = k;
	}
	return best;
}

/* The slot that should run now, taken out of every list; NULL if there is none. */
static struct soft_slot *slot_pick_locked(struct soft_exec *e, const struct dev_ctx *ctx,
					  const struct dev_stream *st)
{
	struct soft_kernel *k = kernel_pick_locked(e, ctx, st);
	struct soft_slot *s = NULL;

	if (!k)
		return NULL;
	e->picks++;
	if (!k->cooperative && has_new_block_locked(e, k))
		s = slot_place_locked(e, k);
	if (s)
		k->since_ns = clock_now_ns();
	return s ? s : slot_next_turn_locked(e, k);
}

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
 * One turn. Returns what the slot as a whole is: MORE if any block can go on, WAIT if
 * none can, DONE; or FAULT and *ret_fault (NULL: no memory to start).
 */
static enum simt_status slot_run(struct soft_slot *s, const struct simt_fault **ret_fault)
{
	uint64_t slice = s->kernel->cooperative ? SLICE_COOPERATIVE : SLICE;
	enum simt_status all = SIMT_DONE;

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
		if (one == SIMT_MORE || (one == SIMT_DONE && all == SIMT_WAIT))
			all = SIMT_MORE; /* who waited may have waited for this one */
		else if (one == SIMT_WAIT && all == SIMT_DONE)
			all = i ? SIMT_MORE : SIMT_WAIT;
	}
	return all;
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

static void kernel_finish_if_over_locked(struct soft_exec *e, struct soft_kernel *k)
{
	if (k->resident || k->next < k->total)
		return;
	list_remove(&k->link);
	if (list_empty(&e->active))
		e->busy_ns += clock_now_ns() - e->busy_since_ns;
	soft_op_finish_locked(&k->op);
}

static void exec_wake_locked(struct soft_exec *e)
{
	struct soft_exec_thread *t;

	if (list_empty(&e->idle) || e->n_running >= e->n_threads ||
	    !kernel_pick_locked(e, NULL, NULL))
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
		slot_free_locked(e, s);
		kernel_finish_if_over_locked(e, k);
		return;
	}
	slot_wait_turn_locked(e, s);
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

	if (e->n_running >= e->n_threads)
		return false;
	s = slot_pick_locked(e, ctx, st);
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

/* How long the thread should leave blocks alone that all wait; 0: not at all. */
static uint64_t nap_ns(const struct soft_exec *e, const struct soft_exec_thread *t)
{
	unsigned rounds = t->waits / (e->n_turns + 1);

	if (!rounds)
		return 0;
	return MIN(NAP_MIN_NS << MIN(rounds - 1, 8u), NAP_MAX_NS);
}

/* True while a starved kernel has to be looked after though nothing can run now. */
static uint64_t exec_watch_ns(const struct soft_exec *e)
{
	struct soft_kernel *k;

	list_for_each (k, &e->active, link) {
		if (k->next < k->total)
			return STARVED_NS;
	}
	return 0;
}

static void *thread_main(void *arg)
{
	struct soft_exec_thread *t = arg;
	struct soft_exec *e = t->exec;
	struct soft_slot *s;
	uint64_t nap;

	pthread_mutex_lock(&e->dev->lock);
	while (!e->stop) {
		s = e->n_running < e->n_threads ? slot_pick_locked(e, NULL, NULL) : NULL;
		if (!s) {
			thread_park_locked(e, t, exec_watch_ns(e));
			continue;
		}
		if (exec_turn_locked(e, s) != SIMT_WAIT) {
			t->waits = 0;
			continue;
		}
		t->waits++;
		nap = nap_ns(e, t);
		if (nap)
			thread_park_locked(e, t, nap);
	}
	pthread_mutex_unlock(&e->dev->lock);
	return NULL;
}

int soft_exec_init(struct soft_exec *e, struct device *dev)
{
	*e = (struct soft_exec){.dev = dev,
				.n_sms = dev->cfg.tpcs * SOFT_SMS_PER_TPC,
				.n_threads = dev->cfg.threads};
	list_init(&e->idle);
	list_init(&e->active);
	e->sms = calloc(e->n_sms, sizeof(*e->sms));
	e->threads = calloc(e->n_threads, sizeof(*e->threads));
	e->spare = calloc(e->n_threads * SPARE_PER_THREAD, sizeof(struct simt_cta *));
	if (!e->sms || !e->threads || !e->spare)
		return -ENOMEM;
	for (unsigned i = 0; i < e->n_sms; i++)
		e->sms[i] = sm_empty();
	for (unsigned i = 0; i < e->n_threads; i++) {
		struct soft_exec_thread *t = &e->threads[i];
		int r;

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
}

/* ---- kernels ---- */

void soft_exec_start_locked(struct soft_exec *e, struct soft_op *op)
{
	struct soft_kernel *k = container_of(op, struct soft_kernel, op), *other;
	bool first = true;

	k->since_ns = clock_now_ns();
	if (list_empty(&e->active))
		e->busy_since_ns = k->since_ns;
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
		while ((s = slot_next_turn_locked(e, k)))
			slot_free_locked(e, s);
		kernel_finish_if_over_locked(e, k);
	}
}

uint64_t soft_exec_busy_locked(const struct soft_exec *e)
{
	uint64_t now = list_empty(&e->active) ? 0 : clock_now_ns() - e->busy_since_ns;

	return e->busy_ns + now;
}
