/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: regions of host memory
 *
 * A region is made by the worker, which asks for room, maps it for the device and clears
 * it: several times what copying a megabyte takes. So a few that registered memory had
 * are kept for the next that is registered.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "calls.h"
#include "object/context.h"
#include "object/hostmem.h"
#include "core/idle.h"
#include "core/process.h"

#define KEPT_MAX   8u
#define KEPT_BYTES (16ull << 20)

static struct {
	pthread_mutex_t lock;
	unsigned n;
	uint64_t bytes;
	struct hostmem_region of[KEPT_MAX];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

CUresult hostmem_region_free(struct guest_thread *t, const struct hostmem_region *g)
{
	if (!g->size)
		return CUDA_SUCCESS;
	if (g->twin)
		munmap((void *)g->twin, g->twin_size);
	/* First, for the next region may come to the same place. */
	link_unmap(guest_process.link, g->addr, g->size);
	return call_host_free(t, g->addr);
}

CUresult hostmem_wait_device(struct guest_thread *t)
{
	_Atomic uint64_t *idle = t->top ? &t->top->all_idle : NULL;
	struct host_free_cmd *cmd;
	struct lane_reply reply;
	uint64_t now = idle_now();
	CUresult r;

	if (idle_is(idle) && idle_may_answer(t))
		return CUDA_SUCCESS;
	cmd = begin_host_free(t);
	if (!cmd)
		return guest_lost(t);
	cmd->addr = 0;
	r = guest_ask(t, sizeof(struct host_free_rep), &reply);
	if (r == CUDA_SUCCESS && idle)
		atomic_store_explicit(idle, now, memory_order_relaxed);
	return r;
}

static CUresult region_new(struct guest_thread *t, size_t size,
			   struct hostmem_region *ret_region)
{
	struct host_alloc_rep rep;
	struct hostmem_region g;
	CUresult r;

	if (!guest_process.host_size)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = call_host_alloc(t, size, &rep);
	if (r)
		return r;
	g = (struct hostmem_region){
		.addr = rep.addr, .size = rep.mapped, .offset = rep.offset};
	if (g.size < size || g.addr - guest_process.host_base >= guest_process.host_size)
		return guest_broken(t);
	if (link_map(guest_process.link, g.addr, g.offset, g.size) < 0) {
		hostmem_region_free(t, &g);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	*ret_region = g;
	return CUDA_SUCCESS;
}

static struct hostmem_region take_kept_locked(unsigned i)
{
	struct hostmem_region g = kept.of[i];

	kept.bytes -= g.size;
	kept.of[i] = kept.of[--kept.n];
	return g;
}

/* Gives the kept ones back; false: there were none. */
static bool drop_kept(struct guest_thread *t)
{
	struct hostmem_region g;
	bool any = false;

	for (;;) {
		pthread_mutex_lock(&kept.lock);
		g = kept.n ? take_kept_locked(0) : (struct hostmem_region){0};
		pthread_mutex_unlock(&kept.lock);
		if (!g.size)
			return any;
		hostmem_region_free(t, &g);
		any = true;
	}
}

CUresult hostmem_region_new(struct guest_thread *t, size_t size,
			    struct hostmem_region *ret_region)
{
	CUresult r = region_new(t, size, ret_region);

	if (r && drop_kept(t))
		r = region_new(t, size, ret_region);
	return r;
}

/* One that fits; best is one whose twin does, too. kept.n: there is none. */
static unsigned find_kept_locked(size_t size)
{
	unsigned found = kept.n;

	for (unsigned i = 0; i < kept.n; i++) {
		if (kept.of[i].size < size || kept.of[i].size / 2 > size)
			continue;
		if (found == kept.n || kept.of[i].twin_size == size)
			found = i;
	}
	return found;
}

CUresult hostmem_region_again(struct guest_thread *t, size_t size,
			      struct hostmem_region *ret_region)
{
	struct hostmem_region g = {0};
	unsigned i;

	pthread_mutex_lock(&kept.lock);
	i = find_kept_locked(size);
	if (i < kept.n)
		g = take_kept_locked(i);
	pthread_mutex_unlock(&kept.lock);
	if (!g.size)
		return hostmem_region_new(t, size, ret_region);
	*ret_region = g;
	return CUDA_SUCCESS;
}

CUresult hostmem_region_keep(struct guest_thread *t, const struct hostmem_region *g)
{
	bool keep;

	pthread_mutex_lock(&kept.lock);
	keep = kept.n < KEPT_MAX && kept.bytes + g->size <= KEPT_BYTES;
	if (keep) {
		kept.of[kept.n++] = *g;
		kept.bytes += g->size;
	}
	pthread_mutex_unlock(&kept.lock);
	return keep ? CUDA_SUCCESS : hostmem_region_free(t, g);
}
