/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: replacing pages that the program uses
 *
 * Registering puts the pages of a region in the place of the program's, and unregistering
 * the program's in the place of the region's. Other threads may store to them meanwhile,
 * and no store may be lost, so these threads have to wait: through userfaultfd, without a
 * signal handler.
 *
 *   to the region: the program's pages are write-protected, copied, moved away, and the
 *	region is mapped there. In between whoever touches them waits.
 *   back: empty pages come first, in one step. Whoever touches one waits until the
 *	program's pages, filled from the region, are in their place.
 *
 * Moving pages costs a tenth of giving them back and having others made. So a little of
 * what is registered keeps its pages, and regions that wait for the next registration
 * stay mapped somewhere, their twin. Where there are no pages any more new ones are
 * filled.
 *
 * A page that moves to another address stays with its userfaultfd only if that says so
 * and somebody reads each time that one did. Empty pages have to, which one helper thread
 * reads; the program's, on their way out, must not, so they have a userfaultfd of their
 * own.
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
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "object/hostmem.h"
#include "core/move.h"
#include "core/process.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* From here on helper threads copy. */
#define HELPED_BYTES (4u << 20)
/* Pages of the program that wait, of all of it: for what is registered again and again,
 * which is small; kept regions have as much. */
#define HOMES_BYTES ((size_t)16 << 20)

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
/* The userfaultfds, once they work: of pages on their way out, and of empty ones. */
static _Atomic int leaving = -1, coming = -1;
static _Atomic size_t homes; /* bytes */

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

static int open_one(uint64_t features, int *ret_fd)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	_cleanup_close_ int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
		return -errno;
	*ret_fd = fd_steal(&fd);
	return 0;
}

static int open_faults_locked(void)
{
	_cleanup_close_ int out = -1, in = -1;
	int r = open_one(UFFD_FEATURE_PAGEFAULT_FLAG_WP, &out);

	if (r == 0)
		r = open_one(UFFD_FEATURE_EVENT_REMAP, &in);
	if (r == 0)
		r = start_reader(in);
	if (r < 0)
		return r;
	atomic_store(&leaving, fd_steal(&out));
	atomic_store(&coming, fd_steal(&in)); /* last: says that both are there */
	return 0;
}

