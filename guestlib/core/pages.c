/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: closed pages
 *
 * Empty pages, watched by userfaultfd, are in the place of what is closed. Whoever touches one
 * waits, in the kernel too if a system call was given it, and no signal handler takes part.
 * They come there in one step (mremap), so that no store of another thread is lost in between;
 * the kernel then waits until somebody has read that they did. So one thread reads and never
 * waits, and another one does what faults ask for.
 *
 * A process that the kernel does not let wait in system calls has no such pages: read() into
 * one would fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "core/pages.h"
#include "core/process.h"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

#define PAGE ((uintptr_t)4096)

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int faults = -1;               /* the userfaultfd, once all works */
static int touched_in = -1, touched_out = -1; /* a pipe of addresses */
static pages_touched *on_touched;
static bool says_writes; /* where pages are for reading alone */

_Atomic bool pages_lent;
void (*pages_on_command)(void);

/* In a page's address: it was written. */
#define WRITES ((uintptr_t)1)

/* In the kernel's name as well as in the program's: by privilege, by sysctl, or by device. */
static int open_userfaultfd(void)
{
	_cleanup_close_ int dev = -1;
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd >= 0)
		return fd;
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	return dev < 0 ? -1 : ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
}

static void *read_events(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct uffd_msg m;
	ssize_t n;

	while ((n = read(fd, &m, sizeof(m))) > 0 || errno == EINTR || errno == EAGAIN) {
		uint64_t addr = ALIGN_DOWN(m.arg.pagefault.address, PAGE);

		if (m.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE)
			addr |= WRITES;

		if (n == sizeof(m) && m.event == UFFD_EVENT_PAGEFAULT &&
		    write(touched_in, &addr, sizeof(addr)) < 0)
			log_debug("managed memory: a fault is lost: %m");
	}
	return NULL;
}

/* Whether something is touched before then (0: however long that takes). */
static bool touched_before(uint64_t until_ns)
{
	struct pollfd p = {.fd = touched_out, .events = POLLIN};
	uint64_t now_ns = clock_now_ns();
	struct timespec left = {0};

	if (!until_ns)
		return true;
	if (until_ns > now_ns)
		left.tv_nsec = (long)MIN(until_ns - now_ns, NSEC_PER_SEC - 1);
	return ppoll(&p, 1, &left, NULL) != 0;
}

static void *serve(void *arg)
{
	uint64_t addr, until_ns = 0;
	ssize_t n = 0;

	do {
		if (!touched_before(until_ns)) {
			until_ns = on_touched(0, false);
			continue;
		}
		n = read(touched_out, &addr, sizeof(addr));
		if (n == sizeof(addr))
			until_ns = on_touched(addr & ~WRITES, addr & WRITES);
	} while (n > 0 || errno == EINTR);
	return NULL;
}

static int start_thread(void *(*run)(void *), void *arg)
{
	sigset_t all, old;
	pthread_t thread;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r == 0)
		pthread_detach(thread);
	return -r;
}

/* One that has these features, or -1. */
static int open_with(uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	_cleanup_close_ int fd = open_userfaultfd();

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
		return -1;
	return fd_steal(&fd);
}

/* Linux before 5.7 does not say of writes. */
static int open_best(void)
{
	int fd = open_with(UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP);

	says_writes = fd >= 0;
	return fd >= 0 ? fd : open_with(UFFD_FEATURE_EVENT_REMAP);
}

