/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: recvmsg sendmsg socket connect close write exit_group */
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "connector.h"

#define SOCK_FD 3 /* the connector's end, in its process */

/* A server that died may have left an answer behind: the next one knows its own. */
struct question {
	uint32_t id, port;
};

struct answer {
	uint32_t id;
	int32_t result; /* 0: the descriptor comes along; or -errno */
};

void connector_run(const struct forward *f, int sock)
{
	struct question q;

	while (fd_recv(sock, &q, sizeof(q), NULL, 0) == sizeof(q)) {
		_cleanup_close_ int fd = forward_connect(f, q.port);
		struct answer a = {.id = q.id, .result = MIN(fd, 0)};

		if (fd_send(sock, &a, sizeof(a), &fd, fd >= 0) < 0)
			return;
	}
}

static int confine(enum sandbox_mode mode)
{
	/* Sockets of other users are the operator's to name. */
	struct sandbox box = {.kind = SANDBOX_VSOCK_CONNECTOR,
			      .mode = mode,
			      .capabilities = SANDBOX_CAP(CAP_DAC_OVERRIDE)};
	int r = sandbox_early(SOCK_FD + 1);

	if (r == 0)
		r = sandbox_files(&box);
	return r < 0 ? r : sandbox_enter(&box);
}

static _Noreturn void child(const struct forward *f, int sock, enum sandbox_mode mode)
{
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "weft-connector");
	r = sock == SOCK_FD || dup2(sock, SOCK_FD) >= 0 ? confine(mode) : -errno;
	if (r == 0)
		connector_run(f, SOCK_FD);
	else
		log_error("connector: %s", strerror(-r));
	_exit(r == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

int connector_start(const struct forward *f, enum sandbox_mode mode)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		child(f, pair[1], mode);
	close(pair[1]);
	if (pid > 0)
		return pair[0];
	close(pair[0]);
	return -EAGAIN;
}

int connector_ask(int sock, uint32_t port)
{
	static uint32_t last;
	struct question q = {.port = port};
	struct answer a;
	int fd, r;

	if (!last)
		last = (uint32_t)clock_now_ns();
	q.id = ++last;
	r = fd_send(sock, &q, sizeof(q), NULL, 0);
	if (r < 0)
		return -ECONNREFUSED;
	do {
		fd = -1;
		if (fd_recv(sock, &a, sizeof(a), &fd, 1) != sizeof(a)) {
			closep(&fd);
			return -ECONNREFUSED;
		}
		if (a.id != q.id)
			closep(&fd);
	} while (a.id != q.id);
	if (a.result < 0) {
		closep(&fd);
		return a.result;
	}
	return fd >= 0 ? fd : -EMFILE;
}