/* Whether other threads can be made to wait. */
static bool faults_work(void)
{
	static bool said;
	int r = 0;

	if (atomic_load(&coming) >= 0)
		return true;
	pthread_mutex_lock(&open_lock);
	if (atomic_load(&coming) < 0)
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

static void close_fault(_Atomic int *fault)
{
	int fd = atomic_exchange(fault, -1);

	if (fd >= 0)
		close(fd);
}

void hostmem_swap_after_fork(void)
{
	close_fault(&leaving);
	close_fault(&coming);
}

static struct uffdio_range range_of(uintptr_t at, size_t size)
{
	return (struct uffdio_range){at, size};
}

static int watch(int fd, uintptr_t at, size_t size, uint64_t mode)
{
	struct uffdio_register u = {.range = range_of(at, size), .mode = mode};

	return ioctl(fd, UFFDIO_REGISTER, &u) < 0 ? -errno : 0;
}

static void wake(int fd, uintptr_t at, size_t size)
{
	struct uffdio_range u = range_of(at, size);

	ioctl(fd, UFFDIO_WAKE, &u);
}

static void unwatch(int fd, uintptr_t at, size_t size)
{
	struct uffdio_range u = range_of(at, size);

	ioctl(fd, UFFDIO_UNREGISTER, &u);
	wake(fd, at, size);
}

static int protect(uintptr_t at, size_t size, bool on)
{
	struct uffdio_writeprotect u = {
		.range = range_of(at, size),
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(leaving, UFFDIO_WRITEPROTECT, &u) < 0 ? -errno : 0;
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
	int r = watch(leaving, at, size, UFFDIO_REGISTER_MODE_WP);

	if (r < 0)
		return r;
	touch(at, size);
	r = protect(at, size, true);
	if (r < 0)
		unwatch(leaving, at, size);
	return r;
}

/* ---- moving pages ---- */

/* Leaves empty what it moves away. 0: that is not possible here. */
static uintptr_t move_away(uintptr_t at, size_t size)
{
	void *p = mremap((void *)at, size, size, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	return p == MAP_FAILED ? 0 : (uintptr_t)p;
}

/* In one step, in the place of whatever is there. */
static bool move_to(uintptr_t from, size_t size, uintptr_t at)
{
	return mremap((void *)from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
		      (void *)at) != MAP_FAILED;
}

static bool pay_for_own(size_t size)
{
	if (atomic_fetch_add(&homes, size) + size <= HOMES_BYTES)
		return true;
	atomic_fetch_sub(&homes, size);
	return false;
}

/* Where the program's pages wait; 0: they stay, and whoever touches them goes on. */
static uintptr_t leave_own(uintptr_t at, size_t size, bool alone)
{
	uintptr_t own = 0;

	if (!pay_for_own(size))
		return 0;
	if (alone || watch(leaving, at, size,
			   UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING) == 0)
		own = move_away(at, size);
	if (!own)
		atomic_fetch_sub(&homes, size);
	return own;
}

static bool come_own(uintptr_t own, size_t size, uintptr_t at)
{
	bool moved = move_to(own, size, at);

	if (moved)
		atomic_fetch_sub(&homes, size);
	return moved;
}

void hostmem_drop_own(uintptr_t own, size_t size)
{
	if (!own)
		return;
	munmap((void *)own, size);
	atomic_fetch_sub(&homes, size);
}

/* Pages that wait are still protected: all of them at once, not each when it is written.
 */
static void unprotect_own(uintptr_t own, size_t size)
{
	if (watch(leaving, own, size, UFFDIO_REGISTER_MODE_WP) < 0)
		return;
	protect(own, size, false);
	unwatch(leaving, own, size);
}

/* Keeps the region's pages that are mapped at `at` for the next registration. The place
 * finds them again when it is touched. */
static void keep_twin(struct hostmem_region *g, uintptr_t at, size_t size)
{
	uintptr_t twin = size <= HOMES_BYTES ? move_away(at, size) : 0;

	if (!twin)
		return;
	if (g->twin)
		munmap((void *)g->twin, g->twin_size);
	g->twin = twin;
	g->twin_size = size;
}

static int put_region(struct hostmem_region *g, uintptr_t at, size_t size)
{
	int r;

	if (g->twin_size == size && move_to(g->twin, size, at)) {
		g->twin = g->twin_size = 0;
		return 0;
	}
	r = link_map_over(guest_process.link, (void *)at, g->offset, size, false);
	if (r == 0)
		(void)madvise((void *)at, size, MADV_POPULATE_READ);
	return r;
}

/* ---- to the region ---- */

static void copy_page(uintptr_t dst, uintptr_t src)
{
	size_t n = HOSTMEM_PAGE;

	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
}

/* The first page and the last are others' in part. A sanitizer in the program, whose
 * memcpy() ours is, would take that for an overflow. */
static void copy_pages(uintptr_t dst, uintptr_t src, size_t size, bool helped)
{
	size_t last = size - HOSTMEM_PAGE;

	copy_page(dst, src);
	if (last)
		copy_page(dst + last, src + last);
	if (last > HOSTMEM_PAGE)
		move_bytes((void *)(dst + HOSTMEM_PAGE),
			   (const void *)(src + HOSTMEM_PAGE), last - HOSTMEM_PAGE,
			   helped);
}

static int share_pages(struct hostmem_region *g, uintptr_t at, size_t size, bool alone,
		       bool helped, uintptr_t *ret_own)
{
	int r = alone ? 0 : stop_stores(at, size);
	uintptr_t own;

	if (r < 0)
		return r;
	copy_pages(g->addr, at, size, helped);
	own = leave_own(at, size, alone);
	r = put_region(g, at, size);
	if (r < 0 && own && !come_own(own, size, at))
		log_warning("memory to be registered is lost: no memory");
	if (!alone) /* nothing is protected any more */
		unwatch(leaving, at, size);
	if (r < 0)
		return r;
	if (own && !alone)
		unprotect_own(own, size);
	*ret_own = own;
	return 0;
}

int hostmem_share_pages(struct hostmem_region *g, uintptr_t at, size_t size,
			uintptr_t *ret_own)
{
	bool alone = __libc_single_threaded;
	bool helped = size >= HELPED_BYTES && move_begin();
	sigset_t all, old;
	int r;

	/* In one go, which is several times as fast; or else one by one. */
	if (g->twin_size < size)
		(void)madvise((void *)(uintptr_t)g->addr, size, MADV_POPULATE_WRITE);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = share_pages(g, at, size, alone, helped, ret_own);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (helped)
		move_end();
	return r;
}

/* ---- and back ---- */

/* Fills pages that nobody has seen; returns how many bytes of them. */
static size_t fill(uintptr_t at, uintptr_t from, size_t size)
{
	size_t done = 0;

	while (done < size) {
		struct uffdio_copy u = {
			.dst = at + done, .src = from + done, .len = size - done};
		int r = ioctl(coming, UFFDIO_COPY, &u) < 0 ? -errno : 0;

		if (u.copy > 0)
			done += (size_t)u.copy;
		else if (r < 0 && r != -EAGAIN)
			break;
	}
	return done;
}

/* New pages with what the region has. */
static int fill_from(const struct hostmem_region *g, uintptr_t at, size_t size)
{
	size_t done = fill(at, g->addr, size);

	if (done == size)
		return 0;
	/* The rest has been seen by nobody: shared as before. */
	if (link_map_over(guest_process.link, (void *)(at + done), g->offset + done,
			  size - done, false) < 0)
		log_warning("registered memory is lost: no memory");
	return -ENOMEM;
}

static void *new_pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Empty pages: from now on whoever touches one waits. */
static int put_empty(uintptr_t at, size_t size)
{
	void *empty = new_pages(size);

	if (!empty)
		return -ENOMEM;
	/* Pages that mlockall() has filled must be empty. */
	(void)munlock(empty, size);
	(void)madvise(empty, size, MADV_DONTNEED);
	if (watch(coming, (uintptr_t)empty, size, UFFDIO_REGISTER_MODE_MISSING) == 0 &&
	    move_to((uintptr_t)empty, size, at))
		return 0;
	munmap(empty, size);
	return -ENOMEM;
}

static int unshare_among_threads(const struct hostmem_region *g, uintptr_t at,
				 size_t size, uintptr_t own)
{
	int r = put_empty(at, size);

	if (r < 0)
		return r;
	if (own)
		memcpy((void *)own, (const void *)(uintptr_t)g->addr, size);
	if (!own || !come_own(own, size, at)) {
		r = fill_from(g, at, size);
		if (r == 0)
			hostmem_drop_own(own, size);
	}
	unwatch(coming, at, size);
	return r;
}

static int unshare_alone(const struct hostmem_region *g, uintptr_t at, size_t size,
			 uintptr_t own, bool helped)
{
	void *pages = own ? (void *)own : new_pages(size);
	bool moved;

	if (!pages)
		return -ENOMEM;
	if (!own)
		(void)madvise(pages, size, MADV_POPULATE_WRITE);
	move_bytes(pages, (const void *)(uintptr_t)g->addr, size, helped);
	moved = own ? come_own(own, size, at) : move_to((uintptr_t)pages, size, at);
	if (!moved && !own)
		munmap(pages, size);
	return moved ? 0 : -ENOMEM;
}

int hostmem_unshare_pages(struct hostmem_region *g, uintptr_t at, size_t size,
			  uintptr_t own)
{
	bool alone = __libc_single_threaded, helped;
	sigset_t all, old;
	int r;

	if (!alone && !faults_work())
		return -EOPNOTSUPP;
	helped = alone && size >= HELPED_BYTES && move_begin();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	keep_twin(g, at, size);
	if (alone)
		r = unshare_alone(g, at, size, own, helped);
	else
		r = unshare_among_threads(g, at, size, own);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (helped)
		move_end();
	if (r < 0)
		hostmem_drop_own(own, size);
	return r;
}
