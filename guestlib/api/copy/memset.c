/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemset*: the Async ones can be captured, and are posted. */
#include "calls.h"
#include "graph/capture.h"
#include "object/extent.h"
#include "object/hostmem.h"
#include "object/managed.h"
#include "object/stream.h"

/* CUDA waits for the end of a fill where the program sees the memory as well. */
static CUresult end_fill(struct guest_thread *t, uint64_t stream, bool shared)
{
	struct lane_reply reply;
	CUresult r = guest_call(t, sizeof(struct fill_rep), &reply);

	return r || !shared ? r : stream_wait(t, stream);
}

static CUresult send(struct guest_thread *t, const CUDA_MEMSET_NODE_PARAMS *p,
		     uint64_t stream, bool async, bool shared)
{
	struct fill_cmd *cmd = begin_fill(t);

	if (!cmd)
		return guest_lost(t);
	cmd->dst = p->dst;
	cmd->pitch = p->pitch;
	cmd->width = p->width;
	cmd->height = p->height;
	cmd->value = p->value;
	cmd->elem_bytes = p->elementSize;
	cmd->stream = stream;
	return async ? guest_post(t) : end_fill(t, stream, shared);
}

static CUresult fill(CUDA_MEMSET_NODE_PARAMS p, CUstream stream, bool ptsz, bool async)
{
	bool shared = !guest_is_device(p.dst) || managed_is(p.dst);
	struct managed_hold hold;
	struct guest_thread *t;
	uint64_t wire;
	CUresult r = guest_enter(guest_need_on(stream), &t);

	if (r)
		return r;
	if ((p.width && p.height && !hostmem_device_sees(&p.dst)) ||
	    (p.dst & (p.elementSize - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (async && unlikely(capture_wants(stream, ptsz)))
		return p.width && p.height ? capture_fill(&p, stream, ptsz)
					   : CUDA_SUCCESS;
	r = guest_stream(stream, ptsz, &wire);
	if (r == CUDA_SUCCESS && p.width && p.height && guest_is_device(p.dst))
		r = extent_check(t, p.dst,
				 (p.height - 1) * p.pitch + p.width * p.elementSize);
	if (r == CUDA_SUCCESS)
		r = managed_begin(t, &hold);
	if (r)
		return r;
	r = send(t, &p, wire, async, shared);
	managed_done(&hold);
	return r;
}

#define FILL_ROW(bits, type)                                                             \
	static CUresult row_##bits(CUdeviceptr dst, type value, size_t width,            \
				   CUstream stream, bool async, bool ptsz)               \
	{                                                                                \
		return fill((CUDA_MEMSET_NODE_PARAMS){dst, 0, value, sizeof(type),       \
						      width, 1},                         \
			    stream, ptsz, async);                                        \
	}                                                                                \
	GUEST_PAIR(cuMemsetD##bits##_v2, ptds,                                           \
		   (CUdeviceptr dst, type value, size_t width), row_##bits, dst, value,  \
		   width, NULL, false)                                                   \
	GUEST_PAIR(cuMemsetD##bits##Async, ptsz,                                         \
		   (CUdeviceptr dst, type value, size_t width, CUstream stream),         \
		   row_##bits, dst, value, width, stream, true)

#define FILL_ROWS(bits, type)                                                            \
	static CUresult rows_##bits(CUdeviceptr dst, size_t pitch, type value,           \
				    size_t width, size_t height, CUstream stream,        \
				    bool async, bool ptsz)                               \
	{                                                                                \
		return fill((CUDA_MEMSET_NODE_PARAMS){dst, pitch, value, sizeof(type),   \
						      width, height},                    \
			    stream, ptsz, async);                                        \
	}                                                                                \
	GUEST_PAIR(cuMemsetD2D##bits##_v2, ptds,                                         \
		   (CUdeviceptr dst, size_t pitch, type value, size_t width,             \
		    size_t height),                                                      \
		   rows_##bits, dst, pitch, value, width, height, NULL, false)           \
	GUEST_PAIR(cuMemsetD2D##bits##Async, ptsz,                                       \
		   (CUdeviceptr dst, size_t pitch, type value, size_t width,             \
		    size_t height, CUstream stream),                                     \
		   rows_##bits, dst, pitch, value, width, height, stream, true)

FILL_ROW(8, unsigned char)
FILL_ROW(16, unsigned short)
FILL_ROW(32, unsigned int)
FILL_ROWS(8, unsigned char)
FILL_ROWS(16, unsigned short)
FILL_ROWS(32, unsigned int)
