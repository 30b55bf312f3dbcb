/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-guest-agent: runs programs in a guest for the host that booted it.
 *
 * The agent connects to AGENT_PORT of the host and takes commands in frames; each program
 * is a job with a number the host chose, and its output comes back in frames of
 * that job. Programs write into pipes and never see the connection, so no output can be
 * taken for a result; and the connection belongs to this VM alone. When it breaks, the
 * agent connects again and goes on. Frames, little endian:
 *
 *   bytes 0-3 payload size, 4-7 job, 8 type, 9-11 zero; then the payload
 *   host:  'R' run: u32 uid, u32 number of environment strings, then NUL-ended strings:
 *          working directory, environment, arguments
 *          'K' kill: u32 signal, to the job's process group
 *          'A' the job's end is known; until then it is told again on each connection
 *          'Q' quit
 *   guest: 'H' hello: u32 version; 'O' standard output; 'E' standard error;
 *          'X' end: u32 status as wait() gives it
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"

#define AGENT_PORT    22886
#define AGENT_VERSION 1

#define MAX_JOBS      64
#define MAX_PAYLOAD   (64u << 10)
#define MAX_STRINGS   512

/* How long the host may take to come back, and how often we try. */
#define CONNECT_TRIES    100
#define CONNECT_PAUSE_US 100000

/* The group that may map the window; 70-weft-window.rules names it. */
#define VIDEO_GID 44

struct frame {
	uint32_t size;
	uint32_t job;
	uint8_t type;
	uint8_t padding[3];
};

struct job {
	bool used, exited;
	bool told; /* 'X' was sent on this connection */
	uint32_t id;
	pid_t pid;
	int out[2]; /* read ends of standard output and standard error, -1 once at end */
	int status;
};

struct agent {
	int sock; /* -1 while not connected */
	int sig_fd;
	struct job jobs[MAX_JOBS];
	char buf[MAX_PAYLOAD];
};

static void hang_up(struct agent *a)
{
	closep(&a->sock);
	a->sock = -1;
	for (unsigned i = 0; i < MAX_JOBS; i++)
		a->jobs[i].told = false;
}

static void put(struct agent *a, uint8_t type, uint32_t job, const void *data,
		size_t size)
{
	struct frame f = {.size = (uint32_t)size, .job = job, .type = type};

	if (a->sock < 0)
		return;
	if (fd_write_full(a->sock, &f, sizeof(f)) < 0 ||
	    fd_write_full(a->sock, data, size) < 0)
		hang_up(a);
}

static int host_connect(struct agent *a)
{
	struct sockaddr_vm addr = {
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_HOST,
		.svm_port = AGENT_PORT,
	};
	uint32_t version = AGENT_VERSION;

	for (unsigned i = 0; i < CONNECT_TRIES; i++) {
		int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return -errno;
		if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0) {
			a->sock = fd;
			put(a, 'H', 0, &version, sizeof(version));
			return 0;
		}
		close(fd);
		usleep(CONNECT_PAUSE_US);
	}
	return -ETIMEDOUT;
}

static void put_error(struct agent *a, uint32_t job, const char *what, int err)
{
	char text[256];
	uint32_t status = 127 << 8;
	int n = snprintf(text, sizeof(text), "agent: %s: %s\n", what, strerror(err));

	put(a, 'E', job, text, MIN((size_t)n, sizeof(text) - 1));
	put(a, 'X', job, &status, sizeof(status));
}

/* In the child: becomes the program. Does not return. */
static void job_exec(uint32_t uid, const char *cwd, char **env, char **argv, int out,
		     int err)
{
	gid_t groups[] = {VIDEO_GID};
	sigset_t none;
	int in = open("/dev/null", O_RDONLY);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0);
	dup2(in, 0);
	dup2(out, 1);
	dup2(err, 2);
	if (uid && (setgroups(1, groups) < 0 || setgid(uid) < 0 || setuid(uid) < 0))
		_exit(127);
	if (chdir(cwd) < 0) {
		perror(cwd);
		_exit(127);
	}
	environ = env;
	execvp(argv[0], argv);
	perror(argv[0]);
	_exit(127);
}

static struct job *job_find(struct agent *a, bool used, uint32_t id)
{
	for (unsigned i = 0; i < MAX_JOBS; i++) {
		struct job *j = &a->jobs[i];

		if (j->used == used && (!used || j->id == id))
			return j;
	}
	return NULL;
}

static int job_start(struct agent *a, uint32_t id, uint32_t uid, const char *cwd,
		     char **env, char **argv)
{
	struct job *j = job_find(a, false, 0);
	int out[2], err[2];

	if (!j)
		return -EBUSY;
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(err, O_CLOEXEC) < 0) {
		int r = -errno;

		close(out[0]);
		close(out[1]);
		return r;
	}
	*j = (struct job){.used = true, .id = id, .out = {out[0], err[0]}};
	j->pid = fork();
	if (j->pid == 0)
		job_exec(uid, cwd, env, argv, out[1], err[1]);
	/* Here as well as in the child: it may be killed before it comes to that. */
	if (j->pid > 0)
		setpgid(j->pid, j->pid);
	close(out[1]);
	close(err[1]);
	if (j->pid < 0) {
		close(out[0]);
		close(err[0]);
		j->used = false;
		return -EAGAIN;
	}
	fd_set_nonblock(out[0], 1);
	fd_set_nonblock(err[0], 1);
	return 0;
}

