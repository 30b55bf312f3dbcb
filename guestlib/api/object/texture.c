/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects. Their value is the device's, because kernels use it as it
 * is; what they were made of is remembered here, by that value. Destroying one that does
 * not exist is no error, as with a driver.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "object/array.h"
#include "calls.h"
#include "core/process.h"
#include "core/thread.h"

#define N_BUCKETS 1024 /* a power of two */

struct object {
	struct owned owned;
	struct object *next;
	uint64_t value;
	uint64_t handle; /* the worker's; its type says texture or surface */
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC sampler;
	bool has_view;
	CUDA_RESOURCE_VIEW_DESC view;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *buckets[N_BUCKETS];

static struct object **find_locked(uint64_t value, enum handle_type type)
{
	struct object **p = &buckets[(value ^ value >> 20) & (N_BUCKETS - 1)];

	while (*p && ((*p)->value != value || handle_type((*p)->handle) != type))
		p = &(*p)->next;
	return p;
}

static struct object *take(uint64_t value, enum handle_type type)
{
	struct object **p, *o;

	pthread_mutex_lock(&lock);
	p = find_locked(value, type);
	o = *p;
	if (o)
		*p = o->next;
	pthread_mutex_unlock(&lock);
	return o;
}

static void object_free(struct object *o)
{
	guest_handle_free(o->handle);
	free(o);
}

/* Forgets an object whose context has ended. An object of another context may have the
 * same value. */
static void drop(struct owned *owned)
{
	struct object *o = container_of(owned, struct object, owned), **p;

	pthread_mutex_lock(&lock);
	p = find_locked(o->value, handle_type(o->handle));
	while (*p && *p != o)
		p = &(*p)->next;
	if (*p)
		*p = o->next;
	pthread_mutex_unlock(&lock);
	object_free(o);
}

static void keep(struct guest_ctx *c, struct object *o)
{
	struct object **p;

	pthread_mutex_lock(&lock);
	p = find_locked(o->value, handle_type(o->handle));
	o->next = *p;
	*p = o;
	pthread_mutex_unlock(&lock);
	owned_add(c, &o->owned, drop);
}

/* Copies what is known of an object. False: there is none. */
static bool look(uint64_t value, enum handle_type type, struct object *ret)
{
	struct object *o;

	pthread_mutex_lock(&lock);
	o = *find_locked(value, type);
	if (o)
		*ret = *o;
	pthread_mutex_unlock(&lock);
	return o;
}

static struct object *object_new(enum handle_type type, const CUDA_RESOURCE_DESC *desc)
{
	struct object *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->resource = *desc;
	o->handle = guest_handle_new(type, NULL);
	if (!o->handle) {
		free(o);
		return NULL;
	}
	return o;
}

/* Fields of a command that describe the resource. */
struct resource {
	uint64_t array, address, width, height, pitch;
	uint32_t level, is_level, format, channels;
};

static CUresult describe(const CUDA_RESOURCE_DESC *d, struct resource *ret)
{
	struct resource r = {0};
	struct guest_array *a;

	if (d->flags)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)d->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		a = d->resType == CU_RESOURCE_TYPE_ARRAY
			    ? guest_array(d->res.array.hArray)
			    : guest_mipmap(d->res.mipmap.hMipmappedArray);
		if (!a)
			return CUDA_ERROR_INVALID_VALUE;
		r.array = a->root;
		r.level = a->level;
		r.is_level = a->is_level;
		break;
	case CU_RESOURCE_TYPE_LINEAR:
		r.address = d->res.linear.devPtr;
		r.format = d->res.linear.format;
		r.channels = d->res.linear.numChannels;
		r.width = d->res.linear.sizeInBytes;
		break;
	case CU_RESOURCE_TYPE_PITCH2D:
		r.address = d->res.pitch2D.devPtr;
		r.format = d->res.pitch2D.format;
		r.channels = d->res.pitch2D.numChannels;
		r.width = d->res.pitch2D.width;
		r.height = d->res.pitch2D.height;
		r.pitch = d->res.pitch2D.pitchInBytes;
		if (!r.pitch)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret = r;
	return CUDA_SUCCESS;
}

static void fill(struct texture_create_cmd *cmd, const struct object *o,
		 const struct resource *res)
{
	const CUDA_TEXTURE_DESC *s = &o->sampler;
	const CUDA_RESOURCE_VIEW_DESC *v = &o->view;
	unsigned i;

	cmd->texture = o->handle;
	cmd->array = res->array;
	cmd->level = res->level;
	cmd->is_level = res->is_level;
	cmd->address = res->address;
	cmd->width = res->width;
	cmd->height = res->height;
	cmd->pitch = res->pitch;
	cmd->format = res->format;
	cmd->channels = res->channels;
	for (i = 0; i < 3; i++)
		cmd->address_mode[i] = s->addressMode[i];
	cmd->filter = s->filterMode;
	cmd->flags = s->flags;
	cmd->max_anisotropy = s->maxAnisotropy;
	cmd->mip_filter = s->mipmapFilterMode;
	cmd->mip_bias = s->mipmapLevelBias;
	cmd->mip_min = s->minMipmapLevelClamp;
	cmd->mip_max = s->maxMipmapLevelClamp;
	memcpy(cmd->border, s->borderColor, sizeof(cmd->border));
	cmd->has_view = o->has_view;
	cmd->view_format = v->format;
	cmd->view_width = v->width;
	cmd->view_height = v->height;
	cmd->view_depth = v->depth;
	cmd->view_level[0] = v->firstMipmapLevel;
	cmd->view_level[1] = v->lastMipmapLevel;
	cmd->view_layer[0] = v->firstLayer;
	cmd->view_layer[1] = v->lastLayer;
}

