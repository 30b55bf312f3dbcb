/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks by a process that was taken over on others, each in a process of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/sandbox.h"

#define NOT_SANDBOXED 99
#define CHANGE_USER   (SANDBOX_CAP(CAP_SETUID) | SANDBOX_CAP(CAP_SETGID))
#define DID_IT        1 /* what must not work did */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static pid_t victim;        /* of the same user as the process in the sandbox */
static int sock[2], log_fd; /* made before the sandbox is closed */
static struct sockaddr_un listens = {AF_UNIX, "/tmp/weft-sandbox-XXXXXX"};

/* True for processes that serve guests. weftd does not, opens files, and has a list of
 * what it may not. */
static bool serves(int kind)
{
	return kind != SANDBOX_BROKER;
}

/* Runs fn in a sandboxed child. Returns its wait status. */
static int in_sandbox(enum sandbox_kind kind, void (*fn)(void))
{
	struct sandbox box = {.kind = kind, .files = 64, .at_once = true};
	int status;
	pid_t pid;

	if (!serves(kind))
		box.capabilities = CHANGE_USER;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, 2); /* what a forbidden call says */
		if (sandbox_early(log_fd + 1) < 0 ||
		    (serves(kind) && sandbox_files(&box) < 0) || sandbox_enter(&box) < 0)
			_exit(98);
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static bool works(enum sandbox_kind kind, void (*fn)(void))
{
	return in_sandbox(kind, fn) == 0;
}

/* The process is no more. */
static bool forbidden(enum sandbox_kind kind, void (*fn)(void))
{
	int status = in_sandbox(kind, fn);

	return WIFEXITED(status) && WEXITSTATUS(status) == SANDBOX_EXIT;
}

/* Limit of open files of a process; prlimit() wants to be the same user. */
static long files_of(pid_t pid)
{
	char path[32], line[256];
	long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		(void)sscanf(line, "Max open files %ld", &n);
	if (f)
		fclose(f);
	return n;
}

/* The call fails, or the process is no more; and the victim is as it was. */
static bool harmless(enum sandbox_kind kind, void (*fn)(void))
{
	int status = in_sandbox(kind, fn);

	return WIFEXITED(status) &&
	       (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SANDBOX_EXIT) &&
	       waitpid(victim, NULL, WNOHANG) == 0 &&
	       sched_getscheduler(victim) == SCHED_OTHER && files_of(victim) > 3;
}

static void did(bool what)
{
	if (what)
		_exit(DID_IT);
}

static void start_listening(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	mode_t old = umask(0);

	close(mkstemp(listens.sun_path));
	unlink(listens.sun_path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&listens, sizeof(listens)), 0);
	cr_assert_eq(listen(fd, 64), 0);
	umask(old);
}

/* A process of the user that the sandboxed ones become, if we are root. */
static void start_victim(void)
{
	if (SANITIZED)
		cr_skip_test("built with a sanitizer: there is no sandbox");
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
	log_fd = fcntl(memfd_create("log", 0), F_DUPFD, sock[1] + 1);
	cr_assert_gt(log_fd, sock[1]);
	start_listening();
	victim = fork();
	if (victim == 0) {
		struct sandbox box = {0};

		if (geteuid() == 0 &&
		    (sandbox_ids(NULL, &box.uid, &box.gid) < 0 || sandbox_user(&box) < 0))
			_exit(1);
		prctl(PR_SET_DUMPABLE, 1);
		for (;;)
			pause();
	}
	cr_assert_gt(victim, 0);
	usleep(20000);
}

static void end_victim(void)
{
	unlink(listens.sun_path);
	if (victim > 0) {
		kill(victim, SIGKILL);
		waitpid(victim, NULL, 0);
	}
}

TestSuite(sandbox, .init = start_victim, .fini = end_victim);

/* ---- what is left ---- */

static void *nothing(void *arg)
{
	return arg;
}

static void work(void)
{
	struct sigaction sa;
	pthread_t t;
	void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED || pthread_create(&t, NULL, nothing, NULL) ||
	    pthread_join(t, NULL))
		_exit(1);
	/* refused, not forbidden: malloc asks for /sys */
	if (open("/etc/passwd", O_RDONLY) >= 0)
		_exit(2);
	if (fcntl(sock[0], F_SETFL, O_NONBLOCK) < 0 ||
	    !(fcntl(sock[0], F_GETFL) & O_NONBLOCK))
		_exit(3);
	if (sigaction(SIGSEGV, NULL, &sa) < 0 || prctl(PR_GET_SECCOMP) != 2)
		_exit(4);
	if (syscall(SYS_tgkill, getpid(), getpid(), SIGCONT) < 0)
		_exit(5);
	free(malloc(1 << 20));
}

