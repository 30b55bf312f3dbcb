/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"

int handle_tensor_map(struct sess_lane *sl, const struct tensor_map_args *a,
		      struct tensor_map_rep *rep)
{
	const struct tensor_map_cmd *c = a->cmd;
	struct dev_tensor_map m = {
		.kind = (enum dev_tensor_map_kind)c->kind,
		.data_type = c->data_type,
		.rank = c->rank,
		.interleave = c->interleave,
		.swizzle = c->swizzle,
		.l2_promotion = c->l2_promotion,
		.oob_fill = c->oob_fill,
		.mode = c->mode,
		.address = c->address,
	};
	struct dev_ctx *ctx = need_ctx(sl, rep);
	CUtensorMap map;

	if (c->kind > DEV_TENSOR_MAP_IM2COL_WIDE) {
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
		return 0;
	}
	memcpy(m.dim, c->dim, sizeof(m.dim));
	memcpy(m.stride, c->stride, sizeof(m.stride));
	memcpy(m.box, c->box, sizeof(m.box));
	memcpy(m.element_stride, c->element_stride, sizeof(m.element_stride));
	memcpy(m.lower, c->lower, sizeof(m.lower));
	memcpy(m.upper, c->upper, sizeof(m.upper));
	rep->res.result = sl->s->ops->tensor_map(ctx, &m, &map);
	if (rep->res.result == CUDA_SUCCESS)
		memcpy(rep->map, map.opaque, sizeof(rep->map));
	return 0;
}

int handle_tensor_map_move(struct sess_lane *sl, const struct tensor_map_move_args *a,
			   struct tensor_map_move_rep *rep)
{
	struct dev_ctx *ctx = need_ctx(sl, rep);
	CUtensorMap map;

	memcpy(map.opaque, a->cmd->map, sizeof(map.opaque));
	rep->res.result = sl->s->ops->tensor_map_move(ctx, &map, a->cmd->address);
	if (rep->res.result == CUDA_SUCCESS)
		memcpy(rep->moved, map.opaque, sizeof(rep->moved));
	return 0;
}
