/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"

int handle_ipc_mem_export(struct sess_lane *sl, const struct ipc_mem_export_args *a,
			  struct ipc_mem_export_rep *rep)
{
	struct space_share h;

	rep->res.result = space_export(sl->s->space, a->cmd->ptr, &h);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	static_assert(sizeof(rep->name) == sizeof(h.name), "a name");
	memcpy(rep->name, h.name, sizeof(h.name));
	rep->offset = h.offset;
	rep->bytes = h.bytes;
	return 0;
}

int handle_ipc_mem_open(struct sess_lane *sl, const struct ipc_mem_open_args *a,
			struct ipc_mem_open_rep *rep)
{
	struct space_share h = {.offset = a->cmd->offset, .bytes = a->cmd->bytes};
	CUdeviceptr addr = 0;

	memcpy(h.name, a->cmd->name, sizeof(h.name));
	rep->res.result = space_import(sl->s->space, &h, sl->ctx->id, &addr);
	rep->addr = addr;
	return 0;
}

int handle_ipc_mem_close(struct sess_lane *sl, const struct ipc_mem_close_args *a,
			 struct ipc_mem_close_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	CUresult sync, r;

	if (!space_is_import(sl->s->space, a->cmd->addr)) {
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
		return 0;
	}
	sync = sess_sync_result(sl, sl->s->ops->ctx.synchronize(ctx));
	r = space_import_close(sl->s->space, a->cmd->addr);
	rep->res.result = sync ? sync : r;
	return 0;
}
