/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "device/soft/soft.h"
#include "device/soft/physical.h"

/* The memory file is sparse: places in it are as plentiful as addresses. */
#define FILE_SIZE_MAX (1ull << 46)
#define FILE_STEP     (1ull << 30)

#define HUGE_PAGE     (2ull << 20)

/* The band is one per process, and so is the device that has it. */
static bool band_taken;

/* One mapping: permissions of all pages, then the table of textures. */
#define PAGES       (DEVICE_BAND_SIZE >> SIMT_PAGE_SHIFT)
#define TABLE_BYTES (PAGES + SOFT_TEXTURES * sizeof(struct simt_texture *))

/* Makes [addr, addr + size) a reserved hole again, whatever was there. */
static int close_range_at(uint64_t addr, uint64_t size, int how)
{
	void *p = band_mmap(soft_as_host(addr), size, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	if (p != soft_as_host(addr)) {
		munmap(p, size); /* a kernel that does not know MAP_FIXED_NOREPLACE */
		return -EEXIST;
	}
	return 0;
}

int soft_memory_init(struct soft_memory *m, uint64_t limit, unsigned granularity)
{
	pthread_rwlockattr_t attr;
	int r;

	*m = (struct soft_memory){.limit = limit, .granularity = granularity, .fd = -1};
	if (__atomic_exchange_n(&band_taken, true, __ATOMIC_ACQUIRE))
		return -EBUSY;
	r = close_range_at(DEVICE_BAND_BASE, DEVICE_BAND_SIZE, BAND_FLAG);
	if (r < 0) {
		__atomic_store_n(&band_taken, false, __ATOMIC_RELEASE);
		return r == -EEXIST ? -EBUSY : r;
	}
	m->perm = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	m->fd = memfd_create("weft-device", MFD_CLOEXEC);
	if (m->perm == MAP_FAILED || m->fd < 0) {
		r = -errno;
		if (m->perm != MAP_FAILED)
			munmap(m->perm, TABLE_BYTES);
		munmap(soft_as_host(DEVICE_BAND_BASE), DEVICE_BAND_SIZE);
		__atomic_store_n(&band_taken, false, __ATOMIC_RELEASE);
		return r;
	}
	m->textures = (struct simt_texture **)(void *)(m->perm + PAGES);
	m->view = (struct simt_memory){.base = DEVICE_BAND_BASE,
				       .size = DEVICE_BAND_SIZE,
				       .perm = m->perm,
				       .textures = m->textures,
				       .num_textures = SOFT_TEXTURES};
	pthread_mutex_init(&m->lock, NULL);
	pthread_rwlockattr_init(&attr);
	/* Otherwise a busy device would keep an unmapping thread waiting for ever. */
	pthread_rwlockattr_setkind_np(&attr,
				      PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&m->slices, &attr);
	pthread_rwlockattr_destroy(&attr);
	return 0;
}

void soft_memory_fini(struct soft_memory *m)
{
	for (const struct range *r = range_above(&m->file, 0); r;
	     r = range_next(&m->file, r))
		free(r->data);
	range_fini(&m->mapped);
	range_fini(&m->reserved);
	range_fini(&m->file);
	range_fini(&m->host);
	munmap(soft_as_host(DEVICE_BAND_BASE), DEVICE_BAND_SIZE);
	munmap(m->perm, TABLE_BYTES);
	close(m->fd);
	pthread_rwlock_destroy(&m->slices);
	pthread_mutex_destroy(&m->lock);
	__atomic_store_n(&band_taken, false, __ATOMIC_RELEASE);
}

void soft_memory_enter(struct soft_memory *m)
{
	pthread_rwlock_rdlock(&m->slices);
}

void soft_memory_leave(struct soft_memory *m)
{
	pthread_rwlock_unlock(&m->slices);
}

/* After this, no slice runs that can have seen the permissions of before. */
static void wait_for_slices(struct soft_memory *m)
{
	pthread_rwlock_wrlock(&m->slices);
	pthread_rwlock_unlock(&m->slices);
}

static void set_perm(struct soft_memory *m, uint64_t addr, uint64_t size,
		     enum simt_perm perm)
{
	uint8_t *p = &m->perm[(addr - m->view.base) >> SIMT_PAGE_SHIFT];

	/* Relaxed: a slice sees old or new; wait_for_slices() orders the rest. */
	for (uint64_t i = 0; i < size >> SIMT_PAGE_SHIFT; i++)
		__atomic_store_n(&p[i], (uint8_t)perm, __ATOMIC_RELAXED);
}

uint32_t soft_memory_texture_add(struct soft_memory *m, struct simt_texture *t)
{
	uint32_t value;

	scoped_lock(&m->lock);
	for (uint32_t i = 0; i < SOFT_TEXTURES; i++) {
		value = (m->last_texture + 1 + i) % SOFT_TEXTURES;
		if (!value || m->textures[value])
			continue;
		/* release pairs with the acquire of who looks it up: it is filled */
		__atomic_store_n(&m->textures[value], t, __ATOMIC_RELEASE);
		m->last_texture = value;
		return value;
	}
	return 0;
}

void soft_memory_texture_remove(struct soft_memory *m, uint32_t value)
{
	scoped_lock(&m->lock);
	__atomic_store_n(&m->textures[value], NULL, __ATOMIC_RELAXED);
	wait_for_slices(m);
}

bool soft_memory_may(const struct soft_memory *m, uint64_t addr, uint64_t size,
		     bool write)
{
	uint64_t off = addr - m->view.base, first, last;

	if (!size)
		return true;
	if (off >= m->view.size || size > m->view.size - off)
		return false;
	first = off >> SIMT_PAGE_SHIFT;
	last = (off + size - 1) >> SIMT_PAGE_SHIFT;
	for (uint64_t i = first; i <= last; i++) {
		if (__atomic_load_n(&m->perm[i], __ATOMIC_RELAXED) <
		    (write ? SIMT_PERM_WRITE : SIMT_PERM_READ))
			return false;
	}
	return true;
}

/* ---- allocations ---- */

void soft_file_give_back_locked(struct soft_memory *m, const struct dev_mem *c)
{
	struct range *r = range_at(&m->file, c->off);

	if (fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)c->off,
		      (off_t)c->size) < 0) {
		log_debug("device: cannot free %llu bytes: %m",
			  (unsigned long long)c->size);
		r->data =
			NULL; /* Not reusable then: its place in the file stays taken. */
		return;
	}
	range_remove(&m->file, r);
}

