/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/fd.h"

int fd_read_full(int fd, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = read(fd, p, len);

		if (n == 0)
			return -ENODATA;
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_write_full(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == ENOTSOCK)
			n = write(fd, p, len);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_send(int sock, const void *buf, size_t len, const int *fds, unsigned n_fds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
	} ctl = { 0 };
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (n_fds > FD_PASS_MAX || len == 0)
		return -EINVAL;
	if (n_fds) {
		struct cmsghdr *c;

		msg.msg_control = ctl.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	do {
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n < len)
		return fd_write_full(sock, (const char *)buf + n, len - (size_t)n);
	return 0;
}

void fd_drop(int fd)
{
	close(fd);
}

ssize_t fd_recv(int sock, void *buf, size_t len, int *fds, unsigned max_fds)
{
	return fd_recv_with(sock, buf, len, fds, max_fds, fd_drop);
}

ssize_t fd_recv_with(int sock, void *buf, size_t len, int *fds, unsigned max_fds,
		     void (*drop)(int fd))
{
	/* Room for all that may come: the kernel closes what has none, meanwhile. */
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * FD_COME_MAX)];
	} ctl;
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = ctl.space,
		.msg_controllen = sizeof(ctl.space),
	};
	unsigned got = 0;
	ssize_t n;

	do {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (unsigned i = 0; i < max_fds; i++)
		fds[i] = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		unsigned n_in;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n_in = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		for (unsigned i = 0; i < n_in; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			/* A message without a byte brings nothing. */
			if (n && got < max_fds)
				fds[got++] = fd;
			else
				drop(fd);
		}
	}
	return n;
}

int fd_memfd(const char *name, size_t size)
{
	_cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return -errno;
	return fd_steal(&fd);
}

int fd_set_nonblock(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) < 0)
		return -errno;
	return 0;
}
