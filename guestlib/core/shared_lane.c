/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "core/shared_lane.h"
#include "core/thread.h"

/* Shared lanes at most. A thread that waits for the device keeps the others of its lane
 * from calling, so there are several. */
#define SHARED_MAX       8u
#define LANES_PER_SHARED 32u

struct shared_lane {
	pthread_mutex_t lock;
	struct lane *lane;
	uint64_t wire_id; /* of its context at the worker, as struct guest_thread's */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared_lane *all[SHARED_MAX];
static unsigned n_all, next;

bool shared_lane_wanted(unsigned n)
{
	bool wanted;

	pthread_mutex_lock(&lock);
	wanted = n > 1 && n_all < MIN(SHARED_MAX, 1 + n / LANES_PER_SHARED);
	pthread_mutex_unlock(&lock);
	return wanted;
}

void shared_lane_add(struct lane *l)
{
	struct shared_lane *s = calloc(1, sizeof(*s));

	if (s) {
		pthread_mutex_init(&s->lock, NULL);
		s->lane = l;
	}
	pthread_mutex_lock(&lock);
	if (s && n_all < SHARED_MAX) {
		all[n_all++] = steal(s);
		l = NULL;
	}
	pthread_mutex_unlock(&lock);
	lane_free(l);
	free(s);
}

bool shared_lane_join(struct guest_thread *t)
{
	struct shared_lane *s;

	/* Answers are kept there: the lane's are the next thread's. */
	t->answer = malloc(LANE_FIT_ROOM + WIRE_PAYLOAD_MAX);
	if (!t->answer)
		return false;
	pthread_mutex_lock(&lock);
	s = n_all ? all[next++ % n_all] : NULL;
	pthread_mutex_unlock(&lock);
	if (!s) {
		free(steal(t->answer));
		return false;
	}
	t->shared = s;
	t->lane = s->lane;
	return true;
}

void shared_lane_leave(struct guest_thread *t)
{
	t->shared = NULL;
	t->lane = NULL;
	free(steal(t->answer));
}

void shared_lane_abandon(void)
{
	pthread_mutex_init(&lock, NULL);
	n_all = 0; /* their memory is the parent's, as that of all lanes */
}

/* Once the answer is there, or none will come. */
static void let_go(struct guest_thread *t)
{
	t->holds_shared = false;
	pthread_mutex_unlock(&t->shared->lock);
}

static bool set_current(struct shared_lane *s, uint64_t wire_id)
{
	struct ctx_set_current_cmd *cmd =
		lane_begin(s->lane, WIRE_OP_ctx_set_current, sizeof(*cmd), 0, NULL);

	if (!cmd)
		return false;
	cmd->ctx = wire_id_ctx(wire_id);
	s->wire_id = wire_id;
	return lane_post(s->lane) == 0;
}

void *shared_lane_begin(struct guest_thread *t, uint16_t op, uint32_t size,
			uint32_t payload_size, void **ret_payload)
{
	struct shared_lane *s = t->shared;
	void *body = NULL;

	if (!t->holds_shared) /* it does if it did not read all of an answer */
		pthread_mutex_lock(&s->lock);
	t->holds_shared = true;
	if (op == WIRE_OP_ctx_set_current)
		s->wire_id = 0; /* whatever it names */
	else if (t->wire_id && t->wire_id != s->wire_id && !set_current(s, t->wire_id))
		goto out;
	body = lane_begin(s->lane, op, size, payload_size, ret_payload);
out:
	if (!body)
		let_go(t);
	return body;
}

int shared_lane_post(struct guest_thread *t)
{
	int r = lane_post(t->lane);

	let_go(t);
	return r;
}

int shared_lane_send(struct guest_thread *t)
{
	int r = lane_send(t->lane);

	if (r < 0)
		let_go(t);
	return r;
}

/* Copies out of the lane what came. */
static int keep(struct guest_thread *t, int r, struct lane_reply *reply)
{
	if (r == 0) {
		memcpy(t->answer, reply->body, reply->body_size);
		reply->body = t->answer;
		if (reply->payload_size)
			memcpy(t->answer + LANE_FIT_ROOM, reply->payload,
			       reply->payload_size);
		reply->payload = t->answer + LANE_FIT_ROOM;
	}
	if (r < 0 || !reply->more)
		let_go(t);
	return r;
}

int shared_lane_answer(struct guest_thread *t, struct lane_reply *ret_reply)
{
	return keep(t, lane_answer(t->lane, ret_reply), ret_reply);
}

int shared_lane_next(struct guest_thread *t, struct lane_reply *ret_reply)
{
	return keep(t, lane_next(t->lane, ret_reply), ret_reply);
}
