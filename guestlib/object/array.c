// SPDX-License-Identifier: Apache-2.0
/*
 * Creating and destroying CUDA arrays, and what is known of them. A driver crashes when
 * it is given a handle that is none; here that is CUDA_ERROR_INVALID_HANDLE, as for NULL.
 */
#include <pthread.h>
#include <stdlib.h>

#include "object/array.h"
#include "calls.h"
#include "core/process.h"
#include "core/thread.h"

static pthread_mutex_t levels_lock = PTHREAD_MUTEX_INITIALIZER;

static struct guest_array *find(uint64_t h, bool mipmapped)
{
	struct guest_array *a = guest_object(h, HANDLE_ARRAY);

	return a && a->is_mipmapped == mipmapped ? a : NULL;
}

struct guest_array *guest_array(CUarray array)
{
	return find((uintptr_t)array, false);
}

struct guest_array *guest_mipmap(CUmipmappedArray array)
{
	return find((uintptr_t)array, true);
}

static CUresult send_create(struct guest_thread *t, uint64_t h,
			    const struct array_shape *s)
{
	struct array_create_cmd *cmd = begin_array_create(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->array = h;
	cmd->width = s->width;
	cmd->height = s->height;
	cmd->depth = s->depth;
	cmd->format = s->format;
	cmd->channels = s->channels;
	cmd->flags = s->flags;
	cmd->levels = s->levels;
	return guest_call(t, sizeof(struct array_create_rep), &reply);
}

static void drop(struct owned *o)
{
	struct guest_array *a = container_of(o, struct guest_array, owned);
	unsigned i;

	for (i = 0; i < ARRAY_LEVELS_MAX; i++) {
		if (!a->levels[i])
			continue;
		free(guest_object(a->levels[i], HANDLE_ARRAY));
		guest_handle_free(a->levels[i]);
	}
	guest_handle_free(a->root);
	free(a);
}

static CUresult create(struct guest_thread *t, const struct array_shape *s,
		       uint64_t *ret_handle)
{
	_cleanup_free_ struct guest_array *a = calloc(1, sizeof(*a));
	uint64_t h;
	CUresult r;

	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->shape = *s;
	a->is_mipmapped = s->levels;
	h = guest_handle_new(HANDLE_ARRAY, a);
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->root = h;
	r = send_create(t, h, s);
	if (r) {
		guest_handle_free(h);
		return r;
	}
	owned_add(t->top, &steal(a)->owned, drop);
	*ret_handle = h;
	return CUDA_SUCCESS;
}

static struct array_shape shape_of(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return (struct array_shape){.width = d->Width,
				    .height = d->Height,
				    .depth = d->Depth,
				    .format = d->Format,
				    .channels = d->NumChannels,
				    .flags = d->Flags};
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct array_shape s;
	struct guest_thread *t;
	uint64_t h;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!array || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	s = shape_of(desc);
	r = guest_unsafe(t);
	if (r == CUDA_SUCCESS)
		r = create(t, &s, &h);
	if (r == CUDA_SUCCESS)
		*array = (CUarray)h;
	return r;
}

CUresult CUDAAPI cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {0};
	CUresult r = guest_gate();

	if (r)
		return r;
	if (!array || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	d.Width = desc->Width;
	d.Height = desc->Height;
	d.Format = desc->Format;
	d.NumChannels = desc->NumChannels;
	return cuArray3DCreate_v2(array, &d);
}

/* As many levels as asked for, but no more than there can be, and one at least. */
CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray *array,
					const CUDA_ARRAY3D_DESCRIPTOR *desc,
					unsigned int levels)
{
	struct array_shape s;
	struct guest_thread *t;
	uint64_t h;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!array || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	s = shape_of(desc);
	s.levels = MIN(MAX(levels, 1u), array_levels(&s));
	if (!s.levels)
		return CUDA_ERROR_INVALID_VALUE;
	r = create(t, &s, &h);
	if (r == CUDA_SUCCESS)
		*array = (CUmipmappedArray)h;
	return r;
}

static CUresult destroy(struct guest_thread *t, struct guest_array *a)
{
	struct array_destroy_cmd *cmd = begin_array_destroy(t);
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->array = a->root;
	r = guest_call(t, sizeof(struct array_destroy_rep), &reply);
	owned_remove(&a->owned);
	drop(&a->owned);
	return r;
}

CUresult CUDAAPI cuArrayDestroy(CUarray array)
{
	struct guest_thread *t;
	struct guest_array *a;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	a = guest_array(array);
	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	r = guest_unsafe(t);
	/* A level goes with the whole. */
	return r || a->is_level ? r : destroy(t, a);
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	struct guest_thread *t;
	struct guest_array *a;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	a = guest_mipmap(array);
	return a ? destroy(t, a) : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- answered here ---- */

CUresult CUDAAPI cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array)
{
	struct guest_array *a;
	CUresult r = guest_gate();

	if (r)
		return r;
	a = guest_array(array);
	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	*desc = (CUDA_ARRAY3D_DESCRIPTOR){.Width = a->shape.width,
					  .Height = a->shape.height,
					  .Depth = a->shape.depth,
					  .Format = (CUarray_format)a->shape.format,
					  .NumChannels = a->shape.channels,
					  .Flags = a->shape.flags};
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array)
{
	struct guest_array *a;
	CUresult r = guest_gate();

	if (r)
		return r;
	a = guest_array(array);
	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	*desc = (CUDA_ARRAY_DESCRIPTOR){.Width = a->shape.width,
					.Height = a->shape.height,
					.Format = (CUarray_format)a->shape.format,
					.NumChannels = a->shape.channels};
	return CUDA_SUCCESS;
}

static CUresult level_locked(struct guest_array *a, unsigned level, CUarray *ret_array)
{
	struct guest_array *l;
	uint64_t h = a->levels[level];

	if (!h) {
		l = calloc(1, sizeof(*l));
		h = l ? guest_handle_new(HANDLE_ARRAY, l) : 0;
		if (!h) {
			free(l);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		l->shape = array_level(&a->shape, level);
		l->root = a->root;
		l->level = level;
		l->is_level = true;
		a->levels[level] = h;
	}
	*ret_array = (CUarray)h;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray *level_array, CUmipmappedArray array,
					  unsigned int level)
{
	struct guest_array *a;
	CUresult r = guest_gate();

	if (r)
		return r;
	a = guest_mipmap(array);
	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!level_array || level >= a->shape.levels)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&levels_lock);
	r = level_locked(a, level, level_array);
	pthread_mutex_unlock(&levels_lock);
	return r;
}

/* Only sparse arrays, deferred ones and those of several planes have answers to these;
 * there are none. */
static CUresult no_answer(const struct guest_array *a)
{
	CUresult r = guest_gate();

	if (r)
		return r;
	return a ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuArrayGetPlane(CUarray *plane, CUarray array, unsigned int index)
{
	return no_answer(guest_array(array));
}

CUresult CUDAAPI cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties,
					    CUarray array)
{
	return no_answer(guest_array(array));
}

CUresult CUDAAPI cuMipmappedArrayGetSparseProperties(
	CUDA_ARRAY_SPARSE_PROPERTIES *properties, CUmipmappedArray array)
{
	return no_answer(guest_mipmap(array));
}

CUresult CUDAAPI cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *need,
					      CUarray array, CUdevice device)
{
	return no_answer(guest_array(array));
}

CUresult CUDAAPI cuMipmappedArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *need, CUmipmappedArray array, CUdevice device)
{
	return no_answer(guest_mipmap(array));
}