static void mem_put_locked(struct soft_memory *m, struct dev_mem *c)
{
	if (--c->refs)
		return;
	if (c->fd >= 0)
		close(c->fd);
	else
		soft_file_give_back_locked(m, c);
	if (!c->in_host_memory && !c->imported)
		m->used -= c->size;
	free(c);
}

static int file_place_locked(struct soft_memory *m, uint64_t size, struct dev_mem *c)
{
	uint64_t align = size >= HUGE_PAGE ? HUGE_PAGE : SOFT_PAGE_BYTES;
	uint64_t off, end;
	int r;

	r = range_gap(&m->file, 0, FILE_SIZE_MAX, size, align, &off);
	if (r < 0)
		return r;
	end = ALIGN_UP(off + size, FILE_STEP);
	if (end > m->fd_size) {
		if (ftruncate(m->fd, (off_t)end) < 0)
			return -errno;
		m->fd_size = end;
	}
	r = range_insert(&m->file, off, size, c);
	if (r < 0)
		return r;
	c->off = off;
	return 0;
}

static int mem_new_locked(struct soft_memory *m, uint64_t size, bool in_host_memory,
			  struct dev_mem **ret_mem)
{
	struct dev_mem *c;
	int r;

	if (!in_host_memory && size > m->limit - m->used)
		return -ENOMEM;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	r = file_place_locked(m, size, c);
	if (r < 0) {
		free(c);
		return r;
	}
	c->size = size;
	c->refs = 1;
	c->fd = -1;
	c->in_host_memory = in_host_memory;
	if (!in_host_memory)
		m->used += size;
	*ret_mem = c;
	return 0;
}

