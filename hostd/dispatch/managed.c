/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"
#include "memory/managed.h"

int handle_managed_alloc(struct sess_lane *sl, const struct managed_alloc_args *a,
			 struct managed_alloc_rep *rep)
{
	struct managed_region g;

	sl->uncounted = true; /* without it the guest takes host memory */
	rep->res.result = managed_alloc(sl->s->managed, a->cmd->size, &g);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	rep->addr = g.addr;
	rep->offset = g.offset;
	rep->mapped = g.size;
	rep->piece = MANAGED_PIECE;
	return 0;
}

/* As CUDA's, waits for the work that may still use the memory; see cuMemFree. */
int handle_managed_free(struct sess_lane *sl, const struct managed_free_args *a,
			struct managed_free_rep *rep)
{
	struct dev_ctx *ctx;
	CUresult r;

	if (!wait_to_free(sl, &ctx, &rep->res.result))
		return 0;
	r = managed_release(sl->s->managed, a->cmd->addr);
	if (rep->res.result == CUDA_SUCCESS)
		rep->res.result = r;
	return 0;
}

int handle_managed_move(struct sess_lane *sl, const struct managed_move_args *a,
			struct managed_move_rep *rep)
{
	if (a->cmd->to_device > 1)
		return -EPROTO;
	rep->res.result = managed_move(sl->s->managed, a->cmd->addr, a->cmd->size,
				       a->cmd->to_device, a->cmd->wait_us, &rep->moved);
	return 0;
}
