/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandboxed process can still do, each in a process of its own. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/sandbox.h"

#define NOT_SANDBOXED 99

/* Runs fn in a sandboxed child. Returns its wait status. */
static int in_sandbox(enum sandbox_kind kind, void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, 2); /* what a forbidden call says */
		if (sandbox_early(3) < 0 || sandbox_enter(kind, NULL) < 0)
			_exit(98);
		/* A door may not even ask. */
		if (kind != SANDBOX_DOOR && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
			_exit(NOT_SANDBOXED);
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static bool forbidden(enum sandbox_kind kind, void (*fn)(void))
{
	int status = in_sandbox(kind, fn);

	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_SANDBOXED)
		cr_skip_test("built with a sanitizer");
	return WIFEXITED(status) && WEXITSTATUS(status) == SANDBOX_EXIT;
}

static pid_t parent;

static void *nothing(void *arg)
{
	return arg;
}

static void work(void)
{
	pthread_t t;
	void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED || pthread_create(&t, NULL, nothing, NULL) ||
	    pthread_join(t, NULL))
		_exit(1);
	/* refused, not forbidden: malloc asks for /sys */
	if (open("/etc/passwd", O_RDONLY) >= 0)
		_exit(2);
	free(malloc(1 << 20));
}

static void run_program(void)
{
	char *argv[] = {(char *)"/bin/true", NULL};

	execv(*argv, argv);
}

static void make_socket(void)
{
	socket(AF_INET, SOCK_STREAM, 0);
}

static void trace(void)
{
	syscall(SYS_ptrace, 0, 0, 0, 0);
}

static void signal_parent(void)
{
	kill(parent, SIGCONT);
}

static void signal_parent_thread(void)
{
	syscall(SYS_tgkill, parent, parent, SIGCONT);
}

static void ignore_sigsys(void)
{
	signal(SIGSYS, SIG_IGN);
}

static void become_root(void)
{
	setuid(0);
}

Test(sandbox, worker)
{
	int status = in_sandbox(SANDBOX_WORKER_SOFT, work);

	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_SANDBOXED)
		cr_skip_test("built with a sanitizer");
	cr_assert_eq(status, 0, "0x%x", status);
	parent = getpid();
	cr_assert(forbidden(SANDBOX_WORKER_SOFT, run_program));
	cr_assert(forbidden(SANDBOX_WORKER_SOFT, make_socket));
	cr_assert(forbidden(SANDBOX_WORKER_SOFT, trace));
	cr_assert(forbidden(SANDBOX_WORKER_SOFT, signal_parent));
	cr_assert(forbidden(SANDBOX_WORKER_SOFT, signal_parent_thread));
	cr_assert(forbidden(SANDBOX_WORKER_SOFT, ignore_sigsys));
	cr_assert(forbidden(SANDBOX_WORKER_SOFT, become_root));
}

static void get_ppid(void)
{
	syscall(SYS_getppid);
}

Test(sandbox, cuda_worker)
{
	parent = getpid();
	cr_assert(forbidden(SANDBOX_WORKER_CUDA, run_program));
	cr_assert(forbidden(SANDBOX_WORKER_CUDA, trace));
	cr_assert(forbidden(SANDBOX_WORKER_CUDA, signal_parent_thread));
	cr_assert(!forbidden(SANDBOX_WORKER_CUDA, get_ppid), "the driver asks");
}

static void make_pair(void)
{
	socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0});
}

Test(sandbox, door)
{
#ifdef __SANITIZE_ADDRESS__ /* a door cannot be asked whether it has a filter */
	cr_skip_test("built with a sanitizer");
#endif
	cr_assert(forbidden(SANDBOX_DOOR, run_program));
	cr_assert(forbidden(SANDBOX_DOOR, make_socket));
	cr_assert(forbidden(SANDBOX_DOOR, make_pair));
}
