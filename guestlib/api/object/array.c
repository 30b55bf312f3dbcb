/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays. A driver crashes when it is given a handle that is none; here that is
 * CUDA_ERROR_INVALID_HANDLE, as for NULL.
 */
#include "core/process.h"
#include "core/thread.h"
#include "object/array.h"

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
		r = guest_array_new(t, &s, &h);
	if (r == CUDA_SUCCESS)
		*array = (CUarray)h;
	return r;
}

CUresult CUDAAPI cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {0};
	CUresult r = guest_status();

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
	r = guest_array_new(t, &s, &h);
	if (r == CUDA_SUCCESS)
		*array = (CUmipmappedArray)h;
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
	return r || a->is_level ? r : guest_array_destroy(t, a);
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	struct guest_thread *t;
	struct guest_array *a;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	a = guest_mipmap(array);
	return a ? guest_array_destroy(t, a) : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- answered here ---- */

static CUresult array_descriptor(CUarray array, CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct guest_array *a;
	CUresult r = guest_status();

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

CUresult CUDAAPI cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array)
{
	return array_descriptor(array, desc);
}

CUresult CUDAAPI cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array)
{
	CUDA_ARRAY3D_DESCRIPTOR all;
	CUresult r = array_descriptor(array, desc ? &all : NULL);

	if (r == CUDA_SUCCESS)
		*desc = (CUDA_ARRAY_DESCRIPTOR){.Width = all.Width,
						.Height = all.Height,
						.Format = all.Format,
						.NumChannels = all.NumChannels};
	return r;
}

CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray *level_array, CUmipmappedArray array,
					  unsigned int level)
{
	struct guest_array *a;
	CUresult r = guest_status();

	if (r)
		return r;
	a = guest_mipmap(array);
	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!level_array || level >= a->shape.levels)
		return CUDA_ERROR_INVALID_VALUE;
	return guest_mipmap_level(a, level, level_array);
}

/* Only sparse arrays, deferred ones and those of several planes have answers to these;
 * there are none. */
static CUresult no_answer(const struct guest_array *a)
{
	CUresult r = guest_status();

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
