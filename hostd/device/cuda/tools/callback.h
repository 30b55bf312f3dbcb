/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's callbacks for debuggers and profilers, which are called in the thread that makes
 * the call that they are about. A process has one subscriber: this.
 */
#ifndef WEFT_DEVICE_CUDA_CALLBACK_H
#define WEFT_DEVICE_CUDA_CALLBACK_H

#include <stdbool.h>

enum cuda_callback {
	CUDA_CALLBACK_UPLOAD, /* of a launch's descriptor, which may be changed */
	CUDA_CALLBACK_MODULE, /* a module has been loaded */
	CUDA_CALLBACKS
};

/* Whether this driver has them. Any thread. */
bool cuda_callback_known(void);
/* Has fn called with what the driver says (params is the driver's, and good until fn returns),
 * or, without fn, nothing any more. Returns false if that cannot be. The caller sees to it that
 * nobody else does it for the same. */
bool cuda_callback_set(enum cuda_callback what, void (*fn)(const void *params));

#endif