static int start_locked(pages_touched *touched)
{
	_cleanup_close_ int fd = open_best();
	int ends[2], r;

	if (fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	touched_out = ends[0];
	touched_in = ends[1];
	on_touched = touched;
	r = start_thread(serve, NULL);
	if (r == 0)
		r = start_thread(read_events, (void *)(intptr_t)fd);
	if (r < 0) /* serve() ends */
		close(ends[1]);
	else
		atomic_store(&faults, fd_steal(&fd));
	return r;
}

int pages_start(pages_touched *touched)
{
	static int before = 1; /* what the only try came to */
	int r;

	if (atomic_load(&faults) >= 0)
		return 0;
	pthread_mutex_lock(&start_lock);
	if (before > 0) {
		before = start_locked(touched);
		if (before < 0)
			log_debug("managed memory stays in host memory: no userfaultfd "
				  "(%d)",
				  -before);
	}
	r = before;
	pthread_mutex_unlock(&start_lock);
	return r;
}

int pages_close(uintptr_t at, size_t size)
{
	struct uffdio_register u = {.mode = UFFDIO_REGISTER_MODE_MISSING |
					    (says_writes ? UFFDIO_REGISTER_MODE_WP : 0)};
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	u.range = (struct uffdio_range){(uintptr_t)p, size};
	if (madvise(p, size, MADV_DONTFORK) < 0 ||
	    ioctl(faults, UFFDIO_REGISTER, &u) < 0 ||
	    mremap(p, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at) ==
		    MAP_FAILED) {
		int r = -errno;

		munmap(p, size);
		return r;
	}
	return 0;
}

static void wake(uintptr_t at, size_t size)
{
	struct uffdio_range u = {at, size};
	int fd = atomic_load(&faults);

	if (fd >= 0)
		ioctl(fd, UFFDIO_WAKE, &u);
}

int pages_open(uintptr_t at, size_t size, uint64_t offset)
{
	int r = link_map_over(guest_process.link, (void *)at, offset, size, false);

	if (r == 0)
		madvise((void *)at, size, MADV_DONTFORK);
	wake(at, size);
	return r;
}

int pages_take(uintptr_t at, size_t size, void **ret_pages)
{
	void *p = mremap((void *)at, size, size, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	if (p == MAP_FAILED)
		return -errno;
	*ret_pages = p;
	return 0;
}

/* Bytes that one call has filled, or -errno. */
static int64_t fill_some(uintptr_t at, size_t size, const void *from, uint64_t mode)
{
	struct uffdio_copy c = {
		.dst = at, .src = (uintptr_t)from, .len = size, .mode = mode};
	struct uffdio_zeropage z = {.range = {at, size}};

	if (from ? ioctl(faults, UFFDIO_COPY, &c) : ioctl(faults, UFFDIO_ZEROPAGE, &z)) {
		int64_t did = from ? c.copy : z.zeropage;

		/* A mapping of the process changes just now, and it is to be tried again. */
		return did > 0 ? did : errno == EAGAIN ? 0 : -errno;
	}
	return (int64_t)size;
}

static int fill(uintptr_t at, size_t size, const void *from, uint64_t mode)
{
	size_t done = 0;

	while (done < size) {
		int64_t n = fill_some(at + done, size - done,
				      from ? (const char *)from + done : NULL, mode);

		if (n < 0)
			return (int)n;
		done += (size_t)n;
	}
	return 0;
}

int pages_fill(uintptr_t at, size_t size, const void *from)
{
	return fill(at, size, from, 0);
}

bool pages_can_lend(void)
{
	return says_writes;
}

int pages_lend(uintptr_t at, size_t size, uint64_t offset)
{
	void *from = mmap(NULL, size, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int r;

	if (from == MAP_FAILED)
		return -errno;
	r = link_map_over(guest_process.link, from, offset, size, false);
	if (r == 0)
		r = fill(at, size, from, UFFDIO_COPY_MODE_WP);
	munmap(from, size);
	if (r < 0)
		pages_take_back(at, size);
	return r;
}

void pages_take_back(uintptr_t at, size_t size)
{
	if (madvise((void *)at, size, MADV_DONTNEED) < 0)
		log_warning("managed memory: pages cannot be taken back: %m");
}

/* Linux 5.7 and later. */
static bool can_take(void)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	void *taken;

	if (p == MAP_FAILED)
		return false;
	taken = mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (taken != MAP_FAILED)
		munmap(taken, PAGE);
	munmap(p, PAGE);
	return taken != MAP_FAILED;
}

bool pages_can_take(void)
{
	static _Atomic int can; /* 1: yes, -1: no */

	if (!can) {
		_cleanup_close_ int fd = open_userfaultfd();

		can = fd >= 0 && can_take() ? 1 : -1;
	}
	return can > 0;
}

void pages_wake(uintptr_t addr)
{
	wake(ALIGN_DOWN(addr, PAGE), PAGE);
}

void pages_end(uintptr_t at, size_t size)
{
	link_unmap(guest_process.link, at, size);
	wake(at, size);
}

void pages_after_fork(void)
{
	int fd = atomic_exchange(&faults, -1);

	if (fd < 0)
		return;
	close(fd);
	close(touched_in);
	close(touched_out);
}
