// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: cuMemHostAlloc(), cuMemHostRegister() and their kin
 *
 * An allocation is a region of the band: the worker makes it and maps it for the device,
 * then it is mapped here at the same address. Registering memory of the program makes a
 * region as well, copies the contents over and puts the region's pages in the place of
 * the program's; the device knows them by the region's address, the alias. That works for
 * private anonymous memory alone, and only if no page belongs to others in part (unless
 * there is one thread): what another thread wrote to the rest of a page meanwhile would
 * be lost. Memory that cannot be shared is ordinary memory: copies work, mapping does
 * not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>

#include "calls.h"
#include "context.h"
#include "hostmem.h"
#include "move.h"
#include "process.h"
#include "refuse.h"

#define ALLOC_FLAGS                                                                      \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |                          \
	 CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                   \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                    \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)
/* Registered memory that stays where it is. */
#define REGISTER_ALIEN (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

/* From here on helper threads copy. */
#define HELPED_BYTES (4u << 20)

/* ---- regions ---- */

CUresult hostmem_region_free(struct guest_thread *t, const struct hostmem_region *g)
{
	struct host_free_cmd *cmd;
	struct lane_reply reply;

	if (!g->size)
		return CUDA_SUCCESS;
	/* First, for the next region may come to the same place. */
	link_unmap(guest_process.link, g->addr, g->size);
	cmd = begin_host_free(t);
	if (!cmd)
		return guest_lost(t);
	cmd->addr = g->addr;
	return guest_call(t, sizeof(struct host_free_rep), &reply);
}

CUresult hostmem_region_new(struct guest_thread *t, size_t size,
			    struct hostmem_region *ret_region)
{
	const struct host_alloc_rep *rep;
	struct host_alloc_cmd *cmd;
	struct hostmem_region g;
	struct lane_reply reply;
	CUresult r;