Test(sandbox, a_worker_can_do_its_work)
{
	cr_assert(works(SANDBOX_WORKER_SOFT, work));
}

static void ask_as_a_driver(void)
{
	struct rlimit l;
	struct stat st;
	int fd;

	getppid();
	if (getrlimit(RLIMIT_NOFILE, &l) < 0 ||
	    sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0}) < 0)
		_exit(1);
	fd = open("/proc/self/status", O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		_exit(2);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	    MAP_FAILED)
		_exit(3);
	/* A name for a thread, as libcuda writes it. */
	fd = open("/proc/thread-self/comm", O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (fd < 0 || write(fd, "driver", 6) != 6)
		_exit(4);
}

Test(sandbox, a_driver_can_do_its_work)
{
	cr_assert(works(SANDBOX_WORKER_CUDA, ask_as_a_driver));
}

/* ---- what is not ---- */

static void run_program(void)
{
	char *argv[] = {(char *)"/bin/true", NULL};

	execv(*argv, argv);
}

static void make_socket(void)
{
	did(socket(AF_INET, SOCK_STREAM, 0) >= 0);
	did(socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
}

static void make_pair(void)
{
	socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0});
}

static void trace(void)
{
	syscall(SYS_ptrace, 0, 0, 0, 0);
}

static void become_root(void)
{
	setuid(0);
}

static void send_signal(void)
{
	kill(victim, SIGKILL);
}

static void look_into(void)
{
	process_vm_readv(victim, NULL, 0, NULL, 0, 0);
}

Test(sandbox, calls_that_nobody_has)
{
	static void (*const fns[])(void) = {run_program, trace, become_root, send_signal,
					    look_into};

	for (int k = 0; k < SANDBOX_NUM; k++) {
		for (unsigned i = 0; serves(k) && i < sizeof(fns) / sizeof(*fns); i++)
			cr_assert(forbidden((enum sandbox_kind)k, fns[i]), "%s, %u",
				  sandbox_name((enum sandbox_kind)k), i);
	}
	cr_assert(forbidden(SANDBOX_LISTENER, make_pair));
	cr_assert(forbidden(SANDBOX_VSOCK, make_pair));
	cr_assert(forbidden(SANDBOX_VSOCK_CONNECTOR, make_pair));
	cr_assert(forbidden(SANDBOX_EXPORTER, make_pair));
}