static CUresult send_texture(struct guest_thread *t, struct object *o)
{
	struct texture_create_cmd *cmd;
	struct lane_reply reply;
	struct resource res;
	CUresult r = describe(&o->resource, &res);

	if (r)
		return r;
	cmd = begin_texture_create(t);
	if (!cmd)
		return guest_lost(t);
	fill(cmd, o, &res);
	r = guest_call(t, sizeof(struct texture_create_rep), &reply);
	if (r == CUDA_SUCCESS)
		o->value = ((const struct texture_create_rep *)reply.body)->value;
	return r;
}

CUresult CUDAAPI cuTexObjectCreate(CUtexObject *object, const CUDA_RESOURCE_DESC *desc,
				   const CUDA_TEXTURE_DESC *sampler,
				   const CUDA_RESOURCE_VIEW_DESC *view)
{
	struct guest_thread *t;
	struct object *o;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!object || !desc || !sampler)
		return CUDA_ERROR_INVALID_VALUE;
	o = object_new(HANDLE_TEXTURE, desc);
	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	o->sampler = *sampler;
	o->has_view = view;
	if (view)
		o->view = *view;
	r = send_texture(t, o);
	if (r) {
		object_free(o);
		return r;
	}
	*object = o->value;
	keep(t->top, o);
	return CUDA_SUCCESS;
}

static CUresult send_surface(struct guest_thread *t, struct object *o)
{
	struct surface_create_rep rep;
	struct resource res;
	CUresult r = describe(&o->resource, &res);

	if (r == CUDA_SUCCESS && o->resource.resType != CU_RESOURCE_TYPE_ARRAY)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	r = call_surface_create(t, o->handle, res.array, res.level, res.is_level, &rep);
	if (r == CUDA_SUCCESS)
		o->value = rep.value;
	return r;
}

CUresult CUDAAPI cuSurfObjectCreate(CUsurfObject *object, const CUDA_RESOURCE_DESC *desc)
{
	struct guest_thread *t;
	struct object *o;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!object || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	o = object_new(HANDLE_SURFACE, desc);
	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = send_surface(t, o);
	if (r) {
		object_free(o);
		return r;
	}
	*object = o->value;
	keep(t->top, o);
	return CUDA_SUCCESS;
}

static CUresult send_destroy(struct guest_thread *t, const struct object *o)
{
	return handle_type(o->handle) == HANDLE_TEXTURE
		       ? call_texture_destroy(t, o->handle)
		       : call_surface_destroy(t, o->handle);
}

static CUresult destroy(uint64_t value, enum handle_type type)
{
	struct guest_thread *t;
	struct object *o;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	o = take(value, type);
	if (!o)
		return CUDA_SUCCESS;
	owned_remove(&o->owned);
	r = send_destroy(t, o);
	object_free(o);
	return r;
}

CUresult CUDAAPI cuTexObjectDestroy(CUtexObject object)
{
	return destroy(object, HANDLE_TEXTURE);
}

CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject object)
{
	return destroy(object, HANDLE_SURFACE);
}

/* ---- answered here ---- */

static CUresult known(void *out, uint64_t value, enum handle_type type,
		      struct object *ret_o)
{
	CUresult r = guest_status();

	if (r)
		return r;
	return out && look(value, type, ret_o) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *desc, CUtexObject object)
{
	struct object o;
	CUresult r = known(desc, object, HANDLE_TEXTURE, &o);

	if (r == CUDA_SUCCESS)
		*desc = o.resource;
	return r;
}

CUresult CUDAAPI cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *desc, CUtexObject object)
{
	struct object o;
	CUresult r = known(desc, object, HANDLE_TEXTURE, &o);

	if (r == CUDA_SUCCESS)
		*desc = o.sampler;
	return r;
}

/* Without a view, success, and nothing is written. */
CUresult CUDAAPI cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *desc,
						CUtexObject object)
{
	struct object o;
	CUresult r = known(desc, object, HANDLE_TEXTURE, &o);

	if (r == CUDA_SUCCESS && o.has_view)
		*desc = o.view;
	return r;
}

CUresult CUDAAPI cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *desc,
					     CUsurfObject object)
{
	struct object o;
	CUresult r = known(desc, object, HANDLE_SURFACE, &o);

	if (r == CUDA_SUCCESS)
		*desc = o.resource;
	return r;
}
