/* SPDX-License-Identifier: Apache-2.0 */
/* Events: points in streams. */
#ifndef WEFT_DEVICE_EVENT_H
#define WEFT_DEVICE_EVENT_H

#include "device/handles.h"

struct device_event_ops {
	CUresult (*create)(struct dev_ctx *ctx, unsigned flags,
			   struct dev_event **ret_event);
	void (*destroy)(struct dev_event *ev);
	CUresult (*record)(struct dev_ctx *ctx, struct dev_event *ev,
			   struct dev_stream *st);
	CUresult (*query)(struct dev_event *ev);
	CUresult (*synchronize)(struct dev_event *ev);
	CUresult (*elapsed)(struct dev_event *start, struct dev_event *end,
			    float *ret_ms);
};

#endif
