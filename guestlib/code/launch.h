/* SPDX-License-Identifier: Apache-2.0 */
/* One launch, as described by any of the functions that launch. */
#ifndef WEFT_GUEST_LAUNCH_H
#define WEFT_GUEST_LAUNCH_H

#include "core/guest.h"

/* Blocks of a cluster: every device holds the first number, a function that consents the
 * second. */
#define CLUSTER_PORTABLE_MAX 8u
#define CLUSTER_MAX          16u

#define LAUNCH_COOPERATIVE   1u /* flags of launch_kernel and graph_kernel */

/* Attributes of a launch that travel as they are, each at most once. */
#define LAUNCH_ATTRS_MAX 16

struct launch_attrs {
	unsigned n;
	const CUlaunchAttribute *v[LAUNCH_ATTRS_MAX];
};

struct launch {
	CUfunction func; /* or a CUkernel */
	unsigned grid[3], block[3], cluster[3];
	unsigned shared_bytes;
	bool cooperative;
	bool ptsz;
	CUstream stream;
	void **params, **extra;
	const struct launch_attrs *attrs; /* NULL: none */
};

struct guest_func;

/* Results of checking a launch; buf: the parameter buffer as a whole, or NULL. */
struct launch_plan {
	struct guest_func *func;
	const void *buf;
	size_t buf_size;
};

/* Checks a launch for all errors that CUDA reports at the call, except those of the
 * stream; *ret_plan is valid as long as *l. */
CUresult launch_check(const struct launch *l, struct launch_plan *ret_plan);

/* Copies the parameters to dst: plan->func->params_size bytes. */
void launch_params(const struct launch *l, const struct launch_plan *plan, void *dst);

/* Writes an attribute to w, as it travels. */
struct wire_launch_attr;
void launch_put_attr(struct wire_launch_attr *w, const CUlaunchAttribute *a);

/* Checks one attribute by itself: CUDA_SUCCESS or the driver's error. */
CUresult launch_check_attr(const CUlaunchAttribute *a);

/*
 * Checks the n attributes of a launch and sorts them: those that are fields of *l are put
 * there, pointers to the others into *attrs, which borrows v. CUDA_SUCCESS or the
 * driver's error.
 */
CUresult launch_parse_attrs(const CUlaunchAttribute *v, unsigned n, struct launch *l,
			    struct launch_attrs *attrs);

/* As launch_parse_attrs(), of a whole configuration, all of which is put into *l. */
CUresult launch_parse_config(const CUlaunchConfig *config, struct launch *l,
			     struct launch_attrs *attrs);

/* Checks a launch and posts it, or adds it to a capture. Fast path; see launch.c. */
CUresult launch_do(const struct launch *l);

#endif
