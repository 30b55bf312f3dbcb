/* SPDX-License-Identifier: Apache-2.0 */
#include "core/capturing.h"

const struct capture_hooks *capture_hooks;
_Atomic unsigned capture_count;

CUresult guest_stream(CUstream stream, bool ptsz, uint64_t *ret_wire)
{
	CUresult r = guest_stream_value(stream, ptsz, ret_wire);

	if (unlikely(capture_any()) && r == CUDA_SUCCESS)
		r = capture_hooks->forbids(*ret_wire);
	return r;
}

CUresult guest_unsafe(struct guest_thread *t)
{
	return unlikely(capture_any()) ? capture_hooks->unsafe(t) : CUDA_SUCCESS;
}

CUresult guest_whole(struct guest_thread *t, uint64_t ctx)
{
	return unlikely(capture_any()) ? capture_hooks->whole(t, ctx) : CUDA_SUCCESS;
}
