/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time-slice groups: the channels of a process that share an engine take turns with those
 * of others, 1,024 us each on a copy engine (driver 580, H200). That is also how long the
 * driver itself waits there before it can set access to memory, and how long anybody's
 * copy of 4 KiB waits behind another process's copy of 1 GiB. In slices of 50 us the
 * former takes 56 us instead of 927, the latter 59 instead of 1,056; two processes that
 * copy the same way share 53.6 GB/s instead of 55.1, one alone loses nothing
 * (tests/bench/README.md).
 *
 * A group belongs to who made it, and may be told its slice by him. The driver library
 * makes it with ioctl(), which is therefore defined here, for the whole process.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/cuda_tsg.h"

#define COPY_SLICE_US 50u

/* Names and numbers as in NVIDIA's open kernel modules, release 580. */
#define NV_IOCTL_MAGIC                'F'
#define NV_ESC_RM_CONTROL             0x2a
#define NV_ESC_RM_ALLOC               0x2b
#define KEPLER_CHANNEL_GROUP_A        0xa06cu
#define NVA06C_CTRL_CMD_SET_TIMESLICE 0xa06c0103u
#define NV2080_ENGINE_TYPE_COPY0      0x09u
#define NV2080_ENGINE_TYPE_COPY9      0x12u
#define NV2080_ENGINE_TYPE_COPY10     0x34u
#define NV2080_ENGINE_TYPE_COPY19     0x3du

/* What NVOS21_PARAMETERS and NVOS64_PARAMETERS begin with. */
struct rm_alloc {
	uint32_t root, parent, object, class;
	uint64_t params;
};

/* The beginning of NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS. */
struct group_params {
	uint32_t error, ecc_error, va_space, engine;
};

/* NVOS54_PARAMETERS */
struct rm_control {
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t size, status;
};

static _Atomic unsigned n_slices;

static long to_kernel(int fd, unsigned long request, void *arg)
{
	return syscall(SYS_ioctl, fd, request, arg);
}

long (*cuda_tsg_kernel)(int fd, unsigned long request, void *arg) = to_kernel;

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

/* If the driver does not let it, the group keeps the slice that it has. */
static void set_slice(int fd, const struct rm_alloc *group, uint64_t us)
{
	struct rm_control c = {.client = group->root,
			       .object = group->object,
			       .cmd = NVA06C_CTRL_CMD_SET_TIMESLICE,
			       .params = (uintptr_t)&us,
			       .size = sizeof(us)};
	long r = cuda_tsg_kernel(
		fd, _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_CONTROL, struct rm_control), &c);

	if (r == 0 && c.status == 0)
		atomic_fetch_add(&n_slices, 1);
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	const struct group_params *p;
	struct rm_alloc *a;
	va_list ap;
	long r;

	va_start(ap, request);
	a = va_arg(ap, void *);
	va_end(ap);
	r = cuda_tsg_kernel(fd, request, a);
	if (r != 0 || _IOC_TYPE(request) != NV_IOCTL_MAGIC ||
	    _IOC_NR(request) != NV_ESC_RM_ALLOC || _IOC_SIZE(request) < sizeof(*a) ||
	    a->class != KEPLER_CHANNEL_GROUP_A || !a->params)
		return (int)r;
	p = (const struct group_params *)(uintptr_t)a->params;
	if (is_copy_engine(p->engine))
		set_slice(fd, a, COPY_SLICE_US);
	return (int)r;
}