	if (!guest_process.host_size)
		return CUDA_ERROR_NOT_SUPPORTED;
	cmd = begin_host_alloc(t);
	if (!cmd)
		return guest_lost(t);
	cmd->size = size;
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	g = (struct hostmem_region){rep->addr, rep->mapped, rep->offset};
	if (g.size < size || g.addr - guest_process.host_base >= guest_process.host_size)
		return guest_broken(t);
	if (link_map(guest_process.link, g.addr, g.offset, g.size) < 0) {
		hostmem_region_free(t, &g);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	*ret_region = g;
	return CUDA_SUCCESS;
}

/* ---- memory of ours ---- */

static CUresult alloc_private(struct hostmem *h)
{
	void *p = mmap(NULL, ALIGN_UP(h->size, HOSTMEM_PAGE), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h->base = (uintptr_t)p;
	return CUDA_SUCCESS;
}

static CUresult free_pages(struct guest_thread *t, const struct hostmem *h)
{
	if (h->region.size)
		return hostmem_region_free(t, &h->region);
	if (h->dev)
		return hostmem_small_free(t, h->base, h->size);
	munmap((void *)h->base, ALIGN_UP(h->size, HOSTMEM_PAGE));
	return CUDA_SUCCESS;
}

static CUresult alloc_pages(struct guest_thread *t, struct hostmem *h)
{
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;
	uint64_t addr;

	if (h->size <= HOSTMEM_SMALL)
		r = hostmem_small_new(t, h->size, &addr);
	if (r == CUDA_ERROR_NOT_SUPPORTED) { /* for a slab there may be no room */
		r = hostmem_region_new(t, h->size, &h->region);
		addr = h->region.addr;
	}
	if (r == CUDA_SUCCESS)
		h->base = h->dev = addr;
	else if (r == CUDA_ERROR_NOT_SUPPORTED &&
		 !(guest_process.host_size && h->flags & CU_MEMHOSTALLOC_DEVICEMAP))
		r = alloc_private(h);
	else if (r == CUDA_ERROR_NOT_SUPPORTED)
		r = CUDA_ERROR_OUT_OF_MEMORY; /* it is to be mapped, or not to be */
	h->host = h->base;
	return r;
}

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t size, unsigned int flags)
{
	struct hostmem h = {.size = size, .flags = flags};
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!pp || size > SIZE_MAX - HOSTMEM_PAGE || (flags & ~(unsigned)ALLOC_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if (!size) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	r = alloc_pages(t, &h);
	if (r)
		return r;
	r = hostmem_insert(&h);
	if (r) {
		free_pages(t, &h);
		return r;
	}
	*pp = (void *)h.base;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t size)
{
	return cuMemHostAlloc(pp, size, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
	struct guest_thread *t;
	struct hostmem h;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!p)
		return CUDA_SUCCESS;
	if (!hostmem_take((uintptr_t)p, false, &h))
		return CUDA_ERROR_INVALID_VALUE;
	return free_pages(t, &h);
}

/* ---- memory of the program ---- */

/* What a line of /proc/self/maps says. */
struct mapping {
	uintptr_t start, end;
	bool plain; /* private, anonymous, readable and writable, no stack */
};

static bool read_mapping(FILE *f, struct mapping *ret)
{
	unsigned long start, end, offset, inode;
	char line[512], perms[8], name[32] = "";
	unsigned major, minor;

	if (!fgets(line, sizeof(line), f))
		return false;
	if (sscanf(line, "%lx-%lx %7s %lx %x:%x %lu %31s", &start, &end, perms, &offset,
		   &major, &minor, &inode, name) < 7)
		return false;
	/* The rest of a long name. */
	while (!strchr(line, '\n') && fgets(line, sizeof(line), f))
		;
	*ret = (struct mapping){
		.start = start,
		.end = end,
		.plain = !strcmp(perms, "rw-p") && !inode && strncmp(name, "[stack", 6),
	};
	return true;
}

/* Whether all pages are plain memory, and nothing else of the program lies in them. */
static bool may_replace(uintptr_t start, uintptr_t end, const struct hostmem *h)
{
	bool head = h->base == start, tail = h->base + h->size == end;
	FILE *f = fopen("/proc/self/maps", "re");
	uintptr_t at = start;
	struct mapping m;

	if (!f)
		return false;
	while (at < end && read_mapping(f, &m)) {
		if (m.end <= at)
			continue;
		if (m.start > at || !m.plain)
			break;
		head |= m.start == start;
		tail |= m.end == end;
		at = m.end;
	}
	fclose(f);
	return at >= end && ((head && tail) || __libc_single_threaded);
}

/* To pages that nobody has touched: in one go, which is several times as fast. */
static void copy_pages(void *dst, const void *src, size_t size)
{
	bool helped = size >= HELPED_BYTES && move_begin();

#ifdef MADV_POPULATE_WRITE
	(void)madvise(dst, size, MADV_POPULATE_WRITE); /* or one by one */
#endif
	move_bytes(dst, src, size, helped);
	if (helped)
		move_end();
}

static void share_pages(struct guest_thread *t, struct hostmem *h)
{
	uintptr_t start = ALIGN_DOWN(h->base, HOSTMEM_PAGE);
	uintptr_t end = ALIGN_UP(h->base + h->size, HOSTMEM_PAGE);
	struct hostmem_region g;

	if (h->flags & REGISTER_ALIEN || !may_replace(start, end, h) ||
	    hostmem_region_new(t, end - start, &g) != CUDA_SUCCESS)
		return;
	copy_pages((void *)(uintptr_t)g.addr, (const void *)start, end - start);
	if (link_map_over(guest_process.link, (void *)start, g.offset, end - start,
			  false) < 0) {
		hostmem_region_free(t, &g);
		return;
	}
#ifdef MADV_POPULATE_WRITE
	(void)madvise((void *)start, end - start, MADV_POPULATE_WRITE);
#endif
	h->region = g;
	h->dev = g.addr + (h->base - start);
}

/* Puts ordinary memory in the place of the region's pages; a reader sees one or the
 * other. */
static CUresult give_back_pages(struct guest_thread *t, const struct hostmem *h)
{
	uintptr_t start = ALIGN_DOWN(h->base, HOSTMEM_PAGE);
	size_t size = ALIGN_UP(h->base + h->size, HOSTMEM_PAGE) - start;
	CUresult sync, r;
	void *p;

	if (!h->region.size)
		return CUDA_SUCCESS;
	sync = hostmem_wait_device(t); /* what it still writes is to be copied, too */
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	copy_pages(p, (const void *)start, size);
	if (mremap(p, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) ==
	    MAP_FAILED) {
		munmap(p, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = hostmem_region_free(t, &h->region);
	return sync ? sync : r;
}

/* The same memory under the address that the device knows. */
static struct hostmem alias_of(const struct hostmem *h)
{
	struct hostmem a = *h;

	a.base = h->dev;
	a.host = h->base;
	a.alias = true;
	return a;
}

CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t size, unsigned int flags)
{
	struct hostmem h = {.base = (uintptr_t)p,
			    .host = (uintptr_t)p,
			    .size = size,
			    .flags = flags,
			    .registered = true};
	struct hostmem alias;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!p || !size || h.base + size < h.base || guest_is_device(h.base) ||
	    h.base + size > SIZE_MAX - HOSTMEM_PAGE ||
	    (flags & ~(unsigned)REGISTER_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	/* Fails where nothing is mapped, and does nothing else. */
	if (msync((void *)ALIGN_DOWN(h.base, HOSTMEM_PAGE), size + h.base % HOSTMEM_PAGE,
		  MS_ASYNC))
		return CUDA_ERROR_INVALID_VALUE;
	/* Holds the place, so that nobody else registers it meanwhile. */
	r = hostmem_insert(&h);
	if (r)
		return r;
	share_pages(t, &h);
	if (!h.region.size)
		return CUDA_SUCCESS;
	alias = alias_of(&h);
	r = hostmem_insert(&alias);
	if (r == CUDA_SUCCESS && hostmem_replace(&h))
		return CUDA_SUCCESS;
	hostmem_take(h.base, true, &alias);
	give_back_pages(t, &h);
	return r ? r : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
	struct guest_thread *t;
	struct hostmem h, alias;
	CUresult r = guest_enter(NEED_ANY, &t);

	if (r)
		return r;
	if (hostmem_find((uintptr_t)p, &h) && h.alias)
		return CUDA_ERROR_INVALID_VALUE;
	if (hostmem_take((uintptr_t)p, true, &h)) {
		if (h.dev)
			hostmem_take(h.dev, true, &alias);
		return give_back_pages(t, &h);
	}
	/* Not the beginning of a range, or no range at all. */
	return hostmem_find((uintptr_t)p, &h) ? CUDA_ERROR_INVALID_VALUE
					      : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

/* ---- questions ---- */

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *flags, void *p)
{
	struct hostmem h;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!flags || !hostmem_find((uintptr_t)p, &h))
		return CUDA_ERROR_INVALID_VALUE;
	/* As the driver answers with unified addressing: all memory is mapped. */
	*flags = h.flags | CU_MEMHOSTALLOC_DEVICEMAP;
	if (!(h.flags & CU_MEMHOSTALLOC_WRITECOMBINED))
		*flags &= ~(unsigned)CU_MEMHOSTALLOC_PORTABLE;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p,
					      unsigned int flags)
{
	struct hostmem h;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!dptr || flags || !hostmem_find((uintptr_t)p, &h))
		return CUDA_ERROR_INVALID_VALUE;
	if (!h.dev)
		return guest_refuse(REFUSAL_FEATURE, "cuMemHostGetDevicePointer");
	*dptr = h.dev + ((uintptr_t)p - h.base);
	return CUDA_SUCCESS;
}
