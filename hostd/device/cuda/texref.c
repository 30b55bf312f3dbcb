/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references: the driver's, found anew for each change. They belong
 * to the module, so nothing is kept here.
 */
#include "device/cuda/copy.h"
#include "device/cuda/module.h"
#include "device/cuda/texture.h"

/* A library's references are not to be had, here as natively. */
static CUresult enter(struct dev_module *mod)
{
	return mod->cu ? cuda_enter(mod->ctx) : CUDA_ERROR_NOT_FOUND;
}

CUresult cuda_texref_find(struct dev_module *mod, const char *name, bool surface)
{
	CUresult res = enter(mod);
	CUsurfref surf;
	CUtexref tex;

	if (res)
		return res;
	atomic_store(&mod->has_refs, true);
	return surface ? cu.cuModuleGetSurfRef(&surf, mod->cu, name)
		       : cu.cuModuleGetTexRef(&tex, mod->cu, name);
}

static CUresult set_surface(struct dev_module *mod, const char *name,
			    const struct dev_texture_desc *d)
{
	CUsurfref ref;
	CUarray array;
	CUresult res = cu.cuModuleGetSurfRef(&ref, mod->cu, name);

	if (!res && !d->array)
		res = CUDA_ERROR_INVALID_VALUE;
	if (!res)
		res = cuda_array_level(d->array, d->level, &array);
	return res ? res : cu.cuSurfRefSetArray(ref, array, 0);
}

static CUresult bind(CUtexref ref, const struct dev_texture_desc *d)
{
	CUDA_ARRAY_DESCRIPTOR rows = {.Width = d->width,
				      .Height = d->height,
				      .Format = d->format,
				      .NumChannels = d->channels};
	CUarray array;
	size_t offset;
	CUresult res;

	if (d->array && d->array->mip && !d->is_level)
		return cu.cuTexRefSetMipmappedArray(ref, d->array->mip,
						    CU_TRSA_OVERRIDE_FORMAT);
	if (d->array) {
		res = cuda_array_level(d->array, d->level, &array);
		return res ? res
			   : cu.cuTexRefSetArray(ref, array, CU_TRSA_OVERRIDE_FORMAT);
	}
	if (d->pitch)
		return cu.cuTexRefSetAddress2D(ref, &rows, d->addr, d->pitch);
	return cu.cuTexRefSetAddress(&offset, ref, d->addr, d->width);
}

static CUresult set_sampler(CUtexref ref, const CUDA_TEXTURE_DESC *s)
{
	CUDA_TEXTURE_DESC copy = *s; /* the driver wants what may be written */
	CUresult res = cu.cuTexRefSetFilterMode(ref, s->filterMode);

	for (int i = 0; i < 3 && !res; i++)
		res = cu.cuTexRefSetAddressMode(ref, i, s->addressMode[i]);
	if (!res)
		res = cu.cuTexRefSetFlags(ref, s->flags);
	if (!res)
		res = cu.cuTexRefSetMaxAnisotropy(ref, s->maxAnisotropy);
	if (!res)
		res = cu.cuTexRefSetMipmapFilterMode(ref, s->mipmapFilterMode);
	if (!res)
		res = cu.cuTexRefSetMipmapLevelBias(ref, s->mipmapLevelBias);
	if (!res)
		res = cu.cuTexRefSetMipmapLevelClamp(ref, s->minMipmapLevelClamp,
						     s->maxMipmapLevelClamp);
	if (!res)
		res = cu.cuTexRefSetBorderColor(ref, copy.borderColor);
	return res;
}

CUresult cuda_texref_set(struct dev_module *mod, const char *name, bool surface,
			 const struct dev_texture_desc *d, bool bound)
{
	CUresult res = enter(mod);
	CUtexref ref;

	if (res || surface)
		return res ? res : cuda_note(mod->ctx, set_surface(mod, name, d));
	res = cu.cuModuleGetTexRef(&ref, mod->cu, name);
	if (!res)
		res = cu.cuTexRefSetFormat(ref, d->format, (int)d->channels);
	if (!res && bound)
		res = bind(ref, d);
	if (!res)
		res = set_sampler(ref, &d->sampler);
	return cuda_note(mod->ctx, res);
}
