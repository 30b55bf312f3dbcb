// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: the way in
 *
 * guest_enter() is on the path of every call, launches included: the gate, one
 * thread-local pointer, the session's status line (in the window: no message) and, if
 * a context is needed, whether the worker knows it already.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "object/context.h"
#include "core/idle.h"
#include "core/process.h"
#include "core/session.h"
#include "core/shared_lane.h"
#include "copy/stage.h"
#include "core/thread.h"

__thread struct guest_thread *guest_self;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_key_ok;

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

static void park_lane(struct guest_thread *t)
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

void thread_free(struct guest_thread *t)
{
	if (!t)
		return;
	while (t->depth)
		ctx_unref(t->stack[--t->depth]);
	free(t->stack);
	if (t->shared)
		shared_lane_leave(t);
	park_lane(t);
	free(t);
}

/* A thread ends: its lane waits for another, its references go. */
static void thread_end(void *arg)
{
	struct guest_thread *t = arg;

	guest_self = NULL;
	if (process_get_state() == PROCESS_FORKED)
		return;
	stage_thread_end(t);
	thread_free(t);
}

static void make_key(void)
{
	thread_key_ok = pthread_key_create(&thread_key, thread_end) == 0;
}

CUresult thread_become(struct guest_thread *t)
{
	pthread_once(&thread_once, make_key);
	if (!thread_key_ok || pthread_setspecific(thread_key, t))
		return CUDA_ERROR_OUT_OF_MEMORY;
	t->capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	guest_self = t;
	return CUDA_SUCCESS;
}

struct guest_thread *thread_get(void)
{
	struct guest_thread *t = guest_self;

	if (likely(t))
		return t;
	t = calloc(1, sizeof(*t));
	if (t && thread_become(t))
		free(steal(t));
	return t;
}

void thread_abandon(void)
{
	if (guest_self)
		pthread_setspecific(thread_key, NULL);
	guest_self = NULL; /* its memory is the parent's lane's; a child never uses it */
	shared_lane_abandon();
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

CUresult thread_open_own_lane(struct guest_thread *t)
{
	static _Atomic unsigned n_lanes;
	int r;

	if (unpark_lane(t)) /* the thread before may have left work in its streams */
		return session_thread_begin(t);
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

/* The worker is to use the thread's current context from the next command on. */
static CUresult sync_ctx(struct guest_thread *t)
{
	uint64_t id = atomic_load_explicit(&t->top->wire_id, memory_order_relaxed);
	CUresult r = session_set_current(t, t->top->handle);

	if (r == CUDA_SUCCESS)
		t->wire_id = id;
	return r;
}

/* The same with a context that is not the thread's; it still has none afterwards. */
static CUresult lend_ctx(struct guest_thread *t)
{
	uint64_t handle, id;
	CUresult r;

	if (!ctx_any(&handle, &id))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (guest_process.status->sticky)
		return guest_process.status->sticky;
	if (t->wire_id == id)
		return CUDA_SUCCESS;
	r = session_set_current(t, handle);
	if (r == CUDA_SUCCESS)
		t->wire_id = id;
	return r;
}

static CUresult enter_slow(enum guest_need need, struct guest_thread **ret_t)
{
	struct guest_thread *t = thread_get();
	CUresult r;

	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (need != NEED_NONE && !t->lane) {
		if (t->in_host_func)
			return CUDA_ERROR_NOT_PERMITTED;
		r = thread_open_lane(t);
		if (r)
			return r;
	}
	*ret_t = t;
	return CUDA_SUCCESS;
}

CUresult guest_enter(enum guest_need need, struct guest_thread **ret_t)
{
	struct guest_thread *t = guest_self;
	CUresult r = guest_gate();

	if (unlikely(need == NEED_NONE)) {
		enum process_state state = process_get_state();

		if (state == PROCESS_FORKED || state == PROCESS_EXITING)
			return r;
		return enter_slow(need, ret_t);
	}
	if (unlikely(r))
		return r;
	if (unlikely(!t || !t->lane)) {
		r = enter_slow(need, &t);
		if (r)
			return r;
	}
	if (unlikely(need == NEED_ANY && !t->top)) {
		r = lend_ctx(t);
		if (r)
			return r;
	} else if (need >= NEED_ANY) {
		if (unlikely(!t->top))
			return CUDA_ERROR_INVALID_CONTEXT;
		/* acquire pairs with the release by whoever destroys the context */
		if (unlikely(!atomic_load_explicit(&t->top->alive, memory_order_acquire)))
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
		if (unlikely(guest_process.status->sticky))
			return guest_process.status->sticky;
		if (unlikely(t->wire_id != atomic_load_explicit(&t->top->wire_id,
								memory_order_relaxed))) {
			r = sync_ctx(t);
			if (r)
				return r;
		}
	}
	*ret_t = t;
	return CUDA_SUCCESS;
}

void *guest_begin(struct guest_thread *t, uint16_t op, uint32_t size,
		  uint32_t payload_size, void **ret_payload)
{
	if (unlikely(t->shared))
		return shared_lane_begin(t, op, size, payload_size, ret_payload);
	return lane_begin(t->lane, op, size, payload_size, ret_payload);
}

CUresult guest_lost(struct guest_thread *t)
{
	process_lost("the connection ended");
	return guest_gate();
}

CUresult guest_broken(struct guest_thread *t)
{
	process_lost("it broke the protocol");
	return guest_gate();
}

CUresult guest_post(struct guest_thread *t)
{
	int r = unlikely(t->shared) ? shared_lane_post(t) : lane_post(t->lane);

	return unlikely(r < 0) ? guest_lost(t) : CUDA_SUCCESS;
}

/* The result in a reply, once its size is known to be right. */
static CUresult reply_result(struct guest_thread *t, int r, uint32_t body_size,
			     const struct lane_reply *reply, bool even_lost)
{
	const struct wire_result *res = reply->body;

	if (r == -EPROTO || (r == 0 && reply->body_size < sizeof(*res)))
		return guest_broken(t);
	if (r < 0)
		return guest_lost(t);
	if (res->result)
		return res->result;
	if (res->sticky && !even_lost)
		return res->sticky;
	return reply->body_size < body_size ? guest_broken(t) : CUDA_SUCCESS;
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
	return unlikely(send(t) < 0) ? guest_lost(t) : CUDA_SUCCESS;
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
