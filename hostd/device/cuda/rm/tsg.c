/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/log.h"
#include "device/cuda/rm/freezer.h"
#include "device/cuda/rm/switches.h"
#include "device/cuda/rm/tsg.h"

#define NVA06C_CTRL_CMD_SET_TIMESLICE 0xa06c0103u
#define NV2080_ENGINE_TYPE_GRAPHICS   0x01u
#define NV2080_ENGINE_TYPE_COPY0      0x09u
#define NV2080_ENGINE_TYPE_COPY9      0x12u
#define NV2080_ENGINE_TYPE_COPY10     0x34u
#define NV2080_ENGINE_TYPE_COPY19     0x3du

/* The beginning of NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS. */
struct group_params {
	uint32_t error, ecc_error, va_space, engine;
};

/* A context has one that computes; a process has few contexts. */
#define COMPUTE_MAX 16u

struct group {
	int fd;
	uint32_t client, object;
};

static _Atomic unsigned n_slices;

/* Groups that compute, and the slice that they have; 0: the driver's own. */
static struct {
	pthread_mutex_t lock;
	struct group groups[COMPUTE_MAX];
	unsigned n;
	uint64_t us;
} compute = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static bool set_slice(const struct group *g, uint64_t us)
{
	struct rm_control c = {.client = g->client,
			       .object = g->object,
			       .cmd = NVA06C_CTRL_CMD_SET_TIMESLICE,
			       .params = (uintptr_t)&us,
			       .size = sizeof(us)};

	return cuda_rm_kernel(g->fd,
			      _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_CONTROL, struct rm_control),
			      &c) == 0 &&
	       c.status == 0;
}

static void compute_made(const struct group *g)
{
	pthread_mutex_lock(&compute.lock);
	if (compute.n < COMPUTE_MAX)
		compute.groups[compute.n++] = *g;
	else
		log_warning("cuda: a process with more than %u groups that compute: the "
			    "others have the driver's time slice",
			    COMPUTE_MAX);
	if (compute.us)
		set_slice(g, compute.us);
	pthread_mutex_unlock(&compute.lock);
}

void cuda_tsg_made(int fd, const struct rm_alloc *group)
{
	const struct group_params *p =
		(const struct group_params *)(uintptr_t)group->params;
	struct group g = {.fd = fd, .client = group->root, .object = group->object};

	if (p->engine == NV2080_ENGINE_TYPE_GRAPHICS) {
		compute_made(&g);
		cuda_switches_saw_group(group);
		cuda_freezer_saw_group(fd, group);
	} else if (is_copy_engine(p->engine) && set_slice(&g, CUDA_TSG_COPY_US)) {
		atomic_fetch_add(&n_slices, 1);
	}
}

bool cuda_tsg_compute(uint64_t us)
{
	unsigned kept = 0;

	pthread_mutex_lock(&compute.lock);
	/* One whose context has ended is not there any more. */
	for (unsigned i = 0; i < compute.n; i++) {
		if (set_slice(&compute.groups[i], us))
			compute.groups[kept++] = compute.groups[i];
	}
	compute.n = kept;
	compute.us = us;
	pthread_mutex_unlock(&compute.lock);
	return kept > 0;
}
