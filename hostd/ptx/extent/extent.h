/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a launch of a kernel reaches memory: found in the kernel's PTX once, and worked out for the
 * parameters and the shape of each launch. An address is a parameter and what is added to it, made
 * of indices of threads and blocks, counts of loops and other parameters (MSched's templates:
 * fixed, linear, strided). What is reached by pointers that lie in memory is not known here.
 *
 * A prediction: a kernel may reach less, and, where its PTX is not that of the code that runs or
 * numbers overflow, more.
 */
#ifndef WEFT_PTX_EXTENT_H
#define WEFT_PTX_EXTENT_H

#include "ptx/ptx.h"

struct ptx_extent;

/* A launch, as kernels see it. */
struct ptx_grid {
	uint32_t blocks[3], threads[3];
};

/* Hears of a launch, as much as there is to say: bytes from addr on, or (bytes is 0) that a parameter
 * has this value, and nobody knows what is reached from there. */
typedef void ptx_extent_fn(void *arg, uint64_t addr, uint64_t bytes);

/* Looks at a kernel. NULL: it is too large, takes the address of a parameter, has too many of them,
 * or memory is short; then all its parameters may be addresses. Time is linear in what it has but
 * for loops that are nested very deep. The caller's, any thread. */
struct ptx_extent *ptx_extent_new(const struct ptx_module *m, const struct ptx_func *f);
/* NULL is fine. */
void ptx_extent_free(struct ptx_extent *e);

/*
 * Tells where a launch with these parameters reaches, in strips that are `grain` bytes apart at
 * least, so that what lies between is none of it. Parameters that are cut short are taken to be 0.
 * Any thread, without a lock or an allocation.
 */
void ptx_extent_each(const struct ptx_extent *e, const void *params, size_t size,
		     const struct ptx_grid *shape, uint64_t grain, ptx_extent_fn *fn,
		     void *arg);

/* Whether it reaches memory by addresses that it reads in memory, and so may reach any, or
 * gives them to functions. What these read by themselves is not looked at. */
bool ptx_extent_follows(const struct ptx_extent *e);

/* Memory that it takes. */
size_t ptx_extent_bytes(const struct ptx_extent *e);
/* Accesses to memory of a kernel, and how many of them are known by parameters: for whoever asks
 * how good it is. */
void ptx_extent_counts(const struct ptx_extent *e, unsigned *ret_all,
		       unsigned *ret_known);

#endif
