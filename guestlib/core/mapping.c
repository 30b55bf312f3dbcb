/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: asking what is mapped
 *
 * Linux 6.11 and later answer for one address. Before, /proc/self/maps has to be read up
 * to there, which takes long in a program with thousands of mappings.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/fd.h"
#include "core/mapping.h"

#define MAPS "/proc/self/maps"

/* As linux/fs.h has them since 6.11. */
struct maps_query {
	uint64_t size, flags, addr;
	uint64_t start, end, vma_flags, page_size, offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t name_size, build_id_size;
	uint64_t name, build_id;
};
static_assert(sizeof(struct maps_query) == 104, "maps_query is the kernel's");

#define MAPS_QUERY      _IOWR('f', 17, struct maps_query)
#define MAPS_READABLE   0x01u
#define MAPS_WRITABLE   0x02u
#define MAPS_EXECUTABLE 0x04u
#define MAPS_SHARED     0x08u
#define MAPS_PERMS      0x0fu

struct mapping {
	uintptr_t start, end;
	bool plain;
};

static bool is_stack(const char *name)
{
	return strncmp(name, "[stack", 6) == 0;
}

/* Asks the kernel for the mapping that contains addr. 0, -ENOTTY (an old kernel) or
 * another -errno. */
static int ask_kernel(int fd, uintptr_t addr, struct mapping *ret)
{
	char name[128] = "";
	struct maps_query q = {
		.size = sizeof(q),
		.addr = addr,
		.name_size = sizeof(name),
		.name = (uintptr_t)name,
	};

	if (ioctl(fd, MAPS_QUERY, &q) < 0)
		return -errno;
	*ret = (struct mapping){
		.start = q.start,
		.end = q.end,
		.plain = (q.vma_flags & MAPS_PERMS) == (MAPS_READABLE | MAPS_WRITABLE) &&
			 !q.inode && !is_stack(name),
	};
	return 0;
}

/* The next line that says something of addr or of what is above. */
static bool read_mapping(FILE *f, uintptr_t addr, struct mapping *ret)
{
	char line[512], perms[8], name[32] = "";
	unsigned long start, end, inode;
	bool whole = true, begins;
	char *at;

	do {
		begins = whole; /* and is not the rest of a long name */
		if (!fgets(line, sizeof(line), f))
			return false;
		whole = strchr(line, '\n');
		start = strtoul(line, &at, 16);
		end = *at == '-' ? strtoul(at + 1, &at, 16) : 0;
	} while (!begins || end <= addr);
	if (sscanf(at, " %7s %*x %*x:%*x %lu %31s", perms, &inode, name) < 2)
		return false;
	*ret = (struct mapping){
		.start = start,
		.end = end,
		.plain = strcmp(perms, "rw-p") == 0 && !inode && !is_stack(name),
	};
	return true;
}

static bool plain_by_reading(uintptr_t start, uintptr_t end)
{
	FILE *f = fopen(MAPS, "re");
	struct mapping m;

	if (!f)
		return false;
	while (start < end && read_mapping(f, start, &m) && m.start <= start && m.plain)
		start = m.end;
	fclose(f);
	return start >= end;
}

bool mapping_plain(uintptr_t start, uintptr_t end)
{
	_cleanup_close_ int fd = open(MAPS, O_RDONLY | O_CLOEXEC);
	struct mapping m = {0};

	while (start < end) {
		int r = fd < 0 ? fd : ask_kernel(fd, start, &m);

		if (r == -ENOTTY)
			return plain_by_reading(start, end);
		if (r < 0 || !m.plain)
			return false;
		start = m.end;
	}
	return true;
}
