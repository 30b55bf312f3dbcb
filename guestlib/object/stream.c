// SPDX-License-Identifier: Apache-2.0
/*
 * Streams: made and destroyed without waiting; what they were made with is kept here.
 * (stream_wait.c has queries and waiting.)
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "graph/capture.h"
#include "object/context.h"
#include "object/stream.h"
#include "code/launch.h"
#include "object/owned.h"
#include "core/process.h"
#include "copy/stage.h"
#include "core/thread.h"

#define ATTR_MAX 11 /* CU_STREAM_ATTRIBUTE_* are launch attributes below this one */
#define SYNC_MAX CU_SYNC_POLICY_BLOCKING_SYNC

struct guest_stream_info {
	struct owned owned;
	uint64_t handle;
	unsigned flags;
	int priority;
	uint64_t id;
	uint64_t ctx;
	_Atomic uint64_t idle; /* core/idle.h */
	CUstreamAttrValue attrs[ATTR_MAX];
};

/* The default streams; hints set on them are those of the whole process. */
#define ATTRS_FIRST                                                                      \
	{                                                                                \
		[CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY] =                           \
			{.syncPolicy = CU_SYNC_POLICY_AUTO},                             \
		[CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP] = {                            \
			.memSyncDomainMap = {0, 1}                                       \
		}                                                                        \
	}

static const CUstreamAttrValue attrs_first[ATTR_MAX] = ATTRS_FIRST;
static struct guest_stream_info legacy_info = {.id = 1, .attrs = ATTRS_FIRST};
static struct guest_stream_info per_thread_info = {.id = 2, .attrs = ATTRS_FIRST};
static _Atomic uint64_t next_id = 3;

