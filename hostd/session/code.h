/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries, and their functions, as a session has them. A module belongs to
 * a context and is loaded there, once. A library belongs to none: it is loaded into a
 * context when something of it is first used there, outlives contexts, and so do its
 * kernels; cudaDeviceReset() and programs with two contexts rely on that.
 *
 * Instances are objects without a handle: the module holds one reference, a command that
 * uses one another. Lists are under the lock of the object table.
 */
#ifndef WEFT_SESS_CODE_H
#define WEFT_SESS_CODE_H

#include "memory/hostmem.h"
#include "session/image.h"
#include "session/object.h"

struct sess_lane;

#define SESS_FUNC_ATTRS 16

/* The image of a library, which devices may look at: shared by its instances. */
struct sess_image {
	struct sess_obj obj;
	struct image image;
};

/* A module's image as loaded in a context (obj.ctx). */
struct sess_inst {
	struct sess_obj obj;
	struct sess_image *image; /* of a library: a reference */
	struct list in_mod;       /* unlinked once its context or module is gone */
	struct dev_module *dev;
	struct ptx_extents *extents; /* its module's, for nodes of graphs: a reference */
};

/* CUmodule and CUlibrary alike. */
struct sess_module {
	struct sess_obj obj; /* ctx: NULL of a library */
	struct list insts;
	struct list funcs;        /* found in it so far */
	struct list in_session;   /* session.libraries */
	struct sess_image *image; /* of a library: a reference */
	bool looked_at;           /* for atomics; under objs.lock */
	struct dev_jit jit;       /* of a library: options for further contexts */
	_Atomic bool told;        /* that it has no code: counted once */
	/* Where its kernels reach memory; NULL: nobody wants to know, or nothing is known. */
	struct ptx_extents *extents;
	struct dev_jit_option options[DEV_JIT_OPTIONS_MAX];
	/* A library's variables in managed memory (jit.managed), and the host memory that
	 * they are in; NULL: none were asked for, or it has none. */
	struct dev_managed *managed;
	struct hostmem_region managed_in;
};

/* CUfunction and CUkernel alike. */
struct sess_func {
	struct sess_obj obj;     /* ctx: NULL if it is of a library */
	struct sess_module *mod; /* a reference */
	struct list in_mod;
	char *name;
	const struct ptx_extent *extent; /* of mod->extents, or NULL */
	struct sess_inst *inst; /* where dev is from; no reference: compared only */
	struct dev_func *dev;
	/* Attributes that were set, for further contexts. */
	int32_t set[SESS_FUNC_ATTRS];
	uint32_t set_mask;
	_Atomic uint32_t traced; /* index of its name in a trace, or 0 */
};

/*
 * Makes a module for handle h and loads it into ctx. A library takes the image over. What the
 * image was compiled from, or the image itself, tells where kernels reach memory: a guess, which
 * the guest may get wrong to its own cost. The caller holds the reference.
 */
CUresult sess_module_new(struct session *s, struct sess_ctx *ctx, uint64_t h,
			 struct image *img, const struct image *source,
			 struct dev_jit *jit, struct sess_module **ret_m);

/* Finds the variables in managed memory of a library that is to be made of img, and gives them
 * host memory that the session shares: for jit and the library that it makes. NULL: there are
 * none, or no such memory. */
struct dev_managed *sess_managed_new(struct session *s, struct sess_ctx *ctx,
				     const struct image *img, unsigned *ret_n,
				     struct hostmem_region *ret_in);
void sess_managed_free(struct session *s, struct dev_managed *v,
		       const struct hostmem_region *in);

/* Whether code that the session has loaded has atomics of system scope (device/atomics.h). Libraries
 * of up to 32 MiB are looked at by the first call after they were loaded, modules of up to 1 MiB when
 * they are loaded. */
bool sess_system_atomics(struct session *s);

/* Takes its functions out of the tables. */
void sess_module_drop_functions(struct session *s, struct sess_module *m);

/*
 * The module as it is in ctx (of a library, loaded there if it was not; of a module,
 * wherever it is). Valid until the command ends.
 */
CUresult sess_module_in(struct sess_lane *sl, struct sess_module *m, struct sess_ctx *ctx,
			struct sess_inst **ret_inst);

/* Makes a function for handle h, not findable yet. */
CUresult sess_func_new(struct session *s, struct sess_module *m, uint64_t h,
		       const char *name, struct sess_inst *inst, struct dev_func *dev,
		       struct sess_func **ret_f);

/* The function as it is in ctx. Valid until the command ends. */
CUresult sess_func_in(struct sess_lane *sl, struct sess_func *f, struct sess_ctx *ctx,
		      struct dev_func **ret_dev);

/* As sess_func_in(), with a reference on what keeps it alive, for the caller to drop. */
CUresult sess_func_hold(struct sess_lane *sl, struct sess_func *f, struct sess_ctx *ctx,
			struct dev_func **ret_dev, struct sess_obj **ret_ref);

/* Sets an attribute, here and in contexts to come. */
CUresult sess_func_set(struct sess_lane *sl, struct sess_func *f, struct sess_ctx *ctx,
		       CUfunction_attribute attr, int value);

/* The instances of a context that ends are let go of. */
void sess_libraries_drop_ctx(struct session *s, struct sess_ctx *ctx);

#endif
