/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest memory: the regions that the VMM shares with the device, and the translation of
 * addresses into them. Every address a guest or the VMM names goes through here; what
 * does not lie wholly inside regions is refused. Not thread-safe.
 */
#ifndef WEFT_GMEM_H
#define WEFT_GMEM_H

#include <stdint.h>
#include <sys/uio.h>

#include "base/macros.h"

/* RAM of a large VM with hot-plugged DIMMs, its ROMs and windows; the VMM is told. */
#define GMEM_MAX_REGIONS 64

struct gmem_region {
	uint64_t gpa;      /* guest physical address of the first byte */
	uint64_t size;     /* bytes */
	uint64_t uva;      /* address in the VMM's own address space */
	uint64_t mmap_off; /* where the region starts in fd */
	int fd;
	char *map;       /* what mmap returned */
	size_t map_size; /* bytes mapped */
	char *base;      /* address here of gpa */
};

struct gmem {
	unsigned n;
	unsigned last; /* region of the last hit, a hint */
	struct gmem_region r[GMEM_MAX_REGIONS];
};

void gmem_init(struct gmem *m);

/* Unmaps and closes everything. */
void gmem_clear(struct gmem *m);

/*
 * Maps a region. Takes fd on success only. Returns 0; -EINVAL for a region that is empty,
 * wraps, overlaps another one or is longer than its file; -ENOSPC when there are too
 * many; or the error of mmap.
 */
int gmem_add(struct gmem *m, uint64_t gpa, uint64_t size, uint64_t uva, uint64_t mmap_off,
	     int fd);

/* Removes the region with exactly these values. Returns 0 or -ENOENT. */
int gmem_remove(struct gmem *m, uint64_t gpa, uint64_t size, uint64_t uva);

/* Address here of len bytes at a VMM address, or NULL if not inside one region. */
void *gmem_from_uva(const struct gmem *m, uint64_t uva, uint64_t len);

/*
 * Describes the guest physical range [gpa, gpa + len) by at most max vectors (more than
 * one where it crosses into an adjacent region). Returns how many, 0 for len 0, -EFAULT
 * when part of it is not memory, or -E2BIG.
 */
int gmem_iov(struct gmem *m, uint64_t gpa, uint64_t len, struct iovec *iov, unsigned max);

#endif
