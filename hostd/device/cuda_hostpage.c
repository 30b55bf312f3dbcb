/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "base/log.h"
#include "device/cuda_hostpage.h"

/* NVOS32_ATTR_PAGE_SIZE, bits 24:23: as the kernel likes it, 4 KiB, 64 KiB, 2 MiB. */
#define PAGE_SIZE_SHIFT 23
#define PAGE_SIZE_MASK  (3u << PAGE_SIZE_SHIFT)
#define PAGE_BIG        2u
#define PAGE_HUGE       3u
#define HUGE_BYTES      (2ull << 20)

/* The beginning of NV_MEMORY_ALLOCATION_PARAMS. */
struct memory_params {
	uint32_t owner, type, flags, width, height, pitch, attr, attr2;
	uint32_t format, compr_covg, zcull_covg;
	uint64_t range_lo, range_hi, size, alignment, offset, limit, address;
};

static _Thread_local bool large;
static _Atomic uint64_t n_huge;
static atomic_flag told = ATOMIC_FLAG_INIT;

void cuda_hostpage_large(bool on)
{
	large = on;
}

uint64_t cuda_hostpage_huge(void)
{
	return atomic_load(&n_huge);
}

long cuda_hostpage_alloc(int fd, unsigned long request, struct rm_alloc *a)
{
	struct memory_params *p = (struct memory_params *)(uintptr_t)a->params;
	const struct rm_alloc call = *a;
	const struct memory_params asked = *p;

	if (!large || p->attr & PAGE_SIZE_MASK || !p->size || p->size % HUGE_BYTES)
		return cuda_rm_kernel(fd, request, a);
	for (uint32_t page = PAGE_HUGE; page >= PAGE_BIG; page--) {
		p->attr |= page << PAGE_SIZE_SHIFT;
		if (cuda_rm_kernel(fd, request, a) == 0 && !*cuda_rm_status(request, a)) {
			atomic_fetch_add(&n_huge, page == PAGE_HUGE ? asked.size : 0);
			return 0;
		}
		*p = asked;
		*a = call;
		*cuda_rm_status(request, a) = 0;
	}
	if (!atomic_flag_test_and_set(&told))
		log_info("cuda: no large pages of host memory (any more): mapping it "
			 "takes three times as long");
	return cuda_rm_kernel(fd, request, a);
}
