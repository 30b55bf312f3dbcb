/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"
#include "ipc/page.h"
#include "memory/env.h"
#include "memory/hostpool.h"

/* How long what is not asked for is kept: who moves back and forth finds it again, also when
 * that is once in a turn (policies/sets.c). */
#define LINGER_NS (3 * NSEC_PER_SEC)
/* How often to look meanwhile whether weftd lets it keep less. */
#define LOOK_NS (50 * NSEC_PER_MSEC)
/* How often to look whether others still need the driver, whose lock is held for most of
 * a millisecond to make a backing. */
#define OTHERS_NS (2 * NSEC_PER_MSEC)

/* Where backings are mapped besides: the end of what device memory may use. */
#define STAGE_SIZE  (1ull << 40)
#define STAGE_BASE  (DEVICE_HOST_BASE - STAGE_SIZE)
#define STAGE_TRIES 16

struct hostpool {
	const struct mem_env *env;
	hostpool_wants_fn *wants;
	void *wants_arg;
	pthread_mutex_t lock; /* a leaf; not held while the device is called */
	pthread_cond_t changed;
	struct list free[HOSTPOOL_CLASSES];
	uint64_t free_bytes[HOSTPOOL_CLASSES];
	uint64_t ready, target; /* bytes */
	uint64_t known;         /* of ready: whose contents are */
	uint64_t used_ns;       /* when something was put in or taken out last */
	unsigned held, kicks;
	bool running, ending;
	bool refused;        /* the host had no more; until it is asked for again */
	_Atomic bool hungry; /* would grow if the session had more that could move */
	pthread_t thread;
	_Atomic uint64_t next_stage; /* offset */
};

static unsigned class_of(uint64_t size)
{
	return (unsigned)__builtin_ctzll(size);
}

struct hostpool *hostpool_new(const struct mem_env *env, hostpool_wants_fn *wants,
			      void *arg)
{
	struct hostpool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->env = env;
	p->wants = wants;
	p->wants_arg = arg;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	for (unsigned i = 0; i < HOSTPOOL_CLASSES; i++)
		list_init(&p->free[i]);
	return p;
}

/* ---- one backing ---- */

static CUresult reserve(struct hostpool *p, uint64_t size, CUdeviceptr *ret_addr)
{
	const struct mem_env *e = p->env;

	for (unsigned i = 0; i < STAGE_TRIES; i++) {
		uint64_t at = atomic_fetch_add(&p->next_stage, size) % STAGE_SIZE;

		at = ALIGN_DOWN(at, size);
		if (e->ops->memory.reserve(e->dev, size, 0, STAGE_BASE + at, ret_addr) ==
		    CUDA_SUCCESS)
			return CUDA_SUCCESS;
	}
	return e->ops->memory.reserve(e->dev, size, 0, 0, ret_addr);
}

