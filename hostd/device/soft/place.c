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
 */
#include "base/clock.h"
#include "base/macros.h"
#include "device/soft/soft.h"
#include "device/soft/place.h"

/* Each so many picks somebody of a lower priority may go first. */
#define LOW_PRIORITY_TURN 16

/* A kernel that could place nothing for so long is squeezed in. */
#define STARVED_NS (2 * NSEC_PER_MSEC)

/* Kernels that are looked at in one pick. */
#define PICK_TRIES 8

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

struct soft_need soft_sm_empty(void)
{
	return (struct soft_need){SOFT_SM_THREADS, SOFT_SM_REGS, SOFT_SM_SHARED_BYTES,
				  SOFT_SM_BLOCKS};
}

unsigned soft_exec_blocks_per_sm(const struct soft_need *n)
{
	struct soft_need sm = soft_sm_empty();
	int r = MIN(sm.blocks, sm.threads / MAX(n->threads, 1));

	r = MIN(r, sm.regs / MAX(n->regs, 1));
	return (unsigned)MIN(r, sm.shared_bytes / MAX(n->shared_bytes, 1));
}

static bool is_in(const struct dev_tpcs *set, unsigned sm)
{
	unsigned tpc = sm / SOFT_SMS_PER_TPC;

	return !set->n || (tpc < SOFT_SET_MAX && set->bits[tpc / 64] >> tpc % 64 & 1);
}

unsigned soft_exec_sms(const struct soft_exec *e, const struct dev_tpcs *set)
{
	return set->n ? MIN(set->n * SOFT_SMS_PER_TPC, e->n_sms) : e->n_sms;
}

/* An SM for one block of k, searched in turn so that blocks spread; -1: none. */
static int sm_find_locked(struct soft_exec *e, const struct soft_kernel *k, bool force)
{
	for (unsigned i = 0; i < e->n_sms; i++) {
		unsigned sm = e->next_sm + i;

		sm -= sm >= e->n_sms ? e->n_sms : 0;
		if (is_in(&k->tpcs, sm) && (force || sm_fits(&e->sms[sm], &k->need)))
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
	if (c && e->n_spare < e->n_threads * SOFT_SPARE_PER_THREAD)
		e->spare[e->n_spare++] = c;
	else
		simt_cta_free(c);
}

void soft_slot_free_locked(struct soft_exec *e, struct soft_slot *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		sm_take(&e->sms[s->blocks[i].sm], &s->kernel->need, -1);
		cta_put_locked(e, s->blocks[i].cta);
	}
	s->kernel->resident--;
	e->frees++;
	free(s);
}

/*
 * A slot for the kernel's next cluster, or NULL if there is no room (or memory) now. With
 * force there is always room.
 */
static struct soft_slot *slot_place_locked(struct soft_exec *e, struct soft_kernel *k,
					   bool force)
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

		sm = sm_find_locked(e, k, force);
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
		soft_slot_free_locked(e, s);
		return NULL;
	}
	s->cluster = k->next++;
	return s;
}

void soft_slot_wait_turn_locked(struct soft_exec *e, struct soft_slot *s)
{
	list_append(&s->kernel->turns, &s->link);
	e->n_turns++;
}

struct soft_slot *soft_slot_next_turn_locked(struct soft_exec *e, struct soft_kernel *k)
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
static bool place_all_locked(struct soft_exec *e, struct soft_kernel *k, bool force)
{
	struct soft_slot *s;

	while (k->next < k->total) {
		s = slot_place_locked(e, k, force);
		if (s) {
			soft_slot_wait_turn_locked(e, s);
			continue;
		}
		while ((s = soft_slot_next_turn_locked(e, k)))
			soft_slot_free_locked(e, s);
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

/* Whether a block may fit. Remembers a no until somebody gives something back. */
static bool has_room_locked(struct soft_exec *e, struct soft_kernel *k)
{
	if (k->no_room_at == e->frees)
		return false;
	if (sm_find_locked(e, k, false) >= 0)
		return true;
	k->no_room_at = e->frees;
	return false;
}

static bool has_new_block_locked(struct soft_exec *e, struct soft_kernel *k)
{
	if (k->next >= k->total)
		return false;
	if (!k->cooperative)
		return has_room_locked(e, k) || exec_starved_locked(e, k);
	if (has_room_locked(e, k)) {
		if (place_all_locked(e, k, false))
			return true;
		k->no_room_at = e->frees;
	}
	return exec_starved_locked(e, k) && place_all_locked(e, k, true);
}

static bool kernel_before(const struct soft_kernel *a, const struct soft_kernel *b,
			  bool by_priority)
{
	if (by_priority && a->priority != b->priority)
		return a->priority < b->priority; /* CUDA: lower numbers go first */
	return a->runtime < b->runtime;
}

struct soft_kernel *soft_kernel_pick_locked(struct soft_exec *e)
{
	bool by_priority = e->picks % LOW_PRIORITY_TURN;
	struct soft_kernel *k, *best = NULL;

	if (e->off)
		return NULL;
	list_for_each (k, &e->active, link) {
		if (list_empty(&k->turns) && !has_new_block_locked(e, k))
			continue;
		if (!best || kernel_before(k, best, by_priority))
			best = k;
	}
	return best;
}

/* A new block of the kernel, now resident, or NULL. */
static struct soft_slot *slot_new_locked(struct soft_exec *e, struct soft_kernel *k)
{
	struct soft_slot *s = NULL;

	if (k->cooperative || k->next >= k->total)
		return NULL;
	if (has_room_locked(e, k)) {
		s = slot_place_locked(e, k, false);
		if (!s) /* room for a block, but not for the whole cluster */
			k->no_room_at = e->frees;
	}
	if (!s && exec_starved_locked(e, k))
		s = slot_place_locked(e, k, true);
	if (s)
		k->since_ns = clock_now_ns();
	return s;
}

/* True if k's next block had better not be started. A paused block mostly waits for one
 * before it, which runs just now: more blocks would only wait as well. */
static bool is_patient(const struct soft_exec *e, const struct soft_kernel *k)
{
	return k->paused && !list_empty(&k->turns) &&
	       e->waits / (e->n_turns + 1) < SOFT_PATIENCE;
}

struct soft_slot *soft_slot_pick_locked(struct soft_exec *e, const struct dev_ctx *ctx,
					const struct dev_stream *st)
{
	struct soft_slot *s = NULL;

	/* A kernel whose clusters turn out not to fit is not picked again. */
	for (int i = 0; !s && i < PICK_TRIES; i++) {
		struct soft_kernel *k = soft_kernel_pick_locked(e);

		if (!k || (ctx && k->ctx != ctx) || (st && k->op.st != st))
			return NULL;
		e->picks++;
		if (!is_patient(e, k))
			s = slot_new_locked(e, k);
		if (!s)
			s = soft_slot_next_turn_locked(e, k);
	}
	return s;
}
