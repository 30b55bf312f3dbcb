// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: regions of host memory
 *
 * A region is made by the worker, which asks for room, maps it for the device and clears
 * it: several times what copying a megabyte takes. So a few that registered memory had
 * are kept for the next that is registered.
 */
#include <pthread.h>

#include "calls.h"
#include "hostmem.h"
#include "process.h"

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
	struct host_free_cmd *cmd;
	struct lane_reply reply;

	if (!g->size)
		return CUDA_SUCCESS;
	/* First, for the next region may come to the same place. */
	link_unmap(guest_process.link, g->addr, g->size);
	cmd = begin_host_free(t);
	if (!cmd)
		return guest_lost(t);
	cmd->addr = g->addr;
	return guest_call(t, sizeof(struct host_free_rep), &reply);
}

static CUresult region_new(struct guest_thread *t, size_t size,
			   struct hostmem_region *ret_region)
{
	const struct host_alloc_rep *rep;
	struct host_alloc_cmd *cmd;
	struct hostmem_region g;
	struct lane_reply reply;
	CUresult r;

	if (!guest_process.host_size)
		return CUDA_ERROR_NOT_SUPPORTED;
	cmd = begin_host_alloc(t);
	if (!cmd)
		return guest_lost(t);
	cmd->size = size;
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	g = (struct hostmem_region){rep->addr, rep->mapped, rep->offset};
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

CUresult hostmem_region_again(struct guest_thread *t, size_t size,
			      struct hostmem_region *ret_region)
{
	struct hostmem_region g = {0};

	pthread_mutex_lock(&kept.lock);
	for (unsigned i = 0; i < kept.n && !g.size; i++) {
		if (kept.of[i].size >= size && kept.of[i].size / 2 <= size)
			g = take_kept_locked(i);
	}
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
