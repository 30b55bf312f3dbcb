/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists follow the code: a function that needs a system call names it in a #syscalls
 * comment or is one of glibc's for memory, threads and signals.
 */
#include <errno.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "util/sandbox.h"

/* One socket per lane, the window, the control pair, standard streams, memory shared with
 * other sessions (twice SPACE_SHARES_MAX on the software GPU), and some room. */
#define SANDBOX_FILES 10240

int sandbox_early(int first_fd)
{
	setsid(); /* fails only if that is so already */
	if (syscall(SYS_close_range, first_fd, ~0u, 0) < 0)
		return -errno;
	return 0;
}

static int limit(int resource, rlim_t max)
{
	struct rlimit l;

	if (getrlimit(resource, &l) < 0)
		return -errno;
	l.rlim_cur = l.rlim_max = MIN(max, l.rlim_max);
	return setrlimit(resource, &l) < 0 ? -errno : 0;
}

static const struct passwd *find_user(const char *user)
{
	const struct passwd *pw;

	if (user)
		return getpwnam(user);
	pw = getpwnam("weft");
	return pw ? pw : getpwnam("nobody");
}

static int drop_user(const char *user)
{
	const struct passwd *pw;

	if (geteuid() != 0)
		return 0;
	pw = find_user(user);
	if (!pw || pw->pw_uid == 0)
		return -ENOENT;
	if (setgroups(0, NULL) < 0 || setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0)
		return -errno;
	return 0;
}

/* What every process does to wait, to log and to end. */
static const int calls_common[] = {
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(close),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvfrom),
	SCMP_SYS(sendto),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(fcntl),
	SCMP_SYS(futex),
	SCMP_SYS(brk),
	SCMP_SYS(mmap),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(getrandom),
	SCMP_SYS(writev),
	SCMP_SYS(readv),
};

/* accept4: only the door listens. */
static const int calls_door[] = {
	SCMP_SYS(accept4),
};

/* Threads, windows, the memory of the software device. */
static const int calls_worker[] = {
	SCMP_SYS(clone),
	SCMP_SYS(clone3),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_setscheduler),
	SCMP_SYS(getcpu),
	SCMP_SYS(mprotect),
	SCMP_SYS(memfd_create),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(shutdown),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(eventfd2),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(membarrier),
	SCMP_SYS(getrusage),
	SCMP_SYS(sysinfo),
	SCMP_SYS(prctl),
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(lseek),
	SCMP_SYS(dup),
};

/* The driver library opens device files late and speaks to them by ioctl. */
static const int calls_cuda[] = {
	SCMP_SYS(ioctl),
	SCMP_SYS(openat),
	SCMP_SYS(open),
	SCMP_SYS(stat),
	SCMP_SYS(lstat),
	SCMP_SYS(readlink),
	SCMP_SYS(access),
	SCMP_SYS(getdents64),
	SCMP_SYS(pipe2),
	SCMP_SYS(statfs),
	SCMP_SYS(socketpair),
	SCMP_SYS(mlock),
	SCMP_SYS(munlock),
	SCMP_SYS(get_mempolicy),
	SCMP_SYS(set_mempolicy),
	SCMP_SYS(mbind),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(uname),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(prlimit64),
	SCMP_SYS(pread64),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(getppid),
	SCMP_SYS(unlink),
	SCMP_SYS(mkdir),
	SCMP_SYS(flock),
	SCMP_SYS(sched_get_priority_max),
	SCMP_SYS(sched_get_priority_min),
};

/* glibc's malloc asks for the number of processors in /sys when threads contend; refused,
 * it asks the scheduler. No file is opened after the sandbox is closed. */
static const int calls_refused[] = {
	SCMP_SYS(openat),
	SCMP_SYS(open),
};

static int refuse(scmp_filter_ctx f)
{
	int r = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(calls_refused) && r == 0; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EACCES), calls_refused[i], 0);
	return r;
}

/*
 * abort() and pthread_kill() send to ourselves; workers of one user do not reach others.
 * SIGSYS stays with on_forbidden().
 */
static int allow_own_signals(scmp_filter_ctx f)
{
	int r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				 SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));

	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(rt_sigaction), 1,
				     SCMP_A0(SCMP_CMP_NE, SIGSYS));
	return r;
}

/* A call that is not on the list: says which, and ends the process. */
static void on_forbidden(int sig, siginfo_t *si, void *context)
{
	static const char text[] = ": error: forbidden system call ";
	char number[12], *p = number + sizeof(number);
	const char *name = program_invocation_short_name;
	int n = si->si_syscall;

	*--p = '\n';
	do {
		*--p = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0 && p > number);
	(void)!write(2, name, strlen(name));
	(void)!write(2, text, sizeof(text) - 1);
	(void)!write(2, p, (size_t)(number + sizeof(number) - p));
	_exit(SANDBOX_EXIT);
}

/* Nobody can take the handler away afterwards; where the signal is blocked, the kernel
 * kills. */
static int catch_forbidden(void)
{
	struct sigaction sa = {.sa_sigaction = on_forbidden, .sa_flags = SA_SIGINFO};

	return sigaction(SIGSYS, &sa, NULL) < 0 ? -errno : 0;
}

static int allow(scmp_filter_ctx f, const int *calls, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		int r = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);

		/* A name that this architecture lacks is negative and harmless. */
		if (r < 0 && calls[i] >= 0)
			return r;
	}
	return 0;
}

static int fill_filter(scmp_filter_ctx f, enum sandbox_kind kind)
{
	int r = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);

	if (r == 0)
		r = allow(f, calls_common, ARRAY_SIZE(calls_common));
	if (r == 0)
		r = allow_own_signals(f);
	if (r == 0 && kind == SANDBOX_DOOR)
		return allow(f, calls_door, ARRAY_SIZE(calls_door));
	if (r == 0)
		r = allow(f, calls_worker, ARRAY_SIZE(calls_worker));
	if (r == 0 && kind == SANDBOX_WORKER_CUDA)
		return allow(f, calls_cuda, ARRAY_SIZE(calls_cuda));
	return r == 0 ? refuse(f) : r;
}

/*
 * WEFT_SANDBOX=log, in the daemon's environment, lets other calls pass and has the kernel
 * write them to its audit log: for finding out what a new driver needs.
 */
static uint32_t action_for_others(void)
{
	const char *s = getenv("WEFT_SANDBOX");

	if (!s || strcmp(s, "log"))
		return SCMP_ACT_TRAP;
	log_warning("system calls are logged, not stopped");
	return SCMP_ACT_LOG;
}

static int filter_calls(enum sandbox_kind kind)
{
	scmp_filter_ctx f = seccomp_init(action_for_others());
	int r;

	if (!f)
		return -ENOMEM;
	r = catch_forbidden();
	if (r == 0)
		r = fill_filter(f, kind);
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
	return r;
}

/* A sanitizer's runtime makes calls of its own, at any time. */
static bool have_sanitizer(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	return true;
#endif
#endif
	return false;
}

int sandbox_enter(enum sandbox_kind kind, const char *user)
{
	int r = limit(RLIMIT_CORE, 0);

	if (r == 0)
		r = limit(RLIMIT_NOFILE, SANDBOX_FILES);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (have_sanitizer()) {
		log_info("built with a sanitizer, whose reports need files: no sandbox");
		return 0;
	}
	r = drop_user(user);
	if (r < 0)
		return r;
	return filter_calls(kind);
}
