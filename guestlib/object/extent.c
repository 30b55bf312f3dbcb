/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "calls.h"
#include "object/extent.h"
#include "core/extent_table.h"
#include "core/process.h"

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
	uint64_t was;

	extent_table_drop(addr);
	was = atomic_fetch_add_explicit(&extent_generation, 1, memory_order_relaxed);

	if (e->generation != was)
		return;
	for (unsigned i = 0; i < EXTENTS; i++) {
		if (addr - e->of[i].base < e->of[i].size)
			e->of[i].size = 0;
	}
	e->generation = was + 1;
}

void extent_forget_all(void)
{
	atomic_fetch_add_explicit(&extent_generation, 1, memory_order_relaxed);
	extent_table_clear();
}

CUresult extent_look(struct guest_thread *t, uint64_t addr,
		     const struct pointer_info_rep **ret_rep)
{
	uint64_t generation = extent_table_generation();
	struct pointer_info_cmd *cmd = begin_pointer_info(t);
	const struct pointer_info_rep *rep;
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->ptr = addr;
	r = guest_ask(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	/* Without a context: mapped by the program, and perhaps in parts. */
	if (rep->ctx && rep->mapped && !rep->in_host_memory)
		extent_table_add(&(struct extent_info){.base = rep->base,
						       .size = rep->size,
						       .id = rep->buffer_id,
						       .ctx = rep->ctx,
						       .pool = rep->pool,
						       .shareable = rep->shareable},
				 generation);
	*ret_rep = rep;
	return CUDA_SUCCESS;
}

static void remember(struct extents *e, uint64_t base, uint64_t size)
{
	e->of[e->next] = (struct extent){base, size};
	e->next = (e->next + 1) % EXTENTS;
}

CUresult extent_ask(struct guest_thread *t, uint64_t addr, uint64_t bytes)
{
	const struct pointer_info_rep *rep;
	struct extent_info known;
	uint64_t base = 0, end, at = addr;
	CUresult r;

	/* Variables of modules are known here, and lie outside of the band. */
	if (addr - guest_process.band_base >= guest_process.band_size)
		return CUDA_SUCCESS;
	if (extent_table_find(addr, &known))
		return bytes <= known.base + ALIGN_UP(known.size, EXTENT_GRAIN) - addr
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	renew(&t->extents);
	for (;;) {
		r = extent_look(t, at, &rep);
		if (r)
			return r;
		end = rep->base + ALIGN_UP(rep->size, EXTENT_GRAIN);
		if (!rep->mapped || end <= at)
			return CUDA_ERROR_INVALID_VALUE;
		if (!base)
			base = rep->base;
		if (bytes <= end - addr)
			break;
		/* Memory that the program has mapped side by side counts as one. */
		if (rep->ctx)
			return CUDA_ERROR_INVALID_VALUE;
		at = end;
	}
	remember(&t->extents, base, end - base);
	return CUDA_SUCCESS;
}
