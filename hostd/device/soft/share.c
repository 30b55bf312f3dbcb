/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that other processes have too: an allocation moves into a file of its own. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/macros.h"
#include "device/soft/soft.h"
#include "device/soft/physical.h"

/* Copies what was ever written; both are whole pages. */
static int copy_file(int to, int from, uint64_t off, uint64_t size)
{
	off_t end = (off_t)(off + size), at = (off_t)off, hole;
	void *src, *dst;

	src = mmap(NULL, size, PROT_READ, MAP_SHARED, from, (off_t)off);
	dst = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, to, 0);
	while (src != MAP_FAILED && dst != MAP_FAILED) {
		at = lseek(from, at, SEEK_DATA);
		if (at < 0 || at >= end)
			break;
		hole = MIN(lseek(from, at, SEEK_HOLE), end);
		memcpy((char *)dst + ((uint64_t)at - off),
		       (char *)src + ((uint64_t)at - off), (size_t)(hole - at));
		at = hole;
	}
	if (src != MAP_FAILED)
		munmap(src, size);
	if (dst != MAP_FAILED)
		munmap(dst, size);
	return src == MAP_FAILED || dst == MAP_FAILED ? -ENOMEM : 0;
}

/* Has every mapping of c lead to a place in a file. */
static int map_again_locked(struct soft_memory *m, const struct dev_mem *c, int fd,
			    uint64_t off)
{
	int e = 0;

	for (const struct range *r = range_above(&m->mapped, 0); r && e == 0;
	     r = range_next(&m->mapped, r)) {
		if (r->data == c &&
		    band_mmap(soft_as_host(r->start), c->size, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED, fd, (off_t)off) == MAP_FAILED)
			e = -errno;
	}
	return e;
}

/* Gives an allocation a file of its own, so that whoever gets it can see nothing else. */
static int move_out_locked(struct soft_memory *m, struct dev_mem *c)
{
	_cleanup_close_ int fd = fd_memfd("weft-shared", c->size);
	int e = fd;

	if (fd < 0)
		return fd;
	/* Nothing runs on the device meanwhile. */
	pthread_rwlock_wrlock(&m->slices);
	e = copy_file(fd, m->fd, c->off, c->size);
	if (e == 0)
		e = map_again_locked(m, c, fd, 0);
	if (e < 0)
		map_again_locked(m, c, m->fd, c->off);
	pthread_rwlock_unlock(&m->slices);
	if (e < 0)
		return e;
	soft_file_give_back_locked(m, c);
	c->fd = fd_steal(&fd);
	c->off = 0;
	return 0;
}

CUresult soft_mem_export(struct device *dev, struct dev_mem *mem, int *ret_fd)
{
	struct soft_memory *m = &dev->mem;
	int r;

	scoped_lock(&m->lock);
	if (mem->imported)
		return CUDA_ERROR_INVALID_VALUE;
	if (mem->fd < 0) {
		r = move_out_locked(m, mem);
		if (r < 0)
			return soft_as_result(r);
	}
	r = fcntl(mem->fd, F_DUPFD_CLOEXEC, 0);
	if (r < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_fd = r;
	return CUDA_SUCCESS;
}

CUresult soft_mem_import(struct device *dev, int fd, uint64_t size,
			 struct dev_mem **ret_mem)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct dev_mem *c;
	struct stat st;

	/* A file that could be cut short would end the process that touches it. */
	if (!soft_is_granular(&dev->mem, 0, size) || seals < 0 ||
	    !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 ||
	    (uint64_t)st.st_size != size)
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (c->fd < 0) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->size = size;
	c->refs = 1;
	c->imported = true;
	*ret_mem = c;
	return CUDA_SUCCESS;
}
