// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: replacing pages that the program uses
 *
 * Registering puts the pages of a region in the place of the program's, and unregistering
 * ordinary ones in the place of the region's. Other threads may store to them meanwhile,
 * and no store may be lost, so these threads have to wait: through userfaultfd, without a
 * signal handler.
 *
 *   to the region: the program's pages are write-protected, copied, and mapped over;
 *   back: empty pages come first, in one step. Whoever touches one waits until it has
 *	been filled from the region, which has another address that nobody knows.
 *
 * Pages that move to another address stay with their userfaultfd only if somebody reads
 * that they did: one helper thread, which does nothing else.
 *
 * The thread that swaps must not wait for itself. In between it takes no lock, allocates
 * nothing and has its signals blocked, and memory with its own stack is not for that.
 *
 * Where the kernel lets only a privileged process handle faults of system calls, a call
 * of another thread that touches these pages at that moment fails with EFAULT.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "hostmem.h"
#include "move.h"
#include "process.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* From here on helper threads copy. */
#define HELPED_BYTES (4u << 20)

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int faults = -1; /* the userfaultfd, once it works */

/* Makes a thread go on that has moved pages; what others wait for, they wait for. */
static void *read_events(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct uffd_msg m;

	while (read(fd, &m, sizeof(m)) > 0 || errno == EINTR || errno == EAGAIN)
		;
	return NULL;
}

static int start_reader(int fd)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, (size_t)64 << 10);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, &attr, read_events, (void *)(intptr_t)fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -r;
}

static int open_faults_locked(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_REMAP,
	};
	_cleanup_close_ int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	int r;

	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
		return -errno;
	r = start_reader(fd);
	if (r == 0)
		atomic_store(&faults, fd_steal(&fd));
	return r;
}

/* Whether other threads can be made to wait. */
static bool faults_work(void)
{
	static bool said;
	int r = 0;

	if (atomic_load(&faults) >= 0)
		return true;
	pthread_mutex_lock(&open_lock);
	if (atomic_load(&faults) < 0)
		r = open_faults_locked();
	if (r < 0 && !said)
		log_debug("registered memory of programs with threads is not mapped: "
			  "no userfaultfd (%d)",
			  -r);
	said |= r < 0;
	pthread_mutex_unlock(&open_lock);
	return r == 0;
}

bool hostmem_may_swap(uintptr_t at, size_t size)
{
	uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
	uintptr_t local = (uintptr_t)&errno;

	/* The frames of this thread are some pages on either side. */
	if (at < stack + (64 << 10) && at + size > stack - (64 << 10))
		return false;
	if (local - at < size)
		return false;
	return __libc_single_threaded || faults_work();
}

void hostmem_swap_after_fork(void)
{
	int fd = atomic_exchange(&faults, -1);

	if (fd >= 0)
		close(fd);
}

static struct uffdio_range range_of(uintptr_t at, size_t size)
{
	return (struct uffdio_range){at, size};
}

static int watch(uintptr_t at, size_t size, uint64_t mode)
{
	struct uffdio_register u = {.range = range_of(at, size), .mode = mode};

	return ioctl(faults, UFFDIO_REGISTER, &u) < 0 ? -errno : 0;
}

static void unwatch(uintptr_t at, size_t size)
{
	struct uffdio_range u = range_of(at, size);

	ioctl(faults, UFFDIO_UNREGISTER, &u);
	ioctl(faults, UFFDIO_WAKE, &u);
}

