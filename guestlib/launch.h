/* SPDX-License-Identifier: Apache-2.0 */
/* One launch, as all the functions that launch describe it. */
#ifndef WEFT_GUEST_LAUNCH_H
#define WEFT_GUEST_LAUNCH_H

#include "guest.h"

/* Blocks of a cluster: what every device holds, and with the function's consent. */
#define CLUSTER_PORTABLE_MAX 8u
#define CLUSTER_MAX          16u

#define LAUNCH_COOPERATIVE   1u /* flags of launch_kernel */

struct launch {
	CUfunction func; /* or a CUkernel */
	unsigned grid[3], block[3], cluster[3];
	unsigned shared_bytes;
	bool cooperative;
	bool ptsz;
	CUstream stream;
	void **params, **extra;
};

/* Checks and posts. Fast path; see launch.c. */
CUresult launch_do(const struct launch *l);

#endif
