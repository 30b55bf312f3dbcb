/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that is no more than a list of names and descriptors. What weftd said before it
 * died is taken in before the next one starts: datagrams lie in our socket.
 *
 * weftd ends by itself with an exit status, and that is the end. SIGTERM at weftd itself,
 * not at us, has it leave its sessions to the next one, which is how it is replaced by
 * another version; see main.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/keep/supervisor.h"
#include "util/fdstore.h"
#include "util/notify.h"

#define ABOVE "WEFT_SUPERVISED"
/* Place of the first kept descriptor in weftd. */
#define FIRST_FD 3
/* Deaths within a time after which we give up: something is wrong that will not end. */
#define DEATHS_MAX 5
#define DEATHS_NS  (10 * NSEC_PER_SEC)

struct kept {
	struct list link; /* supervisor.kept, the oldest first */
	int fd;
	char name[FDSTORE_NAME_MAX + 1];
};

struct supervisor {
	char **argv;
	char program[4096];
	void (*on_ready)(void); /* NULL: has been called */
	int signals, sock;
	char address[32]; /* of sock, as NOTIFY_SOCKET has it */
	sigset_t old_mask;
	pid_t pid;
	bool stops;
	struct list kept;
	unsigned n_kept;
	uint64_t deaths[DEATHS_MAX];
	unsigned n_deaths;
};

bool supervisor_is_above(bool *ret_again)
{
	const char *above = getenv(ABOVE);

	*ret_again = above && !strcmp(above, "again");
	return above;
}

/* ---- the store ---- */

static void forget(struct supervisor *s, struct kept *k)
{
	list_remove(&k->link);
	s->n_kept--;
	close(k->fd);
	free(k);
}

static void remove_name(struct supervisor *s, const char *name)
{
	struct kept *k, *next;

	list_for_each_safe (k, next, &s->kept, link) {
		if (!strcmp(k->name, name))
			forget(s, k);
	}
}

static void keep(struct supervisor *s, const char *name, int fd)
{
	struct kept *k = calloc(1, sizeof(*k));

	if (!k) {
		log_error("out of memory");
		close(fd);
		return;
	}
	snprintf(k->name, sizeof(k->name), "%s", name);
	k->fd = fd;
	list_append(&s->kept, &k->link);
	s->n_kept++;
}

/* Returns the value of an assignment in text, or NULL; value has room for a name. */
static const char *value_of(const char *text, const char *key, char *value)
{
	size_t n = strlen(key);

	for (; text; text = strchr(text, '\n'), text += text != NULL) {
		if (strncmp(text, key, n) != 0 || text[n] != '=')
			continue;
		snprintf(value, FDSTORE_NAME_MAX + 1, "%.*s",
			 (int)strcspn(text + n + 1, "\n"), text + n + 1);
		return value;
	}
	return NULL;
}

static void said(struct supervisor *s, const char *text, int *fd)
{
	char name[FDSTORE_NAME_MAX + 1], value[FDSTORE_NAME_MAX + 1];

	if (value_of(text, "READY", value) && s->on_ready) {
		s->on_ready();
		s->on_ready = NULL;
	}
	if (!value_of(text, "FDNAME", name))
		return;
	if (value_of(text, "FDSTOREREMOVE", value))
		remove_name(s, name);
	else if (value_of(text, "FDSTORE", value) && *fd >= 0)
		keep(s, name, fd_steal(fd));
}

/* Returns the descriptor that came along, or -1; *ret_pid is the sender, as the kernel
 * says. */
static int unpack(struct msghdr *msg, pid_t *ret_pid)
{
	struct ucred who;
	int fd = -1;

	*ret_pid = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS)
			memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		if (c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&who, CMSG_DATA(c), sizeof(who));
		*ret_pid = who.pid;
	}
	return fd;
}

/* Takes in one datagram; anybody may send some, weftd alone is heard. False: there is
 * none. */
static bool hear(struct supervisor *s)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} ctl = {0};
	char text[1024] = "";
	struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = ctl.space,
			     .msg_controllen = sizeof(ctl.space)};
	ssize_t n = recvmsg(s->sock, &msg, MSG_CMSG_CLOEXEC);
	_cleanup_close_ int fd = -1;
	pid_t pid;

	if (n < 0)
		return errno == EINTR;
	fd = unpack(&msg, &pid);
	if (pid == s->pid)
		said(s, text, &fd);
	return true;
}

/* ---- weftd ---- */

/* Puts what is kept at 3, 4, ... and names it. */
static void hand_over(const struct supervisor *s)
{
	char *names = malloc(s->n_kept * (sizeof(((struct kept *)NULL)->name) + 1) + 1);
	int *high = malloc((s->n_kept + 1) * sizeof(*high)), n = 0;
	const struct kept *k;
	char text[16], *end = names;

	if (!names || !high)
		_exit(1);
	*names = '\0';
	list_for_each (k, &s->kept, link) {
		high[n] = fcntl(k->fd, F_DUPFD_CLOEXEC, FIRST_FD + (int)s->n_kept);
		if (high[n++] < 0)
			_exit(1);
		end += sprintf(end, "%s%s", n > 1 ? ":" : "", k->name);
	}
	for (int i = 0; i < n; i++) {
		if (dup2(high[i], FIRST_FD + i) < 0)
			_exit(1);
	}
	snprintf(text, sizeof(text), "%d", getpid());
	setenv("LISTEN_PID", text, 1);
	snprintf(text, sizeof(text), "%d", n);
	setenv("LISTEN_FDS", text, 1);
	setenv("LISTEN_FDNAMES", names, 1);
}

