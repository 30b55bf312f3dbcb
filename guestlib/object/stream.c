/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: made without waiting; what they were made with is kept here.
 * (stream_wait.c has waiting, api/object/stream.c the functions of streams.)
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "object/context.h"
#include "object/green.h"
#include "object/stream.h"
#include "object/owned.h"
#include "core/process.h"
#include "core/thread.h"

/* The default streams; hints set on them are those of the whole process. */
#define ATTRS_FIRST                                                                      \
	{                                                                                \
		[CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY] =                           \
			{.syncPolicy = CU_SYNC_POLICY_AUTO},                             \
		[CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP] = {                            \
			.memSyncDomainMap = {0, 1}                                       \
		}                                                                        \
	}

static const CUstreamAttrValue attrs_first[STREAM_ATTRS] = ATTRS_FIRST;
static struct guest_stream_info legacy_info = {.id = 1, .attrs = ATTRS_FIRST};
static struct guest_stream_info per_thread_info = {.id = 2, .attrs = ATTRS_FIRST};
static _Atomic uint64_t next_id = 3;

CUresult stream_find(CUstream stream, bool ptsz, struct guest_stream_info **ret_s)
{
	uint64_t h;
	CUresult r =
		guest_need_on(stream) == NEED_CTX ? ctx_check_current() : guest_status();

	if (r == CUDA_SUCCESS)
		r = guest_stream_value(stream, ptsz, &h);
	if (r)
		return r;
	if (h == GUEST_STREAM_LEGACY)
		*ret_s = &legacy_info;
	else if (h == GUEST_STREAM_PER_THREAD)
		*ret_s = &per_thread_info;
	else
		*ret_s = guest_object(h, HANDLE_STREAM);
	return *ret_s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

_Atomic uint64_t *stream_idle(uint64_t h)
{
	struct guest_stream_info *s = guest_object(h, HANDLE_STREAM);

	return s ? &s->idle : NULL;
}

uint64_t stream_ctx(uint64_t h)
{
	struct guest_stream_info *s = guest_object(h, HANDLE_STREAM);

	return s ? s->ctx : 0;
}

struct guest_ctx *stream_green(uint64_t h)
{
	struct guest_stream_info *s = guest_object(h, HANDLE_STREAM);

	return s ? s->green : NULL;
}

bool stream_is_blocking(uint64_t h)
{
	struct guest_stream_info *s = guest_object(h, HANDLE_STREAM);

	return !s || !(s->flags & CU_STREAM_NON_BLOCKING);
}

static void drop(struct owned *o)
{
	struct guest_stream_info *s = container_of(o, struct guest_stream_info, owned);

	guest_handle_free(s->handle);
	ctx_unref(s->green);
	free(s);
}

void stream_drop(struct guest_stream_info *s)
{
	owned_remove(&s->owned);
	drop(&s->owned);
}

static CUresult send_create(struct guest_thread *t, uint64_t h,
			    const struct guest_stream_info *s)
{
	struct stream_create_cmd *cmd = begin_stream_create(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->stream = h;
	cmd->flags = s->flags;
	cmd->priority = s->priority;
	if (!s->green)
		return guest_post(t);
	memcpy(cmd->tpcs, s->green->green->tpcs, sizeof(cmd->tpcs));
	return guest_ask(t, sizeof(struct stream_create_rep), &reply);
}

int stream_clamp_priority(int priority)
{
	const struct guest_device *d = &guest_process.device;

	return MIN(MAX(priority, d->priority_greatest), d->priority_least);
}

CUresult stream_new(struct guest_thread *t, struct guest_ctx *green, unsigned flags,
		    int priority, uint64_t *ret_handle)
{
	_cleanup_free_ struct guest_stream_info *s = calloc(1, sizeof(*s));
	uint64_t h;
	CUresult r;

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->flags = flags;
	s->priority = stream_clamp_priority(priority);
	memcpy(s->attrs, attrs_first, sizeof(s->attrs));
	s->attrs[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority = s->priority;
	s->id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
	s->ctx = t->top->handle;
	s->green = green;
	h = guest_handle_new(HANDLE_STREAM, s);
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->handle = h;
	r = send_create(t, h, s);
	if (r) {
		guest_handle_free(h);
		return r;
	}
	if (green)
		ctx_ref(green);
	owned_add(t->top, &steal(s)->owned, drop);
	*ret_handle = h;
	return CUDA_SUCCESS;
}

CUresult stream_get_priority(CUstream stream, int *priority, bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = stream_find(stream, ptsz, &s);

	if (r)
		return r;
	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	*priority = s->priority;
	return CUDA_SUCCESS;
}
