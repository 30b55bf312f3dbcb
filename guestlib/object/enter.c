/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: the way in
 *
 * guest_enter() is on the path of every call, launches included: the gate, one
 * thread-local pointer, the session's status line (in the window: no message) and, if
 * a context is needed, whether the worker knows it already.
 */
#include <pthread.h>
#include <stdlib.h>

#include "core/process.h"
#include "core/session.h"
#include "core/shared_lane.h"
#include "core/thread.h"
#include "object/context.h"
#include "object/enter.h"

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_key_ok;

void thread_free(struct guest_thread *t)
{
	if (!t)
		return;
	while (t->depth)
		ctx_unref(t->stack[--t->depth]);
	free(t->stack);
	if (t->shared)
		shared_lane_leave(t);
	channel_park(t);
	free(t);
}

/* A thread ends: its lane waits for another, its references go. */
static void thread_end(void *arg)
{
	struct guest_thread *t = arg;

	guest_self = NULL;
	if (process_get_state() == PROCESS_FORKED)
		return;
	if (t->at_end)
		t->at_end(t);
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

/* Has the worker use the thread's current context from the next command on. */
static CUresult sync_ctx(struct guest_thread *t)
{
	uint64_t id = atomic_load_explicit(&t->top->wire_id, memory_order_relaxed);
	CUresult r = session_set_current(t, t->top->handle);

	if (r == CUDA_SUCCESS)
		t->wire_id = id;
	return r;
}

/* Has the worker use a living context that is not the thread's; the thread still has none
 * afterwards. */
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
	CUresult r = guest_status();

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
