/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sockfile.h"

#define BACKLOG          128
#define LISTEN_FDS_FIRST 3 /* of sd_listen_fds(3) */

int sockfile_address(const char *path, struct sockaddr_un *ret)
{
	size_t n = strlen(path) + 1;

	if (n > sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(ret->sun_path, path, n);
	return 0;
}

/* Returns 0 if nobody listens at path, else -EADDRINUSE or -errno. */
static int probe(const char *path)
{
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sa;
	int r;

	if (fd < 0)
		return -errno;
	r = sockfile_address(path, &sa);
	if (r < 0)
		return r;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return -EADDRINUSE;
	/* A full backlog, and a socket of another type, are somebody's. */
	if (errno == EAGAIN || errno == EPROTOTYPE)
		return -EADDRINUSE;
	return errno == ECONNREFUSED ? 0 : -errno;
}

int sockfile_clear(const char *path, bool taken)
{
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	r = taken ? 0 : probe(path);
	if (r < 0)
		return r;
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

int sockfile_listen(const char *path)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un sa;
	int r = fd < 0 ? -errno : sockfile_address(path, &sa);

	if (r == 0)
		r = sockfile_clear(path, false);
	/* Without a directory bind() says so. */
	if (r == -ENOENT)
		r = 0;
	if (r == 0 &&
	    (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, BACKLOG) < 0))
		r = -errno;
	return r < 0 ? r : fd_steal(&fd);
}

int sockfile_given(void)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	char own[24];

	snprintf(own, sizeof(own), "%ld", (long)getpid());
	if (!pid || !n || strcmp(pid, own) != 0 || strcmp(n, "1") != 0)
		return -1;
	return LISTEN_FDS_FIRST;
}

int sockfile_note(const char *path, struct sockfile *ret)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return -errno;
	*ret = (struct sockfile){.dev = st.st_dev, .ino = st.st_ino};
	return 0;
}

void sockfile_remove(const char *path, const struct sockfile *f)
{
	struct stat st;

	if (f->ino && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    st.st_dev == f->dev && st.st_ino == f->ino)
		unlink(path);
}

const char *sockfile_error(int error)
{
	switch (error) {
	case -EEXIST:
		return "exists and is no socket: remove it, or use another path";
	case -EADDRINUSE:
		return "another process listens there";
	case -ENOENT:
		return "its directory does not exist";
	case -ENAMETOOLONG:
		return "the path is too long for a socket (107 bytes at most)";
	default:
		return strerror(-error);
	}
}