static int backing_file(const struct soft_memory *m, const struct dev_mem *c)
{
	return c->fd >= 0 ? c->fd : m->fd;
}

static int map_locked(struct soft_memory *m, uint64_t addr, struct dev_mem *c)
{
	int r = range_insert(&m->mapped, addr, c->size, c);

	if (r < 0)
		return r;
	if (band_mmap(soft_as_host(addr), c->size, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED, backing_file(m, c),
		      (off_t)c->off) == MAP_FAILED) {
		r = -errno;
		range_remove(&m->mapped, range_at(&m->mapped, addr));
		close_range_at(addr, c->size, MAP_FIXED);
		return r;
	}
	if (c->size >= HUGE_PAGE)
		madvise(soft_as_host(addr), c->size,
			MADV_HUGEPAGE); /* where it is allowed */
	c->refs++;
	return 0;
}

/* True if mappings cover [addr, addr + size) without a gap; whole: and none of them
 * reaches out of it. */
static bool covered_locked(struct soft_memory *m, uint64_t addr, uint64_t size,
			   bool whole)
{
	const struct range *r = range_above(&m->mapped, addr);
	uint64_t at = addr, end = addr + size;

	if (!size || end < addr)
		return false;
	for (; at < end; r = range_next(&m->mapped, r)) {
		if (!r || r->start > at || (whole && r->start != at))
			return false;
		at = r->start + r->size;
	}
	return !whole || at == end;
}

static int unmap_locked(struct soft_memory *m, uint64_t addr, uint64_t size)
{
	struct range *mapped;
	int r;

	if (!covered_locked(m, addr, size, true))
		return -EINVAL;
	set_perm(m, addr, size, SIMT_PERM_NONE);
	wait_for_slices(m);
	r = close_range_at(addr, size, MAP_FIXED);
	if (r < 0)
		return r;
	while ((mapped = range_above(&m->mapped, addr)) && mapped->start < addr + size) {
		mem_put_locked(m, mapped->data);
		range_remove(&m->mapped, mapped);
	}
	return 0;
}

/* ---- the device's own memory ---- */

uint64_t soft_memory_alloc(struct soft_memory *m, uint64_t bytes)
{
	uint64_t size = soft_memory_charge(bytes), addr;
	struct dev_mem *c;
	struct range *r;

	if (!bytes || size < bytes)
		return 0;
	scoped_lock(&m->lock);
	if (range_gap(&m->reserved, SOFT_OWN_BASE, SOFT_OWN_BASE + SOFT_OWN_SIZE, size,
		      SOFT_PAGE_BYTES, &addr) < 0)
		return 0;
	if (range_insert(&m->reserved, addr, size, NULL) < 0)
		return 0;
	r = range_at(&m->reserved, addr);
	if (mem_new_locked(m, size, false, &c) < 0) {
		range_remove(&m->reserved, r);
		return 0;
	}
	if (map_locked(m, addr, c) < 0) {
		range_remove(&m->reserved, r);
		addr = 0;
	} else {
		set_perm(m, addr, size, SIMT_PERM_WRITE);
		m->own += size;
	}
	mem_put_locked(m, c); /* the mapping keeps it */
	return addr;
}

void soft_memory_free(struct soft_memory *m, uint64_t addr, uint64_t bytes)
{
	if (!addr)
		return;
	scoped_lock(&m->lock);
	if (unmap_locked(m, addr, soft_memory_charge(bytes)))
		return;
	range_remove(&m->reserved, range_at(&m->reserved, addr));
	m->own -= soft_memory_charge(bytes);
}

/* ---- device_ops ---- */

