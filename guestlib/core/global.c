/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "calls.h"
#include "core/global.h"
#include "core/guest.h"
#include "code/module.h"
#include "core/process.h"

#define HOST_PAGE       4096ull
#define GLOBAL_NAME_MAX 32767 /* as the message allows, without the NUL */

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

/* A range that cannot be remembered is only taken for host memory by unified copies. */
static void remember(uint64_t addr, uint64_t size)
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

static CUresult get_global(CUdeviceptr *dptr, size_t *bytes, uint64_t module,
			   const char *name)
{
	const struct module_global_rep *rep;
	struct module_global_cmd *cmd;
	struct lane_reply reply;
	struct guest_module *m;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_ANY, &t);
	size_t len;

	if (r)
		return r;
	if (!name || !*name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	len = strnlen(name, GLOBAL_NAME_MAX + 1);
	if (len > GLOBAL_NAME_MAX)
		return CUDA_ERROR_NOT_FOUND;
	m = module_lookup(module);
	r = m ? module_need(m) : CUDA_ERROR_INVALID_HANDLE;
	if (r)
		return r;
	cmd = begin_module_global(t, (uint32_t)len + 1);
	if (!cmd)
		return guest_lost(t);
	cmd->module = module;
	memcpy(module_global_cmd_name(cmd), name, len + 1);
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	remember(rep->dptr, rep->bytes);
	if (dptr)
		*dptr = rep->dptr;
	if (bytes)
		*bytes = rep->bytes;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule module,
				      const char *name)
{
	return get_global(dptr, bytes, (uintptr_t)module, name);
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				    const char *name)
{
	return get_global(dptr, bytes, (uintptr_t)library, name);
}
