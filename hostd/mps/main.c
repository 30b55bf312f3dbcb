/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-mps: the MPS server of class shared. Has NVIDIA's control daemon run in directories of
 * its own below DIR, starts it again when it has ended, and has the server take a client's work
 * off the device when weftd is about to end that client: one that is killed with work in flight
 * is a fault of all.
 *
 * Requests come over DIR/weft, SOCK_SEQPACKET, one in each connection: struct mps_request; the
 * answer is struct mps_answer. Who may connect is by the directory's mode: its owner.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "ipc/mps.h"
#include "util/notify.h"

#define CONTROL "nvidia-cuda-mps-control"

/* A command takes 10 ms. */
#define COMMAND_NS (2 * NSEC_PER_SEC)
/* Before the control daemon is started again. */
#define AGAIN_NS (200 * NSEC_PER_MSEC)

static struct mps {
	const char *dir;
	pid_t control; /* 0: it does not run */
	uint64_t again_ns;
	int listen, signals;
	bool said; /* that it is ready */
} mps = {.listen = -1, .signals = -1};

/* ---- NVIDIA's programs ---- */

static _Noreturn void exec_control(bool daemon)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	execlp(CONTROL, CONTROL, daemon ? "-f" : NULL, NULL);
	dprintf(STDERR_FILENO, "weft-mps: error: " CONTROL ": %s\n", strerror(errno));
	_exit(127);
}

static void start_control(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
			_exit(126);
		exec_control(true);
	}
	if (pid < 0)
		log_error("fork: %s", strerror(errno));
	mps.control = pid > 0 ? pid : 0;
	mps.again_ns = clock_now_ns() + AGAIN_NS;
}

/* Reads what a command says until it ends; kills one that takes too long. */
static int read_until_end(pid_t pid, int fd, char *buf, size_t room)
{
	uint64_t end = clock_now_ns() + COMMAND_NS, now;
	size_t n = 0;
	int status;

	while ((now = clock_now_ns()) < end && n < room - 1) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t got;

		if (poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) <= 0)
			continue;
		got = read(fd, buf + n, room - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	buf[n] = '\0';
	if (now >= end)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
}