CUresult soft_reserve(struct device *dev, uint64_t size, uint64_t align, uint64_t addr,
		      CUdeviceptr *ret_addr)
{
	struct soft_memory *m = &dev->mem;
	int r;

	if (!align)
		align = m->granularity;
	if (!soft_is_granular(m, addr, size) || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	align = MAX(align, m->granularity);
	scoped_lock(&m->lock);
	if (!addr)
		r = range_gap(&m->reserved, DEVICE_BAND_BASE, DEVICE_HOST_BASE, size,
			      align, &addr);
	else if (addr < DEVICE_BAND_BASE || addr >= DEVICE_HOST_BASE ||
		 size > DEVICE_HOST_BASE - addr || (addr & (align - 1)))
		r = -EINVAL;
	else
		r = 0;
	if (r == 0)
		r = range_insert(&m->reserved, addr, size, NULL);
	if (r == 0)
		*ret_addr = addr;
	return soft_as_result(r);
}

CUresult soft_unreserve(struct device *dev, CUdeviceptr addr, uint64_t size)
{
	struct soft_memory *m = &dev->mem;
	struct range *r, *mapped;

	scoped_lock(&m->lock);
	r = range_at(&m->reserved, addr);
	if (addr >= SOFT_OWN_BASE || !r || r->start != addr || r->size != size)
		return CUDA_ERROR_INVALID_VALUE;
	mapped = range_above(&m->mapped, addr);
	if (mapped && mapped->start < addr + size)
		return CUDA_ERROR_INVALID_VALUE; /* something is still mapped there */
	range_remove(&m->reserved, r);
	return CUDA_SUCCESS;
}

CUresult soft_mem_create(struct device *dev, uint64_t size, enum dev_memory memory,
			 struct dev_mem **ret_mem)
{
	struct soft_memory *m = &dev->mem;

	if (!soft_is_granular(m, 0, size))
		return CUDA_ERROR_INVALID_VALUE;
	scoped_lock(&m->lock);
	return soft_as_result(
		mem_new_locked(m, size, memory == DEV_MEMORY_HOST, ret_mem));
}

bool soft_mem_compressible(struct device *dev, const struct dev_mem *mem)
{
	return false;
}

void soft_mem_release(struct device *dev, struct dev_mem *mem)
{
	scoped_lock(&dev->mem.lock);
	mem_put_locked(&dev->mem, mem);
}

CUresult soft_map(struct device *dev, CUdeviceptr addr, struct dev_mem *mem)
{
	struct soft_memory *m = &dev->mem;
	struct range *r;

	scoped_lock(&m->lock);
	r = range_at(&m->reserved, addr);
	if (!soft_is_granular(m, addr, mem->size) || addr >= SOFT_OWN_BASE || !r ||
	    mem->size > r->start + r->size - addr)
		return CUDA_ERROR_INVALID_VALUE;
	return soft_as_result(map_locked(m, addr, mem));
}

CUresult soft_unmap(struct device *dev, CUdeviceptr addr, uint64_t size)
{
	if (addr >= SOFT_OWN_BASE)
		return CUDA_ERROR_INVALID_VALUE;
	scoped_lock(&dev->mem.lock);
	return soft_as_result(unmap_locked(&dev->mem, addr, size));
}

/* Where no read or write is refused; the guest's own memory is across the bus. */
static void set_writable_locked(struct soft_memory *m, uint64_t addr, uint64_t size)
{
	const struct range *r = range_above(&m->mapped, addr);
	uint64_t end = addr + size;

	for (; r && r->start < end; r = range_next(&m->mapped, r)) {
		const struct dev_mem *c = r->data;
		uint64_t from = MAX(r->start, addr);
		bool bus = c->fd >= 0 && c->in_host_memory;

		set_perm(m, from, MIN(r->start + r->size, end) - from,
			 bus ? SIMT_PERM_BUS : SIMT_PERM_WRITE);
	}
}

CUresult soft_set_access(struct device *dev, CUdeviceptr addr, uint64_t size,
			 CUmemAccess_flags access)
{
	struct soft_memory *m = &dev->mem;
	enum simt_perm perm;

	if (access == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		perm = SIMT_PERM_NONE;
	else if (access == CU_MEM_ACCESS_FLAGS_PROT_READ)
		perm = SIMT_PERM_READ;
	else if (access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		perm = SIMT_PERM_WRITE;
	else
		return CUDA_ERROR_INVALID_VALUE;
	if (!soft_is_granular(m, addr, size) || addr >= SOFT_OWN_BASE)
		return CUDA_ERROR_INVALID_VALUE;
	scoped_lock(&m->lock);
	if (!covered_locked(m, addr, size, false))
		return CUDA_ERROR_INVALID_VALUE;
	if (perm == SIMT_PERM_WRITE) {
		set_writable_locked(m, addr, size);
		return CUDA_SUCCESS;
	}
	set_perm(m, addr, size, perm);
	wait_for_slices(m);
	return CUDA_SUCCESS;
}

/* ---- host memory of the guest ---- */

CUresult soft_mem_create_in_file(struct dev_ctx *ctx, int fd, uint64_t offset,
				 uint64_t size, struct dev_mem **ret_mem)
{
	struct dev_mem *c;

	if (!soft_is_granular(&ctx->dev->mem, 0, size) || offset % DEVICE_HOST_GRAIN)
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct dev_mem){.off = offset,
			      .size = size,
			      .refs = 1,
			      .in_host_memory = true,
			      .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
	if (c->fd < 0) {
		int r = errno;

		free(c);
		return soft_as_result(r == EBADF ? -EINVAL : -r);
	}
	*ret_mem = c;
	return CUDA_SUCCESS;
}

CUresult soft_host_map(struct dev_ctx *ctx, CUdeviceptr addr, uint64_t size, int fd,
		       uint64_t offset)
{
	struct soft_memory *m = &ctx->dev->mem;
	uint64_t at = addr - DEVICE_HOST_BASE;
	int r;

	static_assert(DEVICE_HOST_GRAIN % SOFT_PAGE_BYTES == 0, "whole pages");
	if (!size || size % DEVICE_HOST_GRAIN || addr % DEVICE_HOST_GRAIN ||
	    offset % DEVICE_HOST_GRAIN || at >= DEVICE_HOST_SIZE ||
	    size > DEVICE_HOST_SIZE - at)
		return CUDA_ERROR_INVALID_VALUE;
	scoped_lock(&m->lock);
	r = range_insert(&m->host, addr, size, NULL);
	if (r < 0)
		return soft_as_result(r);
	if (band_mmap(soft_as_host(addr), size, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED) {
		range_remove(&m->host, range_at(&m->host, addr));
		close_range_at(addr, size, MAP_FIXED);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	set_perm(m, addr, size, SIMT_PERM_WRITE);
	return CUDA_SUCCESS;
}

CUresult soft_host_unmap(struct dev_ctx *ctx, CUdeviceptr addr)
{
	struct soft_memory *m = &ctx->dev->mem;
	struct range *r;

	scoped_lock(&m->lock);
	r = range_at(&m->host, addr);
	if (!r || r->start != addr)
		return CUDA_ERROR_INVALID_VALUE;
	set_perm(m, addr, r->size, SIMT_PERM_NONE);
	wait_for_slices(m);
	close_range_at(addr, r->size, MAP_FIXED);
	range_remove(&m->host, r);
	return CUDA_SUCCESS;
}

struct owned {
	struct list link; /* dev_ctx.owned */
	uint64_t addr, size;
};

CUresult soft_own(struct dev_ctx *ctx, uint64_t size, CUdeviceptr *ret_addr)
{
	struct owned *o = calloc(1, sizeof(*o));

	if (o)
		o->addr = soft_memory_alloc(&ctx->dev->mem, size);
	if (!o || !o->addr) {
		free(o);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	o->size = size;
	scoped_lock(&ctx->dev->lock);
	list_append(&ctx->owned, &o->link);
	*ret_addr = o->addr;
	return CUDA_SUCCESS;
}

void soft_disown(struct dev_ctx *ctx)
{
	struct owned *o, *tmp;

	list_for_each_safe (o, tmp, &ctx->owned, link) {
		soft_memory_free(&ctx->dev->mem, o->addr, o->size);
		free(o);
	}
}
