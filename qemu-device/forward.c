/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "forward.h"

int forward_add(struct forward *f, const char *arg)
{
	const char *eq = strchr(arg, '=');
	const char *path = eq ? eq + 1 : arg;
	uint32_t port = FORWARD_DEFAULT_PORT;

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
	if (strlen(path) >= sizeof(f->e[0].path))
		return -ENAMETOOLONG;
	for (unsigned i = 0; i < f->n; i++) {
		if (f->e[i].port == port)
			return -EEXIST;
	}
	if (f->n == FORWARD_MAX)
		return -ENOSPC;
	f->e[f->n].port = port;
	strcpy(f->e[f->n].path, path);
	f->n++;
	return 0;
}

int forward_connect(const struct forward *f, uint32_t port)
{
	for (unsigned i = 0; i < f->n; i++) {
		struct sockaddr_un a = {.sun_family = AF_UNIX};
		_cleanup_close_ int fd = -1;

		if (f->e[i].port != port)
			continue;
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
		strcpy(a.sun_path, f->e[i].path);
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
			return -errno;
		return fd_steal(&fd);
	}
	return -ENOENT;
}
