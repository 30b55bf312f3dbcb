/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting workers and listeners. Every descriptor of weftd is close-on-exec; a child
 * gets what is listed and no more, likewise of the environment. It leads a session and a
 * process group of its own, which ends with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/child.h"
#include "broker/child/output.h"
#include "broker/child/users.h"
#include "broker/loop/loop.h"
#include "util/conf.h"

#define CHILD_FDS_MAX  3
#define CHILD_ARGS_MAX 32
#define CHILD_ENV_MAX  64

/* When memory runs out a worker goes before a virtual machine or weftd. */
#define WORKER_OOM_SCORE "500"

struct start {
	const char *path;
	char *args[CHILD_ARGS_MAX];
	char *env[CHILD_ENV_MAX];
	const int *fds;
	unsigned n_fds;
	int output;
	const char *oom_score; /* NULL: as ours */
};

/* ---- in the child ---- */

/* The listed descriptors become 3, 4, ... */
static void place_fds(const struct start *s)
{
	int high[CHILD_FDS_MAX], null, output;

	/* First out of each other's way, then into place (which clears close-on-exec). */
	for (unsigned i = 0; i < s->n_fds; i++)
		high[i] = fcntl(s->fds[i], F_DUPFD_CLOEXEC, 3 + (int)s->n_fds);
	output = fcntl(s->output, F_DUPFD_CLOEXEC, 3 + (int)s->n_fds);
	for (unsigned i = 0; i < s->n_fds; i++) {
		if (high[i] < 0 || dup2(high[i], 3 + (int)i) < 0)
			_exit(126);
	}
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || output < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 ||
	    dup2(output, 2) < 0)
		_exit(126);
}

static void set_oom_score(const char *score)
{
	int fd;

	/* Files in /proc of a process that may not be looked into are root's; the program
	 * will decide again. */
	prctl(PR_SET_DUMPABLE, 1);
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, score, strlen(score)) < 0)
		log_debug("oom_score_adj: %s", strerror(errno));
	closep(&fd);
}

static _Noreturn void exec_child(const struct start *s)
{
	sigset_t none;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	place_fds(s);
	if (s->oom_score)
		set_oom_score(s->oom_score);
	if (chdir("/") == 0)
		execve(s->path, s->args, s->env);
	_exit(127);
}

/* ---- here ---- */

/* True of what operators tell the driver, the libraries and the sanitizers. */
static bool env_passes(const char *entry)
{
	static const char *const names[] = {
		"ASAN_OPTIONS=",
		"CUDA_",
		"LANG=",
		"LC_",
		"LD_LIBRARY_PATH=",
		"LD_PRELOAD=",
		"LLVM_PROFILE_FILE=",
		"LSAN_OPTIONS=",
		"MALLOC_",
		"NVIDIA_",
		"PATH=",
		"TSAN_OPTIONS=",
		"TZ=",
		"UBSAN_OPTIONS=",
		"WEFT_",
	};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strncmp(entry, names[i], strlen(names[i])))
			return true;
	}
	return false;
}

static void fill_env(struct start *s)
{
	unsigned n = 0;

	for (char **e = environ; *e && n < CHILD_ENV_MAX - 1; e++) {
		if (env_passes(*e))
			s->env[n++] = *e;
	}
}

/* Sets the arguments: those of every child, then argv. */
static int fill_args(struct start *s, const struct broker *b, struct child *c,
		     char *const argv[])
{
	unsigned n = 0;

	s->args[n++] = argv[0];
	s->args[n++] = (char *)"--sandbox";
	s->args[n++] = b->conf->sandbox;
	if (c->uid || b->conf->user) {
		s->args[n++] = (char *)"--user";
		s->args[n++] = c->uid ? c->ids : b->conf->user;
	}
	if (c->uid)
		s->args[n++] = (char *)"--own-user";
	for (unsigned i = 1; argv[i]; i++) {
		if (n == CHILD_ARGS_MAX - 1)
			return -EINVAL;
		s->args[n++] = argv[i];
	}
	return 0;
}

