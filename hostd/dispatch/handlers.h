/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common part of the handlers. One file per API group, as in transport/api; a handler
 * maps handles to objects, calls the device or the memory manager, and puts the CUresult
 * into its reply. The prototypes are generated (dispatch.h).
 */
#ifndef WEFT_DISPATCH_HANDLERS_H
#define WEFT_DISPATCH_HANDLERS_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "memory/hostmem.h"
#include "memory/pool/pool.h"
#include "memory/space.h"
#include "session/code.h"
#include "session/footprint.h"
#include "session/hostfunc.h"
#include "session/image.h"
#include "session/linked.h"
#include "session/command.h"
#include "ipc/wmem.h"

/*
 * Makes a device's object findable under the guest's handle, or ends it again. Takes over
 * the caller's reference. Returns 0 with *ret_result set, or negative: a number in use or
 * of another type is a broken guest.
 */
static inline int publish(struct sess_lane *sl, struct sess_obj *o, uint32_t *ret_result)
{
	int r = obj_publish(sl->s, o);

	if (r < 0)
		obj_put(sl->s, o);
	if (r == -ENOMEM) {
		*ret_result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	if (r == 0)
		*ret_result = CUDA_SUCCESS;
	return r;
}

/* Waits, before memory is freed, for the work of a context that may still use it. False, with
 * *ret_result INVALID_CONTEXT: the session has none; else *ret_result is that of waiting. */
static inline bool wait_to_free(struct sess_lane *sl, struct dev_ctx **ret_ctx,
				uint32_t *ret_result)
{
	struct sess_ctx *ctx = sess_any_ctx(sl);

	*ret_result = CUDA_ERROR_INVALID_CONTEXT;
	if (!ctx)
		return false;
	*ret_ctx = ctx->dev;
	*ret_result = sess_sync_result(sl, sl->s->ops->ctx.synchronize(ctx->dev));
	return true;
}

/* JIT options of the guest; returns how many, none if one of them names an address. */
unsigned jit_read_options(const struct wire_jit_option *w, unsigned n,
			  struct dev_jit_option *ret_options);

/* copy.c, before a copy that waits for its stream: waits for what is there already, outside the
 * gate. A kernel may be waiting for another lane, and that for the gate to close. */
void copy_wait_before(struct sess_lane *sl, struct dev_ctx *ctx, struct dev_stream *st);

/* copy.c, for a copy of a graph: a new stream of the context that handle ctx names, which
 * nothing has to wait for. INVALID_CONTEXT, or the device's failure. */
CUresult copy_own_stream(struct sess_lane *sl, uint64_t ctx, struct dev_ctx **ret_ctx,
			 struct dev_stream **ret_stream);

/* launch.c: attributes of a launch; n is of the guest. CUDA_SUCCESS, INVALID_VALUE or
 * INVALID_HANDLE (an event). */
CUresult launch_read_attrs(struct sess_lane *sl, const struct wire_launch_attr *w,
			   unsigned n, struct dev_ctx *ctx,
			   struct dev_launch_attr *ret_attrs);

/* Adds to a counter that weftd reads. */
static inline void count(_Atomic uint64_t *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* A launch says where it reaches memory, or names it by its parameters; a copy or fill says it, of
 * rows of so many bytes. */
static inline void note_launch(struct session *s, const struct dev_launch *l)
{
	if (unlikely(s->touch.pages))
		touch_launch(&s->touch, l);
}

static inline void note_rows(struct session *s, CUdeviceptr addr, uint64_t pitch,
			     uint64_t width, uint64_t height)
{
	if (unlikely(s->touch.pages) && width && height)
		touch_reach(&s->touch, addr, pitch * (height - 1) + width);
}

/* Utilisation is measured only while something runs. */
static inline void note_active(struct session *s)
{
	if (likely(atomic_load_explicit(&s->active, memory_order_relaxed)) ||
	    !s->hooks.active || atomic_exchange(&s->active, true))
		return;
	s->hooks.active(s->hooks.arg);
}

#endif
