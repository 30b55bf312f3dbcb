/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: ioctl */
#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "device/cuda/rm/userpage.h"

#define NV01_MEMORY_SYSTEM_OS_DESCRIPTOR 0x71u

/* NVOS02_FLAGS: PHYSICALITY_NONCONTIGUOUS, COHERENCY_CACHED, MAPPING_NO_MAP. */
#define OF_PAGES (1u << 4 | 1u << 12 | 1u << 30)

/* nv_ioctl_nvos02_parameters_with_fd */
struct rm_alloc_pages {
	uint32_t root, parent, object, class, flags;
	uint64_t pages, limit;
	uint32_t status, status_pad;
	int fd, fd_pad;
};
static_assert(offsetof(struct rm_alloc_pages, pages) == 24 &&
		      sizeof(struct rm_alloc_pages) == 56,
	      "as the kernel has it");

#define ALLOC_PAGES _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_ALLOC_MEMORY, struct rm_alloc_pages)

static _Thread_local struct {
	void *pages;
	uint64_t size;
	bool made;
} next;

/* File of a device, not of the driver as a whole: -1 until one was seen. */
static _Atomic int device_fd = -1;

void cuda_userpage_saw(int fd)
{
	atomic_store(&device_fd, fd);
}

bool cuda_userpage_ready(void)
{
	return atomic_load(&device_fd) >= 0;
}

void cuda_userpage_begin(void *pages, uint64_t size)
{
	next.pages = pages;
	next.size = size;
	next.made = false;
}

bool cuda_userpage_end(void)
{
	next.pages = NULL;
	return next.made;
}

/* The beginning of NV_MEMORY_ALLOCATION_PARAMS, as far as its size. */
struct memory_params {
	uint32_t before[16];
	uint64_t size;
};

bool cuda_userpage_alloc(unsigned long request, struct rm_alloc *a, long *ret)
{
	const struct memory_params *p =
		(const struct memory_params *)(uintptr_t)a->params;
	struct rm_alloc_pages call = {
		.root = a->root,
		.parent = a->parent,
		.object = a->object,
		.class = NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
		.flags = OF_PAGES,
		.pages = (uintptr_t)next.pages,
		.limit = next.size - 1,
		.fd = -1,
	};
	int fd = atomic_load(&device_fd);

	if (!next.pages || fd < 0 || p->size != next.size)
		return false;
	*ret = cuda_rm_kernel(fd, ALLOC_PAGES, &call);
	*cuda_rm_status(request, a) = call.status;
	a->object = call.object;
	next.made = *ret == 0 && !call.status;
	return true;
}
