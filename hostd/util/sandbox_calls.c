/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists follow the code: a function that needs a system call names it in a #syscalls
 * comment or is one of glibc's for memory, threads and signals. Processes of all tenants
 * may run as one user, so no call may name another process: what takes a pid has it
 * checked, and what sends signals by a detour (F_SETOWN, O_ASYNC, FIOSETOWN) is not left.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "util/sandbox_int.h"

#define CALL(x)                                                                          \
	{                                                                                \
		.nr = SCMP_SYS(x), .name = #x                                            \
	}
#define REFUSED(x, e)                                                                    \
	{                                                                                \
		.nr = SCMP_SYS(x), .name = #x, .when = "fails: " #e, .error = e          \
	}
#define OWN(x)                                                                           \
	{                                                                                \
		.nr = SCMP_SYS(x), .name = #x, .when = "of this process",                \
		.own_pid = true                                                          \
	}
#define WHEN(x, text, ...)                                                               \
	{                                                                                \
		.nr = SCMP_SYS(x), .name = #x, .when = text,                             \
		.n_args = ARRAY_SIZE(((struct scmp_arg_cmp[]){__VA_ARGS__})),            \
		.args = {__VA_ARGS__},                                                   \
	}
#define REFUSED_WHEN(x, e, text, ...)                                                    \
	{                                                                                \
		.nr = SCMP_SYS(x), .name = #x, .when = text " fails: " #e, .error = e,   \
		.n_args = ARRAY_SIZE(((struct scmp_arg_cmp[]){__VA_ARGS__})),            \
		.args = {__VA_ARGS__},                                                   \
	}
#define IS(i, value)                                                                     \
	{                                                                                \
		.arg = i, .op = SCMP_CMP_EQ, .datum_a = value                            \
	}
#define NOT(i, value)                                                                    \
	{                                                                                \
		.arg = i, .op = SCMP_CMP_NE, .datum_a = value                            \
	}
/* Upper halves, which the kernel does not look at, are not looked at here. */
#define BITS(i, mask, value)                                                             \
	{                                                                                \
		.arg = i, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value    \
	}

/* Waiting, logging, ending; the heap. */
static const struct sandbox_call calls_common[] = {
	CALL(read),
	CALL(write),
	CALL(close),
	CALL(recvmsg),
	CALL(sendmsg),
	CALL(recvfrom),
	CALL(sendto),
	CALL(readv),
	CALL(writev),
	CALL(poll),
	CALL(ppoll),
	CALL(epoll_wait),
	CALL(epoll_pwait),
	CALL(epoll_pwait2),
	CALL(epoll_ctl),
	CALL(exit),
	CALL(exit_group),
	CALL(rt_sigreturn),
	CALL(rt_sigprocmask),
	WHEN(rt_sigaction, "not SIGSYS", NOT(0, SIGSYS)),
	OWN(tgkill),
	CALL(clock_gettime),
	CALL(clock_nanosleep),
	CALL(nanosleep),
	CALL(gettimeofday),
	CALL(time),
	CALL(getpid),
	CALL(gettid),
	CALL(restart_syscall),
	CALL(futex),
	CALL(brk),
	CALL(munmap),
	CALL(mremap),
	CALL(madvise),
	CALL(getrandom),
	WHEN(fcntl, "F_GETFD", IS(1, F_GETFD)),
	WHEN(fcntl, "F_SETFD", IS(1, F_SETFD)),
	WHEN(fcntl, "F_GETFL", IS(1, F_GETFL)),
	WHEN(fcntl, "F_SETFL without O_ASYNC", IS(1, F_SETFL), BITS(2, O_ASYNC, 0)),
	WHEN(fcntl, "F_DUPFD_CLOEXEC", IS(1, F_DUPFD_CLOEXEC)),
	WHEN(fcntl, "F_ADD_SEALS", IS(1, F_ADD_SEALS)),
	WHEN(fcntl, "F_GET_SEALS", IS(1, F_GET_SEALS)),
};

