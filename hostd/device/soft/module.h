/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded images: the PTX in them, executable, with its variables in device memory. */
#ifndef WEFT_DEVICE_SOFT_MODULE_H
#define WEFT_DEVICE_SOFT_MODULE_H

#include "base/list.h"
#include "device/device.h"
#include "device/soft/exec.h"
#include "ptx/ptx.h"
#include "simt/simt.h"

struct dev_func {
	struct dev_module *mod;
	const struct simt_func *f;
	const char *name;
	unsigned num_regs;     /* per thread, what placement counts with */
	int max_dynamic_bytes; /* -1: never set, the default applies */
	int carveout;
	int cluster[3]; /* set by attribute; 0: none */
	int cluster_policy;
	bool non_portable_cluster;
};

struct dev_module {
	struct dev_ctx *ctx;
	struct list link; /* dev_ctx.modules */
	struct ptx_module *ptx;
	struct simt_program *prog;
	struct dev_func *funcs; /* in the module's order */
	struct dev_func **by_name;
	unsigned n_funcs;
	const struct simt_var **vars; /* by name, those that can be asked for */
	size_t n_vars;
	bool uses_heap;       /* calls malloc() */
	CUresult missing;     /* of a library without code for this GPU: why; else 0 */
	uint64_t base, bytes; /* where all variables are; 0 if there are none */
	/* While it is loaded: where those in managed memory are. */
	const struct dev_managed *managed;
	unsigned n_managed;
	bool managed_set;
};

/* Ends the module without waiting for anything. */
void soft_module_free(struct dev_module *mod);

/* Returns what one block of f with that many threads takes of an SM. */
struct soft_need soft_func_need(const struct dev_func *f, unsigned threads,
				uint64_t shared_bytes);

/* Largest dynamic shared memory of a launch now. */
uint32_t soft_func_max_dynamic(const struct dev_func *f);

/* device_ops */
CUresult soft_module_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			  struct dev_jit *jit, struct dev_module **ret_module);
CUresult soft_module_managed(struct dev_ctx *ctx, const void *image, size_t image_size,
			     struct dev_managed **ret, unsigned *ret_n);
CUresult soft_library_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			   struct dev_jit *jit, struct dev_module **ret_module);
void soft_module_unload(struct dev_module *mod);
CUresult soft_module_status(struct dev_module *mod);
CUresult soft_module_function_count(struct dev_module *mod, unsigned *ret_n);
uint64_t soft_module_memory(struct dev_module *mod);
CUresult soft_module_function(struct dev_module *mod, const char *name,
			      struct dev_func **ret_func);
CUresult soft_module_global(struct dev_module *mod, const char *name,
			    CUdeviceptr *ret_addr, size_t *ret_size);
CUresult soft_module_function_at(struct dev_module *mod, unsigned index,
				 struct dev_func **ret_func, const char **ret_name);
CUresult soft_func_attribute(struct dev_func *f, CUfunction_attribute attr,
			     int *ret_value);
CUresult soft_func_set_attribute(struct dev_func *f, CUfunction_attribute attr,
				 int value);
CUresult soft_func_param(struct dev_func *f, unsigned index, struct dev_param *ret_p);
CUresult soft_func_clusters(struct dev_func *f, const struct dev_launch *l, bool largest,
			    int *ret_n);
CUresult soft_func_occupancy(struct dev_func *f, int block_size, size_t shared_bytes,
			     unsigned flags, int *ret_blocks);
CUresult soft_launch(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct dev_launch *l);

#endif
