/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and libraries: code that is loaded, and what is looked up in it. */
#ifndef WEFT_DEVICE_MODULE_H
#define WEFT_DEVICE_MODULE_H

#include "device/handles.h"
#include "device/jit.h"

struct device_module_ops {
	/* Loads image_size bytes from a guest: fatbin container, ELF or PTX text (with
	 * its NUL); or several containers, one directly behind the other, which are
	 * linked (the first may hold machine code alone: the linked form of the others).
	 * Code, globals and constants are device memory that the device takes itself;
	 * footprint() says how much, and where it does not, memory(). */
	CUresult (*load)(struct dev_ctx *ctx, const void *image, size_t image_size,
			 struct dev_jit *jit, struct dev_module **ret_module);
	/* As load(), but code for this GPU is looked for, and perhaps loaded, only
	 * when something is asked for by name: an image without any loads all the same,
	 * and the look-ups fail. The image stays valid and unchanged until unload(). */
	CUresult (*load_library)(struct dev_ctx *ctx, const void *image,
				 size_t image_size, struct dev_jit *jit,
				 struct dev_module **ret_module);
	/* Finds the variables in managed memory that code for this GPU in an image has: an
	 * array with their names behind it, the caller's to free(), addresses 0. *ret_n 0:
	 * none, or none that load_library() could place. NULL: there never are. */
	CUresult (*managed)(struct dev_ctx *ctx, const void *image, size_t image_size,
			    struct dev_managed **ret, unsigned *ret_n);
	void (*unload)(struct dev_module *mod);
	/* Bytes of device memory, roughly; what is loaded only later is not in it. */
	uint64_t (*memory)(struct dev_module *mod);
	/* Whether anything can be looked up in it. */
	CUresult (*status)(struct dev_module *mod);
	CUresult (*function)(struct dev_module *mod, const char *name,
			     struct dev_func **ret_func);
	CUresult (*global)(struct dev_module *mod, const char *name,
			   CUdeviceptr *ret_addr, size_t *ret_size);
	/* Entry functions in the module's order; *ret_name lives as long as the module.
	 */
	CUresult (*function_at)(struct dev_module *mod, unsigned index,
				struct dev_func **ret_func, const char **ret_name);
	CUresult (*function_count)(struct dev_module *mod, unsigned *ret_n);
};

#endif
