/* SPDX-License-Identifier: Apache-2.0 */
/* One launch, as all the functions that launch describe it. */
#ifndef WEFT_GUEST_LAUNCH_H
#define WEFT_GUEST_LAUNCH_H

#include "core/guest.h"

/* Blocks of a cluster: what every device holds, and with the function's consent. */
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

/* What a launch was found to be; buf: the parameter buffer as a whole, or NULL. */
struct launch_plan {
	struct guest_func *func;
	const void *buf;
	size_t buf_size;
};

/* Everything that CUDA refuses at the call but for the stream. */
CUresult launch_check(const struct launch *l, struct launch_plan *ret_plan);

/* The parameter buffer: plan->func->params_size bytes. */
void launch_params(const struct launch *l, const struct launch_plan *plan, void *dst);

/* Puts an attribute on the wire. */
struct wire_launch_attr;
void launch_put_attr(struct wire_launch_attr *w, const CUlaunchAttribute *a);

/* What the driver refuses of one attribute, whatever it is beside. */
CUresult launch_check_attr(const CUlaunchAttribute *a);

/*
 * What the driver refuses of the attributes of a launch; those that are fields of *l are
 * put there, the others into *attrs.
 */
CUresult launch_parse_attrs(const CUlaunchAttribute *v, unsigned n, struct launch *l,
			    struct launch_attrs *attrs);

/* The same of a whole configuration, all of which is put into *l. */
CUresult launch_parse_config(const CUlaunchConfig *config, struct launch *l,
			     struct launch_attrs *attrs);

/* Checks and posts. Fast path; see launch.c. */
CUresult launch_do(const struct launch *l);

#endif
