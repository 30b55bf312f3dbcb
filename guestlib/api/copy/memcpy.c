/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemcpy* of one row. Each exists with the legacy and with the per-thread default
 * stream. */
#include "copy/copy.h"
#include "object/hostmem.h"
#include "core/process.h"

/* A device address is one wherever it is given: it must never be touched here. */
static struct copy_side host(const void *p)
{
	return (struct copy_side){.addr = (uintptr_t)p,
				  .device = guest_is_device((uintptr_t)p)};
}

static struct copy_side device(CUdeviceptr p)
{
	return (struct copy_side){.addr = p, .device = true};
}

/* Unified addressing: the address says which side it is. */
static struct copy_side either(CUdeviceptr p)
{
	return (struct copy_side){.addr = p, .device = guest_is_device(p)};
}

/* A device address that is none can be that of host memory which the device sees. */
static CUresult check_device(struct copy_side *side, size_t size, bool *shared)
{
	if (!side->device || !size || guest_is_device(side->addr))
		return CUDA_SUCCESS;
	*shared = true;
	return hostmem_view(side->addr, size, &side->addr) == HOSTMEM_SHARED
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult run(struct copy_side dst, struct copy_side src, size_t size,
		    CUstream stream, bool ptsz, bool async)
{
	struct copy c = {.dst = dst,
			 .src = src,
			 .width = size,
			 .height = 1,
			 .stream = stream,
			 .ptsz = ptsz,
			 .async = async};
	CUresult r = guest_status();

	if (r)
		return r;
	r = check_device(&c.dst, size, &c.shared);
	if (r == CUDA_SUCCESS)
		r = check_device(&c.src, size, &c.shared);
	return r ? r : copy_do(&c);
}

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t size)
{
	return run(device(dst), host(src), size, NULL, false, false);
}

CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t size)
{
	return run(device(dst), host(src), size, NULL, true, false);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size,
				      CUstream stream)
{
	return run(device(dst), host(src), size, stream, false, true);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dst, const void *src, size_t size,
					   CUstream stream)
{
	return run(device(dst), host(src), size, stream, true, true);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t size)
{
	return run(host(dst), device(src), size, NULL, false, false);
}

CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void *dst, CUdeviceptr src, size_t size)
{
	return run(host(dst), device(src), size, NULL, true, false);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size,
				      CUstream stream)
{
	return run(host(dst), device(src), size, stream, false, true);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2_ptsz(void *dst, CUdeviceptr src, size_t size,
					   CUstream stream)
{
	return run(host(dst), device(src), size, stream, true, true);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return run(device(dst), device(src), size, NULL, false, false);
}

CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return run(device(dst), device(src), size, NULL, true, false);
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size,
				      CUstream stream)
{
	return run(device(dst), device(src), size, stream, false, true);
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t size,
					   CUstream stream)
{
	return run(device(dst), device(src), size, stream, true, true);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return run(either(dst), either(src), size, NULL, false, false);
}

CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return run(either(dst), either(src), size, NULL, true, false);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
			       CUstream stream)
{
	return run(either(dst), either(src), size, stream, false, true);
}

CUresult CUDAAPI cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t size,
				    CUstream stream)
{
	return run(either(dst), either(src), size, stream, true, true);
}

/* There is one device, whichever of its contexts is named. */
static CUresult peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
		     CUcontext src_ctx, size_t size, CUstream stream, bool ptsz,
		     bool async)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!guest_handle_valid((uintptr_t)dst_ctx, HANDLE_CONTEXT) ||
	    !guest_handle_valid((uintptr_t)src_ctx, HANDLE_CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	return run(device(dst), device(src), size, stream, ptsz, async);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
			      CUcontext src_ctx, size_t size)
{
	return peer(dst, dst_ctx, src, src_ctx, size, NULL, false, false);
}

CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
				   CUcontext src_ctx, size_t size)
{
	return peer(dst, dst_ctx, src, src_ctx, size, NULL, true, false);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
				   CUcontext src_ctx, size_t size, CUstream stream)
{
	return peer(dst, dst_ctx, src, src_ctx, size, stream, false, true);
}

CUresult CUDAAPI cuMemcpyPeerAsync_ptsz(CUdeviceptr dst, CUcontext dst_ctx,
					CUdeviceptr src, CUcontext src_ctx, size_t size,
					CUstream stream)
{
	return peer(dst, dst_ctx, src, src_ctx, size, stream, true, true);
}