static CUresult stage(struct hostpool *p, struct host_piece *h)
{
	const struct mem_env *e = p->env;
	CUresult r = reserve(p, h->size, &h->stage);

	if (r != CUDA_SUCCESS)
		return r;
	r = e->ops->memory.map(e->dev, h->stage, h->dev);
	if (r != CUDA_SUCCESS) {
		e->ops->memory.unreserve(e->dev, h->stage, h->size);
		return r;
	}
	r = e->ops->memory.set_access(e->dev, h->stage, h->size,
				      CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	if (r != CUDA_SUCCESS) {
		e->ops->memory.unmap(e->dev, h->stage, h->size);
		e->ops->memory.unreserve(e->dev, h->stage, h->size);
	}
	return r;
}

static struct host_piece *make(struct hostpool *p, uint64_t size)
{
	const struct mem_env *e = p->env;
	struct host_piece *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	list_init(&h->link);
	h->size = size;
	if (e->ops->memory.create(e->dev, size, DEV_MEMORY_HOST, &h->dev) !=
	    CUDA_SUCCESS) {
		free(h);
		return NULL;
	}
	if (stage(p, h) != CUDA_SUCCESS) {
		e->ops->memory.release(e->dev, h->dev);
		free(h);
		return NULL;
	}
	return h;
}

static void unmake(struct hostpool *p, struct host_piece *h)
{
	const struct mem_env *e = p->env;

	e->ops->memory.unmap(e->dev, h->stage, h->size);
	e->ops->memory.unreserve(e->dev, h->stage, h->size);
	e->ops->memory.release(e->dev, h->dev);
	free(h);
}

/* ---- the pool ---- */

/* Counts contents that came into the pool, or have left it. */
static void count_known_locked(struct hostpool *p, const struct host_piece *h, bool in)
{
	if (!h->known)
		return;
	p->known = in ? p->known + h->size : p->known - h->size;
	atomic_store_explicit(&p->env->count->kept_bytes, p->known, memory_order_relaxed);
}

static void put_locked(struct hostpool *p, struct host_piece *h)
{
	count_known_locked(p, h, true);
	list_insert_after(&p->free[class_of(h->size)], &h->link);
	p->free_bytes[class_of(h->size)] += h->size;
	p->ready += h->size;
}

static void remove_locked(struct hostpool *p, struct host_piece *h)
{
	count_known_locked(p, h, false);
	list_remove(&h->link);
	p->free_bytes[class_of(h->size)] -= h->size;
	p->ready -= h->size;
}

/* One of which nothing is known, or else the one that came first. */
static struct host_piece *take_locked(struct hostpool *p, unsigned class)
{
	struct host_piece *h;

	if (list_empty(&p->free[class]))
		return NULL;
	list_for_each (h, &p->free[class], link) {
		if (!h->known)
			break;
	}
	if (&h->link == &p->free[class])
		h = list_entry(p->free[class].prev, struct host_piece, link);
	remove_locked(p, h);
	h->known = false;
	return h;
}

static struct host_piece *take_again_locked(struct hostpool *p, uint64_t size,
					    uint64_t of, uint64_t offset)
{
	struct host_piece *h;

	list_for_each (h, &p->free[class_of(size)], link) {
		if (h->known && h->of == of && h->offset == offset) {
			remove_locked(p, h);
			return h;
		}
	}
	return take_locked(p, class_of(size));
}

/* The size of which the smallest part of what is wanted is there, so that what is there
 * will do for some of everything; 0: nothing is missing. */
static uint64_t size_wanted(const struct hostpool *p, const uint64_t *want)
{
	unsigned best = HOSTPOOL_CLASSES;

	for (unsigned class = 0; class < HOSTPOOL_CLASSES; class ++) {
		if (p->free_bytes[class] >= want[class])
			continue;
		if (best == HOSTPOOL_CLASSES ||
		    (double)p->free_bytes[class] * (double)want[best] <
			    (double)p->free_bytes[best] * (double)want[class])
			best = class;
	}
	return best < HOSTPOOL_CLASSES ? 1ull << best : 0;
}

static bool may_grow(const struct hostpool *p)
{
	return p->ready < p->target && !p->refused && !p->held && !p->ending;
}

static void wait_until_locked(struct hostpool *p, uint64_t ns)
{
	const struct timespec ts = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				    .tv_nsec = (long)(ns % NSEC_PER_SEC)};

	pthread_cond_clockwait(&p->changed, &p->lock, CLOCK_MONOTONIC, &ts);
}

/* Until what weftd has written there, or most_ns. */
static void wait_for_locked(struct hostpool *p, const _Atomic uint64_t *until_ns,
			    uint64_t most_ns)
{
	uint64_t now = clock_now_ns();

	for (; !p->ending && now < MIN(atomic_load(until_ns), most_ns);
	     now = clock_now_ns())
		wait_until_locked(p, MIN(now + OTHERS_NS, most_ns));
}

static void wait_for_others_locked(struct hostpool *p)
{
	wait_for_locked(p, &p->env->count->host_pause_ns, UINT64_MAX);
}

/* Waits while allocations are mapped, at most PAGE_MAPPING_NS: a session that allocates
 * again and again must not put a move off for ever. */
static void wait_for_mapping_locked(struct hostpool *p)
{
	wait_for_locked(p, &p->env->count->mapping_until_ns,
			clock_now_ns() + PAGE_MAPPING_NS);
}

/* Grows. False: it is large enough, or cannot. */
static bool grow_locked(struct hostpool *p)
{
	uint64_t want[HOSTPOOL_CLASSES] = {0};
	unsigned kicks = p->kicks;
	struct host_piece *h;
	uint64_t size;

	if (!may_grow(p))
		return false;
	atomic_store(&p->hungry, true);
	pthread_mutex_unlock(&p->lock);
	p->wants(p->wants_arg, want);
	pthread_mutex_lock(&p->lock);
	if (!size_wanted(p, want))
		return p->kicks != kicks; /* then there may be more by now */
	atomic_store(&p->hungry, false);
	while (may_grow(p) && (size = size_wanted(p, want))) {
		pthread_mutex_unlock(&p->lock);
		h = make(p, size);
		pthread_mutex_lock(&p->lock);
		if (h)
			put_locked(p, h);
		else
			p->refused = true;
		wait_for_others_locked(p);
	}
	return true;
}

