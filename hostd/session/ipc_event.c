/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other process is looked at every few microseconds while something waits for it; to
 * be woken by it, both would have to agree on who sleeps, and one of them may end at any
 * time. weftd writes "all done" for a session that has ended.
 *
 * An event gets its page when somebody asks for its name; until then the numbers are
 * here. The lock is not held while weftd is asked: the thread that brings the answer may
 * want it.
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
#include "session/command.h"
#include "ipc/wmem.h"

#define PAGE_BYTES 4096u
/* Between two looks: at first, and after some time. */
#define LOOK_NS      20000
#define LOOK_LATE_NS 200000
#define LOOKS_EARLY  50

struct ipc_event {
	_Atomic unsigned refs; /* the object's, and one for each record and wait queued */
	struct share_event *at; /* own, or a page; under ipc_events.lock */
	struct share_event own;
	bool imported, named;
	bool naming; /* somebody is asking weftd */
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
	unsigned n; /* with a page */
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

static struct ipc_event *blank(void)
{
	struct ipc_event *ev = calloc(1, sizeof(*ev));

	if (!ev)
		return NULL;
	ev->at = &ev->own;
	atomic_init(&ev->refs, 1);
	return ev;
}

static void put(struct ipc_event *ev)
{
	if (atomic_fetch_sub(&ev->refs, 1) > 1)
		return;
	if (ev->at != &ev->own)
		munmap(ev->at, PAGE_BYTES);
	free(ev);
}

/* The page of an event's file, or NULL. */
static struct share_event *page_of(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *p;

	/* A file that could be cut short would end the process that touches it. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 ||
	    st.st_size < (off_t)PAGE_BYTES)
		return NULL;
	p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static bool count_up(struct ipc_events *e)
{
	bool ok;

	pthread_mutex_lock(&e->lock);
	ok = e->n < IPC_EVENTS_MAX;
	e->n += ok;
	pthread_mutex_unlock(&e->lock);
	return ok;
}

static void count_down(struct ipc_events *e)
{
	pthread_mutex_lock(&e->lock);
	e->n--;
	pthread_mutex_unlock(&e->lock);
}

struct ipc_event *ipc_event_new(struct ipc_events *e)
{
	return e->s->accounts.ipc_export ? blank() : NULL;
}

/* Makes the file and has weftd keep it. */
static struct share_event *name_it(struct ipc_events *e, uint8_t *ret_name)
{
	const struct accounts *b = &e->s->accounts;
	_cleanup_close_ int fd = fd_memfd("weft-event", PAGE_BYTES);
	struct share_part x = {.kind = SHARE_EVENT, .fd = fd, .n_parts = 1};
	struct share_event *page = fd < 0 ? NULL : page_of(fd);

	if (!page)
		return NULL;
	if (wmem_take(b, PAGE_BYTES) == 0) {
		if (b->ipc_export(b->arg, &x, ret_name) == 0)
			return page;
		wmem_put(b, PAGE_BYTES);
	}
	munmap(page, PAGE_BYTES);
	return NULL;
}

/* From now on the numbers are there. Nobody else has the name yet. */
static void move_to_locked(struct ipc_event *ev, struct share_event *page)
{
	atomic_store(&page->recorded, atomic_load(&ev->own.recorded));
	atomic_store(&page->done, atomic_load(&ev->own.done));
	ev->at = page;
	ev->named = true;
}

static CUresult name_locked(struct ipc_events *e, struct ipc_event *ev)
{
	struct share_event *page;

	while (ev->naming)
		pthread_cond_wait(&e->cond, &e->lock);
	if (ev->named)
		return CUDA_SUCCESS;
	if (e->n == IPC_EVENTS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->n++;
	ev->naming = true;
	pthread_mutex_unlock(&e->lock);
	page = name_it(e, ev->name);
	pthread_mutex_lock(&e->lock);
	ev->naming = false;
	if (page)
		move_to_locked(ev, page);
	else
		e->n--;
	pthread_cond_broadcast(&e->cond);
	return page ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ipc_event_export(struct ipc_events *e, struct ipc_event *ev, uint8_t *ret_name)
{
	CUresult r;

	if (ev->imported)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&e->lock);
	r = name_locked(e, ev);
	pthread_mutex_unlock(&e->lock);
	if (r == CUDA_SUCCESS)
		memcpy(ret_name, ev->name, sizeof(ev->name));
	return r;
}

static struct ipc_event *imported(int fd, const uint8_t *name)
{
	struct ipc_event *ev = blank();
	struct share_event *page = ev && fd >= 0 ? page_of(fd) : NULL;

	if (!page) {
		free(ev);
		return NULL;
	}
	ev->at = page;
	ev->imported = ev->named = true;
	memcpy(ev->name, name, sizeof(ev->name));
	return ev;
}

CUresult ipc_event_open(struct ipc_events *e, const uint8_t *name,
			struct ipc_event **ret_ev)
{
	const struct accounts *b = &e->s->accounts;
	struct share_part x = {.kind = SHARE_EVENT, .fd = -1};
	struct ipc_event *ev = NULL;
	int r;

	if (!b->ipc_open)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!count_up(e))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = b->ipc_open(b->arg, name, &x);
	if (r == 0)
		ev = imported(x.fd, name);
	closep(&x.fd);
	if (!ev) {
		if (r == 0)
			b->ipc_close(b->arg, name);
		count_down(e);
		return r == -EDEADLK            ? CUDA_ERROR_INVALID_CONTEXT
		       : r == 0 || r == -EINVAL ? CUDA_ERROR_INVALID_VALUE
						: CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_ev = ev;
	return CUDA_SUCCESS;
}

void ipc_event_close(struct ipc_events *e, struct ipc_event *ev)
{
	const struct accounts *b = &e->s->accounts;

	if (!ev)
		return;
	if (ev->imported)
		b->ipc_close(b->arg, ev->name);
	else if (ev->named)
		b->ipc_drop(b->arg, ev->name);
	if (ev->named) {
		count_down(e);
		if (!ev->imported)
			wmem_put(b, PAGE_BYTES);
	}
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

static bool is_done_locked(const struct ipc_event *ev, uint64_t number)
{
	/* acquire: what the stream did before the record is seen as well */
	return atomic_load_explicit(&ev->at->done, memory_order_acquire) >= number;
}

static bool is_done(struct ipc_events *e, const struct ipc_event *ev, uint64_t number)
{
	bool done;

	pthread_mutex_lock(&e->lock);
	done = is_done_locked(ev, number);
	pthread_mutex_unlock(&e->lock);
	return done;
}

/* The number of the latest record, whoever made it. */
static uint64_t recorded(struct ipc_events *e, const struct ipc_event *ev)
{
	uint64_t n;

	pthread_mutex_lock(&e->lock);
	n = atomic_load(&ev->at->recorded);
	pthread_mutex_unlock(&e->lock);
	return n;
}

/* Records may end in another order than they were made in: the latest counts. */
static void set_done(struct ipc_events *e, struct ipc_event *ev, uint64_t number)
{
	uint64_t was;

	pthread_mutex_lock(&e->lock);
	was = atomic_load_explicit(&ev->at->done, memory_order_relaxed);
	while (was < number && !atomic_compare_exchange_weak_explicit(
				       &ev->at->done, &was, number, memory_order_release,
				       memory_order_relaxed))
		;
	pthread_mutex_unlock(&e->lock);
}

/* Also when the context was lost: who waits in another process must not wait for ever. */
static void record_run(void *arg, uint64_t token)
{
	struct ipc_op *op = arg;
	struct session *s = op->e->s;

	set_done(op->e, op->ev, op->number);
	op_free(op);
	if (token)
		s->ops->stream.host_func_done(s->dev, token);
}

CUresult ipc_event_record(struct ipc_events *e, struct ipc_event *ev, struct dev_ctx *ctx,
			  struct dev_stream *st)
{
	struct ipc_op *op = op_new(e, ev);
	CUresult r;

	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&e->lock);
	op->number = atomic_fetch_add(&ev->at->recorded, 1) + 1;
	pthread_mutex_unlock(&e->lock);
	r = e->s->ops->stream.host_func(ctx, st, record_run, op);
	if (r != CUDA_SUCCESS) {
		set_done(e, ev, op->number);
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
		if (!e->ending && !is_done_locked(op->ev, op->number))
			continue;
		list_remove(&op->link);
		list_append(&ready, &op->link);
	}
	pthread_mutex_unlock(&e->lock);
	list_for_each_safe (op, tmp, &ready, link) {
		list_remove(&op->link);
		s->ops->stream.host_func_done(s->dev, op->token);
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
	stay = token && !e->ending && !is_done_locked(op->ev, op->number);
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
		s->ops->stream.host_func_done(s->dev, token);
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
	uint64_t number = recorded(e, ev);
	struct ipc_op *op;
	CUresult r;

	if (is_done(e, ev, number))
		return CUDA_SUCCESS;
	r = start_looker(e);
	if (r != CUDA_SUCCESS)
		return r;
	op = op_new(e, ev);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->number = number;
	r = e->s->ops->stream.host_func(ctx, st, wait_run, op);
	if (r != CUDA_SUCCESS)
		op_free(op);
	return r;
}

CUresult ipc_event_query(struct ipc_events *e, struct ipc_event *ev)
{
	return is_done(e, ev, recorded(e, ev)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult ipc_event_synchronize(struct ipc_events *e, struct ipc_event *ev,
			       struct dev_ctx *ctx)
{
	uint64_t number = recorded(e, ev);
	struct timespec ts = {.tv_nsec = LOOK_NS};
	CUresult r = CUDA_SUCCESS;

	for (unsigned i = 0; r == CUDA_SUCCESS && !is_done(e, ev, number); i++) {
		if (atomic_load(&e->s->ending))
			break;
		if (i == LOOKS_EARLY)
			ts.tv_nsec = LOOK_LATE_NS;
		nanosleep(&ts, NULL);
		r = e->s->ops->ctx.status(ctx);
	}
	return r;
}
