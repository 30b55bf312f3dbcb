/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of streams. */
#include <string.h>

#include "calls.h"
#include "code/launch.h"
#include "copy/stage.h"
#include "core/capturing.h"
#include "object/context.h"
#include "object/green.h"
#include "object/stream.h"

#define SYNC_MAX CU_SYNC_POLICY_BLOCKING_SYNC

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags,
					    int priority)
{
	struct guest_thread *t;
	uint64_t h;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!stream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_new(t, t->green ? ctx_on_top(t) : NULL, flags, priority, &h);
	if (r == CUDA_SUCCESS)
		*stream = (CUstream)(uintptr_t)h;
	return r;
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
	stream_drop(s);
	return r;
}

/* ---- what it was made with ---- */

static CUresult get_flags(CUstream stream, unsigned *flags, bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = stream_find(stream, ptsz, &s);

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
	CUresult r = stream_find(stream, ptsz, &s);

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
	CUresult r = stream_find(stream, ptsz, &s);

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
	CUresult r = stream_find(stream, ptsz, &s);

	if (r)
		return r;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->green)
		*ctx = (CUcontext)(uintptr_t)s->green->handle;
	else
		*ctx = (CUcontext)(uintptr_t)(s->ctx ? s->ctx : guest_self->top->handle);
	return CUDA_SUCCESS;
}

static CUresult get_green(CUstream stream, CUgreenCtx *green, bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = stream_find(stream, ptsz, &s);

	if (r)
		return r;
	if (!green)
		return CUDA_ERROR_INVALID_VALUE;
	*green = s->green ? (CUgreenCtx)(uintptr_t)s->green->green->handle : NULL;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
	return get_green(stream, green, false);
}

/* The context that it gives is never a green one's. */
static CUresult get_ctx_green(CUstream stream, CUcontext *ctx, CUgreenCtx *green,
			      bool ptsz)
{
	struct guest_stream_info *s;
	CUresult r = get_ctx(stream, ctx, ptsz);

	if (r == CUDA_SUCCESS)
		r = stream_find(stream, ptsz, &s);
	if (r == CUDA_SUCCESS && s->green)
		*ctx = (CUcontext)(uintptr_t)ctx_primary()->handle;
	if (r == CUDA_SUCCESS && green)
		r = get_green(stream, green, ptsz);
	return r;
}

GUEST_PAIR(cuStreamGetPriority, ptsz, (CUstream stream, int *priority),
	   stream_get_priority, stream, priority)
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
	CUresult r = stream_find(stream, ptsz, &s);

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
	CUresult r = stream_find(stream, ptsz, &s);

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
		s->priority = v.priority = stream_clamp_priority(v.priority);
	s->attrs[attr] = v;
	return send_attr(wire, attr, &v);
}

static CUresult copy_attrs(CUstream dst, CUstream src, bool ptsz)
{
	struct guest_stream_info *d, *s;
	CUresult r = stream_find(dst, ptsz, &d);
	unsigned i;

	if (r == CUDA_SUCCESS)
		r = stream_find(src, ptsz, &s);
	for (i = 0; i < STREAM_ATTRS && r == CUDA_SUCCESS; i++) {
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

/* ---- asking, and waiting ---- */

static CUresult ask(struct guest_thread *t, uint64_t wire)
{
	struct stream_query_cmd *cmd;
	struct lane_reply reply;
	uint64_t now = idle_now();
	CUresult r;

	if (idle_is(idle_of_stream(t, wire)) && idle_may_answer(t))
		return CUDA_SUCCESS;
	cmd = begin_stream_query(t);
	if (!cmd)
		return guest_lost(t);
	cmd->stream = wire;
	r = guest_ask(t, sizeof(struct stream_query_rep), &reply);
	/* Waiting for the legacy stream also waits for those that block it. */
	if (r == CUDA_SUCCESS && wire != GUEST_STREAM_LEGACY)
		idle_note(t, wire, now);
	return r;
}

static CUresult enter(CUstream stream, bool ptsz, struct guest_thread **ret_t,
		      uint64_t *ret_wire)
{
	CUresult r = guest_enter(guest_need_on(stream), ret_t);

	if (r == CUDA_SUCCESS)
		r = guest_stream(stream, ptsz, ret_wire);
	return r ? r : guest_unsafe(*ret_t);
}

static CUresult query(CUstream stream, bool ptsz)
{
	struct guest_thread *t;
	uint64_t wire;
	CUresult r = enter(stream, ptsz, &t, &wire);

	return r ? r : ask(t, wire);
}

static CUresult synchronize(CUstream stream, bool ptsz)
{
	struct guest_thread *t;
	uint64_t wire;
	CUresult r = enter(stream, ptsz, &t, &wire);

	return r ? r : stream_wait(t, wire);
}

GUEST_PAIR(cuStreamQuery, ptsz, (CUstream stream), query, stream)
GUEST_PAIR(cuStreamSynchronize, ptsz, (CUstream stream), synchronize, stream)
