/* SPDX-License-Identifier: Apache-2.0 */
/* Linking, by a device that does it itself. */
#ifndef WEFT_DEVICE_LINK_H
#define WEFT_DEVICE_LINK_H

#include "device/handles.h"
#include "device/jit.h"

/*
 * Linking. Of jit the options count in create() and the logs in the others: what was said
 * since the beginning.
 */
struct device_link_ops {
	CUresult (*create)(struct dev_ctx *ctx, const struct dev_jit *jit,
			   struct dev_link **ret_link);
	/* Adds an input; a NUL follows data. */
	CUresult (*add)(struct dev_link *link, CUjitInputType type, const void *data,
			size_t size, const char *name, struct dev_jit *jit);
	/* Links; the result lives as long as the link. */
	CUresult (*complete)(struct dev_link *link, struct dev_jit *jit,
			     const void **ret_data, size_t *ret_size);
	void (*destroy)(struct dev_link *link);
};

#endif
