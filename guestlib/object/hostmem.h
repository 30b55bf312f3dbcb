/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the program has allocated through CUDA or registered. Where the
 * session shares memory with its device it lies in regions of the band that guest, worker
 * and device have mapped; otherwise it is ordinary memory of this process, and the table
 * merely keeps what was asked, for queries.
 */
#ifndef WEFT_GUEST_HOSTMEM_H
#define WEFT_GUEST_HOSTMEM_H

#include "core/guest.h"

#define HOSTMEM_PAGE ((uintptr_t)4096)

/* A region at the worker, mapped in the band; size 0: none. */
struct hostmem_region {
	uint64_t addr, size;
	uint64_t offset; /* in the window's file */
	/* Second mapping of the first twin_size bytes, for memory that is to be
	 * registered; 0: none. */
	uintptr_t twin;
	size_t twin_size;
};

struct hostmem_location {
	int type, id; /* CUmemLocation */
};

/* Whether that is the host, or a part of it. */
static inline bool hostmem_is_host(struct hostmem_location l)
{
	return l.type == CU_MEM_LOCATION_TYPE_HOST ||
	       l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* Where managed memory should be, as the program said. */
struct hostmem_where {
	struct hostmem_location preferred, last; /* last prefetched to */
	bool read_mostly, by_device, by_host;
};

struct managed_mem;
struct carried;

struct hostmem {
	uintptr_t base;
	size_t size;     /* as asked for */
	unsigned flags;  /* CU_MEMHOSTALLOC_* or CU_MEMHOSTREGISTER_* */
	bool registered; /* the program's own */
	bool alias;      /* the device's view of registered memory at host */
	bool managed;    /* cuMemAllocManaged()'s, or */
	bool variable;   /* a library's, and freed with it */
	struct hostmem_where where;
	struct managed_mem *moves; /* its pieces do; NULL: host memory, as all here, or */
	struct carried *carried;   /* there is no window; NULL: not so */
	uintptr_t host;  /* base; of an alias, the registered memory's base */
	uint64_t dev;    /* base as a device address; 0: the device cannot see it */
	uint64_t id;     /* CU_POINTER_ATTRIBUTE_BUFFER_ID, never reused */
	uint64_t ctx;    /* guest_ctx.wire_id of the context that it goes with; 0: none */
	struct hostmem_region region;
	uintptr_t own; /* where registered memory's own pages wait; 0: nowhere */
};

/* Finds the range that contains addr; false: none. Thread-safe. */
bool hostmem_find(uintptr_t addr, struct hostmem *ret_range);

enum hostmem_view {
	HOSTMEM_PRIVATE, /* the program's own memory, registered or not */
	HOSTMEM_SHARED,  /* the device sees all of it */
	HOSTMEM_OUTSIDE, /* begins in shared memory, or where only that may be, but is not
			  * all of it in one range */
};

/*
 * Tells how the device sees [addr, addr + size); *ret_dev, its address there, is written
 * only for HOSTMEM_SHARED. Lock-free, any thread.
 */
enum hostmem_view hostmem_view(uint64_t addr, uint64_t size, uint64_t *ret_dev);

/* Whether the device sees the byte at *p, its own or the host's; then *p is its address there.
 * Any thread. */
bool hostmem_device_sees(CUdeviceptr *p);

/* ---- regions ---- */

/* Makes a region of at least size bytes. NOT_SUPPORTED: this session has none, or no more
 * of them. */
CUresult hostmem_region_new(struct guest_thread *t, size_t size,
			    struct hostmem_region *ret_region);

/* Frees a region, after waiting for the device; one of size 0 is none. */
CUresult hostmem_region_free(struct guest_thread *t, const struct hostmem_region *g);

/* Regions for registered memory: hostmem_region_again() gives one that was kept, with its
 * old contents, or a new one; hostmem_region_keep() keeps it or frees it afterwards. */
CUresult hostmem_region_again(struct guest_thread *t, size_t size,
			      struct hostmem_region *ret_region);
CUresult hostmem_region_keep(struct guest_thread *t, const struct hostmem_region *g);

/* Waits until the work submitted to the current context so far has ended; returns its
 * result. */
CUresult hostmem_wait_device(struct guest_thread *t);

/* Largest allocation of pinned memory, in bytes, that is a block of a shared region. */
#define HOSTMEM_SMALL ((size_t)256 << 10)

/* Allocates h->size bytes, as a block of a region that others share, and fills in base, dev, host
 * and, of managed memory, moves. NOT_SUPPORTED: too large, or there is no such region to be had. */
CUresult hostmem_small_new(struct guest_thread *t, struct hostmem *h);
/* Frees one that is in no table any more, after waiting for the device. */
CUresult hostmem_small_free(struct guest_thread *t, const struct hostmem *h);

/* ---- hostmem_swap.c: the program's pages; at and size are multiples of HOSTMEM_PAGE
 * ----
 */

/* True if these pages can be replaced while the program's other threads use them. */
bool hostmem_may_swap(uintptr_t at, size_t size);

/* Puts the region's pages in the place of ordinary memory, with its contents, and the
 * other way round; stores of other threads in between are kept. *ret_own: where the
 * memory's own pages are meanwhile, or 0. The region's twin is made or used up. 0 or
 * -errno, and then all is as it was, or (-ENOMEM, the other way round) part of it still
 * the region's. */
int hostmem_share_pages(struct hostmem_region *g, uintptr_t at, size_t size,
			uintptr_t *ret_own);
int hostmem_unshare_pages(struct hostmem_region *g, uintptr_t at, size_t size,
			  uintptr_t own);

/* Unmaps, in a forked child, the own of a region's own pages (0: none), where they
 * waited. */
void hostmem_drop_own(uintptr_t own, size_t size);

/* Closes, in a forked child, the parent's descriptors that watch pages. */
void hostmem_swap_after_fork(void);

/* ---- hostmem.c, hostmem_alloc.c and hostmem_register.c ---- */

/* Allocates h->size bytes, with h->flags and h->ctx, and adds the range; fills in the
 * rest of *h. */
CUresult hostmem_alloc(struct guest_thread *t, struct hostmem *h);

/* Allocates as hostmem_alloc() in the current context, unless a capture forbids it. */
CUresult hostmem_alloc_here(struct guest_thread *t, struct hostmem *h);

/* As cuMemHostAlloc(), for the library itself: memory that goes with no context. */
CUresult hostmem_alloc_own(struct guest_thread *t, size_t size, void **ret_p);

/* As cuMemFreeHost(), in a capture as well. */
CUresult hostmem_free(struct guest_thread *t, void *p);

/* Frees an allocation that was found, after waiting for the device. INVALID_VALUE: somebody else
 * has. */
CUresult hostmem_end(struct guest_thread *t, struct hostmem *h);

/* Ends all that was allocated and registered in a context that is about to end, of which
 * ctx and wire_id are handle and guest_ctx.wire_id. Waits for the context's work. */
void hostmem_drop_ctx(struct guest_thread *t, uint64_t ctx, uint64_t wire_id);

/* Registers the program's memory that *h describes, and shares it with the device where
 * that is possible. */
CUresult hostmem_register(struct guest_thread *t, struct hostmem *h);

/* Ends the registration of a range that has been taken out of the table: waits for the
 * device, and gives the program its own pages back. Returns the result of the waiting. */
CUresult hostmem_unregister(struct guest_thread *t, struct hostmem *h);

/* Adds a range; h->id is chosen here. INVALID_VALUE or HOST_MEMORY_ALREADY_REGISTERED
 * if it overlaps another one. */
CUresult hostmem_insert(const struct hostmem *h);

/* Replaces the range that begins at h->base; false if there is none. */
bool hostmem_replace(const struct hostmem *h);

/* Notes where the range that was found should be; nothing if that has been freed. */
void hostmem_set_where(const struct hostmem *h);

/* Takes the range that begins at base, and is registered or allocated as the caller says,
 * out of the table; false if there is none. */
bool hostmem_take(uintptr_t base, bool registered, struct hostmem *ret);

/* Takes any range out of the table that goes with that context; false: there is none
 * left. */
bool hostmem_take_of(uint64_t wire_id, struct hostmem *ret);

/* Surround a fork, in the thread that forks: the child's registered memory is its own,
 * with the contents of before. The table does not change in between. */
void hostmem_before_fork(void);
void hostmem_after_fork_parent(void);
void hostmem_after_fork_child(void);

#endif
