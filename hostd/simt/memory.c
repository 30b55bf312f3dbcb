/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, one lane at a time: windows of the generic space, and faults. */
#include "simt/mem.h"
#include "simt/cta.h"

/* Address of shared memory, that of shared::cluster included. */
static void *shared_at(struct simt_warp *w, uint64_t addr, uint32_t bytes)
{
	struct simt_cta *c = w->cta;

	if (addr >= SIMT_SHARED_STRIDE) {
		uint64_t rank = addr / SIMT_SHARED_STRIDE - 1;

		addr %= SIMT_SHARED_STRIDE;
		if (rank >= c->cluster->num)
			return NULL;
		c = c->cluster->cta[rank];
	}
	if (addr > w->shared_bytes || w->shared_bytes - addr < bytes)
		return NULL;
	return c->shared + addr;
}

static void *local_at(struct simt_warp *w, uint64_t off, uint32_t bytes, unsigned lane)
{
	if (off > w->local_bytes || w->local_bytes - off < bytes)
		return NULL;
	return w->local + (size_t)lane * w->local_stride + off;
}

static void *param_at(struct simt_warp *w, uint64_t off, uint32_t bytes, unsigned perm)
{
	if (perm != SIMT_PERM_READ || off > w->param_bytes ||
	    w->param_bytes - off < bytes)
		return NULL;
	return (void *)(uintptr_t)(w->params + off);
}

/* Device memory of any alignment: every page that is touched. */
static void *global_at(struct simt_warp *w, uint64_t addr, uint32_t bytes, unsigned perm)
{
	uint64_t off = addr - w->mem_base, last;

	if (off >= w->mem_size || w->mem_size - off < bytes)
		return NULL;
	last = off + (bytes ? bytes - 1 : 0);
	for (uint64_t p = off >> SIMT_PAGE_SHIFT; p <= last >> SIMT_PAGE_SHIFT; p++)
		if (__atomic_load_n(&w->perm[p], __ATOMIC_RELAXED) < perm)
			return NULL;
	return (void *)(uintptr_t)addr;
}

void *simt_generic(struct simt_warp *w, uint64_t addr, uint32_t bytes, unsigned perm,
		   unsigned lane)
{
	if (addr - SIMT_SHARED_BASE < SIMT_SHARED_SIZE)
		return shared_at(w, addr - SIMT_SHARED_BASE, bytes);
	if (addr - SIMT_LOCAL_BASE < SIMT_LOCAL_SIZE)
		return local_at(w, addr - SIMT_LOCAL_BASE, bytes, lane);
	if (addr - SIMT_PARAM_BASE < SIMT_PARAM_SIZE)
		return param_at(w, addr - SIMT_PARAM_BASE, bytes, perm);
	return global_at(w, addr, bytes, perm);
}

void *simt_resolve(struct simt_warp *w, unsigned space, uint64_t addr, uint32_t bytes,
		   unsigned perm, unsigned lane)
{
	switch ((enum mem_space)space) {
	case MEM_GLOBAL:
		return global_at(w, addr, bytes, perm);
	case MEM_GENERIC:
		return simt_generic(w, addr, bytes, perm, lane);
	case MEM_SHARED:
		return shared_at(w, addr, bytes);
	case MEM_LOCAL:
	case MEM_FRAME:
		return local_at(w, addr, bytes, lane);
	case MEM_PARAM:
		return param_at(w, addr, bytes, perm);
	}
	return NULL;
}

bool simt_mem_slow(struct simt_warp *w, const struct simt_op *op, uint32_t m, uint64_t *t,
		   unsigned bytes, unsigned perm)
{
	uint64_t any = 0;

	FOR_LANES(m, k)
	{
		uint64_t addr = t[k];
		void *p;

		if (addr & (bytes - 1)) {
			simt_raise_mem(w, op, SIMT_FAULT_MISALIGNED, k, addr, bytes,
				       perm == SIMT_PERM_WRITE);
			return false;
		}
		p = simt_resolve(w, op->x, addr, bytes, perm, k);
		if (!p) {
			simt_raise_mem(w, op, SIMT_FAULT_ADDRESS, k, addr, bytes,
				       perm == SIMT_PERM_WRITE);
			return false;
		}
		t[k] = any = (uint64_t)(uintptr_t)p;
	}
	for (unsigned i = 0; i < SIMT_WARP; i++)
		if (!LANE_ON(m, i))
			t[i] = any;
	return true;
}
