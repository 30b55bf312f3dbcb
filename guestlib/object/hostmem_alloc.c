/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: host memory of ours
 *
 * An allocation is a region of the band: the worker makes it and maps it for the device,
 * then it is mapped here at the same address. Memory that cannot be shared is ordinary
 * memory: copies work, mapping does not.
 */
#include <sys/mman.h>

#include "calls.h"
#include "object/hostmem.h"
#include "object/managed.h"
#include "core/process.h"
#include "core/thread.h"

static CUresult alloc_private(struct hostmem *h)
{
	void *p = mmap(NULL, ALIGN_UP(h->size, HOSTMEM_PAGE), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h->base = (uintptr_t)p;
	return CUDA_SUCCESS;
}

static CUresult free_pages(struct guest_thread *t, const struct hostmem *h)
{
	if (h->moves && h->size >= MANAGED_MOVES_MIN)
		return managed_end(t, h->moves);
	if (h->carried)
		return managed_carrier->end(t, h->carried);
	if (h->region.size)
		return hostmem_region_free(t, &h->region);
	if (h->dev)
		return hostmem_small_free(t, h);
	munmap((void *)h->base, ALIGN_UP(h->size, HOSTMEM_PAGE));
	return CUDA_SUCCESS;
}

static CUresult alloc_pages(struct guest_thread *t, struct hostmem *h)
{
	CUresult r = hostmem_small_new(t, h);

	if (r == CUDA_ERROR_NOT_SUPPORTED) { /* for a slab there may be no room */
		r = hostmem_region_new(t, h->size, &h->region);
		h->base = h->dev = h->region.addr;
	}
	if (r == CUDA_ERROR_NOT_SUPPORTED &&
	    !(guest_process.host_size && h->flags & CU_MEMHOSTALLOC_DEVICEMAP))
		r = alloc_private(h);
	else if (r == CUDA_ERROR_NOT_SUPPORTED)
		r = CUDA_ERROR_OUT_OF_MEMORY; /* it is to be mapped, or not to be */
	h->host = h->base;
	return r;
}

CUresult hostmem_alloc(struct guest_thread *t, struct hostmem *h)
{
	CUresult r = h->carried ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;

	if (h->managed && !h->carried && h->size >= MANAGED_MOVES_MIN)
		r = managed_new(t, h, false);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		r = alloc_pages(t, h);
	if (r)
		return r;
	r = hostmem_insert(h);
	if (r)
		free_pages(t, h);
	return r;
}

CUresult hostmem_alloc_here(struct guest_thread *t, struct hostmem *h)
{
	CUresult r = guest_unsafe(t);

	h->ctx = t->wire_id;
	return r ? r : hostmem_alloc(t, h);
}

CUresult hostmem_alloc_own(struct guest_thread *t, size_t size, void **ret_p)
{
	struct hostmem h = {.size = size};
	CUresult r = hostmem_alloc(t, &h);

	if (r == CUDA_SUCCESS)
		*ret_p = (void *)h.base;
	return r;
}

CUresult hostmem_free(struct guest_thread *t, void *p)
{
	struct hostmem h;

	if (!hostmem_find((uintptr_t)p, &h) || h.managed || h.base != (uintptr_t)p)
		return CUDA_ERROR_INVALID_VALUE;
	return hostmem_end(t, &h);
}

CUresult hostmem_end(struct guest_thread *t, struct hostmem *h)
{
	if (!hostmem_take(h->base, false, h))
		return CUDA_ERROR_INVALID_VALUE;
	return free_pages(t, h);
}

static void wait_ctx(struct guest_thread *t, uint64_t ctx)
{
	struct cuCtxSynchronize_v2_cmd *cmd = begin_cuCtxSynchronize_v2(t);
	struct lane_reply reply;

	if (!cmd)
		return;
	cmd->ctx = ctx;
	/* Errors of the context's work end with the context. */
	guest_call_even_lost(t, sizeof(struct cuCtxSynchronize_v2_rep), &reply);
}

void hostmem_drop_ctx(struct guest_thread *t, uint64_t ctx, uint64_t wire_id)
{
	struct hostmem h;
	bool waited = false;

	while (hostmem_take_of(wire_id, &h)) {
		if (!waited)
			wait_ctx(t, ctx);
		waited = true;
		if (h.registered)
			hostmem_unregister(t, &h);
		else
			free_pages(t, &h);
	}
}
