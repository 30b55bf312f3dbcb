/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references, deprecated since textures are objects, but still there
 * for programs built long ago. A reference is a variable of a module; what it says is
 * kept here, and all of it goes to the worker whenever it changes. One that a program
 * made itself belongs to no module, so nobody is told.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "object/array.h"
#include "calls.h"
#include "core/process.h"

#define TEXTURE_ALIGN 512u
#define NAME_MAX_LEN  32767u

#define KNOWN_FLAGS                                                                      \
	(CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |       \
	 CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP)

enum bound {
	BOUND_NOT,
	BOUND_ARRAY,
	BOUND_MIPMAP,
	BOUND_LINEAR,
	BOUND_PITCH,
};

/* Settings of a texture reference. */
struct state {
	enum bound bound;
	CUarray array;
	CUmipmappedArray mipmap;
	CUdeviceptr addr;
	size_t width, height, pitch; /* linear: width in bytes */
	CUarray_format format;
	int channels;
	CUDA_TEXTURE_DESC sampler;
};

struct ref {
	struct ref *next; /* those of modules */
	uint64_t handle, module;
	bool surface;
	struct state s;
	size_t name_len;
	char name[]; /* "": of no module */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ref *refs;

static struct ref *ref_new(uint64_t module, const char *name, bool surface)
{
	size_t len = strlen(name);
	struct ref *r = calloc(1, sizeof(*r) + len + 1);

	if (!r)
		return NULL;
	r->handle = guest_handle_new(HANDLE_TEXTURE, r);
	if (!r->handle) {
		free(r);
		return NULL;
	}
	r->module = module;
	r->surface = surface;
	r->s.format = CU_AD_FORMAT_FLOAT;
	r->s.channels = 1;
	r->name_len = len;
	memcpy(r->name, name, len + 1);
	return r;
}

static struct ref *ref_of(const void *handle, bool surface)
{
	struct ref *r = guest_object((uintptr_t)handle, HANDLE_TEXTURE);

	return r && r->surface == surface ? r : NULL;
}

/* ---- finding ---- */

static CUresult ask(struct guest_thread *t, uint64_t module, const char *name,
		    bool surface)
{
	uint32_t size = (uint32_t)strlen(name) + 1;
	struct texref_find_cmd *cmd = begin_texref_find(t, size);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->module = module;
	cmd->surface = surface;
	memcpy(texref_find_cmd_name(cmd), name, size);
	return guest_call(t, sizeof(struct texref_find_rep), &reply);
}

static struct ref *known_locked(uint64_t module, const char *name, bool surface)
{
	struct ref *r = refs;

