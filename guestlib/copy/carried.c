/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: managed memory that is carried
 *
 * Kernels cannot reach memory of the program's here. So all that the program has touched goes to
 * the device before anything runs there, and its pages are closed; a piece comes back when the
 * program touches it. A program that does so while a kernel works on the same memory is one that
 * CONCURRENT_MANAGED_ACCESS 0 forbids.
 *
 * A piece is carried under the lock, which is never held while memory of the program's is touched:
 * not by a signal handler of its own either.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "calls.h"
#include "copy/carried.h"
#include "copy/copy_way.h"
#include "core/pages.h"
#include "core/process.h"
#include "core/session.h"
#include "object/enter.h"
#include "object/extent.h"

/* Bytes that a touch brings back, and up to so many pieces of them if these are touched in order. */
#define PIECE   ((size_t)256 << 10)
#define RUN_MAX 8u

struct carried {
	struct list link;
	uint64_t
		memory; /* on the device, as it was allocated; base is the first page of it */
	uintptr_t base;
	size_t size;
	uint64_t ctx; /* guest_ctx.wire_id */
	bool fresh;   /* the device has had nothing of it yet */
	unsigned n, n_here;
	unsigned next, run; /* where a touch is in order, and pieces of the last one */
	bool here[];        /* pieces that are the program's */
};

/* Under managed_lock. */
static struct list all = {&all, &all};
static unsigned n_holds; /* threads between begin() and done() */
static pthread_cond_t none_held = PTHREAD_COND_INITIALIZER;

static uintptr_t piece_at(const struct carried *c, unsigned i)
{
	return c->base + i * PIECE;
}

/* Bytes of pieces i to end - 1. */
static size_t bytes_of(const struct carried *c, unsigned i, unsigned end)
{
	return (end == c->n ? c->size : end * PIECE) - i * PIECE;
}

/* Whether the next launch has something to do with it. */
static bool waits(const struct carried *c)
{
	return c->n_here || c->fresh;
}

static void set_locked(struct carried *c, unsigned i, unsigned end, bool here)
{
	for (; i < end; i++) {
		c->n_here += here - c->here[i];
		c->here[i] = here;
	}
}

/* First piece from i on that is (not) the program's; c->n: there is none. */
static unsigned first_that(const struct carried *c, unsigned i, bool here)
{
	while (i < c->n && c->here[i] != here)
		i++;
	return i;
}

static struct copy copy_of(size_t size)
{
	return (struct copy){
		.width = size, .height = 1, .dst.pitch = size, .src.pitch = size};
}

/* ---- to the device ---- */

static CUresult take_locked(struct guest_thread *t, struct carried *c, unsigned i,
			    unsigned end)
{
	size_t size = bytes_of(c, i, end);
	struct copy copy = copy_of(size);
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	void *pages;

	if (pages_take(piece_at(c, i), size, &pages) < 0)
		return r;
	copy.dst.device = true;
	copy.dst.addr = piece_at(c, i);
	copy.src.addr = (uintptr_t)pages;
	r = copy_to_device(t, &copy, GUEST_STREAM_LEGACY);
	if (r == CUDA_SUCCESS)
		set_locked(c, i, end, false);
	else
		pages_fill(piece_at(c, i), size, pages);
	munmap(pages, size);
	return r;
}

static CUresult take_all_locked(struct guest_thread *t, struct carried *c)
{
	unsigned end;
	CUresult r = CUDA_SUCCESS;

	c->fresh = false;
	for (unsigned i = first_that(c, 0, true); i < c->n && r == CUDA_SUCCESS;
	     i = first_that(c, end, true)) {
		end = first_that(c, i, false);
		r = take_locked(t, c, i, end);
	}
	return r;
}

/*
 * Until what is begun has been said to the host nothing comes back, or the program would have what
 * was there before. Faults of long ago may be told at any time: a thread that is interrupted by a
 * signal while it waits asks again afterwards.
 */
static CUresult begin(struct guest_thread *t, struct managed_hold *h)
{
	CUresult r = CUDA_SUCCESS;
	struct carried *c;

	managed_enter(&h->old);
	list_for_each (c, &all, link) {
		if (r == CUDA_SUCCESS && waits(c))
			r = take_all_locked(t, c);
	}
	h->held = r == CUDA_SUCCESS;
	n_holds += h->held;
	if (h->held)
		pthread_mutex_unlock(&managed_lock);
	else
		managed_leave(&h->old);
	return r;
}

static void done(struct managed_hold *h)
{
	pthread_mutex_lock(&managed_lock);
	if (!--n_holds)
		pthread_cond_signal(&none_held);
	managed_leave(&h->old);
}

/* A thread that holds may touch what is closed, whatever it should do: for so long it is waited for. */
#define HOLD_MAX_NS NSEC_PER_SEC

static void wait_for_holds_locked(void)
{
	uint64_t until = clock_now_ns() + HOLD_MAX_NS;
	struct timespec ts = {.tv_sec = (time_t)(until / NSEC_PER_SEC),
			      .tv_nsec = (long)(until % NSEC_PER_SEC)};

	while (n_holds && pthread_cond_clockwait(&none_held, &managed_lock,
						 CLOCK_MONOTONIC, &ts) == 0)
		;
}

/* ---- back ---- */

static CUresult enter_ctx(struct guest_thread *t, uint64_t wire_id)
{
	CUresult r = CUDA_SUCCESS;

	if (t->wire_id != wire_id)
		r = session_set_current(t, wire_id_ctx(wire_id));
	if (r == CUDA_SUCCESS)
		t->wire_id = wire_id;
	return r;
}

