// SPDX-License-Identifier: Apache-2.0
/* cuMemset*Async, which can be captured; the others are generated. */
#include "calls.h"
#include "capture.h"
#include "hostmem.h"

/* Host memory that the device sees can be set as well. */
static bool device_sees(CUdeviceptr *p)
{
	uint64_t dev = *p;

	if (guest_is_device(dev))
		return true;
	if (hostmem_view(dev, 1, &dev) != HOSTMEM_SHARED)
		return false;
	*p = dev;
	return true;
}

static CUresult fill(CUDA_MEMSET_NODE_PARAMS p, CUstream stream, bool ptsz)
{
	struct fill_cmd *cmd;
	struct guest_thread *t;
	uint64_t wire;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if ((p.width && p.height && !device_sees(&p.dst)) ||
	    (p.dst & (p.elementSize - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (unlikely(capture_wants(stream, ptsz)))
		return p.width && p.height ? capture_fill(&p, stream, ptsz)
					   : CUDA_SUCCESS;
	r = guest_stream(stream, ptsz, &wire);
	if (r)
		return r;
	cmd = begin_fill(t);
	if (!cmd)
		return guest_lost(t);
	cmd->dst = p.dst;
	cmd->pitch = p.pitch;
	cmd->width = p.width;
	cmd->height = p.height;
	cmd->value = p.value;
	cmd->elem_bytes = p.elementSize;
	cmd->stream = wire;
	return guest_post(t);
}

#define FILL_ROW(bits, type)                                                             \
	static CUresult row_##bits(CUdeviceptr dst, type value, size_t width,            \
				   CUstream stream, bool ptsz)                           \
	{                                                                                \
		return fill((CUDA_MEMSET_NODE_PARAMS){dst, 0, value, sizeof(type),       \
						      width, 1},                         \
			    stream, ptsz);                                               \
	}                                                                                \
	GUEST_PAIR(cuMemsetD##bits##Async, ptsz,                                         \
		   (CUdeviceptr dst, type value, size_t width, CUstream stream),         \
		   row_##bits, dst, value, width, stream)

#define FILL_ROWS(bits, type)                                                            \
	static CUresult rows_##bits(CUdeviceptr dst, size_t pitch, type value,           \
				    size_t width, size_t height, CUstream stream,        \
				    bool ptsz)                                           \
	{                                                                                \
		return fill((CUDA_MEMSET_NODE_PARAMS){dst, pitch, value, sizeof(type),   \
						      width, height},                    \
			    stream, ptsz);                                               \
	}                                                                                \
	GUEST_PAIR(cuMemsetD2D##bits##Async, ptsz,                                       \
		   (CUdeviceptr dst, size_t pitch, type value, size_t width,             \
		    size_t height, CUstream stream),                                     \
		   rows_##bits, dst, pitch, value, width, height, stream)

FILL_ROW(8, unsigned char)
FILL_ROW(16, unsigned short)
FILL_ROW(32, unsigned int)
FILL_ROWS(8, unsigned char)
FILL_ROWS(16, unsigned short)
FILL_ROWS(32, unsigned int)
