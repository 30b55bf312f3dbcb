/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "core/global.h"
#include "core/guest.h"
#include "core/process.h"

#define HOST_PAGE 4096ull

struct range {
	uint64_t addr, size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges; /* by lock */
static unsigned n_ranges, room;
_Atomic unsigned global_count;

static bool covers_locked(uint64_t addr)
{
	for (unsigned i = 0; i < n_ranges; i++) {
		if (addr - ranges[i].addr < ranges[i].size)
			return true;
	}
	return false;
}

bool global_covers(uint64_t addr)
{
	bool hit;

	pthread_mutex_lock(&lock);
	hit = covers_locked(addr);
	pthread_mutex_unlock(&lock);
	return hit;
}

/* Keeps the process from getting memory of its own at a device's address. */
static void keep_clear(uint64_t addr, uint64_t size)
{
	uint64_t first = ALIGN_DOWN(addr, HOST_PAGE),
		 end = ALIGN_UP(addr + size, HOST_PAGE);

	if (mmap((void *)(uintptr_t)first, end - first, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
		 0) == MAP_FAILED)
		log_debug("the program has memory at a variable's address 0x%llx",
			  (unsigned long long)addr);
}

void global_remember(uint64_t addr, uint64_t size)
{
	if (!size || addr - guest_process.band_base < guest_process.band_size)
		return;
	pthread_mutex_lock(&lock);
	if (!covers_locked(addr)) {
		if (n_ranges == room) {
			unsigned n = MAX(2 * room, 16u);
			struct range *more = reallocarray(ranges, n, sizeof(*ranges));

			if (more) {
				ranges = more;
				room = n;
			}
		}
		if (n_ranges < room) {
			ranges[n_ranges++] = (struct range){.addr = addr, .size = size};
			keep_clear(addr, size);
		}
	}
	/* A reader that misses the new count has not been told the address yet. */
	atomic_store_explicit(&global_count, n_ranges, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
}