/* Cuts the payload of 'R' into its strings. */
static void handle_run(struct agent *a, uint32_t id, uint32_t size)
{
	char *strings[MAX_STRINGS + 2];
	char *env[MAX_STRINGS + 1] = {NULL};
	uint32_t uid, n_env, n = 0;
	char *p = a->buf + 8, *end = a->buf + size;
	int r;

	if (size < 9 || end[-1]) {
		put_error(a, id, "run", EPROTO);
		return;
	}
	memcpy(&uid, a->buf, 4);
	memcpy(&n_env, a->buf + 4, 4);
	while (p < end && n < MAX_STRINGS) {
		strings[n++] = p;
		p += strlen(p) + 1;
	}
	if (p < end || n < 2 || n_env > n - 2) {
		put_error(a, id, "run", EPROTO);
		return;
	}
	strings[n] = NULL;
	memcpy(env, strings + 1, n_env * sizeof(*env));
	r = job_start(a, id, uid, strings[0], env, strings + 1 + n_env);
	if (r < 0)
		put_error(a, id, strings[1 + n_env], -r);
}

static void handle_kill(struct agent *a, uint32_t id)
{
	struct job *j = job_find(a, true, id);
	uint32_t sig;

	memcpy(&sig, a->buf, sizeof(sig));
	if (j && !j->exited)
		kill(-j->pid, (int)sig);
}

static void handle_ack(struct agent *a, uint32_t id)
{
	struct job *j = job_find(a, true, id);

	if (j && j->exited)
		j->used = false;
}

/* Returns false when the host says that it is over. */
static bool handle_command(struct agent *a)
{
	struct frame f;

	if (fd_read_full(a->sock, &f, sizeof(f)) < 0 || f.size > MAX_PAYLOAD ||
	    fd_read_full(a->sock, a->buf, f.size) < 0) {
		hang_up(a);
		return true;
	}
	if (f.type == 'R')
		handle_run(a, f.job, f.size);
	else if (f.type == 'K' && f.size == 4)
		handle_kill(a, f.job);
	else if (f.type == 'A')
		handle_ack(a, f.job);
	else if (f.type == 'Q')
		return false;
	return true;
}

/* Passes on what one pipe holds. Closes it at its end, or when the program is gone. */
static void job_output(struct agent *a, struct job *j, unsigned which)
{
	for (;;) {
		ssize_t n = read(j->out[which], a->buf, sizeof(a->buf));

		if (n > 0) {
			put(a, which ? 'E' : 'O', j->id, a->buf, (size_t)n);
			continue;
		}
		if (n == 0 || j->exited) {
			closep(&j->out[which]);
			j->out[which] = -1;
		}
		return;
	}
}

static void reap(struct agent *a)
{
	struct signalfd_siginfo si;
	int status;
	pid_t pid;

	if (read(a->sig_fd, &si, sizeof(si)) < 0)
		return;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (unsigned i = 0; i < MAX_JOBS; i++) {
			struct job *j = &a->jobs[i];

			if (!j->used || j->pid != pid)
				continue;
			j->exited = true;
			j->status = status;
		}
	}
}

/* Jobs that are over: their last output, then their status. */
static void finish_jobs(struct agent *a)
{
	for (unsigned i = 0; i < MAX_JOBS && a->sock >= 0; i++) {
		struct job *j = &a->jobs[i];
		uint32_t status = (uint32_t)j->status;

		if (!j->used || !j->exited || j->told)
			continue;
		for (unsigned k = 0; k < 2; k++) {
			if (j->out[k] >= 0)
				job_output(a, j, k);
		}
		j->told = true;
		put(a, 'X', j->id, &status, sizeof(status));
	}
}

static bool step(struct agent *a)
{
	struct pollfd p[2 + 2 * MAX_JOBS] = {
		{.fd = a->sock, .events = POLLIN},
		{.fd = a->sig_fd, .events = POLLIN},
	};

	/* Messages on the connection before this one may never have arrived. */
	finish_jobs(a);
	if (a->sock < 0)
		return true;
	for (unsigned i = 0; i < 2 * MAX_JOBS; i++) {
		const struct job *j = &a->jobs[i / 2];

		p[2 + i].fd = j->used ? j->out[i % 2] : -1;
		p[2 + i].events = POLLIN;
	}
	if (poll(p, ARRAY_SIZE(p), -1) < 0)
		return errno == EINTR;
	for (unsigned i = 0; i < 2 * MAX_JOBS; i++) {
		if (p[2 + i].revents)
			job_output(a, &a->jobs[i / 2], i % 2);
	}
	if (p[1].revents)
		reap(a);
	finish_jobs(a);
	if (p[0].revents && a->sock >= 0)
		return handle_command(a);
	return true;
}

int main(void)
{
	static struct agent a;
	sigset_t mask;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	a.sig_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	a.sock = -1;
	do {
		if (a.sock < 0 && host_connect(&a) < 0) {
			fprintf(stderr, "agent: the host does not answer\n");
			return EXIT_FAILURE;
		}
	} while (step(&a));
	return EXIT_SUCCESS;
}
