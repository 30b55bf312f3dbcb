/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded code of the real GPU: what module.c, cuda_func.c and launch.c share.
 */
#ifndef WEFT_DEVICE_CUDA_MODULE_H
#define WEFT_DEVICE_CUDA_MODULE_H

#include "device/cuda/device.h"

#define CUDA_FUNC_BUCKETS 64 /* a power of two */

struct dev_func {
	struct dev_func *next; /* in its bucket of dev_module.funcs */
	struct dev_module *mod;
	CUfunction cu;
	const char *name; /* the driver's */
	size_t params_size;
	_Atomic char batch; /* whether it can be launched in one; see batch.c */
};

/* A CUmodule, or a CUlibrary, whose code the driver loads piece by piece. */
struct dev_module {
	struct dev_ctx *ctx;
	struct list link;
	CUmodule cu;
	CUlibrary lib;  /* then cu is NULL */
	uint64_t bytes; /* of device memory, about */
	_Atomic bool has_refs; /* to textures or surfaces, and they are used */
	/* Under the device's lock: functions met so far, and those by index, once asked.
	 */
	struct dev_func *funcs[CUDA_FUNC_BUCKETS];
	struct dev_func **order;
	unsigned n_order;
	struct range_set globals; /* that cuda_module_global() has made known */
};

/* Options as the driver takes them; it writes into value until it is done. */
struct cuda_jit {
	CUjit_option option[DEV_JIT_OPTIONS_MAX + 12];
	void *value[DEV_JIT_OPTIONS_MAX + 12];
	unsigned n;
	unsigned info, error, time; /* where sizes and time are written; 0: nowhere */
};

/* jit may be NULL. Its logs are where the driver writes. */
void cuda_jit_fill(struct cuda_jit *o, const struct dev_jit *jit);
void cuda_jit_take(const struct cuda_jit *o, struct dev_jit *jit);

/* Whether the driver can be given one part of an image without reading past its end. */
bool cuda_part_ok(const void *image, size_t size);

/*
 * Checks all parts of an image: *ret_n of them, *ret_linked if the first one is the
 * linked form of the others.
 */
bool cuda_image_ok(const void *image, size_t size, unsigned *ret_n, bool *ret_linked);

#endif
