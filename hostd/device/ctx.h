/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: their limits, what they were lost with, work of all their streams. */
#ifndef WEFT_DEVICE_CTX_H
#define WEFT_DEVICE_CTX_H

#include "device/handles.h"

struct device_ctx_ops {
	CUresult (*create)(struct device *dev, unsigned flags, struct dev_ctx **ret_ctx);
	/* Waits for the context's work, then frees all that was made in it. */
	void (*destroy)(struct dev_ctx *ctx);
	CUresult (*synchronize)(struct dev_ctx *ctx);
	CUresult (*get_limit)(struct dev_ctx *ctx, CUlimit limit, size_t *ret_value);
	CUresult (*set_limit)(struct dev_ctx *ctx, CUlimit limit, size_t value);
	/* Device memory that a limit of that value takes at most. */
	uint64_t (*limit_bytes)(struct dev_ctx *ctx, CUlimit limit, size_t value);
	/* CUDA_SUCCESS or the code with which the context was lost. May wait for a launch
	 * that finds too many before it. */
	CUresult (*status)(struct dev_ctx *ctx);
	/* status() as far as it is known already: waits for nothing. Within the fn of
	 * stream.host_func() all that came before in the stream is known. */
	CUresult (*known)(struct dev_ctx *ctx);
	/* One line about the fault that ended the context, for the log; "" if none. */
	void (*fault)(struct dev_ctx *ctx, char *ret_text, size_t size);
	/* After all work of the context so far. */
	CUresult (*record_event)(struct dev_ctx *ctx, struct dev_event *ev);
	/* Before all work to come. */
	CUresult (*wait_event)(struct dev_ctx *ctx, struct dev_event *ev);
};

#endif