static int protect(uintptr_t at, size_t size, bool on)
{
	struct uffdio_writeprotect u = {
		.range = range_of(at, size),
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(faults, UFFDIO_WRITEPROTECT, &u) < 0 ? -errno : 0;
}

/* A page that is not there yet cannot be protected. */
static void touch(uintptr_t at, size_t size)
{
	for (size_t i = 0; i < size; i += HOSTMEM_PAGE)
		(void)*(volatile const char *)(at + i);
}

/* From now on stores to these pages wait. */
static int stop_stores(uintptr_t at, size_t size)
{
	int r = watch(at, size, UFFDIO_REGISTER_MODE_WP);

	if (r < 0)
		return r;
	touch(at, size);
	r = protect(at, size, true);
	if (r < 0)
		unwatch(at, size);
	return r;
}

static void wake(uintptr_t at, size_t size)
{
	struct uffdio_range u = range_of(at, size);

	ioctl(faults, UFFDIO_WAKE, &u);
}

static int share_pages(const struct hostmem_region *g, uintptr_t at, size_t size,
		       bool alone, bool helped)
{
	int r = alone ? 0 : stop_stores(at, size);

	if (r < 0)
		return r;
	move_bytes((void *)(uintptr_t)g->addr, (const void *)at, size, helped);
	r = link_map_over(guest_process.link, (void *)at, g->offset, size, false);
	if (!alone && r < 0) {
		protect(at, size, false);
		unwatch(at, size);
	} else if (!alone) {
		wake(at, size);
	}
	return r;
}

int hostmem_share_pages(const struct hostmem_region *g, uintptr_t at, size_t size)
{
	bool alone = __libc_single_threaded;
	bool helped = size >= HELPED_BYTES && move_begin();
	sigset_t all, old;
	int r;

	/* In one go, which is several times as fast; or else one by one. */
	(void)madvise((void *)(uintptr_t)g->addr, size, MADV_POPULATE_WRITE);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = share_pages(g, at, size, alone, helped);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (helped)
		move_end();
	if (r == 0)
		(void)madvise((void *)at, size, MADV_POPULATE_READ);
	return r;
}

/* Fills pages that nobody has seen; returns how many bytes of them. */
static size_t fill(uintptr_t at, uintptr_t from, size_t size)
{
	size_t done = 0;

	while (done < size) {
		struct uffdio_copy u = {
			.dst = at + done, .src = from + done, .len = size - done};
		int r = ioctl(faults, UFFDIO_COPY, &u) < 0 ? -errno : 0;

		if (u.copy > 0)
			done += (size_t)u.copy;
		else if (r < 0 && r != -EAGAIN)
			break;
	}
	return done;
}

static int unshare_among_threads(const struct hostmem_region *g, uintptr_t at,
				 size_t size, void *fresh)
{
	size_t done;
	int r = 0;

	/* What mlockall() has filled must be empty. */
	(void)munlock(fresh, size);
	(void)madvise(fresh, size, MADV_DONTNEED);
	if (watch((uintptr_t)fresh, size, UFFDIO_REGISTER_MODE_MISSING) < 0 ||
	    mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at) ==
		    MAP_FAILED) {
		munmap(fresh, size);
		return -ENOMEM;
	}
	done = fill(at, g->addr, size);
	if (done < size) { /* of the rest nothing has been seen: shared as before */
		r = link_map_over(guest_process.link, (void *)(at + done),
				  g->offset + done, size - done, false);
		if (r < 0)
			log_warning("registered memory is lost: no memory");
		r = -ENOMEM;
	}
	unwatch(at, size);
	return r;
}

static int unshare_alone(const struct hostmem_region *g, uintptr_t at, size_t size,
			 void *fresh, bool helped)
{
	(void)madvise(fresh, size, MADV_POPULATE_WRITE);
	move_bytes(fresh, (const void *)(uintptr_t)g->addr, size, helped);
	if (mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at) ==
	    MAP_FAILED) {
		munmap(fresh, size);
		return -ENOMEM;
	}
	return 0;
}

int hostmem_unshare_pages(const struct hostmem_region *g, uintptr_t at, size_t size)
{
	bool alone = __libc_single_threaded, helped;
	sigset_t all, old;
	void *fresh;
	int r;

	if (!alone && !faults_work())
		return -EOPNOTSUPP;
	fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (fresh == MAP_FAILED)
		return -ENOMEM;
	helped = alone && size >= HELPED_BYTES && move_begin();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (alone)
		r = unshare_alone(g, at, size, fresh, helped);
	else
		r = unshare_among_threads(g, at, size, fresh);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (helped)
		move_end();
	return r;
}
