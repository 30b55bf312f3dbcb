/* SPDX-License-Identifier: Apache-2.0 */
/* Meaning of a descriptor of a box: rows of two sides, slice by slice. */
#include "copy/copy.h"
#include "object/array.h"
#include "object/hostmem.h"

/* One end of a descriptor, whatever its kind. */
struct end {
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	size_t x, y, z, pitch, height; /* height: rows of a slice */
};

struct box {
	struct end dst, src;
	size_t width, height, depth;
};

static CUresult resolve_array(const struct end *e, struct copy_place *ret_at)
{
	struct guest_array *a = guest_array(e->array);

	if (!a)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_at = (struct copy_place){.array = a, .x = e->x, .y = e->y, .z = e->z};
	return CUDA_SUCCESS;
}

/* A height of 0 is the box's own, as a driver takes it. */
static size_t slice_rows(const struct end *e, const struct box *b)
{
	return e->height ? e->height : e->y + b->height;
}

static CUresult resolve(const struct end *e, const struct box *b,
			struct copy_side *ret_side, size_t *ret_slice,
			struct copy_place *ret_at)
{
	size_t pitch = e->pitch ? e->pitch : e->x + b->width;
	size_t rows = slice_rows(e, b);
	uint64_t addr;
	bool device;

	switch ((int)e->type) {
	case CU_MEMORYTYPE_HOST:
		addr = (uintptr_t)e->host;
		device = guest_is_device(addr); /* must never be touched here */
		break;
	case CU_MEMORYTYPE_DEVICE:
		addr = e->device;
		device = true;
		break;
	case CU_MEMORYTYPE_UNIFIED:
		addr = e->device;
		device = guest_is_device(addr);
		break;
	case CU_MEMORYTYPE_ARRAY:
		ret_side->device = true; /* whatever is there, the device sees it */
		return resolve_array(e, ret_at);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (device && !guest_is_device(addr))
		device = false; /* host memory that the device sees, or wrong */
	if (!addr || (e->type == CU_MEMORYTYPE_DEVICE && !device &&
		      hostmem_view(addr, 1, &addr) != HOSTMEM_SHARED))
		return CUDA_ERROR_INVALID_VALUE;
	if (b->height > 1 && pitch < e->x + b->width)
		return CUDA_ERROR_INVALID_VALUE;
	if (b->depth > 1 && rows < e->y + b->height)
		return CUDA_ERROR_INVALID_VALUE;
	ret_side->device = device;
	ret_side->pitch = pitch;
	ret_side->addr = addr + (e->z * rows + e->y) * pitch + e->x;
	*ret_slice = rows * pitch;
	return CUDA_SUCCESS;
}

/* From the first byte to the last. */
static uint64_t span(const struct copy_box *b, size_t pitch, size_t slice)
{
	return (b->depth - 1) * slice + (b->rows.height - 1) * pitch + b->rows.width;
}

CUresult copy_plan(const CUDA_MEMCPY3D *p, struct copy_box *ret_box)
{
	struct copy_box c = {0};
	struct box b;
	CUresult r;

	if (p->srcLOD || p->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	b = (struct box){
		.dst = {.type = p->dstMemoryType,
			.host = p->dstHost,
			.device = p->dstDevice,
			.array = p->dstArray,
			.x = p->dstXInBytes,
			.y = p->dstY,
			.z = p->dstZ,
			.pitch = p->dstPitch,
			.height = p->dstHeight},
		.src = {.type = p->srcMemoryType,
			.host = p->srcHost,
			.device = p->srcDevice,
			.array = p->srcArray,
			.x = p->srcXInBytes,
			.y = p->srcY,
			.z = p->srcZ,
			.pitch = p->srcPitch,
			.height = p->srcHeight},
		.width = p->WidthInBytes,
		.height = p->Height,
		.depth = p->Depth,
	};
	if (b.width && b.height && b.depth) {
		r = resolve(&b.dst, &b, &c.rows.dst, &c.dst_slice, &c.dst_at);
		if (r == CUDA_SUCCESS)
			r = resolve(&b.src, &b, &c.rows.src, &c.src_slice, &c.src_at);
		if (r)
			return r;
		c.depth = b.depth;
	}
	c.rows.width = b.width;
	c.rows.height = b.height;
	if (c.depth && !(c.rows.dst.device && c.rows.src.device)) {
		r = copy_share(&c.rows, span(&c, c.rows.dst.pitch, c.dst_slice),
			       span(&c, c.rows.src.pitch, c.src_slice));
		if (r)
			return r;
	}
	*ret_box = c;
	return CUDA_SUCCESS;
}