/* All but a driver, which loads libraries and code of its own. */
static const struct sandbox_call calls_data_only[] = {
	WHEN(mmap, "without PROT_EXEC", BITS(2, PROT_EXEC, 0)),
	/* glibc's malloc asks for the number of processors in /sys when threads contend;
	 * refused, it asks the scheduler. */
	REFUSED(open, EACCES),
	REFUSED(openat, EACCES),
};

/* accept4: only the listener listens. */
static const struct sandbox_call calls_listener[] = {
	CALL(accept4),
};

/* weft-vsock: the guest's memory, QEMU's socket, connections. */
static const struct sandbox_call calls_vsock[] = {
	CALL(accept4),    CALL(shutdown),
	CALL(getsockopt), WHEN(setsockopt, "SOL_SOCKET", IS(1, SOL_SOCKET)),
	CALL(geteuid),    CALL(fstat),
	CALL(newfstatat), CALL(timerfd_settime),
};

#define CLONE_NAMESPACES                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |   \
	 CLONE_NEWPID | CLONE_NEWNET)

/* Threads, windows, the memory of the software device. */
static const struct sandbox_call calls_worker[] = {
	WHEN(clone, "threads only",
	     BITS(0, CLONE_THREAD | CLONE_VM | CLONE_NAMESPACES,
		  CLONE_THREAD | CLONE_VM)),
	/* Arguments of clone3 lie in memory, where a filter cannot look; glibc goes back
	 * to clone. */
	REFUSED(clone3, ENOSYS),
	CALL(set_robust_list),
	CALL(rseq),
	CALL(set_tid_address),
	CALL(sched_yield),
	CALL(sched_getaffinity),
	CALL(getcpu),
	CALL(memfd_create),
	CALL(ftruncate),
	CALL(fallocate),
	CALL(shutdown),
	CALL(getsockopt),
	WHEN(setsockopt, "SOL_SOCKET", IS(1, SOL_SOCKET)),
	CALL(eventfd2),
	CALL(sigaltstack),
	CALL(membarrier),
	CALL(getrusage),
	CALL(sysinfo),
	WHEN(prctl, "PR_SET_NAME", IS(0, PR_SET_NAME)),
	WHEN(prctl, "PR_GET_NAME", IS(0, PR_GET_NAME)),
	WHEN(prctl, "PR_GET_SECCOMP", IS(0, PR_GET_SECCOMP)),
	CALL(fstat),
	CALL(newfstatat),
	CALL(lseek),
	CALL(dup),
};

static const struct sandbox_call calls_soft[] = {
	WHEN(mprotect, "without PROT_EXEC", BITS(2, PROT_EXEC, 0)),
};

/* The driver library opens device files late and speaks to them by ioctl: numbers of the
 * type 'F' are NVIDIA's own, those below 4096 its unified memory's. FIOASYNC, FIOSETOWN
 * and those of terminals are neither. */
static const struct sandbox_call calls_cuda[] = {
	WHEN(ioctl, "type 'F'", BITS(1, 0xff00, 'F' << 8)),
	WHEN(ioctl, "below 4096", BITS(1, 0xfffff000, 0)),
	WHEN(ioctl, "0x30000000 to 3", BITS(1, 0xfffffffc, 0x30000000)),
	CALL(openat),
	CALL(open),
	CALL(mmap),
	CALL(mprotect),
	CALL(stat),
	CALL(lstat),
	CALL(statx),
	CALL(readlink),
	CALL(access),
	CALL(faccessat2),
	CALL(getdents64),
	CALL(pipe2),
	CALL(statfs),
	/* A datagram could be sent to anybody. */
	WHEN(socketpair, "SOCK_STREAM", BITS(1, 0xf, SOCK_STREAM)),
	WHEN(socketpair, "SOCK_SEQPACKET", BITS(1, 0xf, SOCK_SEQPACKET)),
	CALL(mlock),
	CALL(munlock),
	CALL(get_mempolicy),
	CALL(set_mempolicy),
	CALL(mbind),
	CALL(timerfd_create),
	CALL(timerfd_settime),
	CALL(epoll_create1),
	CALL(uname),
	CALL(getuid),
	CALL(geteuid),
	CALL(getgid),
	CALL(getegid),
	CALL(getppid),
	WHEN(prlimit64, "asking for one's own", IS(0, 0), IS(2, 0)),
	CALL(pread64),
	WHEN(sched_setaffinity, "one's own", IS(0, 0)),
	WHEN(sched_setscheduler, "one's own", IS(0, 0)),
	CALL(sched_getparam),
	CALL(sched_getscheduler),
	CALL(sched_get_priority_max),
	CALL(sched_get_priority_min),
	WHEN(fcntl, "F_DUPFD", IS(1, F_DUPFD)),
	WHEN(fcntl, "F_GETLK", IS(1, F_GETLK)),
	WHEN(fcntl, "F_SETLK", IS(1, F_SETLK)),
	WHEN(fcntl, "F_SETLKW", IS(1, F_SETLKW)),
	CALL(flock),
	REFUSED(unlink, EACCES),
	REFUSED(mkdir, EACCES),
};

