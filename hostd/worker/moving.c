/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: clone3 futex sendmsg, and what the device does to map */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "memory/move.h"
#include "worker/broker_link.h"
#include "worker/moving.h"

/* How long the session's lanes are kept waiting for its own work to end: longer than
 * almost any kernel, shorter than anybody notices. */
#define PATIENCE_NS (50 * NSEC_PER_MSEC)

/* What can be told, in the order in which it is done. */
enum job {
	JOB_ANSWER,
	JOB_RECLAIM,
	JOB_RESTORE,
	JOB_POOL,
	JOB_NUM
};

struct moving {
	struct session *s;
	struct broker_link *link;
	int sock;
	pthread_t thread;

	pthread_mutex_t lock; /* a leaf, taken under the gate's */
	pthread_cond_t cond;
	struct ctl_msg jobs[JOB_NUM];
	unsigned pending; /* a bit per job */
	uint32_t need;    /* id of the NEED that is not answered; 0: none */
	bool wanted, ending;
};

/* ---- on the thread ---- */

static void answer(const struct moving *m, enum ctl_type type, uint32_t id,
		   uint64_t bytes, int result)
{
	struct ctl_msg msg = {.type = type, .id = id, .bytes = bytes, .result = result};

	/* A broken pair is the main thread's matter. */
	(void)ctl_send(m->sock, &msg, -1, -1);
}

static void count(_Atomic uint64_t *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static int close_gate(const struct moving *m)
{
	return gate_close(&m->s->gate, clock_now_ns() + PATIENCE_NS);
}

static uint64_t swapped(const struct moving *m)
{
	struct space_residency r;

	space_residency(m->s->space, &r);
	return r.swapped;
}

/* Opens the gate, or asks for what is missing; lanes are told apart by nobody. */
static void go_on(struct moving *m)
{
	struct ctl_msg msg = {.type = CTL_NEED, .bytes = swapped(m)};

	if (!msg.bytes) {
		gate_open(&m->s->gate);
		return;
	}
	if (!gate_wanted(&m->s->gate))
		return;
	pthread_mutex_lock(&m->lock);
	if (!m->need) {
		msg.id = m->need = broker_link_id(m->link);
		(void)ctl_send(m->sock, &msg, -1, -1);
	}
	pthread_mutex_unlock(&m->lock);
}

static void reclaim(struct moving *m, const struct ctl_msg *msg)
{
	struct space_moved moved = {0};
	int r = close_gate(m);

	if (r == 0)
		r = space_move_out(m->s->space, msg->bytes, msg->session,
				   msg->total == PLACE_SWAPPED ? PLACE_SWAPPED
							       : PLACE_MAPPED,
				   &moved);
	count(&m->s->count->moved_out_bytes, moved.bytes);
	if (!swapped(m))
		gate_open(&m->s->gate);
	answer(m, CTL_RECLAIMED, msg->id, moved.bytes, r);
	go_on(m);
}

static void restore(struct moving *m, const struct ctl_msg *msg)
{
	struct space_moved moved = {0};
	int r = close_gate(m);

	if (r == 0)
		r = space_move_in(m->s->space, msg->bytes, &moved);
	count(&m->s->count->moved_in_bytes, moved.bytes);
	if (!swapped(m))
		gate_open(&m->s->gate);
	answer(m, CTL_RESTORED, msg->id, moved.bytes, r);
	go_on(m);
}

/*
 * The answer to NEED. The gate may have been opened since, what was swapped having been
 * freed. If the context is lost, lanes are to learn that.
 */
static void needed(struct moving *m, const struct ctl_msg *msg)
{
	uint64_t granted = msg->result < 0 ? 0 : msg->bytes;
	struct space_moved moved = {0};
	int r = close_gate(m);

	if (r == 0 && granted)
		r = space_move_in(m->s->space, granted, &moved);
	count(&m->s->count->moved_in_bytes, moved.bytes);
	(void)space_map_swapped(m->s->space);
	gate_open(&m->s->gate);
	if (granted)
		answer(m, CTL_RESTORED, msg->id, moved.bytes, r);
}

static void keep_ready(struct moving *m, const struct ctl_msg *msg)
{
	space_host_pool_set(m->s->space, msg->bytes);
}

static void (*const jobs[])(struct moving *m, const struct ctl_msg *msg) = {
	[JOB_ANSWER] = needed,
	[JOB_RECLAIM] = reclaim,
	[JOB_RESTORE] = restore,
	[JOB_POOL] = keep_ready,
};
static_assert(ARRAY_SIZE(jobs) == JOB_NUM, "each is done");

static void *moving_main(void *arg)
{
	struct moving *m = arg;
	struct ctl_msg msg;
	enum job job;

	pthread_mutex_lock(&m->lock);
	while (!m->ending) {
		if (m->pending) {
			job = (enum job)__builtin_ctz(m->pending);
			m->pending &= ~(1u << job);
			msg = m->jobs[job];
			pthread_mutex_unlock(&m->lock);
			jobs[job](m, &msg);
			pthread_mutex_lock(&m->lock);
		} else if (m->wanted) {
			m->wanted = false;
			pthread_mutex_unlock(&m->lock);
			go_on(m);
			pthread_mutex_lock(&m->lock);
		} else {
			pthread_cond_wait(&m->cond, &m->lock);
		}
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* ---- on others ---- */

/* A lane waits at the gate. */
static void on_wanted(void *arg)
{
	struct moving *m = arg;

	pthread_mutex_lock(&m->lock);
	m->wanted = true;
	pthread_cond_signal(&m->cond);
	pthread_mutex_unlock(&m->lock);
}

int moving_new(struct session *s, struct broker_link *link, int sock,
	       struct moving **ret_m)
{
	struct moving *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->s = s;
	m->link = link;
	m->sock = sock;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->cond, NULL);
	gate_on_wanted(&s->gate, on_wanted, m);
	r = -pthread_create(&m->thread, NULL, moving_main, m);
	if (r < 0) {
		gate_on_wanted(&s->gate, NULL, NULL);
		free(m);
		return r;
	}
	*ret_m = m;
	return 0;
}

void moving_free(struct moving *m)
{
	if (!m)
		return;
	gate_on_wanted(&m->s->gate, NULL, NULL);
	pthread_mutex_lock(&m->lock);
	m->ending = true;
	pthread_cond_signal(&m->cond);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	pthread_cond_destroy(&m->cond);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static int take_locked(struct moving *m, enum job job, const struct ctl_msg *msg)
{
	/* Only the size of the pool may change before it was looked at. */
	if (m->pending & 1u << job && job != JOB_POOL)
		return -EPROTO;
	m->jobs[job] = *msg;
	m->pending |= 1u << job;
	pthread_cond_signal(&m->cond);
	return 0;
}

static int answered_locked(struct moving *m, const struct ctl_msg *msg)
{
	if (!m->need || msg->id != m->need)
		return -ENOENT;
	m->need = 0;
	return take_locked(m, JOB_ANSWER, msg);
}

int moving_told(struct moving *m, const struct ctl_msg *msg)
{
	int r = -EPROTO;

	pthread_mutex_lock(&m->lock);
	if (msg->type == CTL_RECLAIM)
		r = take_locked(m, JOB_RECLAIM, msg);
	else if (msg->type == CTL_RESTORE)
		r = take_locked(m, JOB_RESTORE, msg);
	else if (msg->type == CTL_POOL)
		r = take_locked(m, JOB_POOL, msg);
	else if (msg->type == CTL_ANSWER)
		r = answered_locked(m, msg);
	pthread_mutex_unlock(&m->lock);
	return r;
}
