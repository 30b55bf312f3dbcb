/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gmem.h"

void gmem_init(struct gmem *m)
{
	memset(m, 0, sizeof(*m));
}

static void region_drop(struct gmem_region *r)
{
	munmap(r->map, r->map_size);
	close(r->fd);
}

void gmem_clear(struct gmem *m)
{
	for (unsigned i = 0; i < m->n; i++)
		region_drop(&m->r[i]);
	gmem_init(m);
}

static bool ranges_overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

/* A region may not wrap, in any of the three address spaces in which it lies. */
static int region_check(const struct gmem *m, const struct gmem_region *n)
{
	uint64_t end;

	if (n->size == 0 || __builtin_add_overflow(n->gpa, n->size, &end) ||
	    __builtin_add_overflow(n->uva, n->size, &end) ||
	    __builtin_add_overflow(n->mmap_off, n->size, &end) || end > INT64_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < m->n; i++) {
		const struct gmem_region *r = &m->r[i];

		if (ranges_overlap(r->gpa, r->size, n->gpa, n->size) ||
		    ranges_overlap(r->uva, r->size, n->uva, n->size))
			return -EINVAL;
	}
	return 0;
}

int gmem_add(struct gmem *m, uint64_t gpa, uint64_t size, uint64_t uva, uint64_t mmap_off,
	     int fd)
{
	struct gmem_region n = {
		.gpa = gpa, .size = size, .uva = uva, .mmap_off = mmap_off, .fd = fd};
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start;
	struct stat st;
	void *p;
	int r;

	if (m->n == GMEM_MAX_REGIONS)
		return -ENOSPC;
	r = region_check(m, &n);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* Beyond the end of its file, an access would be a SIGBUS. */
	if (S_ISREG(st.st_mode) && mmap_off + size > (uint64_t)st.st_size)
		return -EINVAL;
	/* Files of huge pages only map at multiples of their block size. */
	if ((uint64_t)st.st_blksize > page && (uint64_t)st.st_blksize <= 1ull << 30 &&
	    ((uint64_t)st.st_blksize & ((uint64_t)st.st_blksize - 1)) == 0)
		page = (uint64_t)st.st_blksize;
	start = ALIGN_DOWN(mmap_off, page);
	n.map_size = mmap_off - start + size;
	p = mmap(NULL, n.map_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		 (off_t)start);
	if (p == MAP_FAILED)
		return -errno;
	/* A core dump of ours must neither hold the guest's memory nor wait for it. */
	(void)madvise(p, n.map_size, MADV_DONTDUMP);
	n.map = p;
	n.base = n.map + (mmap_off - start);
	m->r[m->n++] = n;
	return 0;
}

int gmem_remove(struct gmem *m, uint64_t gpa, uint64_t size, uint64_t uva)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct gmem_region *r = &m->r[i];

		if (r->gpa != gpa || r->size != size || r->uva != uva)
			continue;
		region_drop(r);
		*r = m->r[--m->n];
		m->last = 0;
		return 0;
	}
	return -ENOENT;
}

void *gmem_from_uva(const struct gmem *m, uint64_t uva, uint64_t len)
{
	for (unsigned i = 0; i < m->n; i++) {
		const struct gmem_region *r = &m->r[i];

		if (uva >= r->uva && uva - r->uva < r->size &&
		    len <= r->size - (uva - r->uva))
			return r->base + (uva - r->uva);
	}
	return NULL;
}

static const struct gmem_region *region_of(struct gmem *m, uint64_t gpa)
{
	const struct gmem_region *r = &m->r[m->last];

	if (m->last < m->n && gpa >= r->gpa && gpa - r->gpa < r->size)
		return r;
	for (unsigned i = 0; i < m->n; i++) {
		r = &m->r[i];
		if (gpa >= r->gpa && gpa - r->gpa < r->size) {
			m->last = i;
			return r;
		}
	}
	return NULL;
}

int gmem_iov(struct gmem *m, uint64_t gpa, uint64_t len, struct iovec *iov, unsigned max)
{
	unsigned n = 0;
	uint64_t end;

	if (__builtin_add_overflow(gpa, len, &end))
		return -EFAULT;
	while (len) {
		const struct gmem_region *r = region_of(m, gpa);
		uint64_t part;

		if (!r)
			return -EFAULT;
		if (n == max)
			return -E2BIG;
		part = MIN(len, r->size - (gpa - r->gpa));
		iov[n].iov_base = r->base + (gpa - r->gpa);
		iov[n].iov_len = part;
		n++;
		gpa += part;
		len -= part;
	}
	return (int)n;
}
