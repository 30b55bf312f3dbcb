/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other process is looked at every few microseconds while something waits for it; to
 * be woken by it, both would have to agree on who sleeps, and one of them may end at any
 * time. weftd writes "all done" for a session that has ended.
 *
 * #syscalls: memfd_create ftruncate fcntl fstat mmap munmap clock_nanosleep
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "session/ipc_event.h"
#include "session/session.h"

#define PAGE_BYTES 4096u
/* Between two looks: at first, and after some time. */
#define LOOK_NS      20000
#define LOOK_LATE_NS 200000
#define LOOKS_EARLY  50

struct ipc_event {
	_Atomic unsigned refs; /* the object's, and one for each record and wait queued */
	struct sess_ipc_event *at;
	int fd; /* -1: it has a name */
	bool imported, named;
	uint8_t name[16];
};

/* In a stream: a record, or a wait until number is done. */
struct ipc_op {
	struct list link; /* ipc_events.waits */
	struct ipc_events *e;
	struct ipc_event *ev;
	uint64_t number, token;
};

struct ipc_events {
	struct session *s;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct list waits;
	unsigned n, n_unnamed;
	bool running, ending;
	pthread_t thread;
};

int ipc_events_new(struct session *s, struct ipc_events **ret_e)
{
	struct ipc_events *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->s = s;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->cond, NULL);
	list_init(&e->waits);
	*ret_e = e;
	return 0;
}

void ipc_events_end(struct ipc_events *e)
{
	pthread_mutex_lock(&e->lock);
	e->ending = true;
	pthread_cond_broadcast(&e->cond);
	pthread_mutex_unlock(&e->lock);
}