	while (r && (r->module != module || r->surface != surface ||
		     strcmp(r->name, name) != 0))
		r = r->next;
	return r;
}

static CUresult find(void **ret_handle, uint64_t module, const char *name, bool surface)
{
	struct guest_thread *t;
	struct ref *ref;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!guest_handle_valid(module, HANDLE_MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret_handle || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!*name || strnlen(name, NAME_MAX_LEN + 1) > NAME_MAX_LEN)
		return CUDA_ERROR_NOT_FOUND;
	r = ask(t, module, name, surface);
	if (r)
		return r;
	pthread_mutex_lock(&lock);
	ref = known_locked(module, name, surface);
	if (!ref) {
		ref = ref_new(module, name, surface);
		if (ref) {
			ref->next = refs;
			refs = ref;
		}
	}
	pthread_mutex_unlock(&lock);
	if (!ref)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_handle = (void *)ref->handle;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetTexRef(CUtexref *ret_ref, CUmodule module, const char *name)
{
	return find((void **)ret_ref, (uintptr_t)module, name, false);
}

CUresult CUDAAPI cuModuleGetSurfRef(CUsurfref *ret_ref, CUmodule module, const char *name)
{
	return find((void **)ret_ref, (uintptr_t)module, name, true);
}

CUresult CUDAAPI cuTexRefCreate(CUtexref *ret_ref)
{
	struct ref *ref;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!ret_ref)
		return CUDA_ERROR_INVALID_VALUE;
	ref = ref_new(0, "", false);
	if (!ref)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_ref = (CUtexref)ref->handle;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefDestroy(CUtexref handle)
{
	struct ref *ref = ref_of(handle, false);
	CUresult r = guest_status();

	if (r)
		return r;
	if (!ref || ref->module) /* the module's stay */
		return ref ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	guest_handle_free(ref->handle);
	free(ref);
	return CUDA_SUCCESS;
}

/* ---- setting ---- */

static CUresult fill_bound(struct texref_set_cmd *cmd, const struct state *s)
{
	struct guest_array *a = s->bound == BOUND_ARRAY    ? guest_array(s->array)
				: s->bound == BOUND_MIPMAP ? guest_mipmap(s->mipmap)
							   : NULL;
	bool array = s->bound == BOUND_ARRAY || s->bound == BOUND_MIPMAP;

	if (array && !a)
		return CUDA_ERROR_INVALID_VALUE;
	cmd->bound = s->bound != BOUND_NOT;
	cmd->array = a ? a->root : 0;
	cmd->level = a ? a->level : 0;
	cmd->is_level = a && a->is_level;
	cmd->address = array ? 0 : s->addr;
	cmd->width = s->width;
	cmd->height = s->height;
	cmd->pitch = s->bound == BOUND_PITCH ? s->pitch : 0;
	return CUDA_SUCCESS;
}

static void fill_sampler(struct texref_set_cmd *cmd, const struct state *s)
{
	const CUDA_TEXTURE_DESC *d = &s->sampler;
	unsigned i;

	for (i = 0; i < 3; i++)
		cmd->address_mode[i] = d->addressMode[i];
	cmd->filter = d->filterMode;
	cmd->flags = d->flags;
	cmd->max_anisotropy = d->maxAnisotropy;
	cmd->mip_filter = d->mipmapFilterMode;
	cmd->mip_bias = d->mipmapLevelBias;
	cmd->mip_min = d->minMipmapLevelClamp;
	cmd->mip_max = d->maxMipmapLevelClamp;
	memcpy(cmd->border, d->borderColor, sizeof(cmd->border));
}

/* Makes s what the reference says, at the worker first. */
static CUresult set(struct ref *ref, const struct state *s)
{
	struct texref_set_cmd fields = {0}, *cmd;
	struct lane_reply reply;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r == CUDA_SUCCESS)
		r = fill_bound(&fields, s);
	if (r == CUDA_SUCCESS && ref->module) {
		cmd = begin_texref_set(t, (uint32_t)ref->name_len + 1);
		if (!cmd)
			return guest_lost(t);
		fields.name_size = cmd->name_size;
		*cmd = fields;
		cmd->module = ref->module;
		cmd->surface = ref->surface;
		cmd->format = s->format;
		cmd->channels = (uint32_t)s->channels;
		fill_sampler(cmd, s);
		memcpy(texref_set_cmd_name(cmd), ref->name, ref->name_len + 1);
		r = guest_call(t, sizeof(struct texref_set_rep), &reply);
	}
	if (r == CUDA_SUCCESS)
		ref->s = *s;
	return r;
}

/*
 * The frame of a function that changes a texture reference: statements work on s, a copy
 * of what it says; an error in them is returned.
 */
#define CHANGE(handle, ...)                                                              \
	do {                                                                             \
		CUresult change_r = guest_status();                                      \
		struct ref *change_ref = ref_of(handle, false);                          \
		struct state s;                                                          \
                                                                                         \
		if (change_r)                                                            \
			return change_r;                                                 \
		if (!change_ref)                                                         \
			return CUDA_ERROR_INVALID_HANDLE;                                \
		s = change_ref->s;                                                       \
		__VA_ARGS__;                                                             \
		return set(change_ref, &s);                                              \
	} while (0)

#define REFUSE_IF(cond)                                                                  \
	if (cond)                                                                        \
	return CUDA_ERROR_INVALID_VALUE

/* An array brings its format along. */
static bool bind_array(struct state *s, const struct guest_array *a)
{
	if (!a)
		return false;
	s->format = (CUarray_format)a->shape.format;
	s->channels = (int)a->shape.channels;
	return true;
}

CUresult CUDAAPI cuTexRefSetArray(CUtexref ref, CUarray array, unsigned int flags)
{
	CHANGE(ref, {
		REFUSE_IF(!bind_array(&s, guest_array(array)));
		s.bound = BOUND_ARRAY;
		s.array = array;
	});
}

CUresult CUDAAPI cuTexRefSetMipmappedArray(CUtexref ref, CUmipmappedArray array,
					   unsigned int flags)
{
	CHANGE(ref, {
		REFUSE_IF(!bind_array(&s, guest_mipmap(array)));
		s.bound = BOUND_MIPMAP;
		s.mipmap = array;
	});
}

/* The address may be any; how far it is off what the hardware takes, is told. */
CUresult CUDAAPI cuTexRefSetAddress_v2(size_t *offset, CUtexref ref, CUdeviceptr addr,
				       size_t bytes)
{
	CHANGE(ref, {
		REFUSE_IF(addr % TEXTURE_ALIGN && !offset);
		s.bound = BOUND_LINEAR;
		s.addr = addr;
		s.width = bytes;
		if (offset)
			*offset = addr % TEXTURE_ALIGN;
	});
}

CUresult CUDAAPI cuTexRefSetAddress2D_v3(CUtexref ref, const CUDA_ARRAY_DESCRIPTOR *desc,
					 CUdeviceptr addr, size_t pitch)
{
	CHANGE(ref, {
		REFUSE_IF(!desc || !pitch);
		s.bound = BOUND_PITCH;
		s.addr = addr;
		s.width = desc->Width;
		s.height = desc->Height;
		s.format = desc->Format;
		s.channels = (int)desc->NumChannels;
		s.pitch = pitch;
	});
}

CUresult CUDAAPI cuTexRefSetAddress2D_v2(CUtexref ref, const CUDA_ARRAY_DESCRIPTOR *desc,
					 CUdeviceptr addr, size_t pitch)
{
	return cuTexRefSetAddress2D_v3(ref, desc, addr, pitch);
}

CUresult CUDAAPI cuTexRefSetFormat(CUtexref ref, CUarray_format format, int channels)
{
	CHANGE(ref, {
		REFUSE_IF(!array_channel_bytes(format) ||
			  (channels != 1 && channels != 2 && channels != 4));
		s.format = format;
		s.channels = channels;
	});
}

CUresult CUDAAPI cuTexRefSetAddressMode(CUtexref ref, int dim, CUaddress_mode mode)
{
	CHANGE(ref, {
		REFUSE_IF(dim < 0 || dim > 2);
		s.sampler.addressMode[dim] = mode;
	});
}

CUresult CUDAAPI cuTexRefSetFilterMode(CUtexref ref, CUfilter_mode mode)
{
	CHANGE(ref, s.sampler.filterMode = mode);
}

CUresult CUDAAPI cuTexRefSetMipmapFilterMode(CUtexref ref, CUfilter_mode mode)
{
	CHANGE(ref, s.sampler.mipmapFilterMode = mode);
}

CUresult CUDAAPI cuTexRefSetMipmapLevelBias(CUtexref ref, float bias)
{
	CHANGE(ref, s.sampler.mipmapLevelBias = bias);
}

CUresult CUDAAPI cuTexRefSetMipmapLevelClamp(CUtexref ref, float min, float max)
{
	CHANGE(ref, {
		s.sampler.minMipmapLevelClamp = min;
		s.sampler.maxMipmapLevelClamp = max;
	});
}

CUresult CUDAAPI cuTexRefSetMaxAnisotropy(CUtexref ref, unsigned int max)
{
	CHANGE(ref, s.sampler.maxAnisotropy = max);
}

CUresult CUDAAPI cuTexRefSetBorderColor(CUtexref ref, float *color)
{
	CHANGE(ref, {
		REFUSE_IF(!color);
		memcpy(s.sampler.borderColor, color, sizeof(s.sampler.borderColor));
	});
}

CUresult CUDAAPI cuTexRefSetFlags(CUtexref ref, unsigned int flags)
{
	CHANGE(ref, {
		REFUSE_IF(flags & ~(unsigned)KNOWN_FLAGS);
		s.sampler.flags = flags;
	});
}

CUresult CUDAAPI cuSurfRefSetArray(CUsurfref handle, CUarray array, unsigned int flags)
{
	struct ref *ref = ref_of(handle, true);
	CUresult r = guest_status();
	struct state s;

	if (r)
		return r;
	if (!ref)
		return CUDA_ERROR_INVALID_HANDLE;
	s = ref->s;
	if (flags || !bind_array(&s, guest_array(array)))
		return CUDA_ERROR_INVALID_VALUE;
	s.bound = BOUND_ARRAY;
	s.array = array;
	return set(ref, &s);
}

/* ---- asking ---- */

static CUresult state_of(void *handle, bool surface, const void *out,
			 const struct state **ret)
{
	struct ref *ref = ref_of(handle, surface);
	CUresult r = guest_status();

	if (r)
		return r;
	if (!ref)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = &ref->s;
	return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* One value, if cond holds. */
#define ANSWER(handle, surface, out, cond, value)                                        \
	do {                                                                             \
		const struct state *s;                                                   \
		CUresult answer_r = state_of(handle, surface, out, &s);                  \
                                                                                         \
		if (answer_r)                                                            \
			return answer_r;                                                 \
		if (!(cond))                                                             \
			return CUDA_ERROR_INVALID_VALUE;                                 \
		*(out) = (value);                                                        \
		return CUDA_SUCCESS;                                                     \
	} while (0)

CUresult CUDAAPI cuTexRefGetAddress_v2(CUdeviceptr *ret_addr, CUtexref ref)
{
	ANSWER(ref, false, ret_addr, s->bound == BOUND_LINEAR || s->bound == BOUND_PITCH,
	       s->addr);
}

CUresult CUDAAPI cuTexRefGetArray(CUarray *ret_array, CUtexref ref)
{
	ANSWER(ref, false, ret_array, s->bound == BOUND_ARRAY, s->array);
}

CUresult CUDAAPI cuTexRefGetMipmappedArray(CUmipmappedArray *ret_array, CUtexref ref)
{
	ANSWER(ref, false, ret_array, s->bound == BOUND_MIPMAP, s->mipmap);
}

CUresult CUDAAPI cuTexRefGetAddressMode(CUaddress_mode *ret_mode, CUtexref ref, int dim)
{
	ANSWER(ref, false, ret_mode, dim >= 0 && dim <= 2, s->sampler.addressMode[dim]);
}

CUresult CUDAAPI cuTexRefGetFilterMode(CUfilter_mode *ret_mode, CUtexref ref)
{
	ANSWER(ref, false, ret_mode, true, s->sampler.filterMode);
}

CUresult CUDAAPI cuTexRefGetFormat(CUarray_format *ret_format, int *ret_channels,
				   CUtexref ref)
{
	const struct state *s;
	CUresult r = state_of(ref, false, ret_format, &s);

	if (r)
		return r;
	*ret_format = s->format;
	if (ret_channels)
		*ret_channels = s->channels;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefGetMipmapFilterMode(CUfilter_mode *ret_mode, CUtexref ref)
{
	ANSWER(ref, false, ret_mode, true, s->sampler.mipmapFilterMode);
}

CUresult CUDAAPI cuTexRefGetMipmapLevelBias(float *ret_bias, CUtexref ref)
{
	ANSWER(ref, false, ret_bias, true, s->sampler.mipmapLevelBias);
}

CUresult CUDAAPI cuTexRefGetMipmapLevelClamp(float *ret_min, float *ret_max, CUtexref ref)
{
	const struct state *s;
	CUresult r = state_of(ref, false, ret_min, &s);

	if (r)
		return r;
	*ret_min = s->sampler.minMipmapLevelClamp;
	if (ret_max)
		*ret_max = s->sampler.maxMipmapLevelClamp;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefGetMaxAnisotropy(int *ret_max, CUtexref ref)
{
	ANSWER(ref, false, ret_max, true, (int)s->sampler.maxAnisotropy);
}

CUresult CUDAAPI cuTexRefGetBorderColor(float *ret_color, CUtexref ref)
{
	const struct state *s;
	CUresult r = state_of(ref, false, ret_color, &s);

	if (r == CUDA_SUCCESS)
		memcpy(ret_color, s->sampler.borderColor, sizeof(s->sampler.borderColor));
	return r;
}

CUresult CUDAAPI cuTexRefGetFlags(unsigned int *ret_flags, CUtexref ref)
{
	ANSWER(ref, false, ret_flags, true, s->sampler.flags);
}

CUresult CUDAAPI cuSurfRefGetArray(CUarray *ret_array, CUsurfref ref)
{
	ANSWER(ref, true, ret_array, s->bound == BOUND_ARRAY, s->array);
}
