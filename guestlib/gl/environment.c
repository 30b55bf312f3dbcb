/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "gl/environment.h"

static const char text[] = "# By weft-guest-gl: the host draws.\n"
			   "GALLIUM_DRIVER=virpipe\n"
			   "LIBGL_ALWAYS_SOFTWARE=true\n";

/* Makes its directory, where nobody has. */
static int make_place(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[4096];
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (!n)
		return 0;
	if (n >= sizeof(dir))
		return -ENAMETOOLONG;
	memcpy(dir, path, n);
	dir[n] = '\0';
	return mkdir(dir, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int environment_write(const char *path, bool draws)
{
	_cleanup_close_ int fd = -1;
	char part[4096];
	int r;

	if (!draws)
		return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
	if ((size_t)snprintf(part, sizeof(part), "%s.part", path) >= sizeof(part))
		return -ENAMETOOLONG;
	r = make_place(path);
	if (r < 0)
		return r;
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, text, sizeof(text) - 1);
	if (r == 0 && rename(part, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(part);
	return r;
}