/* Gives a command to the control daemon. Returns 0 and its answer, or -errno. */
static int command(const char *text, char *buf, size_t room)
{
	_cleanup_close_ int in = -1, out = -1;
	int to[2], from[2];
	pid_t pid;

	if (pipe2(to, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(from, O_CLOEXEC) < 0) {
		close(to[0]);
		close(to[1]);
		return -errno;
	}
	pid = fork();
	if (pid == 0) {
		if (dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0)
			_exit(126);
		exec_control(false);
	}
	close(to[0]);
	close(from[1]);
	in = to[1];
	out = from[0];
	if (pid < 0)
		return -EAGAIN;
	(void)fd_write_full(in, text, strlen(text));
	closep(&in);
	in = -1;
	return read_until_end(pid, out, buf, room);
}

/* Has the servers take a process's work off the device. Returns 0 if one has, or -errno. */
static int terminate(pid_t client)
{
	char servers[256], text[64], answer[256];
	int r = command("get_server_list\n", servers, sizeof(servers));
	char *rest = servers, *one;

	while (r == 0 && (one = strsep(&rest, " \n"))) {
		long server = strtol(one, NULL, 10);

		if (server <= 0)
			continue;
		snprintf(text, sizeof(text), "terminate_client %ld %d\n", server, client);
		r = command(text, answer, sizeof(answer));
		if (r == 0 && !strcmp(answer, "0\n"))
			return 0;
	}
	return r < 0 ? r : -ESRCH;
}

/* ---- requests ---- */

static void serve(void)
{
	_cleanup_close_ int fd = accept4(mps.listen, NULL, NULL, SOCK_CLOEXEC);
	const struct timeval most = {.tv_sec = 1};
	struct mps_request q;
	struct mps_answer a;

	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	if (recv(fd, &q, sizeof(q), MSG_TRUNC) != sizeof(q) || q.pid <= 0) {
		log_warning("a request that is none");
		return;
	}
	a.result = terminate(q.pid);
	/* One that has ended by itself meanwhile is no client any more. */
	if (a.result < 0 && a.result != -ESRCH)
		log_warning("client %d: its work stays on the device: %s", q.pid,
			    strerror(-a.result));
	(void)send(fd, &a, sizeof(a), MSG_NOSIGNAL);
}

/* ---- start and end ---- */

static int make_dirs(void)
{
	static const char *const names[] = {"pipe", "log"};
	static const char *const keys[] = {"CUDA_MPS_PIPE_DIRECTORY",
					   "CUDA_MPS_LOG_DIRECTORY"};
	char path[108];

	if (mkdir(mps.dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	for (unsigned i = 0; i < 2; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", mps.dir, names[i]) >=
		    (int)sizeof(path))
			return -ENAMETOOLONG;
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return -errno;
		setenv(keys[i], path, 1);
	}
	return 0;
}

/* One for each directory. */
static int lock(void)
{
	int fd = open(mps.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -EBUSY : 0; /* held to the end */
}

static int open_socket(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	if (snprintf(at.sun_path, sizeof(at.sun_path), "%s/" MPS_SOCKET, mps.dir) >=
	    (int)sizeof(at.sun_path))
		return -ENAMETOOLONG;
	(void)unlink(at.sun_path);
	mps.listen = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (mps.listen < 0 || bind(mps.listen, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(mps.listen, 64) < 0)
		return -errno;
	return 0;
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	mps.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return mps.signals < 0 ? -errno : 0;
}

/* Returns false if it is to end. */
static bool take_signals(void)
{
	struct signalfd_siginfo si;
	bool goes_on = true;

	while (read(mps.signals, &si, sizeof(si)) == sizeof(si))
		goes_on &= si.ssi_signo == SIGCHLD;
	return goes_on;
}

static void see_control(void)
{
	int status;

	if (mps.control && waitpid(mps.control, &status, WNOHANG) == mps.control) {
		log_warning(CONTROL " has ended (%s %d): it is started again",
			    WIFSIGNALED(status) ? "signal" : "status",
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		mps.control = 0;
		mps.again_ns = clock_now_ns() + AGAIN_NS;
	}
	if (!mps.control && clock_now_ns() >= mps.again_ns)
		start_control();
}

static void say_ready(void)
{
	char path[120];

	if (mps.said)
		return;
	snprintf(path, sizeof(path), "%s/pipe/control", mps.dir);
	mps.said = mps.control && access(path, F_OK) == 0;
	if (mps.said) {
		log_info("MPS server for class shared: mps = %s", mps.dir);
		notify_manager("READY=1");
	}
}

static void loop(void)
{
	struct pollfd p[] = {{.fd = mps.listen, .events = POLLIN},
			     {.fd = mps.signals, .events = POLLIN}};

	do {
		if (p[0].revents)
			serve();
		see_control();
		say_ready();
		(void)poll(p, 2, mps.control && mps.said ? -1 : 50);
	} while (!p[1].revents || take_signals());
}

static void usage(FILE *f)
{
	fputs("usage: weft-mps DIRECTORY\n"
	      "Runs NVIDIA's MPS server for tenants of class shared; see weft-mps(8).\n\n"
	      "  -h, --help\n"
	      "  --version\n",
	      f);
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		if (c == 'h')
			usage(stdout);
		else if (c == 'V')
			printf("weft-mps %s\n", WEFT_VERSION);
		else
			usage(stderr);
		exit(c == '?' ? 64 : 0);
	}
	if (optind + 1 != argc || *argv[optind] != '/') {
		usage(stderr);
		exit(64);
	}
	mps.dir = argv[optind];
}

int main(int argc, char **argv)
{
	int r;

	log_set_program("weft-mps");
	parse(argc, argv);
	umask(0077);
	signal(SIGPIPE, SIG_IGN);
	r = make_dirs();
	if (r == 0)
		r = lock();
	if (r == 0)
		r = open_signals();
	if (r == 0)
		r = open_socket();
	if (r < 0) {
		log_error("%s: %s", mps.dir,
			  r == -EBUSY ? "another weft-mps is there" : strerror(-r));
		return 1;
	}
	loop();
	if (mps.control) {
		kill(mps.control, SIGTERM);
		(void)waitpid(mps.control, NULL, 0);
	}
	return 0;
}