static void shrink_locked(struct hostpool *p)
{
	struct host_piece *h = NULL;

	for (unsigned class = HOSTPOOL_CLASSES; class > 0 && !h; class --)
		h = take_locked(p, class - 1);
	pthread_mutex_unlock(&p->lock);
	if (h)
		unmake(p, h);
	pthread_mutex_lock(&p->lock);
}

/* Bytes that the pool may hold. */
static uint64_t most_locked(const struct hostpool *p)
{
	uint64_t keep = atomic_load_explicit(&p->env->count->host_keep_bytes,
					     memory_order_relaxed);

	return keep ? MAX(p->target, keep) : UINT64_MAX;
}

static void *prealloc_main(void *arg)
{
	struct hostpool *p = arg;
	uint64_t now;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		wait_for_others_locked(p);
		if (!p->held && grow_locked(p))
			continue;
		/* Only now: whoever ends it may have said so while it grew or waited. */
		if (p->ending)
			break;
		now = clock_now_ns();
		if (p->held || p->ready <= p->target)
			pthread_cond_wait(&p->changed, &p->lock);
		else if (now < p->used_ns + LINGER_NS && p->ready <= most_locked(p))
			wait_until_locked(p, MIN(now + LOOK_NS, p->used_ns + LINGER_NS));
		else
			shrink_locked(p);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Wakes the thread; starts it first. Without one the pool only keeps what it is given. */
static void wake_locked(struct hostpool *p)
{
	if (!p->running && !p->ending)
		p->running = !pthread_create(&p->thread, NULL, prealloc_main, p);
	pthread_cond_broadcast(&p->changed);
}

void hostpool_free(struct hostpool *p)
{
	struct host_piece *h;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (p->running)
		pthread_join(p->thread, NULL);
	for (unsigned i = 0; i < HOSTPOOL_CLASSES; i++) {
		while ((h = take_locked(p, i)))
			unmake(p, h);
	}
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

struct host_piece *hostpool_take(struct hostpool *p, uint64_t size)
{
	return hostpool_take_again(p, size, UINT64_MAX, 0);
}

struct host_piece *hostpool_take_again(struct hostpool *p, uint64_t size, uint64_t of,
				       uint64_t offset)
{
	struct host_piece *h;

	pthread_mutex_lock(&p->lock);
	h = take_again_locked(p, size, of, offset);
	p->used_ns = clock_now_ns();
	pthread_mutex_unlock(&p->lock);
	return h ? h : make(p, size);
}

void hostpool_fill(struct hostpool *p, const uint64_t bytes[HOSTPOOL_CLASSES])
{
	struct host_piece *h;
	uint64_t size;

	pthread_mutex_lock(&p->lock);
	while (!p->ending && (size = size_wanted(p, bytes))) {
		wait_for_mapping_locked(p);
		pthread_mutex_unlock(&p->lock);
		h = make(p, size);
		pthread_mutex_lock(&p->lock);
		if (!h)
			break;
		put_locked(p, h);
		p->used_ns = clock_now_ns();
	}
	pthread_mutex_unlock(&p->lock);
}

void hostpool_put(struct hostpool *p, struct host_piece *h)
{
	if (h->shared) {
		unmake(p, h);
		return;
	}
	pthread_mutex_lock(&p->lock);
	put_locked(p, h);
	p->used_ns = clock_now_ns();
	if (p->ready > p->target)
		wake_locked(p);
	pthread_mutex_unlock(&p->lock);
}

void hostpool_set(struct hostpool *p, uint64_t bytes)
{
	pthread_mutex_lock(&p->lock);
	p->target = bytes;
	p->refused = false;
	wake_locked(p);
	pthread_mutex_unlock(&p->lock);
}

void hostpool_kick(struct hostpool *p)
{
	/* relaxed: late is as good; the lock orders what follows */
	if (!atomic_load_explicit(&p->hungry, memory_order_relaxed))
		return;
	pthread_mutex_lock(&p->lock);
	p->kicks++;
	wake_locked(p);
	pthread_mutex_unlock(&p->lock);
}

void hostpool_hold(struct hostpool *p)
{
	pthread_mutex_lock(&p->lock);
	p->held++;
	pthread_mutex_unlock(&p->lock);
}

void hostpool_go_on(struct hostpool *p)
{
	pthread_mutex_lock(&p->lock);
	p->held--;
	p->refused = false;
	if (p->running)
		pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}
