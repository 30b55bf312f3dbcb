/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SANDBOX_LOG: the kernel asks a process of ours about each call that the sandbox would
 * not leave as it is, which says what it was, once, and lets it pass. So one run of a
 * program with a new driver tells all that its list lacks.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "util/sandbox_int.h"

#define SAID_MAX 1024 /* different lines; others are not said */

struct watcher {
	enum sandbox_kind kind;
	int sock, notify;
	bool all; /* not files only */
	unsigned n_said;
	uint64_t said[SAID_MAX]; /* hashes */
};

/* Tells which argument of a call is a path, and which the flags of an open. */
static bool opens(int nr, unsigned *ret_path, unsigned *ret_flags)
{
	*ret_path = nr == SCMP_SYS(open) ? 0 : 1;
	*ret_flags = *ret_path + 1;
	return nr == SCMP_SYS(open) || nr == SCMP_SYS(openat);
}

static bool said_before(struct watcher *w, const char *line)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *line; line++)
		h = (h ^ (uint8_t)*line) * 0x100000001b3ull;
	for (unsigned i = 0; i < w->n_said; i++) {
		if (w->said[i] == h)
			return true;
	}
	if (w->n_said == SAID_MAX)
		return true;
	w->said[w->n_said++] = h;
	return false;
}

static void say(struct watcher *w, const char *line)
{
	if (!said_before(w, line))
		log_warning("sandbox: %s would be stopped: %s", sandbox_name(w->kind),
			    line);
}

/* A string of the process that asks, cut at a page's end if need be. */
static int read_string(uint32_t pid, uint64_t at, char *buf, size_t room)
{
	struct iovec from = {(void *)(uintptr_t)at, MIN(room - 1, 4096 - at % 4096)};
	struct iovec to = {buf, room - 1};
	ssize_t n = process_vm_readv((pid_t)pid, &to, 1, &from, 1, 0);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	if (strlen(buf) < (size_t)n || (size_t)n == room - 1)
		return 0;
	from = (struct iovec){(void *)(uintptr_t)(at + (uint64_t)n),
			      room - 1 - (size_t)n};
	to = (struct iovec){buf + n, room - 1 - (size_t)n};
	n = process_vm_readv((pid_t)pid, &to, 1, &from, 1, 0);
	buf[room - 1] = '\0';
	return n < 0 ? -errno : 0;
}

static void look_at_path(struct watcher *w, const struct seccomp_notif *q, unsigned arg,
			 unsigned flags)
{
	bool write = (q->data.args[flags] & O_ACCMODE) != O_RDONLY;
	char path[PATH_MAX] = "?", own[32], line[PATH_MAX + 32];
	char *real;

	if (read_string(q->pid, q->data.args[arg], path, sizeof(path)) < 0)
		return;
	/* A process's own directory has another name for us. */
	snprintf(own, sizeof(own), "/proc/%u/", q->pid);
	if (!strncmp(path, "/proc/self/", 11) ||
	    !strncmp(path, "/proc/thread-self/", 18) || !strncmp(path, own, strlen(own)))
		real = realpath(strstr(path, "/task/") ? "/proc/self/task" : "/proc/self",
				NULL);
	else
		real = realpath(path, NULL);
	/* A file that is not there is not found either way. */
	if (real && *path == '/' && !sandbox_may_open(w->kind, real, write)) {
		snprintf(line, sizeof(line), "open %s%s", path,
			 write ? " for writing" : "");
		say(w, line);
	}
	free(real);
}

static void look_at_call(struct watcher *w, const struct seccomp_notif *q)
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, q->data.nr);
	char line[160];

	/* Pointers would make each line another one. */
	snprintf(line, sizeof(line), "%s(0x%x, 0x%x, 0x%x)", name ? name : "?",
		 (unsigned)q->data.args[0], (unsigned)q->data.args[1],
		 (unsigned)q->data.args[2] & 0xfff);
	free(name);
	say(w, line);
}

static void answer(struct watcher *w, struct seccomp_notif *q,
		   struct seccomp_notif_resp *a)
{
	unsigned path, flags;

	memset(q, 0, sizeof(*q));
	if (seccomp_notify_receive(w->notify, q) < 0)
		return;
	if (opens(q->data.nr, &path, &flags))
		look_at_path(w, q, path, flags);
	else if (w->all)
		look_at_call(w, q);
	memset(a, 0, sizeof(*a));
	a->id = q->id;
	a->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	(void)seccomp_notify_respond(w->notify, a);
}

static _Noreturn void watch(enum sandbox_kind kind, int sock)
{
	static struct watcher w;
	struct seccomp_notif *q;
	struct seccomp_notif_resp *a;
	char c;

	/* The other ends of the parent's descriptors are to notice when that ends. */
	if (dup2(sock, 3) < 0 || close_range(4, ~0u, 0) < 0)
		_exit(1);
	sock = 3;
	w = (struct watcher){.kind = kind, .sock = sock, .notify = -1};
	signal(SIGPIPE, SIG_IGN);
	if (fd_recv(sock, &c, 1, &w.notify, 1) != 1 || w.notify < 0 ||
	    seccomp_notify_alloc(&q, &a))
		_exit(1);
	for (;;) {
		struct pollfd p[] = {{.fd = w.notify, .events = POLLIN},
				     {.fd = w.all ? -1 : sock, .events = POLLIN}};

		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			_exit(1);
		if (p[1].revents)
			w.all = true;
		if (p[0].revents & POLLIN)
			answer(&w, q, a);
		else if (p[0].revents)
			_exit(0); /* nobody has the filter any more */
	}
}

static int allow(const struct sandbox_call *c, void *f)
{
	unsigned path, flags;
	int r;

	/* Calls whose answer is another one are as if they were not on the list. */
	if (c->nr < 0 || c->error || opens(c->nr, &path, &flags))
		return 0;
	r = seccomp_rule_add_array(f, SCMP_ACT_ALLOW, c->nr, c->own_pid ? 0 : c->n_args,
				   c->args);
	return r == -EEXIST ? 0 : r;
}

static int load(enum sandbox_kind kind)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_NOTIFY);
	int r;

	if (!f)
		return -ENOMEM;
	r = sandbox_each(kind, allow, f);
	if (r == 0)
		r = seccomp_load(f);
	if (r == 0)
		r = seccomp_notify_fd(f);
	seccomp_release(f);
	return r;
}

int sandbox_watch(enum sandbox_kind kind)
{
	_cleanup_close_ int notify = -1, ours = -1;
	int pair[2], r;
	pid_t pid;

	log_warning("the sandbox is off: what it would stop is only said");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	pid = fork();
	if (pid < 0) {
		close(pair[1]);
		return -errno;
	}
	if (pid == 0) {
		close(ours);
		watch(kind, pair[1]);
	}
	close(pair[1]);
	/* The watcher reads our paths. */
	prctl(PR_SET_PTRACER, pid, 0, 0, 0);
	notify = load(kind);
	if (notify < 0)
		return notify;
	r = fd_send(ours, "", 1, &notify, 1);
	return r < 0 ? r : fd_steal(&ours);
}

int sandbox_watch_all(int watcher)
{
	return fd_send(watcher, "", 1, NULL, 0);
}
