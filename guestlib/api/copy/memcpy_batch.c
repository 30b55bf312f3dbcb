/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemcpyBatchAsync and cuMemcpy3DBatchAsync: several copies in one call, which may run
 * in any order; here in the order given. Everything is checked before the first copy. The
 * forms of 12.8 say which copy was wrong.
 */
#include "calls.h"
#include "graph/capture.h"
#include "core/process.h"
#include "object/refuse.h"

/* The default stream of the legacy kind is refused. */
static CUresult check_stream(CUstream stream, bool ptsz)
{
	CUresult r = guest_status();

	if (r)
		return r;
	return stream == CU_STREAM_LEGACY || (!stream && !ptsz) ? CUDA_ERROR_INVALID_VALUE
								: CUDA_SUCCESS;
}

static bool order_ok(CUmemcpySrcAccessOrder order, unsigned flags)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
	       !(flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
}

/* Sources that may change after the call must have been read: pageable ones have been. */
static CUresult wait_if(bool wait, CUstream stream, bool ptsz)
{
	if (!wait || capture_wants(stream, ptsz))
		return CUDA_SUCCESS;
	return ptsz ? cuStreamSynchronize_ptsz(stream) : cuStreamSynchronize(stream);
}

/* ---- plain copies ---- */

struct batch {
	CUdeviceptr *dsts, *srcs;
	size_t *sizes, count;
	CUmemcpyAttributes *attrs;
	size_t *first, n_attrs; /* attrs[i] is for copies from first[i] on */
};

static bool attrs_ok(const struct batch *b)
{
	if (!b->attrs || !b->first || !b->n_attrs || b->n_attrs > b->count || b->first[0])
		return false;
	for (size_t i = 0; i < b->n_attrs; i++) {
		if (!order_ok(b->attrs[i].srcAccessOrder, b->attrs[i].flags) ||
		    b->first[i] >= b->count || (i && b->first[i] <= b->first[i - 1]))
			return false;
	}
	return true;
}

static CUresult run(const struct batch *b, size_t *fail, CUstream stream, bool ptsz)
{
	CUresult r = check_stream(stream, ptsz);
	bool wait = false;

	if (fail)
		*fail = SIZE_MAX;
	if (r)
		return r;
	if (!b->dsts || !b->srcs || !b->sizes || !b->count || !attrs_ok(b))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < b->n_attrs; i++)
		wait |= b->attrs[i].srcAccessOrder ==
			CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
	for (size_t i = 0; i < b->count; i++) {
		r = ptsz ? cuMemcpyAsync_ptsz(b->dsts[i], b->srcs[i], b->sizes[i], stream)
			 : cuMemcpyAsync(b->dsts[i], b->srcs[i], b->sizes[i], stream);
		if (r && fail)
			*fail = i;
		if (r)
			return r;
	}
	return wait_if(wait, stream, ptsz);
}

#define BATCH                                                                            \
	(&(const struct batch){.dsts = dsts,                                             \
			       .srcs = srcs,                                             \
			       .sizes = sizes,                                           \
			       .count = count,                                           \
			       .attrs = attrs,                                           \
			       .first = attrsIdxs,                                       \
			       .n_attrs = numAttrs})

GUEST_PAIR(cuMemcpyBatchAsync, ptsz,
	   (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	    CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	    size_t *failIdx, CUstream stream),
	   run, BATCH, failIdx, stream)

GUEST_PAIR(cuMemcpyBatchAsync_v2, ptsz,
	   (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	    CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	    CUstream stream),
	   run, BATCH, NULL, stream)

/* ---- boxes ---- */

/* One operand: where it begins, bytes of a row, rows of a layer. */
static bool operand(const CUmemcpy3DOperand *o, const CUextent3D *e, CUdeviceptr *ret_ptr,
		    size_t *ret_pitch, size_t *ret_height)
{
	if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER || !o->op.ptr.ptr ||
	    (o->op.ptr.rowLength && o->op.ptr.rowLength < e->width) ||
	    (o->op.ptr.layerHeight && o->op.ptr.layerHeight < e->height))
		return false;
	*ret_ptr = o->op.ptr.ptr;
	*ret_pitch = o->op.ptr.rowLength ? o->op.ptr.rowLength : e->width;
	*ret_height = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : e->height;
	return true;
}

static CUresult plan(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *ret)
{
	CUDA_MEMCPY3D p = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			   .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			   .WidthInBytes = op->extent.width,
			   .Height = op->extent.height,
			   .Depth = op->extent.depth};

	if (op->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ||
	    op->dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return guest_refuse(REFUSAL_FEATURE, "cuMemcpy3DBatchAsync: array");
	if (!op->extent.width || !op->extent.height || !op->extent.depth ||
	    !order_ok(op->srcAccessOrder, op->flags) ||
	    !operand(&op->src, &op->extent, &p.srcDevice, &p.srcPitch, &p.srcHeight) ||
	    !operand(&op->dst, &op->extent, &p.dstDevice, &p.dstPitch, &p.dstHeight))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = p;
	return CUDA_SUCCESS;
}

static CUresult run_3d(size_t n, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail,
		       unsigned long long flags, CUstream stream, bool ptsz)
{
	CUresult r = check_stream(stream, ptsz);
	bool wait = false;
	CUDA_MEMCPY3D p;

	if (fail)
		*fail = SIZE_MAX;
	if (r)
		return r;
	if (!n || !ops || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < 2 * n; i++) { /* first all plans, then all copies */
		r = plan(&ops[i % n], &p);
		if (r == CUDA_SUCCESS && i >= n)
			r = ptsz ? cuMemcpy3DAsync_v2_ptsz(&p, stream)
				 : cuMemcpy3DAsync_v2(&p, stream);
		if (r && fail)
			*fail = i % n;
		if (r)
			return r;
		wait |= ops[i % n].srcAccessOrder ==
			CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
	}
	return wait_if(wait, stream, ptsz);
}

GUEST_PAIR(cuMemcpy3DBatchAsync, ptsz,
	   (size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failIdx,
	    unsigned long long flags, CUstream stream),
	   run_3d, n, ops, failIdx, flags, stream)

GUEST_PAIR(cuMemcpy3DBatchAsync_v2, ptsz,
	   (size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags,
	    CUstream stream),
	   run_3d, n, ops, NULL, flags, stream)
