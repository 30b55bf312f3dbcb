/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, and what is queued in them beside copies and launches. */
#ifndef WEFT_DEVICE_STREAM_H
#define WEFT_DEVICE_STREAM_H

#include "device/handles.h"

enum dev_stream_flag {
	DEV_STREAM_NON_BLOCKING = 1, /* no implicit order with the legacy stream */
};

/* An operation of CUstreamBatchMemOpParams. */
struct dev_mem_op {
	CUstreamBatchMemOpType op;
	unsigned flags;
	CUdeviceptr addr;
	uint64_t value;
};

#define DEV_MEM_OPS_MAX 256

struct device_stream_ops {
	CUresult (*create)(struct dev_ctx *ctx, unsigned flags, int priority,
			   struct dev_stream **ret_stream);
	/* Has its kernels run on these TPCs only, by their place among those that the process
	 * has (run_on); on all of them if by now it has none of these. Before it has work.
	 * NOT_SUPPORTED where nobody has said which they are. May be NULL. */
	CUresult (*keep_to)(struct dev_ctx *ctx, struct dev_stream *st,
			    const uint64_t tpcs[2]);
	/* A CU_STREAM_ATTRIBUTE_*, for what is queued from now on; a device may take
	 * hints as such, the priority it honours. */
	CUresult (*set_attribute)(struct dev_ctx *ctx, struct dev_stream *st,
				  CUstreamAttrID attr, const CUstreamAttrValue *value);
	/* Waits for, and writes of, words of memory, in order; never waits itself.
	 * NOT_SUPPORTED where the device's attributes say so. */
	CUresult (*mem_ops)(struct dev_ctx *ctx, struct dev_stream *st,
			    const struct dev_mem_op *ops, unsigned n, unsigned flags);
	/* Waits until a word of 32 bits is at least that. Only kernels write it: to freeze() a stream
	 * that waits so stands at one. */
	CUresult (*wait_for_kernels)(struct dev_ctx *ctx, struct dev_stream *st,
				     CUdeviceptr addr, uint32_t value);
	/* Work already queued still runs. */
	void (*destroy)(struct dev_stream *st);
	CUresult (*query)(struct dev_ctx *ctx, struct dev_stream *st);
	CUresult (*synchronize)(struct dev_ctx *ctx, struct dev_stream *st);
	/*
	 * As synchronize(), and stores value in *word, at which others look, as soon as the
	 * work is done; the device itself may, so nobody passes that on. The word's page is
	 * the caller's, shared, and stays mapped as long as the device is open.
	 * NOT_SUPPORTED: nothing is stored, synchronize() is to be called; so where kernels
	 * may have printed. Other failures store nothing either. May be NULL.
	 */
	CUresult (*synchronize_to)(struct dev_ctx *ctx, struct dev_stream *st,
				   _Atomic uint64_t *word, uint64_t value);
	CUresult (*wait_event)(struct dev_ctx *ctx, struct dev_stream *st,
			       struct dev_event *ev);
	/*
	 * Runs fn(arg) when the stream gets there, on a thread of the device; the stream
	 * goes on when host_func_done() is called with the token that fn was given. Token
	 * 0 means that the context was lost: fn must only let go of arg. A token that is
	 * not known (any more) is ignored.
	 */
	CUresult (*host_func)(struct dev_ctx *ctx, struct dev_stream *st,
			      void (*fn)(void *arg, uint64_t token), void *arg);
	void (*host_func_done)(struct device *dev, uint64_t token);
};

#endif