/* weft-gl with Mesa's rasteriser, which compiles shaders to machine code. */
static const struct sandbox_call calls_gl[] = {
	CALL(mmap),
	CALL(mprotect),
	CALL(getppid),
	REFUSED(open, EACCES),
	REFUSED(openat, EACCES),
	REFUSED(readlink, EACCES),
	REFUSED(access, EACCES),
	REFUSED(uname, EACCES),
	WHEN(sched_setaffinity, "one's own", IS(0, 0)),
	REFUSED(sched_setscheduler, EACCES),
};

/* A server's process begins with its supervisor's filter. */
static const struct sandbox_call calls_supervisor[] = {
	WHEN(clone, "processes only",
	     BITS(0, CLONE_THREAD | CLONE_VM | CLONE_PARENT | CLONE_NAMESPACES, 0)),
	REFUSED(clone3, ENOSYS),
	CALL(wait4),
	CALL(getppid),
	CALL(set_robust_list),
	CALL(signalfd4),
	CALL(epoll_create1),
	CALL(timerfd_create),
	WHEN(socketpair, "SOCK_SEQPACKET", BITS(1, 0xf, SOCK_SEQPACKET)),
	WHEN(prctl, "PR_SET_PDEATHSIG", IS(0, PR_SET_PDEATHSIG)),
	WHEN(prctl, "PR_SET_NO_NEW_PRIVS", IS(0, PR_SET_NO_NEW_PRIVS)),
	CALL(seccomp),
};

static const struct sandbox_call calls_connector[] = {
	WHEN(socket, "AF_UNIX", IS(0, AF_UNIX)),
	CALL(connect),
};

/* weft-exporter: a server of HTTP, and a client of weftd's socket. */
static const struct sandbox_call calls_exporter[] = {
	CALL(accept4),
	CALL(shutdown),
	CALL(getsockname),
	CALL(getsockopt),
	WHEN(setsockopt, "SOL_SOCKET", IS(1, SOL_SOCKET)),
	WHEN(setsockopt, "IPPROTO_TCP", IS(1, IPPROTO_TCP)),
	WHEN(socket, "AF_UNIX", IS(0, AF_UNIX)),
	CALL(connect),
	CALL(fstat),
	CALL(newfstatat),
};

/* A clone for a name space, one flag at a time. */
#define NAMESPACE(flag) REFUSED_WHEN(clone, EPERM, #flag, BITS(0, flag, flag))

/*
 * Calls that neither weftd nor a driver that opens its device makes: other processes'
 * memory, the system as a whole, name spaces and mounts, networks, and parts of the
 * kernel that are new or seldom used.
 */
