/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that travel: none is left over, whatever they came with. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

static int pair[2];

static void setup(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
}

static void teardown(void)
{
	close(pair[0]);
	close(pair[1]);
}

/* The number that the next descriptor gets. */
static int next_fd(void)
{
	int fd = dup(pair[0]);

	close(fd);
	return fd;
}

static void send_fds(const void *buf, size_t len, unsigned n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * FD_COME_MAX)];
	} ctl = {0};
	struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = ctl.space,
			     .msg_controllen = CMSG_SPACE(sizeof(int) * n)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * n);
	for (unsigned i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &pair[0], sizeof(int));
	cr_assert_eq(sendmsg(pair[0], &msg, MSG_NOSIGNAL), (ssize_t)len);
}

Test(fd, of_a_message_without_a_byte, .init = setup, .fini = teardown)
{
	int before = next_fd(), fds[2] = {7, 7};
	char buf[4];

	send_fds("", 0, 2);
	cr_assert_eq(fd_recv(pair[1], buf, sizeof(buf), fds, 2), 0);
	cr_assert_eq(fds[0], -1);
	cr_assert_eq(fds[1], -1);
	cr_assert_eq(next_fd(), before);
}

static unsigned n_dropped;

static void count_drop(int fd)
{
	n_dropped++;
	close(fd);
}

/* Nothing is left to the kernel, which would close it meanwhile. */
Test(fd, as_many_as_can_come, .init = setup, .fini = teardown)
{
	int before = next_fd(), fd;
	char buf[4];

	for (unsigned n = 1; n < 200; n *= 3) {
		n_dropped = 0;
		send_fds("x", 1, n);
		cr_assert_eq(fd_recv_with(pair[1], buf, sizeof(buf), &fd, 1, count_drop),
			     1);
		cr_assert_eq(n_dropped, n - 1);
		close(fd);
	}
	cr_assert_eq(next_fd(), before);
}

Test(fd, more_than_were_asked_for, .init = setup, .fini = teardown)
{
	int before = next_fd(), fds[2];
	char buf[4];

	send_fds("x", 1, 4);
	cr_assert_eq(fd_recv(pair[1], buf, sizeof(buf), fds, 2), 1);
	cr_assert(fds[0] >= 0 && fds[1] >= 0);
	close(fds[0]);
	close(fds[1]);
	cr_assert_eq(next_fd(), before);
}