static CUresult fetch(struct guest_thread *t, const struct carried *c, uintptr_t at,
		      void *buf, size_t size)
{
	struct copy copy = copy_of(size);
	CUresult r = enter_ctx(t, c->ctx);

	copy.dst.addr = (uintptr_t)buf;
	copy.src.device = true;
	copy.src.addr = at;
	return r ? r : copy_from_device(t, &copy, GUEST_STREAM_LEGACY);
}

/* Brings pieces i to end - 1, all of the device's, back. What cannot be had while the session works
 * is nothing that anybody may see: who touches it gets its SIGSEGV. */
static void bring_locked(struct carried *c, unsigned i, unsigned end)
{
	uintptr_t at = piece_at(c, i);
	size_t size = bytes_of(c, i, end);
	CUresult r = CUDA_SUCCESS;
	void *buf = NULL;

	if (!c->fresh) {
		buf = malloc(size);
		r = buf ? fetch(guest_self, c, at, buf, size) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r && guest_status() != CUDA_SUCCESS) { /* whatever is done next fails */
		free(steal(buf));
		r = CUDA_SUCCESS;
	}
	if (r == CUDA_SUCCESS && pages_fill(at, size, buf) == 0) {
		set_locked(c, i, end, true);
	} else { /* nothing of it is sent, either */
		log_warning("managed memory cannot be brought back (%d)", (int)r);
		pages_end(at, size);
	}
	free(buf);
}

static void touched_locked(struct carried *c, uintptr_t addr)
{
	unsigned i = (unsigned)((addr - c->base) / PIECE), end;

	if (c->here[i]) {
		/* Somebody else has touched it as well, or the program has told the kernel that it
		 * does not need what is there. */
		if (pages_fill(ALIGN_DOWN(addr, HOSTMEM_PAGE), HOSTMEM_PAGE, NULL) < 0)
			pages_wake(addr);
		return;
	}
	c->run = i == c->next ? MIN(2 * c->run, RUN_MAX) : 1;
	c->next = MIN(i + c->run, c->n);
	end = first_that(c, i, true);
	bring_locked(c, i, MIN(end, c->next));
}

static uint64_t touched(uintptr_t addr, bool writes)
{
	struct carried *c, *found = NULL;

	managed_serve_locked();
	wait_for_holds_locked();
	list_for_each (c, &all, link) {
		if (addr - c->base < c->size)
			found = c;
	}
	if (found)
		touched_locked(found, addr);
	else
		pages_wake(addr);
	pthread_mutex_unlock(&managed_lock);
	return 0;
}

/* ---- allocations ---- */

static CUresult end(struct guest_thread *t, struct carried *c)
{
	sigset_t old;
	CUresult r;

	managed_enter(&old);
	list_remove(&c->link);
	atomic_fetch_sub(&managed_moving, 1);
	atomic_fetch_sub(&managed_waiting, 1);
	managed_leave(&old);
	/* First, for the next one may come to the same place. */
	pages_end(c->base, c->size);
	extent_forget(t, c->memory);
	r = call_mem_free(t, c->memory);
	extent_forget(t, c->memory);
	free(c);
	return r;
}

static void after_fork(void)
{
	pthread_cond_init(&none_held, NULL);
	n_holds = 0;
	list_init(&all);
}

static const struct managed_carrier carrier = {begin, done, end, after_fork};

static CUresult alloc(struct guest_thread *t, size_t size, uint64_t *ret_memory)
{
	struct cuMemAlloc_v2_cmd *cmd = begin_cuMemAlloc_v2(t);
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->bytesize = size;
	r = guest_call(t, sizeof(struct cuMemAlloc_v2_rep), &reply);
	if (r == CUDA_SUCCESS)
		*ret_memory = ((const struct cuMemAlloc_v2_rep *)reply.body)->dptr;
	return r;
}

/* Pages of nothing else. */
static CUresult alloc_pages(struct guest_thread *t, size_t size, uint64_t *ret_memory)
{
	CUresult r = alloc(t, size, ret_memory);

	if (r || *ret_memory % HOSTMEM_PAGE == 0)
		return r;
	r = call_mem_free(t, *ret_memory);
	return r ? r : alloc(t, size + HOSTMEM_PAGE, ret_memory);
}

CUresult carried_new(struct guest_thread *t, struct hostmem *h)
{
	size_t size = ALIGN_UP(h->size, HOSTMEM_PAGE);
	unsigned n = (unsigned)((size + PIECE - 1) / PIECE);
	struct carried *c;
	uint64_t memory = 0;
	sigset_t old;
	CUresult r;

	if (!link_has_band(guest_process.link) || !pages_can_take() ||
	    !managed_can_serve(touched))
		return CUDA_ERROR_NOT_SUPPORTED;
	r = alloc_pages(t, size, &memory);
	if (r)
		return r;
	extent_forget(t, memory);
	c = calloc(1, sizeof(*c) + n * sizeof(c->here[0]));
	if (c)
		*c = (struct carried){.memory = memory,
				      .base = ALIGN_UP(memory, HOSTMEM_PAGE),
				      .size = size,
				      .ctx = t->wire_id,
				      .fresh = true,
				      .n = n,
				      .run = 1};
	/* A host is not trusted to say what this process maps where. */
	if (!c || !guest_is_device(c->base) || !guest_is_device(c->base + size - 1) ||
	    pages_close(c->base, size) < 0) {
		free(c);
		call_mem_free(t, memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	managed_enter(&old);
	managed_carrier = &carrier;
	list_append(&all, &c->link);
	atomic_fetch_add(&managed_moving, 1);
	atomic_fetch_add(&managed_waiting, 1); /* each launch has to hold what it has */
	managed_leave(&old);
	h->base = h->dev = h->host = c->base;
	h->carried = c;
	return CUDA_SUCCESS;
}
