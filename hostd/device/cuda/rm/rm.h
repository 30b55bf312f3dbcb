/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the driver library to the kernel's resource manager, on their way there:
 * rm.c defines ioctl() for the whole process. Some of them have settings that any process
 * may choose for what is its own, and that the library has no call for.
 */
#ifndef WEFT_DEVICE_CUDA_RM_H
#define WEFT_DEVICE_CUDA_RM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* Names and numbers as in NVIDIA's open kernel modules, release 580. */
#define NV_IOCTL_MAGIC         'F'
#define NV_ESC_RM_ALLOC_MEMORY 0x27
#define NV_ESC_RM_FREE         0x29
#define NV_ESC_RM_CONTROL      0x2a
#define NV_ESC_RM_ALLOC        0x2b

/* Common beginning of NVOS21_PARAMETERS and NVOS64_PARAMETERS. */
struct rm_alloc {
	uint32_t root, parent, object, class;
	uint64_t params;
};

/* NVOS64_PARAMETERS has 48 bytes, NVOS21_PARAMETERS 32; where each has its status. */
#define RM_ALLOC_WITH_RIGHTS 48
#define RM_STATUS_AT         28
#define RM_STATUS_AT_RIGHTS  40

/* NVOS00_PARAMETERS */
struct rm_free {
	uint32_t root, parent, object, status;
};

/* NVOS54_PARAMETERS */
struct rm_control {
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t size, status;
};

/* The kernel's ioctl(), to which ours goes on; tests put theirs there. */
extern long (*cuda_rm_kernel)(int fd, unsigned long request, void *arg);
/* The driver's file, in which its memory is mapped; likewise. */
extern const char *cuda_rm_file;

/* The resource manager's own answer to a call that the kernel took; 0: done. It lies
 * behind what both forms of NV_ESC_RM_ALLOC begin with, and at its end. */
static inline uint32_t *cuda_rm_status(unsigned long request, struct rm_alloc *a)
{
	size_t at = _IOC_SIZE(request) >= RM_ALLOC_WITH_RIGHTS ? RM_STATUS_AT_RIGHTS
							       : RM_STATUS_AT;

	return (uint32_t *)((char *)a + at);
}

#endif
