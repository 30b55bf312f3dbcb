/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries, functions and kernels: the shadows that let the guest answer what
 * it is asked about code, and launch without asking. A library is a module that no
 * context owns; a kernel handle may stand for a function everywhere, so that
 * cuKernelGetFunction() gives the kernel's own handle back.
 */
#ifndef WEFT_GUEST_MODULE_H
#define WEFT_GUEST_MODULE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/guest.h"
#include "object/owned.h"

/* Room for CUfunction_attribute values; more than this toolkit has. */
#define FUNC_ATTRIBUTES 16
static_assert(CU_FUNC_ATTRIBUTE_MAX <= FUNC_ATTRIBUTES, "more attributes than room");

/* Answers about occupancy that a function remembers; a power of two. */
#define FUNC_OCCUPANCY 8

struct func_param {
	uint32_t offset, size;
};

/* An entry function. Constant after it was made, but for the attributes. */
struct guest_func {
	uint64_t handle; /* HANDLE_FUNCTION or HANDLE_KERNEL */
	struct guest_module *module;
	struct guest_func *next;      /* guest_module.funcs */
	struct guest_func *next_name; /* bucket of guest_module.names */
	char *name;
	struct func_old *old; /* api/code/launch_old.c; NULL until it is needed */
	_Atomic int attributes[FUNC_ATTRIBUTES];
	_Atomic uint64_t occupancy[FUNC_OCCUPANCY]; /* occupancy.c; 0: nothing known */
	/* Shapes with which the device has launched the function (launch.c); 0: none
	 * yet */
	_Atomic uint64_t taken_block, taken_cluster;
	uint32_t params_size; /* of the buffer: end of the last parameter */
	unsigned n_params;
	struct func_param params[];
};

/* Functions of a module at most, far more than any library has; each takes 8 bytes before
 * it is asked for. */
#define MODULE_FUNCTIONS_MAX (1u << 20)

struct guest_module {
	struct owned owned; /* of a module; a library belongs to no context */
	uint64_t handle;    /* HANDLE_MODULE or HANDLE_LIBRARY */
	unsigned function_count;
	pthread_mutex_t lock;     /* for what follows */
	const void *image;        /* not at the worker yet: sent when it is needed */
	CUresult failed;          /* error of sending or loading it */
	bool wants_managed;       /* variables in managed memory */
	uintptr_t managed;        /* where they are; 0: nowhere */
	struct guest_func *funcs; /* all, for freeing */
	unsigned n_funcs, n_buckets;
	struct guest_func **names;    /* hash table of funcs by name */
	struct guest_func **by_index; /* function_count of them, filled on demand */
};

/*
 * Loads an image (see image.h) into the current context: cuModuleLoadData,
 * cuModuleLoadDataEx and two private slots. max as in image_part(); options may be NULL
 * if n is 0.
 */
CUresult module_load_image(CUmodule *ret_module, const void *image, size_t max,
			   unsigned n, CUjit_option *options, void **values);

/* Reads a whole file into a malloced buffer with a NUL behind it. */
CUresult module_read_file(const char *path, void **ret_data, size_t *ret_size);

/*
 * Sends an image and loads it under a new handle of type HANDLE_MODULE or HANDLE_LIBRARY;
 * max as in image_part(). The thread has a current context (or, for a library, not).
 */
CUresult module_load_as(struct guest_thread *t, enum handle_type type, const void *image,
			size_t max, unsigned n, CUjit_option *options, void **values,
			struct guest_module **ret_module);

/*
 * Makes a library whose image the program promises to preserve. The image goes to the
 * worker when something of it is asked for: of most libraries that a program is linked
 * with nothing is.
 */
CUresult module_defer(const void *image, struct guest_module **ret_module);

/* Sends the image of a deferred library, if that has not been done. Returns the library's
 * status: CUDA_SUCCESS, or why nothing can be looked up in it. */
CUresult module_need(struct guest_module *m);

/* As module_need(), of a library whose variables in managed memory are to be shared; NOT_FOUND:
 * it has been sent without them, or there are none. */
CUresult module_need_managed(struct guest_module *m);

/* Warns, once, if r says that there is no code for a device that runs PTX only. */
void module_warn_no_code(CUresult r);

/* Finds the shadow of a CUmodule or CUlibrary; NULL: there is none. */
struct guest_module *module_lookup(uint64_t handle);

/* Unloads m at the worker, ends all its handles and frees it. */
CUresult module_unload(struct guest_thread *t, struct guest_module *m);

/* Find a function by name (func_type: HANDLE_FUNCTION or HANDLE_KERNEL) or by index.
 * *ret_func lives as long as m. */
CUresult module_get_func(struct guest_thread *t, struct guest_module *m,
			 enum handle_type func_type, const char *name,
			 struct guest_func **ret_func);
CUresult module_get_func_at(struct guest_thread *t, struct guest_module *m,
			    enum handle_type func_type, unsigned index,
			    struct guest_func **ret_func);

/* Finds the shadow behind a CUfunction or CUkernel; NULL: there is none. Lock-free. */
static inline struct guest_func *func_lookup(const void *f)
{
	uint64_t h = (uintptr_t)f;
	enum handle_type type = handle_type(h);

	if (type != HANDLE_FUNCTION && type != HANDLE_KERNEL)
		return NULL;
	return guest_object(h, type);
}

/* Bodies of cuFuncSetAttribute, cuKernelGetParamInfo and their like. */
CUresult func_set_attribute(struct guest_func *f, CUfunction_attribute attr, int value);
CUresult func_param_info(struct guest_func *f, size_t index, size_t *ret_offset,
			 size_t *ret_size);

/* Counts the blocks that an SM holds at once; block_size: threads, shared: dynamic bytes
 * of each. The answer is remembered (occupancy.c). */
CUresult func_blocks_per_sm(struct guest_func *f, int block_size, size_t shared,
			    unsigned flags, int *ret_blocks);

static inline int func_attribute(struct guest_func *f, CUfunction_attribute attr)
{
	return atomic_load_explicit(&f->attributes[attr], memory_order_relaxed);
}

#endif
