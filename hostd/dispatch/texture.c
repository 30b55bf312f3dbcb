/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/array.h"
#include "dispatch/handlers.h"

/* A texture or surface object. */
struct sess_texture {
	struct sess_obj obj;
	struct dev_texture *dev;
};

static void texture_fini(struct session *s, struct sess_obj *o)
{
	struct sess_texture *t = container_of(o, struct sess_texture, obj);

	if (t->dev)
		s->ops->texture.destroy(t->dev);
}

static CUresult texture_new(struct sess_lane *sl, enum handle_type type, uint64_t h,
			    struct sess_texture **ret_t)
{
	*ret_t = obj_new(type, h, sizeof(**ret_t), sl->ctx, texture_fini);
	return *ret_t ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Ends what was not made, publishes what was. */
static int texture_done(struct sess_lane *sl, struct sess_texture *t, CUresult r,
			uint32_t *ret_result)
{
	*ret_result = r;
	if (r == CUDA_SUCCESS)
		return publish(sl, &t->obj, ret_result);
	if (t)
		obj_put(sl->s, &t->obj);
	return 0;
}

static void read_sampler(const struct texture_create_cmd *c, CUDA_TEXTURE_DESC *ret)
{
	for (unsigned i = 0; i < 3; i++)
		ret->addressMode[i] = (CUaddress_mode)c->address_mode[i];
	ret->filterMode = (CUfilter_mode)c->filter;
	ret->flags = c->flags;
	ret->maxAnisotropy = c->max_anisotropy;
	ret->mipmapFilterMode = (CUfilter_mode)c->mip_filter;
	ret->mipmapLevelBias = c->mip_bias;
	ret->minMipmapLevelClamp = c->mip_min;
	ret->maxMipmapLevelClamp = c->mip_max;
	memcpy(ret->borderColor, c->border, sizeof(ret->borderColor));
}

static void read_view(const struct texture_create_cmd *c, CUDA_RESOURCE_VIEW_DESC *ret)
{
	ret->format = (CUresourceViewFormat)c->view_format;
	ret->width = c->view_width;
	ret->height = c->view_height;
	ret->depth = c->view_depth;
	ret->firstMipmapLevel = c->view_level[0];
	ret->lastMipmapLevel = c->view_level[1];
	ret->firstLayer = c->view_layer[0];
	ret->lastLayer = c->view_layer[1];
}

int handle_texture_create(struct sess_lane *sl, const struct texture_create_args *a,
			  struct texture_create_rep *rep)
{
	const struct texture_create_cmd *c = a->cmd;
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	struct dev_texture_desc d = {
		.is_level = c->is_level,
		.level = c->level,
		.addr = c->address,
		.width = c->width,
		.height = c->height,
		.pitch = c->pitch,
		.format = (CUarray_format)c->format,
		.channels = c->channels,
		.has_view = c->has_view,
	};
	struct sess_texture *t = NULL;
	CUresult r = CUDA_SUCCESS;

	if (c->array)
		r = array_named(sl, c->array, c->level, &d.array);
	read_sampler(c, &d.sampler);
	if (c->has_view)
		read_view(c, &d.view);
	if (r == CUDA_SUCCESS)
		r = texture_new(sl, HANDLE_TEXTURE, c->texture, &t);
	if (r == CUDA_SUCCESS)
		r = sl->s->ops->texture.create(ctx, &d, &rep->value, &t->dev);
	return texture_done(sl, t, r, &rep->res.result);
}

int handle_surface_create(struct sess_lane *sl, const struct surface_create_args *a,
			  struct surface_create_rep *rep)
{
	const struct surface_create_cmd *c = a->cmd;
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	struct dev_texture_desc d = {.is_level = c->is_level, .level = c->level};
	struct sess_texture *t = NULL;
	CUresult r = array_named(sl, c->array, c->level, &d.array);

