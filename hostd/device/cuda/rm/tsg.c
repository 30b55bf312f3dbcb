/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdbool.h>

#include "device/cuda/rm/tsg.h"

#define NVA06C_CTRL_CMD_SET_TIMESLICE 0xa06c0103u
#define NV2080_ENGINE_TYPE_COPY0      0x09u
#define NV2080_ENGINE_TYPE_COPY9      0x12u
#define NV2080_ENGINE_TYPE_COPY10     0x34u
#define NV2080_ENGINE_TYPE_COPY19     0x3du

/* The beginning of NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS. */
struct group_params {
	uint32_t error, ecc_error, va_space, engine;
};

static _Atomic unsigned n_slices;

unsigned cuda_tsg_slices(void)
{
	return atomic_load(&n_slices);
}

static bool is_copy_engine(uint32_t engine)
{
	return (engine >= NV2080_ENGINE_TYPE_COPY0 &&
		engine <= NV2080_ENGINE_TYPE_COPY9) ||
	       (engine >= NV2080_ENGINE_TYPE_COPY10 &&
		engine <= NV2080_ENGINE_TYPE_COPY19);
}

void cuda_tsg_made(int fd, const struct rm_alloc *group)
{
	const struct group_params *p =
		(const struct group_params *)(uintptr_t)group->params;
	uint64_t us = CUDA_TSG_COPY_US;
	struct rm_control c = {.client = group->root,
			       .object = group->object,
			       .cmd = NVA06C_CTRL_CMD_SET_TIMESLICE,
			       .params = (uintptr_t)&us,
			       .size = sizeof(us)};

	if (!is_copy_engine(p->engine))
		return;
	if (cuda_rm_kernel(fd,
			   _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_CONTROL, struct rm_control),
			   &c) == 0 &&
	    c.status == 0)
		atomic_fetch_add(&n_slices, 1);
}
