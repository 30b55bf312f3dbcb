/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: ioctl */
#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/cuda/rm/hostpage.h"

/* NVOS32_ATTR_PAGE_SIZE, bits 24:23: as the kernel likes it, 4 KiB, 64 KiB, 2 MiB. */
#define PAGE_SIZE_SHIFT 23
#define PAGE_SIZE_MASK  (3u << PAGE_SIZE_SHIFT)
#define PAGE_BIG        2u
#define PAGE_HUGE       3u
#define HUGE_BYTES      (2ull << 20)

/* To make large pages the kernel moves others together, with the driver's lock held; what
 * that was in vain for is not asked for again so soon. */
#define PAUSE_NS (10 * NSEC_PER_SEC)

/* The beginning of NV_MEMORY_ALLOCATION_PARAMS. */
struct memory_params {
	uint32_t owner, type, flags, width, height, pitch, attr, attr2;
	uint32_t format, compr_covg, zcull_covg;
	uint64_t range_lo, range_hi, size, alignment, offset, limit, address;
};

static _Thread_local bool large;
static _Atomic uint64_t n_huge;
static _Atomic uint64_t not_before_ns[PAGE_HUGE + 1];
static atomic_flag told = ATOMIC_FLAG_INIT;

void cuda_hostpage_large(bool on)
{
	large = on;
}

uint64_t cuda_hostpage_huge(void)
{
	return atomic_load(&n_huge);
}

/* Returns true if the kernel had it in such pages; else nothing has changed. */
static bool alloc_in(uint32_t page, int fd, unsigned long request, struct rm_alloc *a)
{
	struct memory_params *p = (struct memory_params *)(uintptr_t)a->params;
	const struct rm_alloc call = *a;
	const struct memory_params asked = *p;

	if (clock_now_ns() < atomic_load(&not_before_ns[page]))
		return false;
	p->attr |= page << PAGE_SIZE_SHIFT;
	if (cuda_rm_kernel(fd, request, a) == 0 && !*cuda_rm_status(request, a)) {
		atomic_fetch_add(&n_huge, page == PAGE_HUGE ? asked.size : 0);
		return true;
	}
	atomic_store(&not_before_ns[page], clock_now_ns() + PAUSE_NS);
	*p = asked;
	*a = call;
	*cuda_rm_status(request, a) = 0;
	if (page == PAGE_HUGE && !atomic_flag_test_and_set(&told))
		log_info("cuda: no pages of 2 MiB of host memory (any more): mapping it "
			 "takes two to three times as long");
	return false;
}

long cuda_hostpage_alloc(int fd, unsigned long request, struct rm_alloc *a)
{
	const struct memory_params *p =
		(const struct memory_params *)(uintptr_t)a->params;

	if (!large || p->attr & PAGE_SIZE_MASK || !p->size || p->size % HUGE_BYTES)
		return cuda_rm_kernel(fd, request, a);
	for (uint32_t page = PAGE_HUGE; page >= PAGE_BIG; page--) {
		if (alloc_in(page, fd, request, a))
			return 0;
	}
	return cuda_rm_kernel(fd, request, a);
}