static _Noreturn void exec_weftd(const struct supervisor *s, pid_t above)
{
	/* Without us nobody keeps anything: in order then. */
	if (prctl(PR_SET_PDEATHSIG, SIGINT) < 0 || getppid() != above)
		_exit(1);
	setenv("NOTIFY_SOCKET", s->address, 1);
	setenv(ABOVE, s->n_deaths ? "again" : "first", 1);
	if (s->n_kept)
		hand_over(s);
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
	execv(s->program, s->argv);
	fprintf(stderr, "weftd: %s: %s\n", s->program, strerror(errno));
	_exit(1);
}

static int spawn(struct supervisor *s)
{
	pid_t us = getpid();

	s->pid = fork();
	if (s->pid < 0)
		return -errno;
	if (s->pid == 0)
		exec_weftd(s, us);
	return 0;
}

static bool dies_too_often(struct supervisor *s)
{
	uint64_t now = clock_now_ns(), *oldest = &s->deaths[s->n_deaths % DEATHS_MAX];
	bool often = s->n_deaths >= DEATHS_MAX && now - *oldest < DEATHS_NS;

	*oldest = now;
	s->n_deaths++;
	return often;
}

/* Returns -EAGAIN if there is another one, or the exit status. */
static int died(struct supervisor *s, int status)
{
	int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0, r;

	while (hear(s))
		;
	if (!sig)
		return WEXITSTATUS(status);
	if (s->stops)
		return sig == SIGTERM || sig == SIGINT ? 0 : 1;
	if (sig != SIGTERM)
		log_error("weftd died of signal %d (%s): it is started again", sig,
			  strsignal(sig));
	if (dies_too_often(s)) {
		log_error("weftd died %u times within %u s: all ends", DEATHS_MAX + 1,
			  (unsigned)(DEATHS_NS / NSEC_PER_SEC));
		return 1;
	}
	r = spawn(s);
	if (r < 0)
		log_error("weftd cannot be started: %s", strerror(-r));
	return r < 0 ? 1 : -EAGAIN;
}

/* Reaps weftd, and whom it has left to us. */
static int reap(struct supervisor *s)
{
	int status, r = -EAGAIN;
	pid_t pid;

	while (r == -EAGAIN && (pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == s->pid)
			r = died(s, status);
	}
	return r;
}

static int on_signal(struct supervisor *s)
{
	struct signalfd_siginfo si;

	if (read(s->signals, &si, sizeof(si)) != sizeof(si))
		return -EAGAIN;
	switch ((int)si.ssi_signo) {
	case SIGCHLD:
		return reap(s);
	case SIGHUP:
		kill(s->pid, SIGHUP);
		return -EAGAIN;
	default:
		s->stops = true;
		kill(s->pid, SIGINT);
		return -EAGAIN;
	}
}

/* ---- start ---- */

static int open_socket(struct supervisor *s)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(sa);
	int on = 1;

	s->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Without a name the kernel makes one up, which nobody else has. */
	if (s->sock < 0 ||
	    setsockopt(s->sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    bind(s->sock, (struct sockaddr *)&sa, sizeof(sa_family_t)) < 0 ||
	    getsockname(s->sock, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	snprintf(s->address, sizeof(s->address), "@%.*s",
		 (int)(len - offsetof(struct sockaddr_un, sun_path) - 1),
		 sa.sun_path + 1);
	return 0;
}

/* As it was started: where a link led to another version since, that one comes next. */
static int find_program(struct supervisor *s)
{
	ssize_t n;

	if (strchr(s->argv[0], '/')) {
		snprintf(s->program, sizeof(s->program), "%s", s->argv[0]);
		return 0;
	}
	n = readlink("/proc/self/exe", s->program, sizeof(s->program) - 1);
	if (n < 0)
		return -errno;
	s->program[n] = '\0';
	return 0;
}

static int start(struct supervisor *s)
{
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, &s->old_mask);
	s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signals < 0)
		return -errno;
	/* Workers whose weftd died are ours to reap. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	r = find_program(s);
	if (r == 0)
		r = open_socket(s);
	return r < 0 ? r : spawn(s);
}

static int run(struct supervisor *s)
{
	for (;;) {
		struct pollfd p[] = {
			{.fd = s->sock, .events = POLLIN},
			{.fd = s->signals, .events = POLLIN},
		};
		int r = -EAGAIN;

		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			return 1;
		while (hear(s))
			;
		if (p[1].revents)
			r = on_signal(s);
		if (r != -EAGAIN)
			return r;
	}
}

int supervisor_run(char **argv, void (*on_ready)(void))
{
	static struct supervisor s;
	struct kept *k, *next;
	int r;

	s.argv = argv;
	s.on_ready = on_ready;
	s.sock = s.signals = -1;
	list_init(&s.kept);
	r = start(&s);
	if (r < 0)
		log_error("weftd cannot be started: %s", strerror(-r));
	r = r < 0 ? 1 : run(&s);
	list_for_each_safe (k, next, &s.kept, link)
		forget(&s, k);
	return r;
}