static const struct sandbox_call calls_broker[] = {
	REFUSED(ptrace, EPERM),
	REFUSED(process_vm_readv, EPERM),
	REFUSED(process_vm_writev, EPERM),
	REFUSED(kcmp, EPERM),
	REFUSED(pidfd_getfd, EPERM),
	REFUSED(process_madvise, EPERM),
	REFUSED(perf_event_open, EPERM),
	REFUSED(bpf, EPERM),
	REFUSED(userfaultfd, EPERM),
	REFUSED(io_uring_setup, EPERM),
	REFUSED(io_uring_enter, EPERM),
	REFUSED(io_uring_register, EPERM),
	REFUSED(add_key, EPERM),
	REFUSED(request_key, EPERM),
	REFUSED(keyctl, EPERM),
	REFUSED(fanotify_init, EPERM),
	REFUSED(open_by_handle_at, EPERM),
	REFUSED(lookup_dcookie, EPERM),
	REFUSED(mknod, EPERM),
	REFUSED(mknodat, EPERM),
	REFUSED(mount, EPERM),
	REFUSED(umount2, EPERM),
	REFUSED(pivot_root, EPERM),
	REFUSED(chroot, EPERM),
	REFUSED(open_tree, EPERM),
	REFUSED(move_mount, EPERM),
	REFUSED(fsopen, EPERM),
	REFUSED(fsconfig, EPERM),
	REFUSED(fsmount, EPERM),
	REFUSED(fspick, EPERM),
	REFUSED(mount_setattr, EPERM),
	REFUSED(unshare, EPERM),
	REFUSED(setns, EPERM),
	NAMESPACE(CLONE_NEWNS),
	NAMESPACE(CLONE_NEWCGROUP),
	NAMESPACE(CLONE_NEWUTS),
	NAMESPACE(CLONE_NEWIPC),
	NAMESPACE(CLONE_NEWUSER),
	NAMESPACE(CLONE_NEWPID),
	NAMESPACE(CLONE_NEWNET),
	REFUSED(clone3, ENOSYS),
	REFUSED_WHEN(socket, EAFNOSUPPORT, "other than AF_UNIX", NOT(0, AF_UNIX)),
	REFUSED(init_module, EPERM),
	REFUSED(finit_module, EPERM),
	REFUSED(delete_module, EPERM),
	REFUSED(kexec_load, EPERM),
	REFUSED(kexec_file_load, EPERM),
	REFUSED(reboot, EPERM),
	REFUSED(swapon, EPERM),
	REFUSED(swapoff, EPERM),
	REFUSED(acct, EPERM),
	REFUSED(quotactl, EPERM),
	REFUSED(syslog, EPERM),
	REFUSED(sethostname, EPERM),
	REFUSED(setdomainname, EPERM),
	REFUSED(settimeofday, EPERM),
	REFUSED(clock_settime, EPERM),
	REFUSED(adjtimex, EPERM),
	REFUSED(clock_adjtime, EPERM),
	REFUSED(iopl, EPERM),
	REFUSED(ioperm, EPERM),
	REFUSED(modify_ldt, EPERM),
	REFUSED(vhangup, EPERM),
};

struct set {
	const struct sandbox_call *calls;
	unsigned n;
};

#define SET(x)                                                                           \
	{                                                                                \
		x, ARRAY_SIZE(x)                                                         \
	}

static const struct {
	const char *name;
	struct set sets[5];
} kinds[] = {
	[SANDBOX_WORKER_SOFT] = {"worker-soft",
				 {SET(calls_common), SET(calls_data_only),
				  SET(calls_worker), SET(calls_soft)}},
	[SANDBOX_WORKER_CUDA] = {"worker-cuda",
				 {SET(calls_common), SET(calls_worker), SET(calls_cuda)}},
	[SANDBOX_GL_SOFT] = {"gl-soft",
			     {SET(calls_common), SET(calls_worker), SET(calls_gl)}},
	[SANDBOX_GL_CUDA] = {"gl-cuda",
			     {SET(calls_common), SET(calls_worker), SET(calls_cuda)}},
	[SANDBOX_LISTENER] = {"listener",
			      {SET(calls_common), SET(calls_data_only),
			       SET(calls_listener)}},
	[SANDBOX_VSOCK] = {"vsock",
			   {SET(calls_common), SET(calls_data_only), SET(calls_vsock)}},
	[SANDBOX_VSOCK_SUPERVISOR] = {"vsock-supervisor",
				      {SET(calls_common), SET(calls_data_only),
				       SET(calls_vsock), SET(calls_supervisor)}},
	[SANDBOX_VSOCK_CONNECTOR] = {"vsock-connector",
				     {SET(calls_common), SET(calls_data_only),
				      SET(calls_connector)}},
	[SANDBOX_EXPORTER] = {"exporter",
			      {SET(calls_common), SET(calls_data_only),
			       SET(calls_exporter)}},
	[SANDBOX_BROKER] = {"weftd", {SET(calls_broker)}},
};
static_assert(ARRAY_SIZE(kinds) == SANDBOX_NUM, "each kind has its list");

