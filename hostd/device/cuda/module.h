/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded code: modules and their functions, options of the compiler, images, linking. */
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
	CUlibrary lib;         /* then cu is NULL */
	uint64_t bytes;        /* of device memory, about */
	_Atomic bool has_refs; /* to textures or surfaces, and they are used */
	/* A library's code, looked at when the first function is asked for. */
	const void *image;
	size_t image_size;
	_Atomic bool looked;
	char *placed; /* of it, with its variables in managed memory placed; or NULL */
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

/* Some module of the context, or NULL. */
struct dev_module *cuda_module_first(struct dev_ctx *ctx);
CUresult cuda_module_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			  struct dev_jit *jit, struct dev_module **ret_module);
/* As device_module_ops.managed. */
CUresult cuda_module_managed(struct dev_ctx *ctx, const void *image, size_t image_size,
			     struct dev_managed **ret, unsigned *ret_n);
CUresult cuda_library_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			   struct dev_jit *jit, struct dev_module **ret_module);
void cuda_module_unload(struct dev_module *mod);
uint64_t cuda_module_memory(struct dev_module *mod);
CUresult cuda_module_function(struct dev_module *mod, const char *name,
			      struct dev_func **ret_func);
CUresult cuda_module_global(struct dev_module *mod, const char *name,
			    CUdeviceptr *ret_addr, size_t *ret_size);
CUresult cuda_module_function_at(struct dev_module *mod, unsigned index,
				 struct dev_func **ret_func, const char **ret_name);
CUresult cuda_module_status(struct dev_module *mod);
CUresult cuda_module_function_count(struct dev_module *mod, unsigned *ret_n);

/* link.c */
CUresult cuda_link_create(struct dev_ctx *ctx, const struct dev_jit *jit,
			  struct dev_link **ret_link);
CUresult cuda_link_add(struct dev_link *link, CUjitInputType type, const void *data,
		       size_t size, const char *name, struct dev_jit *jit);
CUresult cuda_link_complete(struct dev_link *link, struct dev_jit *jit,
			    const void **ret_data, size_t *ret_size);
void cuda_link_destroy(struct dev_link *link);

#endif
