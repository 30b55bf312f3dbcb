/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function goes queued (in a stream, unknown to us but counted) -> ready (its stream
 * stands still) -> given (the guest runs it) -> gone. At the end of a session every
 * stream must go on, or the device could not be closed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/list.h"
#include "session/hostfunc.h"
#include "session/command.h"
#include "ipc/wmem.h"

struct hostfunc {
	struct hostfuncs *owner;
	uint64_t id, token;  /* token 0: no stream stands */
	struct dev_ctx *ctx; /* whose status it is told; NULL: this one */
	CUresult status;
	struct list link; /* of queued, ready or given */
};

struct hostfuncs {
	struct session *s;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct list queued, ready, given;
	_Atomic unsigned count; /* written under the lock */
	struct wmem_many many;
	bool waiting, ended;
};

int hostfuncs_new(struct session *s, struct hostfuncs **ret_h)
{
	struct hostfuncs *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->s = s;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->cond, NULL);
	list_init(&h->queued);
	list_init(&h->ready);
	list_init(&h->given);
	*ret_h = h;
	return 0;
}

/* On a thread of the device: the stream has got to the function. */
static void stream_stands(void *arg, uint64_t token)
{
	struct hostfunc *f = arg;
	struct hostfuncs *h = f->owner;
	bool ended;

	pthread_mutex_lock(&h->lock);
	f->token = token;
	ended = h->ended;
	list_remove(&f->link);
	if (ended)
		h->count--;
	else
		list_append(&h->ready, &f->link);
	pthread_cond_signal(&h->cond);
	pthread_mutex_unlock(&h->lock);
	if (ended) {
		h->s->ops->stream.host_func_done(h->s->dev, token);
		free(f);
	}
}

static struct hostfunc *queue(struct hostfuncs *h, uint64_t id)
{
	struct hostfunc *f;

	if (wmem_many(&h->s->accounts, &h->many, atomic_load(&h->count), sizeof(*f)) < 0)
		return NULL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->owner = h;
	f->id = id;
	pthread_mutex_lock(&h->lock);
	if (h->count < HOSTFUNCS_MAX) {
		h->count++;
		list_append(&h->queued, &f->link);
	} else {
		free(f);
		f = NULL;
	}
	pthread_mutex_unlock(&h->lock);
	return f;
}

/* No stream will get there: the guest hears why. */
static void ready_now(struct hostfuncs *h, struct hostfunc *f, CUresult status)
{
	pthread_mutex_lock(&h->lock);
	f->ctx = NULL;
	f->status = status;
	list_remove(&f->link);
	list_append(&h->ready, &f->link);
	pthread_cond_signal(&h->cond);
	pthread_mutex_unlock(&h->lock);
}

CUresult hostfuncs_launch(struct hostfuncs *h, struct dev_ctx *ctx, struct dev_stream *st,
			  uint64_t id)
{
	struct hostfunc *f = queue(h, id);
	CUresult r;

	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	f->ctx = ctx;
	r = h->s->ops->stream.host_func(ctx, st, stream_stands, f);
	if (r != CUDA_SUCCESS)
		ready_now(h, f, r);
	return r;
}

CUresult hostfuncs_refuse(struct hostfuncs *h, uint64_t id, CUresult why)
{
	struct hostfunc *f = queue(h, id);

	if (f)
		ready_now(h, f, why);
	return why;
}

void hostfuncs_stands(struct hostfuncs *h, struct dev_ctx *ctx, uint64_t id,
		      uint64_t token)
{
	struct hostfunc *f = queue(h, id);

	if (!f) { /* nobody can be told */
		h->s->ops->stream.host_func_done(h->s->dev, token);
		return;
	}
	f->ctx = ctx;
	stream_stands(f, token);
}

int hostfuncs_wait(struct hostfuncs *h, uint64_t *ret_id, CUresult *ret_status)
{
	struct hostfunc *f;
	int r = -EBUSY;

	pthread_mutex_lock(&h->lock);
	if (!h->waiting) {
		h->waiting = true;
		while (list_empty(&h->ready) && !h->ended)
			pthread_cond_wait(&h->cond, &h->lock);
		h->waiting = false;
		r = -EPIPE;
		if (!h->ended) {
			f = list_entry(h->ready.next, struct hostfunc, link);
			list_remove(&f->link);
			list_append(&h->given, &f->link);
			*ret_id = f->id;
			/* No call of the driver: a launch may hold its locks until the
			 * function has run. */
			*ret_status = f->ctx ? h->s->ops->ctx.known(f->ctx) : f->status;
			r = 0;
		}
	}
	pthread_mutex_unlock(&h->lock);
	return r;
}

int hostfuncs_done(struct hostfuncs *h, uint64_t id)
{
	struct hostfunc *f, *found = NULL;

	pthread_mutex_lock(&h->lock);
	list_for_each (f, &h->given, link) {
		if (f->id == id) {
			found = f;
			list_remove(&f->link);
			h->count--;
			break;
		}
	}
	pthread_mutex_unlock(&h->lock);
	if (!found)
		return -EPROTO;
	if (found->token)
		h->s->ops->stream.host_func_done(h->s->dev, found->token);
	free(found);
	return 0;
}

static void forget_ctx(struct list *of, struct dev_ctx *ctx, CUresult status)
{
	struct hostfunc *f;

	list_for_each (f, of, link) {
		if (f->ctx != ctx)
			continue;
		f->ctx = NULL;
		f->status = status;
	}
}

void hostfuncs_ctx_gone(struct hostfuncs *h, struct dev_ctx *ctx)
{
	CUresult status = h->s->ops->ctx.status(ctx);

	pthread_mutex_lock(&h->lock);
	forget_ctx(&h->queued, ctx, status);
	forget_ctx(&h->ready, ctx, status);
	pthread_mutex_unlock(&h->lock);
}

/* Takes everything whose stream stands still. */
static void let_go(struct hostfuncs *h, struct list *from)
{
	struct hostfunc *f, *tmp;

	list_for_each_safe (f, tmp, from, link) {
		list_remove(&f->link);
		h->count--;
		if (f->token)
			h->s->ops->stream.host_func_done(h->s->dev, f->token);
		free(f);
	}
}

void hostfuncs_end(struct hostfuncs *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->ended = true;
	let_go(h, &h->ready);
	let_go(h, &h->given);
	pthread_cond_broadcast(&h->cond);
	pthread_mutex_unlock(&h->lock);
}

void hostfuncs_free(struct hostfuncs *h)
{
	struct hostfunc *f, *tmp;

	if (!h)
		return;
	/* Left by streams that were lost before they got there. */
	list_for_each_safe (f, tmp, &h->queued, link) {
		list_remove(&f->link);
		free(f);
	}
	pthread_cond_destroy(&h->cond);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
