/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: the table of host memory
 *
 * A sorted array of ranges under a lock. Copies look up each host address that they are
 * given, and must not lock: beside it lies an array with what they need, read under a
 * sequence count. Where a program has no such memory, that is one load.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "object/hostmem.h"
#include "object/managed.h"
#include "core/process.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct hostmem *ranges; /* sorted by base */
static size_t n_ranges, room;
static uint64_t next_id = 1;

/* Shared range, as copies read it without a lock. */
struct span {
	_Atomic uint64_t base, size, dev;
};

static _Atomic unsigned seq; /* odd: being changed */
static struct span *_Atomic spans;
static _Atomic size_t n_spans;
static size_t span_room;

/* Index of the first range that ends after addr. */
static size_t lower_bound_locked(uintptr_t addr)
{
	size_t lo = 0, hi = n_ranges;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ranges[mid].base + ranges[mid].size <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool make_room_locked(void)
{
	size_t n = room ? 2 * room : 16;
	struct hostmem *p;
	struct span *s;

	if (n_ranges < room)
		return true;
	p = realloc(ranges, n * sizeof(*p));
	if (!p)
		return false;
	ranges = p;
	room = n;
	if (span_room >= n)
		return true;
	s = calloc(n, sizeof(*s));
	if (!s) {
		room = n_ranges;
		return false;
	}
	/* Somebody may still read the old one, so it stays: all of them together are as
	 * large as the last. */
	for (size_t i = 0; i < n_ranges; i++) {
		atomic_init(&s[i].base, ranges[i].base);
		atomic_init(&s[i].size, ranges[i].size);
		atomic_init(&s[i].dev, ranges[i].dev);
	}
	span_room = n;
	atomic_store_explicit(&spans, s, memory_order_release);
	return true;
}

/* Brings the spans from index `from` on up to date. */
static void publish_locked(size_t from)
{
	struct span *s = atomic_load_explicit(&spans, memory_order_relaxed);

	/* Pairs with the loads in view_once(). */
	atomic_fetch_add_explicit(&seq, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = from; i < n_ranges; i++) {
		atomic_store_explicit(&s[i].base, ranges[i].base, memory_order_relaxed);
		atomic_store_explicit(&s[i].size, ranges[i].size, memory_order_relaxed);
		atomic_store_explicit(&s[i].dev, ranges[i].dev, memory_order_relaxed);
	}
	atomic_store_explicit(&n_spans, n_ranges, memory_order_release);
	atomic_fetch_add_explicit(&seq, 1, memory_order_release);
}

static CUresult insert_locked(const struct hostmem *h)
{
	size_t at = lower_bound_locked(h->base);

	if (at < n_ranges && ranges[at].base < h->base + h->size)
		return ranges[at].registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
					     : CUDA_ERROR_INVALID_VALUE;
	if (!make_room_locked())
		return CUDA_ERROR_OUT_OF_MEMORY;
	memmove(&ranges[at + 1], &ranges[at], (n_ranges - at) * sizeof(*ranges));
	ranges[at] = *h;
	ranges[at].id = next_id++;
	n_ranges++;
	publish_locked(at);
	return CUDA_SUCCESS;
}

CUresult hostmem_insert(const struct hostmem *h)
{
	CUresult r;

	pthread_rwlock_wrlock(&lock);
	r = insert_locked(h);
	pthread_rwlock_unlock(&lock);
	return r;
}

bool hostmem_replace(const struct hostmem *h)
{
	bool found;
	size_t at;

	pthread_rwlock_wrlock(&lock);
	at = lower_bound_locked(h->base);
	found = at < n_ranges && ranges[at].base == h->base;
	if (found) {
		uint64_t id = ranges[at].id;

		ranges[at] = *h;
		ranges[at].id = id;
		publish_locked(at);
	}
	pthread_rwlock_unlock(&lock);
	return found;
}

void hostmem_set_where(const struct hostmem *h)
{
	size_t at;

	pthread_rwlock_wrlock(&lock);
	at = lower_bound_locked(h->base);
	if (at < n_ranges && ranges[at].id == h->id)
		ranges[at].where = h->where;
	pthread_rwlock_unlock(&lock);
}

static void take_locked(size_t at, struct hostmem *ret)
{
	*ret = ranges[at];
	n_ranges--;
	memmove(&ranges[at], &ranges[at + 1], (n_ranges - at) * sizeof(*ranges));
	publish_locked(at);
}

bool hostmem_take(uintptr_t base, bool registered, struct hostmem *ret)
{
	bool found;
	size_t at;

	pthread_rwlock_wrlock(&lock);
	at = lower_bound_locked(base);
	found = at < n_ranges && ranges[at].base == base &&
		ranges[at].registered == registered;
	if (found)
		take_locked(at, ret);
	pthread_rwlock_unlock(&lock);
	return found;
}

bool hostmem_take_of(uint64_t wire_id, struct hostmem *ret)
{
	size_t at;

	pthread_rwlock_wrlock(&lock);
	at = n_ranges; /* from the end: nothing has to close up */
	while (at && (ranges[at - 1].ctx != wire_id || ranges[at - 1].alias))
		at--;
	if (at)
		take_locked(at - 1, ret);
	pthread_rwlock_unlock(&lock);
	return at;
}

bool hostmem_find(uintptr_t addr, struct hostmem *ret_range)
{
	bool found;
	size_t at;

	pthread_rwlock_rdlock(&lock);
	at = lower_bound_locked(addr);
	found = at < n_ranges && ranges[at].base <= addr;
	if (found)
		*ret_range = ranges[at];
	pthread_rwlock_unlock(&lock);
	return found;
}

/* Finds the span that contains addr in one version of the array; false: it changed. */
static bool view_once(uint64_t addr, struct hostmem *ret)
{
	unsigned before = atomic_load_explicit(&seq, memory_order_acquire);
	/* Acquire: the array loaded next has room for that many. */
	size_t lo = 0, hi = atomic_load_explicit(&n_spans, memory_order_acquire);
	struct span *s = atomic_load_explicit(&spans, memory_order_acquire);

	ret->size = 0;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		uint64_t base = atomic_load_explicit(&s[mid].base, memory_order_relaxed);
		uint64_t size = atomic_load_explicit(&s[mid].size, memory_order_relaxed);

		if (addr - base < size) {
			ret->base = base;
			ret->size = size;
			ret->dev =
				atomic_load_explicit(&s[mid].dev, memory_order_relaxed);
			break;
		}
		if (base < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	atomic_thread_fence(memory_order_acquire);
	return !(before & 1) &&
	       atomic_load_explicit(&seq, memory_order_relaxed) == before;
}

enum hostmem_view hostmem_view(uint64_t addr, uint64_t size, uint64_t *ret_dev)
{
	bool ours = addr - guest_process.host_base < guest_process.host_size;
	struct hostmem h;

	if (!atomic_load_explicit(&n_spans, memory_order_relaxed))
		return ours ? HOSTMEM_OUTSIDE : HOSTMEM_PRIVATE;
	while (!view_once(addr, &h))
		__builtin_ia32_pause();
	if (!h.size || !h.dev)
		return ours ? HOSTMEM_OUTSIDE : HOSTMEM_PRIVATE;
	if (size > h.base + h.size - addr)
		return ours ? HOSTMEM_OUTSIDE : HOSTMEM_PRIVATE;
	*ret_dev = h.dev + (addr - h.base);
	return HOSTMEM_SHARED;
}

bool hostmem_device_sees(CUdeviceptr *p)
{
	uint64_t dev = *p;

	if (guest_is_device(dev))
		return true;
	if (hostmem_view(dev, 1, &dev) != HOSTMEM_SHARED)
		return false;
	*p = dev;
	return true;
}

/* ---- forks ---- */

/*
 * Pages that lie under registered memory are shared with the device and would be with a
 * child. Natively they are pinned, and the kernel copies what is pinned when a process
 * forks: so are these, by the thread that forks, which costs the same. What
 * cuMemHostAlloc() gave stays shared, as the driver's is.
 */
static _Thread_local struct child_pages {
	uintptr_t at;
	size_t size;
	void *copy; /* NULL: of its own only where it writes */
} * child_pages;
static _Thread_local size_t n_child_pages;

static void *copy_pages(uintptr_t at, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memcpy(p, (const void *)at, size);
	return p;
}

void hostmem_before_fork(void)
{
	pthread_rwlock_rdlock(&lock);
	child_pages = n_ranges ? calloc(n_ranges, sizeof(*child_pages)) : NULL;
	for (size_t i = 0; child_pages && i < n_ranges; i++) {
		const struct hostmem *h = &ranges[i];
		uintptr_t at = ALIGN_DOWN(h->base, HOSTMEM_PAGE);
		size_t size = ALIGN_UP(h->base + h->size, HOSTMEM_PAGE) - at;

		if (!h->registered || h->alias || !h->region.size)
			continue;
		child_pages[n_child_pages++] =
			(struct child_pages){at, size, copy_pages(at, size)};
	}
}

static void forget_child_pages(void)
{
	free(child_pages);
	child_pages = NULL;
	n_child_pages = 0;
}

void hostmem_after_fork_parent(void)
{
	for (size_t i = 0; i < n_child_pages; i++) {
		if (child_pages[i].copy)
			munmap(child_pages[i].copy, child_pages[i].size);
	}
	forget_child_pages();
	pthread_rwlock_unlock(&lock);
}

static void put_in_place(const struct child_pages *c, uint64_t offset)
{
	void *at = (void *)c->at;

	if (!c->copy ||
	    mremap(c->copy, c->size, c->size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at)
		link_map_over(guest_process.link, at, offset, c->size, true);
}

void hostmem_after_fork_child(void)
{
	const struct child_pages *c = child_pages;

	pthread_rwlock_init(&lock, NULL);
	hostmem_swap_after_fork();
	managed_after_fork();
	for (size_t i = 0; c < child_pages + n_child_pages && i < n_ranges; i++) {
		if (ALIGN_DOWN(ranges[i].base, HOSTMEM_PAGE) != c->at)
			continue;
		hostmem_drop_own(ranges[i].own, c->size);
		put_in_place(c++, ranges[i].region.offset);
	}
	forget_child_pages();
}
