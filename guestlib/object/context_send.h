/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages by which contexts begin and end at the worker. t: the calling thread, entered;
 * ctx: the handle. Each waits for its answer and returns the worker's code, or
 * GUEST_ERROR_LOST. The end of a context voids all knowledge of memory.
 */
#ifndef WEFT_GUEST_CONTEXT_SEND_H
#define WEFT_GUEST_CONTEXT_SEND_H

#include "core/guest.h"

CUresult ctx_send_create(struct guest_thread *t, uint64_t ctx, unsigned flags);
CUresult ctx_send_destroy(struct guest_thread *t, uint64_t ctx);
CUresult ctx_send_retain(struct guest_thread *t, uint64_t ctx, unsigned flags);
CUresult ctx_send_release(struct guest_thread *t, uint64_t ctx);

#endif
