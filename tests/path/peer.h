/* SPDX-License-Identifier: Apache-2.0 */
/* A program as two processes that talk over a socket: what the tests of shared memory
 * have in common. */
#ifndef WEFT_PATH_PEER_H
#define WEFT_PATH_PEER_H

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

static int peer;

static inline void say(const void *data, size_t size)
{
	REQUIRE(write(peer, data, size) == (ssize_t)size);
}

static inline void hear(void *data, size_t size)
{
	REQUIRE(recv(peer, data, size, MSG_WAITALL) == (ssize_t)size);
}

/* Lets the other go on, or waits until it does. */
static inline void step(char name)
{
	say(&name, 1);
}

static inline void expect_step(char name)
{
	char c;

	hear(&c, 1);
	REQUIRE(c == name);
}

static inline void send_fd(int fd)
{
	char byte = 'f', room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = room,
			   .msg_controllen = sizeof(room)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	REQUIRE(sendmsg(peer, &m, 0) == 1);
}

static inline int receive_fd(void)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = room,
			   .msg_controllen = sizeof(room)};
	struct cmsghdr *c;
	int fd;

	REQUIRE(recvmsg(peer, &m, 0) == 1);
	c = CMSG_FIRSTHDR(&m);
	REQUIRE(c && c->cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static inline CUcontext start(void)
{
	CUcontext ctx;
	CUdevice dev;

	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
	return ctx;
}

static inline unsigned word_at(CUdeviceptr p)
{
	unsigned v;

	CK(cuMemcpyDtoH(&v, p, sizeof(v)));
	return v;
}

/* True in the process that run_consumer() has started. */
static inline int is_consumer(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "consumer"))
		return 0;
	peer = atoi(argv[2]);
	return 1;
}

/* Before CUDA starts here. */
static inline pid_t run_consumer(void)
{
	int pair[2];
	char fd[12];
	pid_t pid;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		snprintf(fd, sizeof(fd), "%d", pair[1]);
		close(pair[0]);
		execl("/proc/self/exe", check_name, "consumer", fd, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	peer = pair[0];
	return pid;
}

static inline void consumer_ended(pid_t pid)
{
	int status;

	REQUIRE(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("the other process: status 0x%x", status);
}

#endif