const char *sandbox_name(enum sandbox_kind kind)
{
	return kinds[kind].name;
}

int sandbox_each(enum sandbox_kind kind,
		 int (*fn)(const struct sandbox_call *c, void *arg), void *arg)
{
	const struct set *s = kinds[kind].sets;

	for (; s->calls; s++) {
		for (unsigned i = 0; i < s->n; i++) {
			int r = fn(&s->calls[i], arg);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int print_call(const struct sandbox_call *c, void *arg)
{
	fprintf(arg, "%s%s%s\n", c->name, c->when ? " " : "", c->when ? c->when : "");
	return 0;
}

void sandbox_print(enum sandbox_kind kind, FILE *f)
{
	(void)sandbox_each(kind, print_call, f);
}

/* ---- the filters ---- */

static int add(scmp_filter_ctx f, uint32_t action, int nr, unsigned n,
	       const struct scmp_arg_cmp *args)
{
	int r = nr < 0 ? 0 : seccomp_rule_add_array(f, action, nr, n, args);

	return r == -EEXIST ? 0 : r;
}

/* By number alone: a call that is not on the list ends the process. */
static int allow_number(const struct sandbox_call *c, void *f)
{
	return add(f, SCMP_ACT_ALLOW, c->nr, 0, NULL);
}

/* By arguments: what a call on the list is not left to do fails. */
static int allow_arguments(const struct sandbox_call *c, void *f)
{
	struct scmp_arg_cmp self = {
		.arg = 0, .op = SCMP_CMP_EQ, .datum_a = (scmp_datum_t)getpid()};

	if (c->error)
		return add(f, SCMP_ACT_ERRNO((uint32_t)c->error), c->nr, c->n_args,
			   c->args);
	if (c->own_pid)
		return add(f, SCMP_ACT_ALLOW, c->nr, 1, &self);
	return add(f, SCMP_ACT_ALLOW, c->nr, c->n_args, c->args);
}

static int load(enum sandbox_kind kind, uint32_t others,
		int (*rule)(const struct sandbox_call *c, void *f), bool more)
{
	scmp_filter_ctx f = seccomp_init(others);
	int r;

	if (!f)
		return -ENOMEM;
	r = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
	if (r == 0)
		r = sandbox_each(kind, rule, f);
	/* For the second filter, which does not have it. */
	if (r == 0 && more)
		r = add(f, SCMP_ACT_ALLOW, SCMP_SYS(seccomp), 0, NULL);
	if (r == 0 && !more)
		r = seccomp_attr_set(f, SCMP_FLTATR_CTL_NNP, 0);
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
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
	static bool caught; /* in a parent whose sandbox does not let us ask */

	if (caught)
		return 0;
	caught = true;
	return sigaction(SIGSYS, &sa, NULL) < 0 ? -errno : 0;
}

/*
 * Two filters, of which the kernel takes the sterner answer: libseccomp has one answer
 * for all that no rule names, and a call with other arguments is not to end the process
 * as one that is not on the list.
 */
int sandbox_restrict_calls(enum sandbox_kind kind)
{
	int r;

	if (kind == SANDBOX_BROKER)
		return load(kind, SCMP_ACT_ALLOW, allow_arguments, false);
	r = catch_forbidden();
	if (r == 0)
		r = load(kind, SCMP_ACT_TRAP, allow_number, true);
	if (r == 0)
		r = load(kind, SCMP_ACT_ERRNO(EPERM), allow_arguments, false);
	return r;
}
