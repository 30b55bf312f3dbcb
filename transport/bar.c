/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "bar.h"
#include "base/fd.h"
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

/* Explains a refusal to open the device: the udev rule decides who may, or nobody may if
 * that is missing. */
static void say_denied(int dir, const char *device, const char *name, char *ret_why)
{
	struct stat st;
	bool ruled = fstatat(dir, name, &st, 0) == 0 && st.st_gid;

	snprintf(ret_why, BAR_WHY_MAX, "permission denied on " BAR_SYSFS "/%s/%s: %s",
		 device, name,
		 ruled ? "add the user to group video"
		       : "install the udev rule 70-weft-window.rules");
}

/* Checks that the mapping is a window of this version, all of it. */
static int check_id(const volatile struct wire_window_id *id, uint64_t mapped,
		    const char *device, char *ret_why)
{
	if (id->magic != WIRE_MAGIC || !id->key) {
		snprintf(ret_why, BAR_WHY_MAX,
			 "the device at %s is none of Weft's: the host's window.path "
			 "is another file",
			 device);
		return -ENODEV;
	}
	if (id->version != WIRE_WINDOW_VERSION) {
		snprintf(ret_why, BAR_WHY_MAX,
			 "the host's is of version %u, this library's of %u: upgrade %s",
			 id->version, WIRE_WINDOW_VERSION,
			 id->version < WIRE_WINDOW_VERSION ? "the host" : "the library");
		return -EPROTONOSUPPORT;
	}
	if (id->size > mapped) {
		snprintf(ret_why, BAR_WHY_MAX,
			 "the VM's device has %llu MiB, the host's window.size is %llu "
			 "MiB: give both the same",
			 (unsigned long long)(mapped >> 20),
			 (unsigned long long)(id->size >> 20));
		return -EMSGSIZE;
	}
	return 0;
}

static int try_resource(int dir, const char *device, const char *name,
			struct bar *ret_bar, char *ret_why)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
	struct bar b = {.weak = strstr(name, "_wc") != NULL};
	struct stat st;
	void *map;
	int r;

	if (fd < 0) {
		r = -errno;
		if (r == -EACCES || r == -EPERM)
			say_denied(dir, device, name, ret_why);
		if (r == -EROFS)
			snprintf(ret_why, BAR_WHY_MAX,
				 BAR_SYSFS "/%s/%s cannot be written in this container: "
					   "run it with --device nvidia.com/gpu=all",
				 device, name);
		return r == -EPERM || r == -EROFS ? -EACCES : r;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < 4096)
		return -ENODEV;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r = check_id(map, (uint64_t)st.st_size, device, ret_why);
	if (r < 0) {
		munmap(map, (size_t)st.st_size);
		return r;
	}
	b.map = map;
	b.size = (uint64_t)st.st_size;
	b.key = ((const struct wire_window_id *)map)->key;
	b.fd = fd_steal(&fd);
	*ret_bar = b;
	return 0;
}

/* -ENOENT: it is no such device. */
static int try_device(const char *sysfs, const char *name, struct bar *ret_bar,
		      char *ret_why)
{
	_cleanup_close_ int dir = -1;
	char path[512];
	int r;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", sysfs, name) >= sizeof(path))
		return -ENOENT;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || read_hex(dir, "vendor") != IVSHMEM_VENDOR ||
	    read_hex(dir, "device") != IVSHMEM_DEVICE)
		return -ENOENT;
	snprintf(ret_why, BAR_WHY_MAX, "the device at %.64s cannot be mapped", name);
	r = try_resource(dir, name, "resource2_wc", ret_bar, ret_why);
	/* Firmware may have made the BAR not prefetchable; then there is only this. */
	if (r == -ENOENT || r == -EACCES)
		r = try_resource(dir, name, "resource2", ret_bar, ret_why);
	return r == -ENOENT ? -ENODEV : r;
}

int bar_find(const char *sysfs, struct bar *ret_bar, char ret_why[BAR_WHY_MAX])
{
	char why[BAR_WHY_MAX];
	int r, worst = -ENODEV;
	struct dirent *e;
	DIR *d;

	snprintf(ret_why, BAR_WHY_MAX, "this VM has no such device: ivshmem-plain");
	d = opendir(sysfs);
	if (!d)
		return -ENODEV;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		r = try_device(sysfs, e->d_name, ret_bar, why);
		if (r == 0) {
			closedir(d);
			return 0;
		}
		/* Reports the failure of the device that is nearest to a window. */
		if (r != -ENOENT && worst == -ENODEV) {
			worst = r;
			memcpy(ret_why, why, sizeof(why));
		}
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
