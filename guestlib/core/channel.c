/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of threads, and what goes through them; guest.h has the rules. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "calls.h"
#include "core/idle.h"
#include "core/known.h"
#include "core/pages.h"
#include "core/process.h"
#include "core/shared_lane.h"
#include "core/thread.h"
#include "feature.h"
#include "refusal.h"

__thread struct guest_thread *guest_self;

_Atomic uint64_t idle_calls __attribute__((aligned(64)));
_Atomic uint64_t idle_ended;

/*
 * Lanes of threads that have ended, for threads to come. They also keep the session alive
 * while no thread has a lane: it ends when its last lane closes.
 */
#define PARKED_MAX 16

static struct {
	pthread_mutex_t lock;
	unsigned n;
	struct {
		struct lane *lane;
		uint64_t wire_id;
	} of[PARKED_MAX];
} parked = {.lock = PTHREAD_MUTEX_INITIALIZER};

void channel_park(struct guest_thread *t)
{
	struct lane *l = steal(t->lane);

	if (!l)
		return;
	pthread_mutex_lock(&parked.lock);
	if (parked.n < PARKED_MAX && !lane_dead(l)) {
		parked.of[parked.n].lane = steal(l);
		parked.of[parked.n++].wire_id = t->wire_id;
	}
	pthread_mutex_unlock(&parked.lock);
	lane_free(l);
}

static bool unpark_lane(struct guest_thread *t)
{
	pthread_mutex_lock(&parked.lock);
	if (parked.n) {
		t->lane = parked.of[--parked.n].lane;
		t->wire_id = parked.of[parked.n].wire_id;
	}
	pthread_mutex_unlock(&parked.lock);
	return t->lane;
}

/* Opens one more. While weftd has no time for it, waits: as long as for a session. */
static int open_lane(struct lane **ret_lane)
{
	uint64_t deadline = clock_now_ns() + PROCESS_WAIT_NS;
	unsigned ms = 1;
	int r;

	while ((r = link_lane(guest_process.link, ret_lane)) == -EAGAIN &&
	       clock_now_ns() < deadline) {
		nanosleep(&(struct timespec){.tv_nsec = ms * NSEC_PER_MSEC}, NULL);
		ms = MIN(2 * ms, 64u);
	}
	return r;
}

/* Before the n-th lane, for when there are no more. */
static void open_shared_lane(unsigned n)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct lane *l;

	pthread_mutex_lock(&lock);
	if (shared_lane_wanted(n) && open_lane(&l) == 0)
		shared_lane_add(l);
	pthread_mutex_unlock(&lock);
}

/* Says that t has the lane of a thread that has ended, which may have left work in its
 * streams. */
static CUresult take_over(struct guest_thread *t)
{
	return begin_thread_begin(t) ? guest_post(t) : guest_lost(t);
}

