/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "util/selfdir.h"

/* Tries own directory + each of the places for a file; "" is the directory itself. */
static int find(const char *const *places, unsigned n, const char *name, char **ret_dir)
{
	char self[PATH_MAX], path[2 * PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *dir;

	if (len < 0)
		return -errno;
	self[len] = '\0';
	dir = dirname(self);
	for (unsigned i = 0; i < n; i++) {
		char *real;

		snprintf(path, sizeof(path), "%s/%s/%s", dir, places[i], name);
		if (access(path, R_OK) < 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, places[i]);
		real = realpath(path, NULL);
		if (!real)
			return -errno;
		*ret_dir = real;
		return 0;
	}
	return -ENOENT;
}

int self_dir(const char *name, char **ret_dir)
{
	static const char *const places[] = {".", WEFT_LIBEXECDIR_FROM_BIN,
					     WEFT_SBINDIR_FROM_BIN,
					     WEFT_BINDIR_FROM_SBIN,
					     WEFT_LIBDIR_FROM_BIN};

	return find(places, ARRAY_SIZE(places), name, ret_dir);
}

int self_lib_dir(char **ret_dir)
{
	static const char *const places[] = {"../guestlib", WEFT_LIBDIR_FROM_BIN};

	return find(places, ARRAY_SIZE(places), "libcuda.so.1", ret_dir);
}
