/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/cuda/rm/freezer.h"
#include "device/cuda/rm/hostpage.h"
#include "device/cuda/rm/rm.h"
#include "device/cuda/rm/switches.h"
#include "device/cuda/rm/tsg.h"
#include "device/cuda/rm/userpage.h"

#define NV01_MEMORY_SYSTEM     0x3eu
#define NV20_SUBDEVICE_0       0x2080u
#define KEPLER_CHANNEL_GROUP_A 0xa06cu
/* All GPFIFO channels: ampere's is 0xc56f, hopper's 0xc86f. */
#define CHANNEL_GPFIFO 0x6fu

static long to_kernel(int fd, unsigned long request, void *arg)
{
	return syscall(SYS_ioctl, fd, request, arg);
}

long (*cuda_rm_kernel)(int fd, unsigned long request, void *arg) = to_kernel;

static void made(int fd, const struct rm_alloc *a)
{
	if (a->class == KEPLER_CHANNEL_GROUP_A && a->params)
		cuda_tsg_made(fd, a);
	if (a->class == NV20_SUBDEVICE_0) {
		cuda_switches_saw_device(fd, a);
		cuda_freezer_saw_device(fd, a);
	}
	if ((a->class & 0xff) == CHANNEL_GPFIFO)
		cuda_freezer_saw_channel(fd, a);
}

static long free_object(int fd, unsigned long request, const struct rm_free *f)
{
	long r = cuda_rm_kernel(fd, request, (void *)f);

	if (r == 0 && f->status == 0)
		cuda_freezer_freed(f->root, f->object);
	return r;
}

static long alloc(int fd, unsigned long request, struct rm_alloc *a)
{
	long r;

	if (a->class == NV01_MEMORY_SYSTEM && a->params)
		return cuda_userpage_alloc(request, a, &r)
			       ? r
			       : cuda_hostpage_alloc(fd, request, a);
	r = cuda_rm_kernel(fd, request, a);
	if (r == 0 && *cuda_rm_status(request, a) == 0)
		made(fd, a);
	return r;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (arg && _IOC_TYPE(request) == NV_IOCTL_MAGIC &&
	    _IOC_NR(request) == NV_ESC_RM_ALLOC && _IOC_SIZE(request) > RM_STATUS_AT)
		return (int)alloc(fd, request, arg);
	if (arg && request == _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_FREE, struct rm_free))
		return (int)free_object(fd, request, arg);
	if (_IOC_TYPE(request) == NV_IOCTL_MAGIC &&
	    _IOC_NR(request) == NV_ESC_RM_ALLOC_MEMORY)
		cuda_userpage_saw(fd);
	return (int)cuda_rm_kernel(fd, request, arg);
}
