/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sockfile.h"
#include "libvirt/note.h"
#include "libvirt/place.h"
#include "libvirt/sentence.h"
#include "libvirt/vsock.h"
#include "util/selfdir.h"

#define START_MS 20000
#define END_MS   5000
#define UNIT     "weft-hook@%s.service"

static bool have_systemd(void)
{
	return access("/run/systemd/system", F_OK) == 0;
}

static char *run_path(const struct note *n, const char *suffix, char *buf, size_t room)
{
	snprintf(buf, room, "%s/%s%s", PLACE_RUN, n->tenant, suffix);
	return buf;
}

/* ---- who it is ---- */

/* The C library knows these calls from 2.36 on. */
static int open_pidfd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void send_signal(int pidfd, int number)
{
	(void)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0);
}

/* more: O_CREAT, or 0. */
static int open_lock(const struct note *n, int more)
{
	char path[160];
	int fd = open(note_path(n->tenant, ".lock", path, sizeof(path)),
		      O_RDWR | O_CLOEXEC | O_NOFOLLOW | more, 0600);

	return fd < 0 ? -errno : fd;
}

/* Returns who holds the lock, 0: nobody, or -errno. */
static pid_t holder(int lock)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(lock, F_GETLK, &l) < 0)
		return -errno;
	return l.l_type == F_UNLCK ? 0 : l.l_pid;
}

/*
 * A descriptor of the process that holds the lock. A number may come to be another's
 * between two looks; if the second look finds the same holder, it was there all the time.
 * Returns -ESRCH if there is none.
 */
static int open_holder(const struct note *n)
{
	_cleanup_close_ int lock = open_lock(n, 0), fd = -1;
	pid_t pid = lock < 0 ? lock : holder(lock);

	if (pid <= 0)
		return pid < 0 ? pid : -ESRCH;
	fd = open_pidfd(pid);
	if (fd < 0 || holder(lock) != pid)
		return -ESRCH;
	return fd_steal(&fd);
}

/* ---- becoming it ---- */

int vsock_exec(const struct note *n)
{
	char socket[160], handover[160], forward[160], cid[16], path[160];
	_cleanup_free_ char *dir = NULL, *program = NULL;
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int lock = open_lock(n, O_CREAT), r;
	struct note still;

	if (lock < 0)
		return lock;
	/* The kernel lets it go when this process ends, and keeps it over execv(). */
	if (fcntl(lock, F_SETLK, &l) < 0 || fcntl(lock, F_SETFD, 0) < 0)
		return -errno;
	/* The end of a VM is to forget it first, and to look for us afterwards. */
	r = note_of_tenant(n->tenant, &still);
	if (r == 0 && still.ended)
		r = -ENOENT;
	note_fini(&still);
	if (r < 0) {
		unlink(note_path(n->tenant, ".log", path, sizeof(path)));
		unlink(note_path(n->tenant, ".lock", path, sizeof(path)));
		return r;
	}
	r = self_dir("weft-vsock", &dir);
	if (r < 0)
		return r;
	if (asprintf(&program, "%s/weft-vsock", dir) < 0) {
		program = NULL;
		return -ENOMEM;
	}
	snprintf(cid, sizeof(cid), "%u", n->cid);
	execl(program, "weft-vsock", "--socket",
	      run_path(n, ".vsock", socket, sizeof(socket)), "--cid", cid, "--forward",
	      run_path(n, ".sock", forward, sizeof(forward)), "--handover",
	      run_path(n, ".handover", handover, sizeof(handover)), "--socket-group",
	      PLACE_QEMU_GROUP, "--socket-mode", "0660", (char *)NULL);
	return -errno;
}

/* ---- starting it ourselves ---- */