static CUresult find(CUstream stream, bool ptsz, struct guest_stream_info **ret_s)
{
	uint64_t h;
	CUresult r =
		guest_need_on(stream) == NEED_CTX ? ctx_check_current() : guest_gate();

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

bool stream_is_blocking(uint64_t h)
{
	struct guest_stream_info *s = guest_object(h, HANDLE_STREAM);

	return !s || !(s->flags & CU_STREAM_NON_BLOCKING);
}

static void drop(struct owned *o)
{
	struct guest_stream_info *s = container_of(o, struct guest_stream_info, owned);

	guest_handle_free(s->handle);
	free(s);
}

static CUresult post_create(struct guest_thread *t, uint64_t h, unsigned flags,
			    int priority)
{
	struct stream_create_cmd *cmd = begin_stream_create(t);

	if (!cmd)
		return guest_lost(t);
	cmd->stream = h;
	cmd->flags = flags;
	cmd->priority = priority;
	return guest_post(t);
}

/* Greater priorities are smaller numbers. */
static int clamp_priority(int priority)
{
	const struct guest_device *d = &guest_process.device;

	return MIN(MAX(priority, d->priority_greatest), d->priority_least);
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags,
					    int priority)
{
	_cleanup_free_ struct guest_stream_info *s = NULL;
	struct guest_thread *t;
	uint64_t h;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!stream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->flags = flags;
	s->priority = clamp_priority(priority);
	memcpy(s->attrs, attrs_first, sizeof(s->attrs));
	s->attrs[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority = s->priority;
	s->id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
	s->ctx = t->top->handle;
	h = guest_handle_new(HANDLE_STREAM, s);
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->handle = h;
	r = post_create(t, h, flags, s->priority);
	if (r) {
		guest_handle_free(h);
		return r;
	}
	owned_add(t->top, &steal(s)->owned, drop);
	*stream = (CUstream)(uintptr_t)h;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream stream)
{
	struct guest_stream_info *s;
	struct stream_destroy_cmd *cmd;
	struct guest_thread *t;
	CUresult r = guest_enter(guest_need_on(stream), &t);

	if (r)
		return r;
	s = guest_object((uintptr_t)stream, HANDLE_STREAM);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	capture_stream_gone((uintptr_t)stream);
	stage_close(t, (uintptr_t)stream);
	cmd = begin_stream_destroy(t);
	if (!cmd)
		return guest_lost(t);
	cmd->stream = (uintptr_t)stream;
	r = guest_post(t);
	owned_remove(&s->owned);
	drop(&s->owned);
	return r;
}

static CUresult get_priority(CUstream stream, int *priority, bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = find(stream, ptsz, &s);

	if (r)
		return r;
	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	*priority = s->priority;
	return CUDA_SUCCESS;
}

static CUresult get_flags(CUstream stream, unsigned *flags, bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = find(stream, ptsz, &s);

	if (r)
		return r;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = s->flags;
	return CUDA_SUCCESS;
}

static CUresult get_id(CUstream stream, unsigned long long *id, bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = find(stream, ptsz, &s);

	if (r)
		return r;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = s->id;
	return CUDA_SUCCESS;
}

static CUresult get_device(CUstream stream, CUdevice *device, bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = find(stream, ptsz, &s);

	if (r)
		return r;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = 0;
	return CUDA_SUCCESS;
}

static CUresult get_ctx(CUstream stream, CUcontext *ctx, bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = find(stream, ptsz, &s);

	if (r)
		return r;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = (CUcontext)(uintptr_t)(s->ctx ? s->ctx : guest_self->top->handle);
	return CUDA_SUCCESS;
}

static CUresult get_ctx_green(CUstream stream, CUcontext *ctx, CUgreenCtx *green,
			      bool ptsz)
{
	CUresult r = get_ctx(stream, ctx, ptsz);

	if (r == CUDA_SUCCESS && green)
		*green = NULL;
	return r;
}

GUEST_PAIR(cuStreamGetPriority, ptsz, (CUstream stream, int *priority), get_priority,
	   stream, priority)
GUEST_PAIR(cuStreamGetFlags, ptsz, (CUstream stream, unsigned int *flags), get_flags,
	   stream, flags)
GUEST_PAIR(cuStreamGetId, ptsz, (CUstream stream, unsigned long long *id), get_id, stream,
	   id)
GUEST_PAIR(cuStreamGetDevice, ptsz, (CUstream stream, CUdevice *device), get_device,
	   stream, device)
GUEST_PAIR(cuStreamGetCtx, ptsz, (CUstream stream, CUcontext *ctx), get_ctx, stream, ctx)
GUEST_PAIR(cuStreamGetCtx_v2, ptsz, (CUstream stream, CUcontext *ctx, CUgreenCtx *green),
	   get_ctx_green, stream, ctx, green)

/* ---- attributes: kept here for questions; the device is told ---- */

static bool attr_ok(CUstreamAttrID attr)
{
	return attr == CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
	       attr == CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
	       attr == CU_STREAM_ATTRIBUTE_PRIORITY ||
	       attr == CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
	       attr == CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

static CUresult get_attr(CUstream stream, CUstreamAttrID attr, CUstreamAttrValue *value,
			 bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = find(stream, ptsz, &s);

	if (r)
		return r;
	if (!value || !attr_ok(attr))
		return CUDA_ERROR_INVALID_VALUE;
	*value = s->attrs[attr];
	return CUDA_SUCCESS;
}

static CUresult send_attr(uint64_t wire, CUstreamAttrID attr,
			  const CUstreamAttrValue *value)
{
	struct stream_set_attribute_cmd *cmd;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	cmd = begin_stream_set_attribute(t);
	if (!cmd)
		return guest_lost(t);
	cmd->stream = wire;
	cmd->id = (uint32_t)attr;
	static_assert(sizeof(cmd->value) == sizeof(*value), "as it travels");
	memcpy(cmd->value, value, sizeof(*value));
	return guest_post(t);
}

static CUresult check_attr(CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	CUlaunchAttribute a = {.id = (CUlaunchAttributeID)attr, .value = *value};

	if (attr != CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY)
		return launch_check_attr(&a);
	return value->syncPolicy >= CU_SYNC_POLICY_AUTO && value->syncPolicy <= SYNC_MAX
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_attr(CUstream stream, CUstreamAttrID attr,
			 const CUstreamAttrValue *value, bool ptsz)
{
	struct guest_stream_info *s;
	CUstreamAttrValue v;
	uint64_t wire;
	CUresult r = find(stream, ptsz, &s);

	if (r)
		return r;
	if (!value || !attr_ok(attr))
		return CUDA_ERROR_INVALID_VALUE;
	v = *value;
	r = check_attr(attr, &v);
	if (r == CUDA_SUCCESS)
		r = guest_stream_value(stream, ptsz, &wire);
	if (r)
		return r;
	if (attr == CU_STREAM_ATTRIBUTE_PRIORITY)
		s->priority = v.priority = clamp_priority(v.priority);
	s->attrs[attr] = v;
	return send_attr(wire, attr, &v);
}

static CUresult copy_attrs(CUstream dst, CUstream src, bool ptsz)
{
	struct guest_stream_info *d, *s;
	CUresult r = find(dst, ptsz, &d);
	unsigned i;

	if (r == CUDA_SUCCESS)
		r = find(src, ptsz, &s);
	for (i = 0; i < ATTR_MAX && r == CUDA_SUCCESS; i++) {
		if (attr_ok((CUstreamAttrID)i) &&
		    memcmp(&d->attrs[i], &s->attrs[i], sizeof(d->attrs[i])) != 0)
			r = set_attr(dst, (CUstreamAttrID)i, &s->attrs[i], ptsz);
	}
	return r;
}

GUEST_PAIR(cuStreamGetAttribute, ptsz,
	   (CUstream stream, CUstreamAttrID attr, CUstreamAttrValue *value), get_attr,
	   stream, attr, value)
GUEST_PAIR(cuStreamSetAttribute, ptsz,
	   (CUstream stream, CUstreamAttrID attr, const CUstreamAttrValue *value),
	   set_attr, stream, attr, value)
GUEST_PAIR(cuStreamCopyAttributes, ptsz, (CUstream dst, CUstream src), copy_attrs, dst,
	   src)