static void take_user(struct broker *b, struct child *c)
{
	c->uid = users_take(&b->users);
	if (c->uid)
		snprintf(c->ids, sizeof(c->ids), "%u:%u", c->uid, b->users.gid);
	else if (b->users.n)
		log_warning("no user number is free: see users in weftd.conf(5)");
}

static int start_child(struct broker *b, struct child *c, const struct start *s,
		       void (*exit_fn)(struct source *, uint32_t))
{
	pid_t pid = fork();
	int fd, r;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		exec_child(s);
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	r = fd < 0 ? -errno : source_add(b->loop, &c->exit, fd, EPOLLIN, exit_fn);
	c->adopted = false;
	if (r < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		closep(&fd);
		return r;
	}
	c->pid = c->out.pid = pid;
	return 0;
}

int child_spawn(struct broker *b, struct child *c, char *const argv[], const int *fds,
		unsigned n_fds, void (*exit_fn)(struct source *, uint32_t))
{
	struct start s = {.fds = fds, .n_fds = n_fds};
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int output = -1;
	int r;

	if (n_fds > CHILD_FDS_MAX)
		return -EINVAL;
	if (asprintf(&path, "%s/%s", b->libexec, argv[0]) < 0)
		return -ENOMEM;
	if (access(path, X_OK) < 0)
		return -errno;
	r = output_open(b, &c->out, argv[0], &b->output, &output);
	if (r < 0)
		return r;
	take_user(b, c);
	s.path = path;
	s.output = output;
	s.oom_score = strcmp(argv[0], "weft-worker") ? NULL : WORKER_OOM_SCORE;
	fill_env(&s);
	r = fill_args(&s, b, c, argv);
	if (r == 0)
		r = start_child(b, c, &s, exit_fn);
	if (r < 0) {
		users_give_back(&b->users, c->uid);
		output_close(&c->out);
	}
	return r;
}

int child_adopt(struct broker *b, struct child *c, const char *program, pid_t pid,
		uint32_t uid, int pidfd, int output,
		void (*exit_fn)(struct source *, uint32_t))
{
	int r = source_add(b->loop, &c->exit, pidfd, EPOLLIN, exit_fn);

	if (r == 0)
		r = output_adopt(b, &c->out, program, &b->output, output);
	else
		closep(&output);
	if (r < 0) {
		source_remove(b->loop, &c->exit);
		return r;
	}
	c->pid = c->out.pid = pid;
	c->uid = uid;
	c->adopted = true;
	users_take_again(&b->users, uid);
	return 0;
}

static void wait_adopted(const struct child *c)
{
	struct pollfd p = {.fd = c->exit.fd, .events = POLLIN};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

int child_reap(struct broker *b, struct child *c)
{
	siginfo_t si;
	int status = 0;

	if (!c->pid)
		return 0;
	if (c->adopted)
		wait_adopted(c);
	/* Nobody of its group outlives it; the group has its number while it is there. One
	 * that is not ours may have gone by now. */
	while (!c->adopted && waitid(P_PID, (id_t)c->pid, &si, WEXITED | WNOWAIT) < 0 &&
	       errno == EINTR)
		;
	if (!c->adopted)
		kill(-c->pid, SIGKILL);
	while (!c->adopted && waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	users_give_back(&b->users, c->uid);
	output_close(&c->out);
	source_remove(b->loop, &c->exit);
	return status;
}

void child_kill(struct child *c)
{
	if (c->kill)
		c->kill(c);
	else
		child_kill_now(c);
}

void child_kill_now(struct child *c)
{
	/* The number of one that is not ours may be another's by now. */
	if (c->pid)
		(void)syscall(SYS_pidfd_send_signal, c->exit.fd, SIGKILL, NULL, 0);
}
