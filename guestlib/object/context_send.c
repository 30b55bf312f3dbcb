/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"
#include "object/context_send.h"
#include "object/extent.h"

CUresult ctx_send_create(struct guest_thread *t, uint64_t ctx, unsigned flags)
{
	return call_ctx_create(t, ctx, flags);
}

CUresult ctx_send_destroy(struct guest_thread *t, uint64_t ctx)
{
	CUresult r = call_ctx_destroy(t, ctx);

	extent_forget_all();
	return r;
}

CUresult ctx_send_retain(struct guest_thread *t, uint64_t ctx, unsigned flags)
{
	return call_primary_retain(t, ctx, flags);
}

CUresult ctx_send_release(struct guest_thread *t, uint64_t ctx)
{
	CUresult r = call_primary_release(t, ctx);

	extent_forget_all();
	return r;
}
