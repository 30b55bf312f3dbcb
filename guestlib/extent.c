// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "calls.h"
#include "extent.h"
#include "process.h"

#define GRAIN 512u /* of an allocation: no less is given */

_Atomic uint64_t extent_generation;

static void renew(struct extents *e)
{
	uint64_t now = atomic_load_explicit(&extent_generation, memory_order_relaxed);

	if (e->generation != now)
		memset(e->of, 0, sizeof(e->of));
	e->generation = now;
}

void extent_forget(struct guest_thread *t, uint64_t addr)
{
	struct extents *e = &t->extents;
	uint64_t was =
		atomic_fetch_add_explicit(&extent_generation, 1, memory_order_relaxed);

	if (e->generation != was)
		return;
	for (unsigned i = 0; i < EXTENTS; i++) {
		if (addr - e->of[i].base < e->of[i].size)
			e->of[i].size = 0;
	}
	e->generation = was + 1;
}

static void remember(struct extents *e, uint64_t base, uint64_t size)
{
	e->of[e->next] = (struct extent){base, size};
	e->next = (e->next + 1) % EXTENTS;
}

CUresult extent_ask(struct guest_thread *t, uint64_t addr, uint64_t bytes)
{
	const struct pointer_info_rep *rep;
	struct pointer_info_cmd *cmd;
	struct lane_reply reply;
	uint64_t base = 0, end, at = addr;
	CUresult r;

	/* Variables of modules are known here, and lie outside of the band. */
	if (addr - guest_process.band_base >= guest_process.band_size)
		return CUDA_SUCCESS;
	renew(&t->extents);
	for (;;) {
		cmd = begin_pointer_info(t);
		if (!cmd)
			return guest_lost(t);
		cmd->ptr = at;
		r = guest_call(t, sizeof(*rep), &reply);
		if (r)
			return r;
		rep = reply.body;
		end = rep->base + ALIGN_UP(rep->size, GRAIN);
		if (!rep->mapped || end <= at)
			return CUDA_ERROR_INVALID_VALUE;
		if (!base)
			base = rep->base;
		if (bytes <= end - addr)
			break;
		/* What the program has mapped side by side is one memory. */
		if (rep->ctx)
			return CUDA_ERROR_INVALID_VALUE;
		at = end;
	}
	remember(&t->extents, base, end - base);
	return CUDA_SUCCESS;
}
