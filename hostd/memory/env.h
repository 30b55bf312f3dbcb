/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Surroundings of memory/, given by whoever makes a space: a device, weftd's accounts,
 * the page in which use is told, and contexts to copy in. A CUresult is what a guest may
 * see, a negative errno what weftd hears.
 */
#ifndef WEFT_MEM_ENV_H
#define WEFT_MEM_ENV_H

#include <stdint.h>

#include "device/device.h"

struct accounts;
struct worker_page;
struct touch;
struct trace_area;

struct mem_env {
	const struct device_ops *ops;
	struct device *dev;
	uint64_t granularity; /* the least that the device maps */
	const struct accounts *accounts;
	struct worker_page *count;
	struct trace_area *trace; /* where moves are noted; NULL: nowhere */
	struct touch *touch;      /* what is launched with, if that is of use */
	/*
	 * A context in which memory may be copied, held until ctx_put() has what ctx_hold()
	 * returned. NULL: there is none. Any thread; ctx_put() may end the context.
	 */
	void *(*ctx_hold)(void *arg, struct dev_ctx **ret_ctx);
	void (*ctx_put)(void *arg, void *held);
	void *arg;
};

#endif