CUresult thread_open_own_lane(struct guest_thread *t)
{
	static _Atomic unsigned n_lanes;
	int r;

	if (unpark_lane(t))
		return take_over(t);
	open_shared_lane(++n_lanes);
	r = open_lane(&t->lane);
	if (r == -EPIPE || r == -ECONNREFUSED || r == -EPROTO) {
		process_lost("it opens no lane for a new thread");
		return GUEST_ERROR_LOST;
	}
	if (r == 0) {
		process_warn_slow();
		return CUDA_SUCCESS;
	}
	n_lanes--;
	t->lane = NULL;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult thread_open_lane(struct guest_thread *t)
{
	CUresult r;

	if (t->lane)
		return CUDA_SUCCESS;
	r = thread_open_own_lane(t);
	return r == CUDA_ERROR_OUT_OF_MEMORY && shared_lane_join(t) ? CUDA_SUCCESS : r;
}

/* Commands may change memory that the program reads a copy of. It is to have none before one is
 * said, for others may see what comes of that before this thread returns; nor afterwards: one may
 * have been lent meanwhile. */
static inline void take_back(void)
{
	if (unlikely(atomic_load(&pages_lent)))
		pages_on_command();
}

void *guest_begin(struct guest_thread *t, uint16_t op, uint32_t size,
		  uint32_t payload_size, void **ret_payload)
{
	void *body;

	take_back();
	if (unlikely(t->shared))
		body = shared_lane_begin(t, op, size, payload_size, ret_payload);
	else
		body = lane_begin(t->lane, op, size, payload_size, ret_payload);
	t->op = op;
	return body;
}

void guest_fixed(struct guest_thread *t, uint32_t bytes)
{
	lane_fixed(t->lane, bytes);
}

/* True if the host has been told that an operation is wanted. */
static bool told(uint16_t op)
{
	static atomic_flag done[WIRE_NUM_OPS];

	return atomic_flag_test_and_set(&done[op]);
}

/* Answers a command that the host is too old for, and tells the user and the host. */
static CUresult not_known(struct guest_thread *t, uint16_t op)
{
	char what[REFUSAL_TEXT];
	struct refused_cmd *cmd;
	struct lane_reply reply;

	known_missing(op, what);
	if (told(op) || !(cmd = begin_refused(t)))
		return CUDA_ERROR_NOT_SUPPORTED;
	cmd->kind = REFUSAL_VERSION;
	cmd->count = 1;
	memcpy(cmd->what, what, sizeof(cmd->what));
	(void)guest_call(t, sizeof(struct refused_rep), &reply);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Nothing was sent; r says why. */
static CUresult unsent(struct guest_thread *t, int r)
{
	return r == -EOPNOTSUPP ? not_known(t, t->op) : guest_lost(t);
}

CUresult guest_lost(struct guest_thread *t)
{
	if (t->op && t->lane && !lane_knows(t->lane, t->op))
		return not_known(t, t->op);
	process_lost("the connection ended");
	return guest_status();
}

CUresult guest_broken(struct guest_thread *t)
{
	process_lost("it broke the protocol");
	return guest_status();
}

CUresult guest_post(struct guest_thread *t)
{
	int r = unlikely(t->shared) ? shared_lane_post(t) : lane_post(t->lane);

	take_back();
	return unlikely(r < 0) ? unsent(t, r) : CUDA_SUCCESS;
}

/* Objects meet in a mark if more than so many are in use: they are ordered needlessly. */
#define MARKS 2048u

/* A line each: threads write to those of their own streams. */
static struct {
	lane_mark last;
} __attribute__((aligned(64))) marks[MARKS];

/* Streams have the even ones, events the odd ones. */
static lane_mark *mark_of(uint64_t handle)
{
	uint64_t odd = handle_type(handle) == HANDLE_EVENT;

	return &marks[((handle >> 4) * 2 + odd) % MARKS].last;
}

CUresult guest_post_apart(struct guest_thread *t, uint64_t *after, uint64_t stream,
			  uint64_t event)
{
	int r;

	*after = 0;
	if (unlikely(t->shared) || stream == GUEST_STREAM_LEGACY ||
	    unlikely(!(guest_process.device.features & FEATURE_APART)))
		return guest_post(t);
	r = lane_post_apart(t->lane, after,
			    stream > GUEST_STREAM_PER_THREAD ? mark_of(stream) : NULL,
			    event ? mark_of(event) : NULL);
	take_back();
	return unlikely(r < 0) ? unsent(t, r) : CUDA_SUCCESS;
}

/* The result in a reply, whose structure is given the size that it has here. */
static CUresult reply_result(struct guest_thread *t, int r, uint32_t body_size,
			     struct lane_reply *reply, bool even_lost)
{
	const struct wire_result *res;

	take_back();
	if (r == -EPROTO || (r == 0 && reply->fixed < sizeof(*res)))
		return guest_broken(t);
	if (r < 0)
		return unsent(t, r);
	res = reply->body;
	if (res->result)
		return res->result;
	if (res->sticky && !even_lost)
		return res->sticky;
	if (unlikely(reply->fixed != body_size))
		lane_fit_reply(t->lane, reply, body_size, t->answer);
	return CUDA_SUCCESS;
}

static int send(struct guest_thread *t)
{
	return unlikely(t->shared) ? shared_lane_send(t) : lane_send(t->lane);
}

static int answer(struct guest_thread *t, struct lane_reply *ret)
{
	return unlikely(t->shared) ? shared_lane_answer(t, ret)
				   : lane_answer(t->lane, ret);
}

static int call(struct guest_thread *t, struct lane_reply *ret)
{
	int r = send(t);

	return r < 0 ? r : answer(t, ret);
}

CUresult guest_ask(struct guest_thread *t, uint32_t body_size, struct lane_reply *ret)
{
	return reply_result(t, call(t, ret), body_size, ret, false);
}

CUresult guest_call(struct guest_thread *t, uint32_t body_size, struct lane_reply *ret)
{
	CUresult r = guest_ask(t, body_size, ret);

	idle_count_call();
	return r;
}

CUresult guest_send(struct guest_thread *t)
{
	int r = send(t);

	return unlikely(r < 0) ? unsent(t, r) : CUDA_SUCCESS;
}

CUresult guest_answer(struct guest_thread *t, uint32_t body_size, struct lane_reply *ret)
{
	return reply_result(t, answer(t, ret), body_size, ret, false);
}

CUresult guest_call_even_lost(struct guest_thread *t, uint32_t body_size,
			      struct lane_reply *ret)
{
	return reply_result(t, call(t, ret), body_size, ret, true);
}

CUresult guest_next(struct guest_thread *t, uint32_t body_size, struct lane_reply *ret)
{
	int r = unlikely(t->shared) ? shared_lane_next(t, ret) : lane_next(t->lane, ret);

	return reply_result(t, r, body_size, ret, false);
}
