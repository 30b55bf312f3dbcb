/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane's thread: receive, wait for the turn, dispatch, release.
 *
 * A lane that closes ends itself only; the last one ends the session. A lane that breaks
 * the protocol ends the session at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "dispatch.h"
#include "ops.h"
#include "session/command.h"
#include "session/session.h"

/* Kernels run on threads of the device; a lane's thread only decodes and submits. */
#define LANE_STACK_BYTES (256u << 10)

void sess_lane_init(struct sess_lane *sl, struct session *s, struct lane *l,
		    unsigned index)
{
	memset(sl, 0, sizeof(*sl));
	sl->s = s;
	sl->lane = l;
	sl->index = sl->gate.index = index;
	list_init(&sl->thread_streams);
	pthread_mutex_init(&sl->asleep_lock, NULL);
	gate_lane_add(&s->gate, &sl->gate);
}

void sess_lane_fini(struct sess_lane *sl)
{
	kept_drop(sl);
	sess_drop_thread_streams(sl, NULL);
	if (sl->ctx)
		obj_put(sl->s, &sl->ctx->obj);
	sl->ctx = NULL;
	gate_lane_remove(&sl->s->gate, &sl->gate);
}

static void release_pins(struct sess_lane *sl)
{
	while (sl->n_pins)
		obj_put(sl->s, sl->pins[--sl->n_pins].obj);
}

/*
 * A stream may stand still until the guest says that a host function has run, or a copy
 * of a graph is done, or until the program has written what its kernel waits for, and
 * commands may wait for that stream; so these do not wait for their turn.
 */
static bool is_unordered(uint16_t op)
{
	return op == WIRE_OP_host_func_wait || op == WIRE_OP_host_write ||
	       op == WIRE_OP_host_read || op == WIRE_OP_host_array_write ||
	       op == WIRE_OP_host_array_read || op == WIRE_OP_managed_move ||
	       op == WIRE_OP_managed_duplicate;
}

/* Keeps pinned objects that have a key, as they are likely to be named again, and drops
 * the others. */
static void keep_pins(struct sess_lane *sl)
{
	while (sl->n_pins) {
		const struct sess_pin *p = &sl->pins[--sl->n_pins];

		if (p->key) {
			kept_put(sl, p->key, p->obj, p->dev);
		} else {
			batch_end(sl);
			obj_put(sl->s, p->obj);
		}
	}
}

static int dispatch(struct sess_lane *sl, const struct dispatch_row *row)
{
	sl->replying = sl->uncounted = false;
	return row->run(sl, sl->msg);
}

/* Commands that name what they come after, if they are apart. */
static bool may_be_apart(uint16_t op)
{
	return op == WIRE_OP_launch_kernel || op == WIRE_OP_event_record;
}

static int claim_apart(struct sess_lane *sl)
{
	struct tickets *t = &sl->s->tickets;
	uint64_t seq = sl->msg->hdr.seq;
	int r;

	if (!may_be_apart(sl->msg->hdr.op))
		return -EPROTO;
	if (unlikely(!tickets_room(t, seq))) {
		r = batch_after(sl, seq - TICKETS_OPEN);
		if (r < 0)
			return r;
	}
	return tickets_claim_now(t, seq);
}

static int claim(struct sess_lane *sl)
{
	uint64_t seq = sl->msg->hdr.seq;

	if (sess_apart(sl))
		return claim_apart(sl);
	return sl->batch.n ? tickets_claim_now(&sl->s->tickets, seq)
			   : tickets_claim(&sl->s->tickets, seq);
}

static int handle_posted(struct sess_lane *sl, const struct dispatch_row *row)
{
	uint64_t seq = sl->msg->hdr.seq;
	int r = claim(sl);

	if (r < 0)
		return r;
	sl->run++;
	sl->batched = false;
	kept_check(sl);
	r = dispatch(sl, row);
	keep_pins(sl);
	kept_check(sl);
	if (sl->batched) {
		batch_submit_due(sl);
		return r;
	}
	batch_end(sl);
	sess_count_posted(sl, 1);
	if (sess_apart(sl))
		tickets_executed(&sl->s->tickets, &seq, 1);
	else
		tickets_done(&sl->s->tickets, seq);
	return r;
}

static int handle_call(struct sess_lane *sl, const struct dispatch_row *row)
{
	int r;

	sl->last_run = sl->run;
	sl->run = 0;
	kept_lend(sl);
	if (!is_unordered(sl->msg->hdr.op)) {
		r = tickets_wait(&sl->s->tickets, sl->msg->hdr.seq);
		if (r < 0) {
			kept_back(sl);
			return r;
		}
	}
	atomic_fetch_add_explicit(&sl->s->count->calls, 1, memory_order_relaxed);
	atomic_fetch_add(&sl->s->calls_begun, 1);
	r = dispatch(sl, row);
	release_pins(sl);
	atomic_fetch_add(&sl->s->calls_done, 1);
	kept_back(sl);
	return r;
}

/* Gives the command of a guest of another age the size that it has here. Returns the row
 * that is to handle it. */
static const struct dispatch_row *fit(struct sess_lane *sl,
				      const struct dispatch_row *row)
{
	sl->fitted = *sl->msg;
	if (lane_fit_msg(sl->lane, &sl->fitted, row->size) < 0)
		return &dispatch_unknown;
	sl->msg = &sl->fitted;
	return row;
}