static void kill_by_sigio(void)
{
	fcntl(sock[0], F_SETOWN, victim);
	fcntl(sock[0], F_SETOWN_EX, &(struct f_owner_ex){F_OWNER_PID, victim});
	fcntl(sock[0], F_SETSIG, SIGKILL);
	did(fcntl(sock[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
	(void)!write(sock[1], "x", 1);
}

static void kill_by_ioctl(void)
{
	int on = 1, owner = victim;

	did(ioctl(sock[0], FIOSETOWN, &owner) == 0);
	did(ioctl(sock[0], FIOASYNC, &on) == 0);
	/* The kernel looks at 32 bits of the number. */
	did(syscall(SYS_ioctl, sock[0], (1ul << 32) | FIOSETOWN, &owner) == 0);
	did(syscall(SYS_ioctl, sock[0], (0x46ul << 32) | FIOASYNC, &on) == 0);
}

static void kill_thread(void)
{
	did(syscall(SYS_tgkill, victim, victim, SIGKILL) == 0);
}

static void schedule(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	did(sched_setscheduler(victim, SCHED_IDLE, &(struct sched_param){0}) == 0);
	did(sched_setaffinity(victim, sizeof(one), &one) == 0);
}

static void limit_others(void)
{
	did(prlimit(victim, RLIMIT_NOFILE, &(struct rlimit){3, 3}, NULL) == 0);
	did(prlimit(victim, RLIMIT_CPU, &(struct rlimit){1, 1}, NULL) == 0);
}

static void fork_by(unsigned long flags)
{
	long pid = syscall(SYS_clone, flags, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	did(pid > 0);
}

static void make_odd_processes(void)
{
	struct {
		uint64_t a[11];
	} args = {{0}};

	did(syscall(SYS_clone3, &args, sizeof(args)) >= 0);
	fork_by(SIGCHLD | CLONE_VM);
	fork_by(SIGCHLD | CLONE_PARENT);
}

static void make_processes(void)
{
	fork_by(SIGCHLD);
}

static void make_name_space(void)
{
	fork_by(SIGCHLD | CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS);
	did(syscall(SYS_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_NEWUTS, 0,
		    0, 0, 0) >= 0);
}

static void open_files(void)
{
	static const char *const paths[] = {
		"/etc/passwd", "/etc/shadow", "/proc/1/cmdline", "/root",
		"/tmp",        "/dev/shm",    "/dev/mem"};
	char path[64];

	for (unsigned i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		did(open(paths[i], O_RDONLY) >= 0);
	snprintf(path, sizeof(path), "/proc/%d/mem", victim);
	did(open(path, O_RDWR) >= 0);
	snprintf(path, sizeof(path), "/proc/%d/environ", victim);
	did(open(path, O_RDONLY) >= 0);
	did(open("/proc/self/mem", O_RDWR) >= 0);
	did(open("/dev/shm/weft-sandbox", O_RDWR | O_CREAT, 0600) >= 0);
	did(unlink("/dev/shm/nothing") == 0 || errno == ENOENT);
	did(mkdir("/dev/shm/weft-sandbox", 0700) == 0);
}

static void send_datagram(void)
{
	struct sockaddr_un to = {AF_UNIX, "/dev/log"};
	int p[2];

	did(socketpair(AF_UNIX, SOCK_DGRAM, 0, p) == 0);
	did(sendto(sock[0], "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof(to)) >
	    0);
}

static void change_itself(void)
{
	did(prctl(PR_SET_DUMPABLE, 1) == 0);
	did(signal(SIGSYS, SIG_IGN) != SIG_ERR);
}

static void map_code(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	did(p != MAP_FAILED);
}

/* As weftd's control socket, which lets in whoever is its user. */
static void command_others(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	did(fd >= 0 && connect(fd, (struct sockaddr *)&listens, sizeof(listens)) == 0);
}

#define KIND(kind) (1u << (kind))

Test(sandbox, nobody_harms_others)
{
	static const struct {
		void (*fn)(void);
		unsigned but; /* kinds that may */
	} all[] = {
		{kill_by_sigio, 0},
		{kill_by_ioctl, 0},
		{kill_thread, 0},
		{schedule, 0},
		{limit_others, 0},
		{make_processes, KIND(SANDBOX_VSOCK_SUPERVISOR)},
		{make_odd_processes, 0},
		{make_name_space, 0},
		{open_files, 0},
		{make_socket, 0},
		{command_others, KIND(SANDBOX_VSOCK_CONNECTOR) | KIND(SANDBOX_EXPORTER)},
		{send_datagram, 0},
		{change_itself, 0},
		{map_code, KIND(SANDBOX_WORKER_CUDA) | KIND(SANDBOX_GL_SOFT) |
				   KIND(SANDBOX_GL_CUDA)},
	};

	for (unsigned k = 0; k < SANDBOX_NUM; k++) {
		for (unsigned i = 0; serves((int)k) && i < sizeof(all) / sizeof(*all);
		     i++)
			cr_assert(all[i].but & KIND(k) ||
					  harmless((enum sandbox_kind)k, all[i].fn),
				  "%s, %u", sandbox_name((enum sandbox_kind)k), i);
	}
}

/* A supervisor's child begins where it is, and goes on to less. */
static void serve_again(void)
{
	const struct sandbox box = {.kind = SANDBOX_VSOCK};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || sandbox_calls(&box) < 0)
			_exit(2);
		fork();
		_exit(3);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != SANDBOX_EXIT << 8)
		_exit(1);
}

Test(sandbox, a_supervisor_starts_servers)
{
	cr_assert(works(SANDBOX_VSOCK_SUPERVISOR, serve_again));
}

static void connect_for_others(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&listens, sizeof(listens)) < 0)
		_exit(1);
}

Test(sandbox, who_has_to_connect_does)
{
	cr_assert(works(SANDBOX_EXPORTER, connect_for_others));
	cr_assert(works(SANDBOX_VSOCK_CONNECTOR, connect_for_others));
}

/* ---- weftd ---- */

static void refused(long result, int error)
{
	if (result >= 0 || errno != error)
		_exit(DID_IT);
}

static void use_the_kernel(void)
{
	refused(syscall(SYS_ptrace, 0, 0, 0, 0), EPERM);
	refused(syscall(SYS_process_vm_writev, victim, NULL, 0, NULL, 0, 0), EPERM);
	refused(syscall(SYS_bpf, 0, NULL, 0), EPERM);
	refused(syscall(SYS_unshare, CLONE_NEWUSER), EPERM);
	refused(syscall(SYS_clone, SIGCHLD | CLONE_NEWUSER | CLONE_NEWNET, 0, 0, 0, 0),
		EPERM);
	refused(syscall(SYS_mount, "a", "/", "tmpfs", 0, NULL), EPERM);
	refused(syscall(SYS_init_module, NULL, 0, ""), EPERM);
	refused(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT);
}

/* weftd starts programs, which enter sandboxes of their own. */
static void start_programs(void)
{
	struct sandbox box = {.kind = SANDBOX_WORKER_SOFT, .files = 64, .at_once = true};
	char *argv[] = {(char *)"/bin/true", NULL};
	int status = 1;
	pid_t pid = fork();

	if (pid == 0) {
		execv(*argv, argv);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	if (status || sandbox_files(&box) < 0 || sandbox_enter(&box) < 0)
		_exit(1);
	work();
}

Test(sandbox, weftd_has_what_it_needs)
{
	cr_assert(works(SANDBOX_BROKER, use_the_kernel));
	cr_assert(works(SANDBOX_BROKER, start_programs));
}

/* Root without most capabilities; what it starts can become another user, and no more. */
static void act_for_others(void)
{
	refused(syscall(SYS_sethostname, "x", 1), EPERM);
	if (setpriority(PRIO_PROCESS, 0, -5) == 0 || prctl(PR_CAPBSET_READ, 21) != 0)
		_exit(1); /* 21: CAP_SYS_ADMIN */
	if (setresgid(12345, 12345, 12345) < 0 || setresuid(12345, 12345, 12345) < 0)
		_exit(2);
	if (setuid(0) == 0)
		_exit(3);
}

Test(sandbox, root_keeps_few_capabilities)
{
	if (geteuid() != 0)
		cr_skip_test("not root: there are no capabilities");
	cr_assert(works(SANDBOX_BROKER, act_for_others));
}

/* ---- what SANDBOX_LOG says ---- */

static void go_beyond(void)
{
	int fd = open("/etc/passwd", O_RDONLY);

	did(fd < 0);
	did(uname(&(struct utsname){0}) < 0);
	did(fcntl(sock[0], F_SETOWN, getpid()) < 0);
}

Test(sandbox, what_would_be_stopped_is_said)
{
	struct sandbox box = {.kind = SANDBOX_WORKER_SOFT, .mode = SANDBOX_LOG};
	char text[4096] = "";
	int status, p[2];
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	cr_assert_eq(pipe(p), 0);
	pid = fork();
	if (pid == 0) {
		dup2(p[1], 2);
		close(p[1]);
		if (sandbox_files(&box) < 0 || sandbox_enter(&box) < 0)
			_exit(98);
		go_beyond();
		_exit(0);
	}
	close(p[1]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	while (n < sizeof(text) - 1 &&
	       (got = read(p[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	cr_assert_eq(status, 0, "0x%x %s", status, text);
	cr_assert(strstr(text, "would be stopped: open /etc/passwd"), "%s", text);
	cr_assert(strstr(text, "would be stopped: uname("), "%s", text);
	cr_assert(strstr(text, "would be stopped: fcntl("), "%s", text);
}

/* ---- hostd/doc/syscalls.md ---- */

static char *read_page(void)
{
	FILE *f = fopen(SYSCALLS_PAGE, "re");
	static char text[65536];
	size_t n;

	cr_assert_not_null(f, "%s", SYSCALLS_PAGE);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

/* The page has a block of lines for each kind, as sandbox_print() prints them. */
Test(sandbox_page, says_what_the_filters_do)
{
	const char *page = read_page();

	for (int k = 0; k < SANDBOX_NUM; k++) {
		char head[64], *list = NULL;
		const char *at;
		size_t n;
		FILE *f = open_memstream(&list, &n);

		sandbox_print((enum sandbox_kind)k, f);
		fclose(f);
		snprintf(head, sizeof(head), "```%s\n",
			 sandbox_name((enum sandbox_kind)k));
		at = strstr(page, head);
		cr_assert_not_null(at, "no block %s", head);
		at += strlen(head);
		cr_assert(!strncmp(at, list, n) && !strncmp(at + n, "```\n", 4),
			  "%s differs; it is:\n%s", head, list);
		free(list);
	}
}
