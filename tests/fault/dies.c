/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into weftd: kills it at one of its messages. While the file WEFT_DIES is
 * there, which has a number, each message that weftd sends or has received counts twice,
 * before and after; at that count the file goes, and weftd with it. With WEFT_DIES_CONTROL
 * in the environment what is said at the control socket counts, too, and each file that
 * gets its name.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* As weftd does, below a supervisor. */
static const char *file(void)
{
	return getenv("WEFT_SUPERVISED") ? getenv("WEFT_DIES") : NULL;
}

static void step(void)
{
	static __thread int inside;
	static int counted, number;
	const char *path = inside ? NULL : file();
	char text[16] = "";
	int fd, error = errno;

	if (!path)
		return;
	inside = 1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) {
		counted = 0;
	} else {
		number = atoi(text);
		if (++counted >= number && unlink(path) == 0)
			kill(getpid(), SIGKILL);
	}
	if (fd >= 0)
		close(fd);
	inside = 0;
	errno = error;
}

static void step_of_control(void)
{
	if (getenv("WEFT_DIES_CONTROL"))
		step();
}

__attribute__((visibility("default"))) ssize_t send(int sock, const void *data, size_t n,
						    int flags)
{
	ssize_t done;

	step_of_control();
	done = sendto(sock, data, n, flags, NULL, 0);
	step_of_control();
	return done;
}

__attribute__((visibility("default"))) ssize_t recv(int sock, void *data, size_t n,
						    int flags)
{
	ssize_t done = recvfrom(sock, data, n, flags, NULL, NULL);

	if (done > 0)
		step_of_control();
	return done;
}

__attribute__((visibility("default"))) int rename(const char *from, const char *to)
{
	int r;

	step_of_control();
	r = renameat(AT_FDCWD, from, AT_FDCWD, to);
	step_of_control();
	return r;
}

__attribute__((visibility("default"))) ssize_t sendmsg(int sock, const struct msghdr *m,
						       int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);
	ssize_t n;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
	step();
	n = real(sock, m, flags);
	step();
	return n;
}

__attribute__((visibility("default"))) ssize_t recvmsg(int sock, struct msghdr *m,
						       int flags)
{
	static ssize_t (*real)(int, struct msghdr *, int);
	ssize_t n;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "recvmsg");
	step();
	n = real(sock, m, flags);
	if (n > 0)
		step();
	return n;
}
