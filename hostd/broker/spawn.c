/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting workers and doors. Every descriptor of weftd is close-on-exec; a child gets
 * what is listed and no more.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"

#define CHILD_FDS_MAX  2
#define CHILD_ARGS_MAX 32

/* In the child: the listed descriptors become 3, 4, ... */
static void place_fds(const int *fds, unsigned n)
{
	int high[CHILD_FDS_MAX];

	/* First out of each other's way, then into place (which clears close-on-exec). */
	for (unsigned i = 0; i < n; i++)
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + (int)n);
	for (unsigned i = 0; i < n; i++) {
		if (high[i] < 0 || dup2(high[i], 3 + (int)i) < 0)
			_exit(126);
	}
}

static _Noreturn void exec_child(const char *path, char *const argv[], const int *fds,
				 unsigned n_fds)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	place_fds(fds, n_fds);
	execv(path, argv);
	_exit(127);
}

int child_spawn(struct broker *b, struct child *c, char *const argv[], const int *fds,
		unsigned n_fds, void (*exit_fn)(struct source *, uint32_t))
{
	char *args[CHILD_ARGS_MAX] = {argv[0], (char *)"--sandbox", b->conf->sandbox};
	_cleanup_free_ char *path = NULL;
	pid_t pid;
	int fd, r;

	if (n_fds > CHILD_FDS_MAX)
		return -EINVAL;
	for (unsigned i = 1; argv[i]; i++) {
		if (i + 3 >= CHILD_ARGS_MAX)
			return -EINVAL;
		args[i + 2] = argv[i];
	}
	if (asprintf(&path, "%s/%s", b->libexec, argv[0]) < 0)
		return -ENOMEM;
	if (access(path, X_OK) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		exec_child(path, args, fds, n_fds);
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	r = fd < 0 ? -errno : source_add(b, &c->exit, fd, EPOLLIN, exit_fn);
	if (r < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		closep(&fd);
		return r;
	}
	c->pid = pid;
	return 0;
}

int child_reap(struct broker *b, struct child *c)
{
	int status = 0;

	if (!c->pid)
		return 0;
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	source_remove(b, &c->exit);
	return status;
}

void child_kill(struct child *c)
{
	if (c->pid)
		kill(c->pid, SIGKILL);
}
