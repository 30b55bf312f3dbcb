/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, host functions and their words. */
#ifndef WEFT_DEVICE_CUDA_STREAM_H
#define WEFT_DEVICE_CUDA_STREAM_H

#include "device/cuda/device.h"

/* An operation as the driver has it; false if it names memory that the guest may not
 * touch, or is unknown. */
bool cuda_mem_op(struct device *dev, const struct dev_mem_op *op,
		 CUstreamBatchMemOpParams *ret_p);
/* A word of pinned memory for a host function of a graph; -1: there is none left. */
int cuda_slot_take(struct dev_ctx *ctx);
void cuda_slot_drop(struct dev_ctx *ctx, int slot);
/* Returns the slot's word between launches; one more once the function has run. */
uint32_t cuda_slot_rest(struct dev_ctx *ctx, int slot);
/* A launch has got there: the token for host_func_done(); 0: it goes on. */
uint64_t cuda_slot_stands(struct dev_ctx *ctx, int slot);
void cuda_host_ops_drop(struct dev_ctx *ctx);
CUresult cuda_stream_create(struct dev_ctx *ctx, unsigned flags, int priority,
			    struct dev_stream **ret_stream);
CUresult cuda_stream_keep_to(struct dev_ctx *ctx, struct dev_stream *st,
			     const uint64_t tpcs[2]);
/* TPCs of a stream that is kept to some; n 0: all. */
struct dev_tpcs cuda_stream_tpcs(const struct dev_stream *st);
CUresult cuda_stream_set_attribute(struct dev_ctx *ctx, struct dev_stream *st,
				   CUstreamAttrID attr, const CUstreamAttrValue *value);
CUresult cuda_stream_wait_for_kernels(struct dev_ctx *ctx, struct dev_stream *st,
				      CUdeviceptr addr, uint32_t value);
CUresult cuda_stream_mem_ops(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_mem_op *ops, unsigned n, unsigned flags);
void cuda_stream_destroy(struct dev_stream *st);
CUresult cuda_stream_query(struct dev_ctx *ctx, struct dev_stream *st);
CUresult cuda_stream_synchronize(struct dev_ctx *ctx, struct dev_stream *st);
/* completion.c */
CUresult cuda_stream_synchronize_to(struct dev_ctx *ctx, struct dev_stream *st,
				    _Atomic uint64_t *word, uint64_t value);
/* Forgets the pages that were registered for it. */
void cuda_completion_drop(struct dev_ctx *ctx);
CUresult cuda_stream_wait_event(struct dev_ctx *ctx, struct dev_stream *st,
				struct dev_event *ev);
CUresult cuda_host_func(struct dev_ctx *ctx, struct dev_stream *st,
			void (*fn)(void *arg, uint64_t token), void *arg);
void cuda_host_func_done(struct device *dev, uint64_t token);
CUresult cuda_event_create(struct dev_ctx *ctx, unsigned flags,
			   struct dev_event **ret_event);
void cuda_event_destroy(struct dev_event *ev);
CUresult cuda_event_record(struct dev_ctx *ctx, struct dev_event *ev,
			   struct dev_stream *st);
CUresult cuda_ctx_record_event(struct dev_ctx *ctx, struct dev_event *ev);
CUresult cuda_ctx_wait_event(struct dev_ctx *ctx, struct dev_event *ev);
CUresult cuda_event_query(struct dev_event *ev);
CUresult cuda_event_synchronize(struct dev_event *ev);
CUresult cuda_event_elapsed(struct dev_event *start, struct dev_event *end,
			    float *ret_ms);

#endif
