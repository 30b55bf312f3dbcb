/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: numbering objects
 *
 * One table per type, in pages that are allocated when first needed and never moved or
 * freed, so that a lookup takes no lock: index to page to entry, and the entry's value
 * must be the whole handle, generation included. Free entries queue up first in, first
 * out: a destroyed handle's index comes back as late as possible, and with another
 * generation.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/guest.h"
#include "core/process.h"
#include "core/thread.h"

#define PAGE_BITS    10
#define PAGE_ENTRIES (1u << PAGE_BITS)
#define N_PAGES      (1u << (HANDLE_INDEX_BITS - PAGE_BITS))

/* Entries that wait in the queue before the first of them is used again. */
#define FREE_QUARANTINE 64

struct entry {
	_Atomic uint64_t handle; /* 0 while free */
	void *_Atomic object;
	uint32_t gen;  /* of the next use; under the table's lock, as is the next one */
	uint32_t next; /* free queue; index + 1, 0 ends it */
};

struct table {
	pthread_mutex_t lock;
	struct entry *_Atomic pages[N_PAGES];
	uint32_t used; /* indices below this one have been given out at least once */
	uint32_t free_head, free_tail, n_free;
};

static struct table tables[HANDLE_NUM_TYPES] = {
	[0 ... HANDLE_NUM_TYPES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

/* Handles of types that the worker has; graphs are not counted, of which it knows those
 * with conditional nodes, few as a rule. */
static _Atomic unsigned at_worker;

static bool is_workers(enum handle_type type)
{
	return type != HANDLE_GRAPH && type != HANDLE_GRAPH_NODE &&
	       type != HANDLE_USER_OBJECT;
}

/* False: the worker can have no more. */
static bool count_in(enum handle_type type)
{
	if (!is_workers(type) ||
	    atomic_fetch_add_explicit(&at_worker, 1, memory_order_relaxed) <
		    HANDLE_LIVE_MAX)
		return true;
	atomic_fetch_sub_explicit(&at_worker, 1, memory_order_relaxed);
	return false;
}

static void count_out(enum handle_type type)
{
	if (is_workers(type))
		atomic_fetch_sub_explicit(&at_worker, 1, memory_order_relaxed);
}

static struct entry *entry_at(struct table *tb, uint32_t index)
{
	struct entry *page;

	/* acquire pairs with the release in entry_new_locked(): the page is zeroed */
	page = atomic_load_explicit(&tb->pages[index >> PAGE_BITS], memory_order_acquire);
	return page ? &page[index & (PAGE_ENTRIES - 1)] : NULL;
}

static struct entry *entry_new_locked(struct table *tb, uint32_t *ret_index)
{
	struct entry *page;
	uint32_t index = tb->used;

	if (tb->n_free > FREE_QUARANTINE || (tb->n_free && index > HANDLE_INDEX_MAX)) {
		struct entry *e;

		index = tb->free_head - 1;
		e = entry_at(tb, index);
		tb->free_head = e->next;
		tb->n_free--;
		*ret_index = index;
		return e;
	}
	if (index > HANDLE_INDEX_MAX)
		return NULL;
	if (!entry_at(tb, index)) {
		page = calloc(PAGE_ENTRIES, sizeof(*page));
		if (!page)
			return NULL;
		/* release pairs with entry_at() */
		atomic_store_explicit(&tb->pages[index >> PAGE_BITS], page,
				      memory_order_release);
	}
	tb->used++;
	*ret_index = index;
	return entry_at(tb, index);
}

uint64_t guest_handle_new(enum handle_type type, void *object)
{
	struct table *tb = &tables[type];
	struct entry *e;
	uint32_t index;
	uint64_t h = 0;

	if (!count_in(type))
		return 0;
	pthread_mutex_lock(&tb->lock);
	e = entry_new_locked(tb, &index);
	if (e) {
		h = handle_make(type, e->gen, index);
		atomic_store_explicit(&e->object, object, memory_order_relaxed);
		/* release pairs with find(): the object is there before the handle */
		atomic_store_explicit(&e->handle, h, memory_order_release);
	}
	pthread_mutex_unlock(&tb->lock);
	if (!h)
		count_out(type);
	return h;
}

static struct entry *find(uint64_t h, enum handle_type type)
{
	struct entry *e;

	if (handle_type(h) != type || type == HANDLE_NONE)
		return NULL;
	e = entry_at(&tables[type], handle_index(h));
	if (!e || atomic_load_explicit(&e->handle, memory_order_acquire) != h)
		return NULL;
	return e;
}

void guest_handle_free(uint64_t h)
{
	enum handle_type type = handle_type(h);
	struct table *tb = &tables[type];
	struct entry *e;

	if (type == HANDLE_NONE)
		return;
	pthread_mutex_lock(&tb->lock);
	e = find(h, type);
	if (e) {
		uint32_t link = handle_index(h) + 1;

		atomic_store_explicit(&e->handle, 0, memory_order_release);
		atomic_store_explicit(&e->object, NULL, memory_order_relaxed);
		e->gen = (e->gen + 1) & HANDLE_GEN_MASK;
		e->next = 0;
		if (tb->n_free)
			entry_at(tb, tb->free_tail - 1)->next = link;
		else
			tb->free_head = link;
		tb->free_tail = link;
		tb->n_free++;
		count_out(type);
	}
	pthread_mutex_unlock(&tb->lock);
}

bool guest_handle_valid(uint64_t h, enum handle_type type)
{
	return find(h, type) != NULL;
}

void *guest_object(uint64_t h, enum handle_type type)
{
	struct entry *e = find(h, type);

	return e ? atomic_load_explicit(&e->object, memory_order_acquire) : NULL;
}

void guest_handle_set(uint64_t h, void *object)
{
	struct entry *e = find(h, handle_type(h));

	/* release pairs with guest_object() */
	if (e)
		atomic_store_explicit(&e->object, object, memory_order_release);
}

CUresult guest_stream_value(CUstream stream, bool ptsz, uint64_t *ret_wire)
{
	uint64_t h = (uintptr_t)stream;

	if (h == 0)
		h = ptsz ? GUEST_STREAM_PER_THREAD : GUEST_STREAM_LEGACY;
	else if (h != GUEST_STREAM_LEGACY && h != GUEST_STREAM_PER_THREAD &&
		 !guest_handle_valid(h, HANDLE_STREAM))
		return CUDA_ERROR_INVALID_HANDLE;
	if (h <= GUEST_STREAM_PER_THREAD && guest_self && guest_self->default_stream)
		h = guest_self->default_stream;
	*ret_wire = h;
	return CUDA_SUCCESS;
}
