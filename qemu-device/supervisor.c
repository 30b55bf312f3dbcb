/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: clone wait4 poll recvmsg sendmsg socketpair close signalfd4 prctl getppid */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "handover.h"
#include "supervisor.h"

/* A snapshot: two records, the queues, and one record a memory region. */
#define MAX_RECORDS 128

/* Descriptors in one record. */
#define MAX_FDS 3

/* Deaths in this time that we put up with: a guest may know how to cause them. */
#define MAX_DEATHS   5
#define DEATH_TIME_S 10

struct kept {
	struct handover_msg m;
	int fds[MAX_FDS];
};

struct snapshot {
	unsigned n;
	struct kept e[MAX_RECORDS];
};

struct supervisor {
	const struct supervisor_ops *ops;
	struct snapshot now, next; /* next is still coming in */
	int sock;                  /* to the server */
	int sig_fd;
	pid_t pid;
	sigset_t old_mask;
	uint64_t deaths[MAX_DEATHS]; /* when, ns */
	unsigned n_deaths;
};

static void snapshot_drop(struct snapshot *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		for (unsigned j = 0; j < MAX_FDS; j++)
			closep(&s->e[i].fds[j]);
	}
	s->n = 0;
}

/* Returns 0, or -errno when the server's end is closed or it sends nonsense. */
static int keep_record(struct supervisor *k)
{
	struct kept *e = &k->next.e[k->next.n];
	ssize_t n;

	if (k->next.n == MAX_RECORDS)
		return -EPROTO;
	n = fd_recv(k->sock, &e->m, sizeof(e->m), e->fds, MAX_FDS);
	if (n <= 0)
		return n < 0 ? (int)n : -ECONNRESET;
	k->next.n++;
	if (n != sizeof(e->m))
		return -EPROTO;
	if (e->m.kind == HANDOVER_END) {
		snapshot_drop(&k->now);
		k->now = k->next;
		k->next.n = 0;
	}
	return 0;
}

/* Plays the snapshot to a new server; the socket holds a few hundred small records. */
static int replay(const struct snapshot *s, int to)
{
	for (unsigned i = 0; i < s->n; i++) {
		unsigned n = 0;
		int r;

		while (n < MAX_FDS && s->e[i].fds[n] >= 0)
			n++;
		r = fd_send(to, &s->e[i].m, sizeof(s->e[i].m), s->e[i].fds, n);
		if (r < 0)
			return r;
	}
	return 0;
}

static int pair(int ret_fds[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fds) < 0)
		return -errno;
	return 0;
}

static int spawn(struct supervisor *k, bool again)
{
	int keep[2], state[2] = {-1, -1};
	pid_t us = getpid();
	int r = pair(keep);

	if (r < 0)
		return r;
	if (again) {
		r = pair(state);
		if (r < 0)
			return r;
	}
	k->pid = fork();
	if (k->pid < 0)
		return -errno;
	if (k->pid == 0) {
		/* Ends with us; a signal is nothing that we could send. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != us)
			_exit(EXIT_FAILURE);
		sigprocmask(SIG_SETMASK, &k->old_mask, NULL);
		closep(&keep[0]);
		closep(&state[0]);
		closep(&k->sig_fd);
		snapshot_drop(&k->now);
		snapshot_drop(&k->next);
		exit(k->ops->serve(k->ops->ctx, keep[1], state[1]));
	}
	closep(&keep[1]);
	closep(&state[1]);
	for (unsigned i = 0; !again && i < k->ops->n_first; i++) {
		closep(&k->ops->first[i]);
		k->ops->first[i] = -1;
	}
	k->sock = keep[0];
	if (again)
		r = replay(&k->now, state[0]);
	closep(&state[0]);
	return r;
}

static bool too_many_deaths(struct supervisor *k)
{
	uint64_t now = clock_now_ns();
	uint64_t *oldest = &k->deaths[k->n_deaths % MAX_DEATHS];
	bool many =
		k->n_deaths >= MAX_DEATHS && now - *oldest < DEATH_TIME_S * NSEC_PER_SEC;

	*oldest = now;
	k->n_deaths++;
	return many;
}

/* The server is gone. Returns -EAGAIN to go on with a new one, or the exit status. */
static int server_died(struct supervisor *k)
{
	int status = 0;
	int r;

	/* Records that the server sent before it died count. */
	while (keep_record(k) == 0)
		;
	closep(&k->sock);
	k->sock = -1;
	snapshot_drop(&k->next);
	while (waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
		;
	k->pid = 0;
	/* A server that never served, or was told to end, is not started again. */
	if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || !k->now.n))
		return WEXITSTATUS(status);
	if (WIFEXITED(status))
		log_error("server ended with status %d", WEXITSTATUS(status));
	else
		log_error("server died of signal %d (%s)", WTERMSIG(status),
			  strsignal(WTERMSIG(status)));
	if (too_many_deaths(k) || !k->now.n) {
		log_error("giving up");
		return EXIT_FAILURE;
	}
	r = spawn(k, true);
	if (r < 0) {
		log_error("no new server: %s", strerror(-r));
		return EXIT_FAILURE;
	}
	log_warning("new server %d goes on", k->pid);
	return -EAGAIN;
}

static int supervisor_loop(struct supervisor *k)
{
	for (;;) {
		struct pollfd p[] = {
			{.fd = k->sig_fd, .events = POLLIN},
			{.fd = k->sock, .events = POLLIN},
		};
		int r;

		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			return EXIT_FAILURE;
		if (p[0].revents)
			return EXIT_SUCCESS;
		if (!p[1].revents || keep_record(k) == 0)
			continue;
		r = server_died(k);
		if (r != -EAGAIN)
			return r;
	}
}

int supervisor_run(const struct supervisor_ops *ops)
{
	_cleanup_free_ struct supervisor *k = calloc(1, sizeof(*k));
	sigset_t mask;
	int r;

	if (!k)
		return EXIT_FAILURE;
	k->ops = ops;
	k->sock = -1;
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigprocmask(SIG_BLOCK, &mask, &k->old_mask);
	k->sig_fd = signalfd(-1, &mask, SFD_CLOEXEC);
	if (k->sig_fd < 0)
		return EXIT_FAILURE;
	r = spawn(k, false);
	if (r < 0) {
		log_error("cannot start: %s", strerror(-r));
		return EXIT_FAILURE;
	}
	return supervisor_loop(k);
}
