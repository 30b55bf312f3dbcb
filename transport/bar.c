// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "bar.h"
#include "base/fd.h"
#include "base/log.h"
#include "wire.h"

#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110

/* Reads a file of sysfs that holds one hexadecimal number; -1 when it cannot. */
static long read_hex(int dir, const char *name)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char text[32];
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return strtol(text, NULL, 16);
}

static int try_resource(int dir, const char *name, struct bar *ret_bar)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
	const volatile struct wire_window_id *id;
	struct bar b = {.weak = strstr(name, "_wc") != NULL};
	struct stat st;
	void *map;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < 4096)
		return -ENODEV;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	id = map;
	if (id->magic != WIRE_MAGIC || id->version != WIRE_VERSION || !id->key ||
	    id->size > (uint64_t)st.st_size) {
		munmap(map, (size_t)st.st_size);
		return -ENODEV;
	}
	b.map = map;
	b.size = (uint64_t)st.st_size;
	b.key = id->key;
	b.fd = fd_steal(&fd);
	*ret_bar = b;
	return 0;
}

static int try_device(const char *sysfs, const char *name, struct bar *ret_bar)
{
	_cleanup_close_ int dir = -1;
	char path[512];
	int r;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", sysfs, name) >= sizeof(path))
		return -ENODEV;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || read_hex(dir, "vendor") != IVSHMEM_VENDOR ||
	    read_hex(dir, "device") != IVSHMEM_DEVICE)
		return -ENODEV;
	r = try_resource(dir, "resource2_wc", ret_bar);
	/* Firmware may have made the BAR not prefetchable; then there is only this. */
	if (r < 0 && r != -ENODEV)
		r = try_resource(dir, "resource2", ret_bar);
	if (r < 0)
		log_debug("window at %s: %s", name, strerror(-r));
	return r;
}

int bar_find(const char *sysfs, struct bar *ret_bar)
{
	DIR *d = opendir(sysfs);
	struct dirent *e;
	int worst = -ENODEV;

	if (!d)
		return -ENODEV;
	while ((e = readdir(d))) {
		int r;

		if (e->d_name[0] == '.')
			continue;
		r = try_device(sysfs, e->d_name, ret_bar);
		if (r == 0) {
			closedir(d);
			return 0;
		}
		if (r == -EACCES || r == -EPERM)
			worst = -EACCES;
	}
	closedir(d);
	return worst;
}

void bar_fini(struct bar *b)
{
	if (!b->map)
		return;
	munmap(b->map, b->size);
	close(b->fd);
	b->map = NULL;
}
