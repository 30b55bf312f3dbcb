/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A warp: which lanes run next, how they part and meet again.
 *
 * Lanes that part at a branch become splits, each with its own place in the program. A
 * join is set up at the branch's post-dominator (or at the return address of a call) and
 * the splits that come there wait for the rest. Unlike a stack of masks, splits are
 * scheduled in turn, so a lane may wait for what another lane of its warp will do. Where
 * the lane waited for is itself stuck in a join (it left the spin loop first), the join
 * lets go: lanes that poll memory while others wait in a join cause that after a few
 * polls, any other lanes after SIMT_STALE_MAX slices. Letting go costs speed, nothing
 * else: the lanes meet again at the next join.
 */
#include "simt/cta.h"

int simt_warp_start(struct simt_warp *w, const struct simt_code *code, uint32_t live)
{
	struct simt_frame *f = simt_frame_new(w, code, NULL);

	if (!f)
		return -1;
	w->live = live;
	w->used = 0;
	w->joins = NULL;
	w->forced = false;
	w->stale = 0;
	w->starts++;
	w->cur = simt_split_new(w, live, code->entry, f, NULL);
	return 0;
}

bool simt_warp_unjoin(struct simt_warp *w)
{
	struct simt_join *j, *next;
	bool any = false;

	for (j = w->joins; j; j = next) {
		next = j->next;
		if (!j->arrived)
			continue;
		simt_join_release(w, j);
		any = true;
	}
	w->stale = 0;
	return any;
}

void simt_warp_merge(struct simt_warp *w)
{
	FOR_LANES(w->used, i)
	{
		struct simt_split *s = &w->split[i];

		for (uint32_t j = i + 1; j < SIMT_WARP; j++) {
			struct simt_split *t = &w->split[j];

			if (s->state != SIMT_SPLIT_READY ||
			    t->state != SIMT_SPLIT_READY || t->pc != s->pc ||
			    t->frame != s->frame || t->join != s->join)
				continue;
			s->mask |= t->mask;
			simt_split_free(w, t);
		}
	}
}

void simt_warp_exit(struct simt_warp *w, uint32_t m)
{
	struct simt_split *s = w->cur;
	uint32_t before = w->live;

	w->live &= ~m;
	simt_join_drop(w, s->join, NULL, m);
	s->mask &= ~m;
	w->mask = s->mask;
	if (!s->mask)
		simt_split_free(w, s);
	if (!w->live)
		w->cta->live_warps--;
	simt_bar_exit(w, m, before);
	simt_cluster_exit(w, m);
	simt_wsync_check(w);
}

/* The next split after the current one that can run, or NULL. */
static struct simt_split *pick(struct simt_warp *w)
{
	unsigned at = (unsigned)(w->cur - w->split);

	for (unsigned k = 1; k <= SIMT_WARP; k++) {
		struct simt_split *s = &w->split[(at + k) % SIMT_WARP];

		if (s->state == SIMT_SPLIT_READY)
			return s;
	}
	return NULL;
}

static bool joins_wait(const struct simt_warp *w)
{
	for (const struct simt_join *j = w->joins; j; j = j->next)
		if (j->arrived)
			return true;
	return false;
}

static bool waits_for_lanes(const struct simt_warp *w)
{
	FOR_LANES(w->used, i)
	{
		if (w->split[i].state == SIMT_SPLIT_WSYNC)
			return true;
	}
	return false;
}

/* The interpreter's loop: up to left instructions of the current split. */
static const struct simt_op *run(struct simt_warp *w, uint32_t *left)
{
	const struct simt_op *op = w->cur->pc;
	uint64_t threads = 0, instr = 0;
	uint32_t n = *left;

	do {
		uint32_t m = w->mask;

		instr += op->count;
		if (unlikely(op->guard != SIMT_NO_GUARD)) {
			uint32_t p = *(const uint32_t *)(w->regs + op->guard);

			m &= op->guard_neg ? ~p : p;
			if (!m) {
				op++;
				continue;
			}
		}
		threads += likely(m == SIMT_FULL) ? SIMT_WARP * op->count
						  : __builtin_popcount(m) * op->count;
		op = op->fn(w, op, m, w->regs);
	} while (--n && op); /* one that ends the split counts, too */
	*left = n;
	w->thread_instr += threads;
	w->warp_instr += instr;
	return op;
}

static void load_split(struct simt_warp *w, struct simt_split *s)
{
	w->cur = s;
	w->mask = s->mask;
	w->regs = s->frame->regs;
	w->sp = s->frame->sp;
	w->event = SIMT_EV_NONE;
}

/* Whether a slice of so many instructions did more than poll (poll.c) and sleep. */
static bool got_on(const struct simt_warp *w, uint32_t instr, bool yielded)
{
	return instr &&
	       (!yielded || w->moved || instr > SIMT_POLL_INSTR * (w->spins + 1));
}

enum warp_state simt_warp_run(struct simt_warp *w, uint64_t *budget)
{
	uint32_t left = *budget < SIMT_SLICE ? (uint32_t)*budget : SIMT_SLICE;
	uint32_t start = left;
	bool yielded = false, blocked = false, ran;

	w->spins = 0;
	w->moved = false;
	while (left) {
		struct simt_split *s =
			w->cur->state == SIMT_SPLIT_READY ? w->cur : pick(w);
		const struct simt_op *op;

		if (!s && waits_for_lanes(w) && simt_warp_unjoin(w))
			continue;
		if (!s) {
			blocked = true;
			break;
		}
		load_split(w, s);
		op = run(w, &left);
		if (op) {
			w->cur->pc = op;
			break;
		}
		if (w->event == SIMT_EV_FAULT)
			return WARP_FAULT;
		if (w->event == SIMT_EV_YIELD) {
			yielded = true;
			break;
		}
	}
	*budget -= start - left;
	ran = got_on(w, start - left, yielded);
	if (!blocked) {
		struct simt_split *other;

		if (w->joins && joins_wait(w) && (!ran || ++w->stale > SIMT_STALE_MAX))
			simt_warp_unjoin(w);
		other = pick(w);
		if (other)
			w->cur = other;
	}
	return ran ? WARP_RAN : WARP_STUCK;
}
