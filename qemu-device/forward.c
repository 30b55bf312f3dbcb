/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/sockfile.h"
#include "forward.h"

int forward_add(struct forward *f, const char *arg)
{
	const char *eq = strchr(arg, '=');
	const char *path = eq ? eq + 1 : arg;
	uint32_t port = FORWARD_DEFAULT_PORT;
	size_t len = strlen(path);

	if (eq) {
		unsigned long v;
		char *end;

		errno = 0;
		v = strtoul(arg, &end, 10);
		if (errno || end != eq || end == arg || v >= UINT32_MAX)
			return -EINVAL;
		port = (uint32_t)v;
	}
	if (!*path)
		return -EINVAL;
	if (len >= sizeof(f->e[0].path))
		return -ENAMETOOLONG;
	for (unsigned i = 0; i < f->n; i++) {
		if (f->e[i].port == port)
			return -EEXIST;
	}
	if (f->n == FORWARD_MAX)
		return -ENOSPC;
	f->e[f->n].port = port;
	memcpy(f->e[f->n].path, path, len + 1);
	f->n++;
	return 0;
}

int forward_connect(const struct forward *f, uint32_t port)
{
	for (unsigned i = 0; i < f->n; i++) {
		struct sockaddr_un a;
		_cleanup_close_ int fd = -1;
		int r;

		if (f->e[i].port != port)
			continue;
		r = sockfile_address(f->e[i].path, &a);
		if (r < 0)
			return r;
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
			return -errno;
		return fd_steal(&fd);
	}
	return -ENOENT;
}