static _Noreturn void child(const struct note *n, const char *notify)
{
	char path[160];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), r;
	int log = open(note_path(n->tenant, ".log", path, sizeof(path)),
		       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
		       0600);
	sigset_t none;

	/* libvirt waits until nobody has the hook's output open any more. */
	if (null < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 ||
	    dup2(log, 2) < 0)
		_exit(1);
	setsid();
	(void)!chdir("/");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	closefrom(3);
	setenv("NOTIFY_SOCKET", notify, 1);
	r = vsock_exec(n);
	dprintf(2, "weft-vsock: %s\n", strerror(-r));
	_exit(1);
}

/* The last line that it said, before it ended. */
static char *last_line(const struct note *n)
{
	char path[160], line[200] = "", said[200] = "has said nothing";
	FILE *f = fopen(note_path(n->tenant, ".log", path, sizeof(path)), "re");

	while (f && fgets(line, sizeof(line), f))
		snprintf(said, sizeof(said), "%.*s", (int)strcspn(line, "\n"), line);
	if (f)
		fclose(f);
	return sentence("the VM's vsock device cannot be started: %s", said);
}

static int wait_ready(const struct note *n, int notify, int pidfd, char **ret_why)
{
	struct pollfd p[] = {{.fd = notify, .events = POLLIN},
			     {.fd = pidfd, .events = POLLIN}};
	char buf[64];

	if (poll(p, ARRAY_SIZE(p), START_MS) == 0) {
		*ret_why = sentence("the VM's vsock device was not ready in time");
		return -ETIMEDOUT;
	}
	if (p[0].revents && recv(notify, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		return 0;
	*ret_why = last_line(n);
	return -EIO;
}

static int listen_notify(const char *path)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un sa;
	int r = sockfile_address(path, &sa);

	if (r < 0)
		return r;
	unlink(path);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	return fd_steal(&fd);
}

static int start_detached(const struct note *n, char **ret_why)
{
	_cleanup_close_ int notify = -1, pidfd = -1;
	char path[160];
	pid_t pid;
	int r;

	notify = listen_notify(note_path(n->tenant, ".notify", path, sizeof(path)));
	if (notify < 0)
		return notify;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		child(n, path);
	pidfd = open_pidfd(pid);
	r = pidfd < 0 ? -errno : wait_ready(n, notify, pidfd, ret_why);
	unlink(path);
	if (r < 0)
		kill(pid, SIGKILL); /* ours, and not waited for yet */
	return r;
}

/* ---- systemd ---- */

/* Returns 0, or -EIO if it failed. */
static int systemctl(const char *verb, const struct note *n)
{
	char unit[CONF_NAME_MAX + 32];
	int status = -1;
	pid_t pid;

	snprintf(unit, sizeof(unit), UNIT, n->tenant);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execlp("systemctl", "systemctl", verb, unit, (char *)NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? 0 : -EIO;
}

int vsock_start(const struct note *n, char **ret_why)
{
	_cleanup_close_ int running = open_holder(n);
	int r;

	*ret_why = NULL;
	if (running >= 0)
		return 0;
	r = have_systemd() ? systemctl("start", n) : start_detached(n, ret_why);
	if (r < 0 && !*ret_why)
		*ret_why = have_systemd()
				   ? sentence("the VM's vsock device cannot be started: "
					      "journalctl -u " UNIT,
					      n->tenant)
				   : sentence("the VM's vsock device cannot be started: "
					      "%s",
					      strerror(-r));
	return r;
}

void vsock_stop(const struct note *n)
{
	static const char *const sockets[] = {".vsock", ".handover"};
	_cleanup_close_ int fd = -1;
	char path[160];

	/* Never started: the sockets are somebody else's. */
	if (access(note_path(n->tenant, ".lock", path, sizeof(path)), F_OK) < 0)
		return;
	if (have_systemd())
		(void)systemctl("stop", n);
	fd = open_holder(n);
	if (fd >= 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		send_signal(fd, SIGTERM);
		if (poll(&p, 1, END_MS) == 0) {
			send_signal(fd, SIGKILL);
			(void)poll(&p, 1, END_MS);
		}
	}
	for (unsigned i = 0; i < ARRAY_SIZE(sockets); i++)
		unlink(run_path(n, sockets[i], path, sizeof(path)));
}
