/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemcpy2D* and cuMemcpy3D*: descriptors of boxes, done as rows, slice by slice. */
#include <string.h>

#include "copy/array_copy.h"
#include "graph/capture.h"
#include "object/hostmem.h"
#include "core/process.h"
#include "object/refuse.h"

static CUresult copy_slices(const struct copy_box *b, CUstream stream, bool ptsz,
			    bool async)
{
	struct copy c = b->rows;
	struct guest_thread *t;
	uint64_t wire;
	size_t z;
	CUresult r = guest_enter(guest_need_on(stream), &t);

	if (r == CUDA_SUCCESS)
		r = guest_stream(stream, ptsz, &wire);
	if (r == CUDA_SUCCESS && (b->dst_at.array || b->src_at.array))
		return array_copy_box(t, b, wire, async);
	c.stream = stream;
	c.ptsz = ptsz;
	c.async = async;
	for (z = 0; z < b->depth && r == CUDA_SUCCESS; z++) {
		r = copy_rows(t, &c, wire);
		c.dst.addr += b->dst_slice;
		c.src.addr += b->src_slice;
	}
	return r;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream stream, bool ptsz, bool async)
{
	struct copy_box b;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (async && unlikely(capture_wants(stream, ptsz)))
		return capture_copy(p, stream, ptsz);
	r = copy_plan(p, &b);
	return r ? r : copy_slices(&b, stream, ptsz, async);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream, bool ptsz, bool async)
{
	CUDA_MEMCPY3D box;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	box = (CUDA_MEMCPY3D){.srcXInBytes = p->srcXInBytes,
			      .srcY = p->srcY,
			      .srcMemoryType = p->srcMemoryType,
			      .srcHost = p->srcHost,
			      .srcDevice = p->srcDevice,
			      .srcArray = p->srcArray,
			      .srcPitch = p->srcPitch,
			      .dstXInBytes = p->dstXInBytes,
			      .dstY = p->dstY,
			      .dstMemoryType = p->dstMemoryType,
			      .dstHost = p->dstHost,
			      .dstDevice = p->dstDevice,
			      .dstArray = p->dstArray,
			      .dstPitch = p->dstPitch,
			      .WidthInBytes = p->WidthInBytes,
			      .Height = p->Height,
			      .Depth = 1};
	return copy_3d(&box, stream, ptsz, async);
}

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *p)
{
	return copy_2d(p, NULL, false, false);
}

CUresult CUDAAPI cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *p)
{
	return copy_2d(p, NULL, true, false);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p)
{
	return copy_2d(p, NULL, false, false);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *p)
{
	return copy_2d(p, NULL, true, false);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream stream)
{
	return copy_2d(p, stream, false, true);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *p, CUstream stream)
{
	return copy_2d(p, stream, true, true);
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *p)
{
	return copy_3d(p, NULL, false, false);
}

CUresult CUDAAPI cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *p)
{
	return copy_3d(p, NULL, true, false);
}

CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream stream)
{
	return copy_3d(p, stream, false, true);
}

CUresult CUDAAPI cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *p, CUstream stream)
{
	return copy_3d(p, stream, true, true);
}

/* Between contexts of the one device. */
static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream stream, bool ptsz,
			     bool async)
{
	CUDA_MEMCPY3D plain = {0};
	CUresult r = guest_status();

	if (r)
		return r;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	plain.srcXInBytes = p->srcXInBytes;
	plain.srcY = p->srcY;
	plain.srcZ = p->srcZ;
	plain.srcLOD = p->srcLOD;
	plain.srcMemoryType = p->srcMemoryType;
	plain.srcHost = p->srcHost;
	plain.srcDevice = p->srcDevice;
	plain.srcArray = p->srcArray;
	plain.srcPitch = p->srcPitch;
	plain.srcHeight = p->srcHeight;
	plain.dstXInBytes = p->dstXInBytes;
	plain.dstY = p->dstY;
	plain.dstZ = p->dstZ;
	plain.dstLOD = p->dstLOD;
	plain.dstMemoryType = p->dstMemoryType;
	plain.dstHost = p->dstHost;
	plain.dstDevice = p->dstDevice;
	plain.dstArray = p->dstArray;
	plain.dstPitch = p->dstPitch;
	plain.dstHeight = p->dstHeight;
	plain.WidthInBytes = p->WidthInBytes;
	plain.Height = p->Height;
	plain.Depth = p->Depth;
	return copy_3d(&plain, stream, ptsz, async);
}

CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p)
{
	return copy_3d_peer(p, NULL, false, false);
}

CUresult CUDAAPI cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *p)
{
	return copy_3d_peer(p, NULL, true, false);
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream stream)
{
	return copy_3d_peer(p, stream, false, true);
}

CUresult CUDAAPI cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *p, CUstream stream)
{
	return copy_3d_peer(p, stream, true, true);
}

/* ---- bytes of one row of an array ---- */

static CUDA_MEMCPY3D row(size_t dst_at, size_t src_at, size_t bytes)
{
	return (CUDA_MEMCPY3D){.dstXInBytes = dst_at,
			       .srcXInBytes = src_at,
			       .WidthInBytes = bytes,
			       .Height = 1,
			       .Depth = 1};
}

static CUresult htoa(CUarray dst, size_t at, const void *src, size_t bytes,
		     CUstream stream, bool async, bool ptsz)
{
	CUDA_MEMCPY3D p = row(at, 0, bytes);

	p.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	p.dstArray = dst;
	p.srcMemoryType = CU_MEMORYTYPE_HOST;
	p.srcHost = src;
	return copy_3d(&p, stream, ptsz, async);
}

static CUresult atoh(void *dst, CUarray src, size_t at, size_t bytes, CUstream stream,
		     bool async, bool ptsz)
{
	CUDA_MEMCPY3D p = row(0, at, bytes);

	p.dstMemoryType = CU_MEMORYTYPE_HOST;
	p.dstHost = dst;
	p.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	p.srcArray = src;
	return copy_3d(&p, stream, ptsz, async);
}

static CUresult dtoa(CUarray dst, size_t at, CUdeviceptr src, size_t bytes, bool ptsz)
{
	CUDA_MEMCPY3D p = row(at, 0, bytes);

	p.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	p.dstArray = dst;
	p.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	p.srcDevice = src;
	return copy_3d(&p, NULL, ptsz, false);
}

static CUresult atod(CUdeviceptr dst, CUarray src, size_t at, size_t bytes, bool ptsz)
{
	CUDA_MEMCPY3D p = row(0, at, bytes);

	p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	p.dstDevice = dst;
	p.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	p.srcArray = src;
	return copy_3d(&p, NULL, ptsz, false);
}

static CUresult atoa(CUarray dst, size_t dst_at, CUarray src, size_t src_at, size_t bytes,
		     bool ptsz)
{
	CUDA_MEMCPY3D p = row(dst_at, src_at, bytes);

	p.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	p.dstArray = dst;
	p.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	p.srcArray = src;
	return copy_3d(&p, NULL, ptsz, false);
}

GUEST_PAIR(cuMemcpyHtoA_v2, ptds, (CUarray dst, size_t at, const void *src, size_t bytes),
	   htoa, dst, at, src, bytes, NULL, false)
GUEST_PAIR(cuMemcpyAtoH_v2, ptds, (void *dst, CUarray src, size_t at, size_t bytes), atoh,
	   dst, src, at, bytes, NULL, false)
GUEST_PAIR(cuMemcpyDtoA_v2, ptds, (CUarray dst, size_t at, CUdeviceptr src, size_t bytes),
	   dtoa, dst, at, src, bytes)
GUEST_PAIR(cuMemcpyAtoD_v2, ptds, (CUdeviceptr dst, CUarray src, size_t at, size_t bytes),
	   atod, dst, src, at, bytes)
GUEST_PAIR(cuMemcpyAtoA_v2, ptds,
	   (CUarray dst, size_t dst_at, CUarray src, size_t src_at, size_t bytes), atoa,
	   dst, dst_at, src, src_at, bytes)
GUEST_PAIR(cuMemcpyHtoAAsync_v2, ptsz,
	   (CUarray dst, size_t at, const void *src, size_t bytes, CUstream stream), htoa,
	   dst, at, src, bytes, stream, true)
GUEST_PAIR(cuMemcpyAtoHAsync_v2, ptsz,
	   (void *dst, CUarray src, size_t at, size_t bytes, CUstream stream), atoh, dst,
	   src, at, bytes, stream, true)