void ipc_events_free(struct ipc_events *e)
{
	if (!e)
		return;
	ipc_events_end(e);
	if (e->running)
		pthread_join(e->thread, NULL);
	pthread_cond_destroy(&e->cond);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

/* ---- life of one ---- */

static void put(struct ipc_event *ev)
{
	if (atomic_fetch_sub(&ev->refs, 1) > 1)
		return;
	munmap(ev->at, PAGE_BYTES);
	closep(&ev->fd);
	free(ev);
}

/* Takes over fd. */
static struct ipc_event *event_of(int fd)
{
	_cleanup_close_ int file = fd;
	struct ipc_event *ev;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	void *p;

	/* What could be cut short would end the process that touches it. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 ||
	    st.st_size < (off_t)PAGE_BYTES)
		return NULL;
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		return NULL;
	p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		free(ev);
		return NULL;
	}
	ev->at = p;
	ev->fd = fd_steal(&file);
	atomic_init(&ev->refs, 1);
	return ev;
}

static bool count_up(struct ipc_events *e, bool unnamed)
{
	bool ok;

	pthread_mutex_lock(&e->lock);
	ok = e->n < IPC_EVENTS_MAX && (!unnamed || e->n_unnamed < IPC_EVENTS_UNNAMED_MAX);
	e->n += ok;
	e->n_unnamed += ok && unnamed;
	pthread_mutex_unlock(&e->lock);
	return ok;
}

static void count_down(struct ipc_events *e, bool all, bool unnamed)
{
	pthread_mutex_lock(&e->lock);
	e->n -= all;
	e->n_unnamed -= unnamed;
	pthread_mutex_unlock(&e->lock);
}

struct ipc_event *ipc_event_new(struct ipc_events *e)
{
	struct ipc_event *ev = NULL;
	int fd;

	if (!e->s->broker.ipc_export || !count_up(e, true))
		return NULL;
	fd = fd_memfd("weft-event", PAGE_BYTES);
	if (fd >= 0)
		ev = event_of(fd);
	if (!ev)
		count_down(e, true, true);
	return ev;
}

static CUresult export_locked(struct ipc_events *e, struct ipc_event *ev)
{
	const struct sess_broker *b = &e->s->broker;
	struct sess_ipc x = {.kind = SESS_IPC_EVENT, .fd = ev->fd, .n_parts = 1};

	if (ev->named)
		return CUDA_SUCCESS;
	if (b->ipc_export(b->arg, &x, ev->name) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ev->named = true;
	closep(&ev->fd);
	ev->fd = -1;
	e->n_unnamed--;
	return CUDA_SUCCESS;
}

CUresult ipc_event_export(struct ipc_events *e, struct ipc_event *ev, uint8_t *ret_name)
{
	CUresult r;

	if (ev->imported)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&e->lock);
	r = export_locked(e, ev);
	pthread_mutex_unlock(&e->lock);
	if (r == CUDA_SUCCESS)
		memcpy(ret_name, ev->name, sizeof(ev->name));
	return r;
}

CUresult ipc_event_open(struct ipc_events *e, const uint8_t *name,
			struct ipc_event **ret_ev)
{
	const struct sess_broker *b = &e->s->broker;
	struct sess_ipc x = {.kind = SESS_IPC_EVENT, .fd = -1};
	struct ipc_event *ev = NULL;
	int r;

	if (!b->ipc_open)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!count_up(e, false))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = b->ipc_open(b->arg, name, &x);
	if (r == 0 && x.fd >= 0)
		ev = event_of(x.fd);
	if (!ev) {
		if (r == 0)
			b->ipc_close(b->arg, name);
		count_down(e, true, false);
		return r == -EDEADLK            ? CUDA_ERROR_INVALID_CONTEXT
		       : r == 0 || r == -EINVAL ? CUDA_ERROR_INVALID_VALUE
						: CUDA_ERROR_OUT_OF_MEMORY;
	}
	closep(&ev->fd);
	ev->fd = -1;
	ev->imported = ev->named = true;
	memcpy(ev->name, name, sizeof(ev->name));
	*ret_ev = ev;
	return CUDA_SUCCESS;
}

void ipc_event_close(struct ipc_events *e, struct ipc_event *ev)
{
	const struct sess_broker *b = &e->s->broker;

	if (!ev)
		return;
	if (ev->imported)
		b->ipc_close(b->arg, ev->name);
	else if (ev->named)
		b->ipc_drop(b->arg, ev->name);
	count_down(e, true, !ev->named);
	put(ev);
}

/* ---- in streams ---- */

static struct ipc_op *op_new(struct ipc_events *e, struct ipc_event *ev)
{
	struct ipc_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	list_init(&op->link);
	op->e = e;
	op->ev = ev;
	atomic_fetch_add(&ev->refs, 1);
	return op;
}

static void op_free(struct ipc_op *op)
{
	put(op->ev);
	free(op);
}

static bool is_done(const struct ipc_event *ev, uint64_t number)
{
	/* acquire: what the stream did before the record is seen as well */
	return atomic_load_explicit(&ev->at->done, memory_order_acquire) >= number;
}

/* Records may end in another order than they were made in: the latest counts. */
static void set_done(struct ipc_event *ev, uint64_t number)
{
	uint64_t was = atomic_load_explicit(&ev->at->done, memory_order_relaxed);

	while (was < number && !atomic_compare_exchange_weak_explicit(
				       &ev->at->done, &was, number, memory_order_release,
				       memory_order_relaxed))
		;
}

/* Also when the context was lost: who waits in another process must not wait for ever. */
static void record_run(void *arg, uint64_t token)
{
	struct ipc_op *op = arg;
	struct session *s = op->e->s;

	set_done(op->ev, op->number);
	op_free(op);
	if (token)
		s->ops->host_func_done(s->dev, token);
}

CUresult ipc_event_record(struct ipc_events *e, struct ipc_event *ev, struct dev_ctx *ctx,
			  struct dev_stream *st)
{
	struct ipc_op *op = op_new(e, ev);
	CUresult r;

	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->number = atomic_fetch_add(&ev->at->recorded, 1) + 1;
	r = e->s->ops->host_func(ctx, st, record_run, op);
	if (r != CUDA_SUCCESS) {
		set_done(ev, op->number);
		op_free(op);
	}
	return r;
}

/* Lets the streams go on for which that may be; the lock is dropped meanwhile. */
static void look_locked(struct ipc_events *e)
{
	struct session *s = e->s;
	struct ipc_op *op, *tmp;
	struct list ready;

	list_init(&ready);
	list_for_each_safe (op, tmp, &e->waits, link) {
		if (!e->ending && !is_done(op->ev, op->number))
			continue;
		list_remove(&op->link);
		list_append(&ready, &op->link);
	}
	pthread_mutex_unlock(&e->lock);
	list_for_each_safe (op, tmp, &ready, link) {
		list_remove(&op->link);
		s->ops->host_func_done(s->dev, op->token);
		op_free(op);
	}
	pthread_mutex_lock(&e->lock);
}

static void *looker(void *arg)
{
	struct ipc_events *e = arg;
	unsigned looks = 0;

	pthread_mutex_lock(&e->lock);
	while (!e->ending) {
		struct timespec ts = {.tv_nsec = LOOK_NS};

		look_locked(e);
		if (list_empty(&e->waits)) {
			looks = 0;
			if (!e->ending)
				pthread_cond_wait(&e->cond, &e->lock);
			continue;
		}
		if (looks++ >= LOOKS_EARLY)
			ts.tv_nsec = LOOK_LATE_NS;
		pthread_mutex_unlock(&e->lock);
		nanosleep(&ts, NULL);
		pthread_mutex_lock(&e->lock);
	}
	look_locked(e);
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

static void wait_run(void *arg, uint64_t token)
{
	struct ipc_op *op = arg;
	struct ipc_events *e = op->e;
	struct session *s = e->s;
	bool stay;

	pthread_mutex_lock(&e->lock);
	stay = token && !e->ending && !is_done(op->ev, op->number);
	if (stay) {
		op->token = token;
		list_append(&e->waits, &op->link);
		pthread_cond_broadcast(&e->cond);
	}
	pthread_mutex_unlock(&e->lock);
	if (stay)
		return;
	op_free(op);
	if (token)
		s->ops->host_func_done(s->dev, token);
}

static CUresult start_looker(struct ipc_events *e)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&e->lock);
	if (!e->running) {
		e->running = pthread_create(&e->thread, NULL, looker, e) == 0;
		if (!e->running)
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&e->lock);
	return r;
}

CUresult ipc_event_wait(struct ipc_events *e, struct ipc_event *ev, struct dev_ctx *ctx,
			struct dev_stream *st)
{
	uint64_t number = atomic_load(&ev->at->recorded);
	struct ipc_op *op;
	CUresult r;

	if (is_done(ev, number))
		return CUDA_SUCCESS;
	r = start_looker(e);
	if (r != CUDA_SUCCESS)
		return r;
	op = op_new(e, ev);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->number = number;
	r = e->s->ops->host_func(ctx, st, wait_run, op);
	if (r != CUDA_SUCCESS)
		op_free(op);
	return r;
}

CUresult ipc_event_query(struct ipc_event *ev)
{
	return is_done(ev, atomic_load(&ev->at->recorded)) ? CUDA_SUCCESS
							   : CUDA_ERROR_NOT_READY;
}

CUresult ipc_event_synchronize(struct ipc_events *e, struct ipc_event *ev,
			       struct dev_ctx *ctx)
{
	uint64_t number = atomic_load(&ev->at->recorded);
	struct timespec ts = {.tv_nsec = LOOK_NS};
	CUresult r = CUDA_SUCCESS;

	for (unsigned i = 0; r == CUDA_SUCCESS && !is_done(ev, number); i++) {
		if (atomic_load(&e->s->ending))
			break;
		if (i == LOOKS_EARLY)
			ts.tv_nsec = LOOK_LATE_NS;
		nanosleep(&ts, NULL);
		r = e->s->ops->ctx_status(ctx);
	}
	return r;
}