	if (r == CUDA_SUCCESS)
		r = texture_new(sl, HANDLE_SURFACE, c->surface, &t);
	if (r == CUDA_SUCCESS)
		r = sl->s->ops->texture.create_surface(ctx, &d, &rep->value, &t->dev);
	return texture_done(sl, t, r, &rep->res.result);
}

/* Kernels that still use it may be under way, as with CUDA: the program's mistake. */
static CUresult destroy(struct sess_lane *sl, enum handle_type type, uint64_t h)
{
	struct sess_obj *o = obj_take(sl->s, type, h);

	obj_put(sl->s, o);
	return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int handle_texture_destroy(struct sess_lane *sl, const struct texture_destroy_args *a,
			   struct texture_destroy_rep *rep)
{
	rep->res.result = destroy(sl, HANDLE_TEXTURE, a->cmd->texture);
	return 0;
}

int handle_surface_destroy(struct sess_lane *sl, const struct surface_destroy_args *a,
			   struct surface_destroy_rep *rep)
{
	rep->res.result = destroy(sl, HANDLE_SURFACE, a->cmd->surface);
	return 0;
}

/* ---- references ---- */

static CUresult module_of(struct sess_lane *sl, uint64_t h, struct dev_module **ret_mod)
{
	struct sess_module *m = sess_get(sl, HANDLE_MODULE, h);
	struct sess_inst *inst;
	CUresult r = m ? sess_module_in(sl, m, sess_any_ctx(sl), &inst)
		       : CUDA_ERROR_INVALID_HANDLE;

	if (r == CUDA_SUCCESS)
		*ret_mod = inst->dev;
	return r;
}

int handle_texref_find(struct sess_lane *sl, const struct texref_find_args *a,
		       struct texref_find_rep *rep)
{
	struct dev_module *mod;
	CUresult r = module_of(sl, a->cmd->module, &mod);

	if (r == CUDA_SUCCESS)
		r = sl->s->ops->texture.find_ref(mod, a->name, a->cmd->surface);
	rep->res.result = r;
	return 0;
}

int handle_texref_set(struct sess_lane *sl, const struct texref_set_args *a,
		      struct texref_set_rep *rep)
{
	const struct texref_set_cmd *c = a->cmd;
	struct dev_module *mod;
	struct dev_texture_desc d = {
		.is_level = c->is_level,
		.level = c->level,
		.addr = c->address,
		.width = c->width,
		.height = c->height,
		.pitch = c->pitch,
		.format = (CUarray_format)c->format,
		.channels = c->channels,
		.sampler = {.filterMode = (CUfilter_mode)c->filter,
			    .flags = c->flags,
			    .maxAnisotropy = c->max_anisotropy,
			    .mipmapFilterMode = (CUfilter_mode)c->mip_filter,
			    .mipmapLevelBias = c->mip_bias,
			    .minMipmapLevelClamp = c->mip_min,
			    .maxMipmapLevelClamp = c->mip_max},
	};
	CUresult r = module_of(sl, c->module, &mod);

	for (unsigned i = 0; i < 3; i++)
		d.sampler.addressMode[i] = (CUaddress_mode)c->address_mode[i];
	memcpy(d.sampler.borderColor, c->border, sizeof(d.sampler.borderColor));
	if (r == CUDA_SUCCESS && c->array)
		r = array_named(sl, c->array, c->level, &d.array);
	if (r == CUDA_SUCCESS)
		r = sl->s->ops->texture.set_ref(mod, a->name, c->surface, &d, c->bound);
	rep->res.result = r;
	return 0;
}

/* ---- tensor maps ---- */

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
	struct dev_ctx *ctx = sess_ctx_dev(sl);
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
	rep->res.result = sl->s->ops->tensor.map(ctx, &m, &map);
	if (rep->res.result == CUDA_SUCCESS)
		memcpy(rep->map, map.opaque, sizeof(rep->map));
	return 0;
}

int handle_tensor_map_move(struct sess_lane *sl, const struct tensor_map_move_args *a,
			   struct tensor_map_move_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	CUtensorMap map;

	memcpy(map.opaque, a->cmd->map, sizeof(map.opaque));
	rep->res.result = sl->s->ops->tensor.move(ctx, &map, a->cmd->address);
	if (rep->res.result == CUDA_SUCCESS)
		memcpy(rep->moved, map.opaque, sizeof(rep->moved));
	return 0;
}