int sess_handle(struct sess_lane *sl, const struct lane_msg *msg)
{
	const struct dispatch_row *row = dispatch_find(msg);

	sl->msg = msg;
	if (sl->batch.n && !batch_goes_on(sl))
		batch_end(sl);
	if (!row)
		return -EPROTO;
	if (unlikely(wire_fixed(&msg->hdr) != row->size) && row != &dispatch_unknown)
		row = fit(sl, row);
	return sess_posted(sl) ? handle_posted(sl, row) : handle_call(sl, row);
}

static void lane_loop(struct sess_lane *sl)
{
	struct lane_msg msg;
	int r;

	do {
		r = lane_recv(sl->lane, &msg);
		sess_lane_wakes(sl);
		sl->more = r == 0 && lane_peek(sl->lane) == WIRE_OP_launch_kernel;
		if (r < 0)
			sl->msg = NULL;
		else
			r = sess_handle(sl, &msg);
	} while (r >= 0);
	if (r != -EPIPE) {
		unsigned op = sl->msg ? sl->msg->hdr.op : 0;

		sess_warn(sl, "session ended: %s (op %u, %s)", strerror(-r), op,
			  codec_name(op));
		sess_end(sl->s, r);
	}
	sl->msg = NULL;
}

static void count_lanes_locked(struct session *s)
{
	atomic_store_explicit(&s->count->lanes, s->n_threads, memory_order_relaxed);
}

static void on_sleep(void *arg)
{
	sess_lane_sleeps(arg);
}

static void *lane_main(void *arg)
{
	struct sess_lane *sl = arg;
	struct session *s = sl->s;
	bool last;

	lane_on_sleep(sl->lane, on_sleep, sl);
	lane_loop(sl);
	sess_lane_fini(sl);
	pthread_mutex_lock(&s->lanes_lock);
	s->lanes[sl->index] = NULL;
	last = --s->n_lanes == 0;
	/* Under the lock: sess_end() may be about to kill the lane. */
	lane_free(sl->lane);
	pthread_mutex_unlock(&s->lanes_lock);
	free(sl);
	if (last)
		sess_end(s, 0);
	pthread_mutex_lock(&s->lanes_lock);
	s->n_threads--;
	count_lanes_locked(s);
	atomic_fetch_add_explicit(&s->count->lanes_ended, 1, memory_order_relaxed);
	pthread_cond_broadcast(&s->threads_cond);
	pthread_mutex_unlock(&s->lanes_lock);
	/* The session may be gone from here on. */
	return NULL;
}

void sess_join(struct session *s)
{
	pthread_mutex_lock(&s->lanes_lock);
	while (s->n_threads)
		pthread_cond_wait(&s->threads_cond, &s->lanes_lock);
	pthread_mutex_unlock(&s->lanes_lock);
}

void sess_drain(struct session *s)
{
	pthread_mutex_lock(&s->lanes_lock);
	while (s->n_lanes) /* each tells when its thread ends, too */
		pthread_cond_wait(&s->threads_cond, &s->lanes_lock);
	pthread_mutex_unlock(&s->lanes_lock);
	if (s->ops->go_on) /* the gate may have closed for good */
		s->ops->go_on(s->dev);
	sess_quiesce(s);
}

void sess_lane_idle(struct sess_lane *sl, bool idle)
{
	struct session *s = sl->s;
	bool last = false;

	pthread_mutex_lock(&s->lanes_lock);
	if (idle)
		last = --s->n_lanes == 0;
	else
		s->n_lanes++;
	pthread_mutex_unlock(&s->lanes_lock);
	if (last)
		sess_end(s, 0);
}

int sess_lane_reserve(struct session *s)
{
	int r = -ENOSPC;

	pthread_mutex_lock(&s->lanes_lock);
	for (unsigned i = 0; i < SESS_LANES_MAX && r < 0; i++) {
		if (s->lanes[i])
			continue;
		s->lanes[i] = SESS_LANE_RESERVED;
		r = i;
	}
	pthread_mutex_unlock(&s->lanes_lock);
	return r;
}

void sess_lane_unreserve(struct session *s, unsigned index)
{
	pthread_mutex_lock(&s->lanes_lock);
	s->lanes[index] = NULL;
	pthread_mutex_unlock(&s->lanes_lock);
}

static int start_locked(struct session *s, struct sess_lane *sl)
{
	pthread_attr_t attr;
	int r;

	if (atomic_load(&s->ending))
		return -EPIPE;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, LANE_STACK_BYTES);
	/* The thread cannot end before the table knows it: it needs the lock for that. */
	r = -pthread_create(&sl->thread, &attr, lane_main, sl);
	pthread_attr_destroy(&attr);
	if (r == 0) {
		s->lanes[sl->index] = sl;
		s->n_lanes++;
		s->n_threads++;
		count_lanes_locked(s);
	}
	return r;
}

int sess_lane_start(struct session *s, struct lane *l, unsigned index)
{
	_cleanup_free_ struct sess_lane *sl = calloc(1, sizeof(*sl));
	int r;

	if (!sl)
		return -ENOMEM;
	sess_lane_init(sl, s, l, index);
	pthread_mutex_lock(&s->lanes_lock);
	r = start_locked(s, sl);
	pthread_mutex_unlock(&s->lanes_lock);
	if (r == 0)
		steal(sl);
	else
		sess_lane_fini(sl);
	return r;
}
