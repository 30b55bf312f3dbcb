/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: functions of the program in a stream
 *
 * The worker stops a stream at such a function and tells it to one helper thread of this
 * process, which waits for that on a lane of its own, runs the function and asks for the
 * next; asking says that the one before is done. The thread is made when first needed. It
 * takes no signals: those are for the program's threads.
 *
 * Such a function may not call CUDA: a call that waited for its own stream would wait for
 * ever. While it runs, the helper has no lane, and so guest_enter() refuses.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "calls.h"
#include "core/process.h"
#include "core/thread.h"
#include "object/enter.h"
#include "object/hostfunc.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list pending = {&pending, &pending};
static uint64_t next_id = 1;
static bool helper_runs;
static hostfunc_other run_other;     /* under the lock */
static _Atomic unsigned outstanding; /* posted and not yet returned */

/*
 * Outstanding functions at most: launching one more waits, as the driver does when its
 * queues are full. Half of what a device has places for: graphs have some, too.
 */
#define OUTSTANDING_MAX 8192u
/* The host may die meanwhile. */
#define LOOK_NS (100 * NSEC_PER_MSEC)
static pthread_cond_t room = PTHREAD_COND_INITIALIZER;
static unsigned waiting; /* for room; under the lock */

/* *ret_other: what runs if it is none of these. */
static struct host_call *take(uint64_t id, hostfunc_other *ret_other)
{
	struct host_call *c, *found = NULL;

	pthread_mutex_lock(&lock);
	*ret_other = run_other;
	list_for_each (c, &pending, link) {
		if (c->id == id) {
			found = c;
			list_remove(&c->link);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static CUresult wait_for_next(struct guest_thread *t, uint64_t done_id, CUresult done,
			      struct host_func_wait_rep *ret)
{
	struct host_func_wait_cmd *cmd = begin_host_func_wait(t);
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->done_id = done_id;
	cmd->done_result = done;
	r = guest_call_even_lost(t, sizeof(*ret), &reply);
	if (r == CUDA_SUCCESS)
		*ret = *(const struct host_func_wait_rep *)reply.body;
	return r;
}

static struct lane *hide_lane(void)
{
	guest_self->in_host_func = true;
	return steal(guest_self->lane);
}

static void show_lane(struct lane *l)
{
	guest_self->lane = l;
	guest_self->in_host_func = false;
}

void hostfunc_run(CUhostFn fn, void *arg)
{
	struct lane *l = hide_lane();

	fn(arg);
	show_lane(l);
}

/* One has returned. */
static void leave(void)
{
	atomic_fetch_sub(&outstanding, 1);
	pthread_mutex_lock(&lock);
	if (waiting)
		pthread_cond_signal(&room);
	pthread_mutex_unlock(&lock);
}

static CUresult wait_for_room(void)
{
	CUresult r = CUDA_SUCCESS;
	struct timespec ts;

	if (likely(atomic_load(&outstanding) < OUTSTANDING_MAX))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	waiting++;
	while (atomic_load(&outstanding) >= OUTSTANDING_MAX && r == CUDA_SUCCESS) {
		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_nsec += LOOK_NS;
		ts.tv_sec += ts.tv_nsec / NSEC_PER_SEC;
		ts.tv_nsec %= NSEC_PER_SEC;
		pthread_cond_timedwait(&room, &lock, &ts);
		r = guest_status();
	}
	waiting--;
	pthread_mutex_unlock(&lock);
	return r;
}

static void run(struct host_call *c, CUresult status)
{
	if (c->callback) {
		struct lane *l = hide_lane();

		c->callback(c->stream, status, c->arg);
		show_lane(l);
	} else if (c->always) {
		c->fn(c->arg);
	} else if (status == CUDA_SUCCESS) {
		hostfunc_run(c->fn, c->arg);
	}
	leave();
}

bool hostfunc_pending(void)
{
	return atomic_load_explicit(&outstanding, memory_order_acquire);
}

static CUresult run_next(const struct host_func_wait_rep *next)
{
	hostfunc_other other;
	struct host_call *c = take(next->id, &other);

	if (!c)
		return other ? other(next->id, next->status) : CUDA_SUCCESS;
	run(c, next->status);
	free(c);
	return CUDA_SUCCESS;
}

static void *helper(void *arg)
{
	struct host_func_wait_rep next = {0};
	struct guest_thread *t = arg;
	CUresult done = CUDA_SUCCESS, r = thread_become(t);

	if (r)
		thread_free(t);
	while (r == CUDA_SUCCESS) {
		r = wait_for_next(t, next.id, done, &next);
		if (r == CUDA_SUCCESS)
			done = run_next(&next);
	}
	log_debug("host functions end: %d", (int)r);
	return NULL;
}

static CUresult start_helper_locked(void)
{
	struct guest_thread *t;
	sigset_t all, old;
	pthread_t thread;
	CUresult r;

	if (helper_runs)
		return CUDA_SUCCESS;
	t = calloc(1, sizeof(*t));
	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = thread_open_own_lane(t); /* it waits in there nearly all the time */
	if (r) {
		thread_free(t);
		return r;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, NULL, helper, t) ? CUDA_ERROR_OUT_OF_MEMORY
						     : CUDA_SUCCESS;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r) {
		thread_free(t);
		return r;
	}
	pthread_detach(thread);
	helper_runs = true;
	return CUDA_SUCCESS;
}

CUresult hostfunc_start(hostfunc_other other)
{
	CUresult r;

	pthread_mutex_lock(&lock);
	run_other = other;
	r = start_helper_locked();
	pthread_mutex_unlock(&lock);
	return r;
}

uint64_t hostfunc_number(void)
{
	uint64_t id;

	pthread_mutex_lock(&lock);
	id = next_id++;
	pthread_mutex_unlock(&lock);
	return id;
}

/* Puts a call into the table, which owns it from then on. */
static CUresult enqueue(struct host_call *c, uint64_t *ret_id)
{
	CUresult r;

	pthread_mutex_lock(&lock);
	r = start_helper_locked();
	if (r == CUDA_SUCCESS) {
		*ret_id = c->id = next_id++;
		list_append(&pending, &c->link);
		atomic_fetch_add(&outstanding, 1);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static CUresult post_wire(struct guest_thread *t, const struct host_call *what,
			  uint64_t wire)
{
	struct host_call *c = malloc(sizeof(*c));
	struct host_func_cmd *cmd;
	hostfunc_other other;
	uint64_t id;
	CUresult r;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = *what;
	r = enqueue(c, &id);
	if (r) {
		free(c);
		return r;
	}
	cmd = begin_host_func(t);
	if (!cmd) {
		free(take(id, &other));
		leave();
		return guest_lost(t);
	}
	cmd->stream = wire;
	cmd->id = id;
	return guest_post(t);
}

CUresult hostfunc_post(struct guest_thread *t, CUhostFn fn, void *arg, uint64_t wire)
{
	const struct host_call c = {.fn = fn, .arg = arg, .always = true};

	return post_wire(t, &c, wire);
}

CUresult hostfunc_add(struct guest_thread *t, const struct host_call *what, uint64_t wire)
{
	CUresult r = wait_for_room();

	return r ? r : post_wire(t, what, wire);
}
