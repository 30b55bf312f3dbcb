/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may take long and that nobody waits for: closing a descriptor that came from
 * a worker or a listener, which lasts as long as whoever made it likes (a socket that
 * lingers), and moving a process into a cgroup (some ten milliseconds). Threads beside
 * the loop do it, more of them while some are busy. They share nothing with the loop but
 * the pipe that brings their work.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "broker/loop/aside.h"
#include "broker/loop/loop.h"

/* Once so many are stuck, what is to be closed waits in the pipe, and then stays open. */
#define THREADS_MAX 64u
#define STACK_BYTES (64u << 10)

struct work {
	int fd;    /* to be closed */
	pid_t pid; /* not 0: to be written there first */
};

static int queue[2] = {-1, -1};
static atomic_int n_free; /* threads less what they have to do */
static unsigned n_threads;

static void *work_off(void *arg)
{
	struct work w;

	while (read(queue[0], &w, sizeof(w)) == sizeof(w)) {
		if (w.pid && dprintf(w.fd, "%d", w.pid) < 0 && errno != ESRCH)
			log_warning("process %d is in no cgroup of its tenant's: %s",
				    w.pid, strerror(errno));
		close(w.fd);
		atomic_fetch_add(&n_free, 1);
	}
	return NULL;
}

static int add_thread(void)
{
	pthread_attr_t attr;
	pthread_t t;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = -pthread_create(&t, &attr, work_off, NULL);
	pthread_attr_destroy(&attr);
	if (r < 0)
		return r;
	atomic_fetch_add(&n_free, 1);
	n_threads++;
	return 0;
}

int aside_open(void)
{
	if (pipe2(queue, O_CLOEXEC) < 0)
		return -errno;
	return fd_set_nonblock(queue[1], 1);
}

static int hand_over(const struct work *w)
{
	if (atomic_load(&n_free) <= 0 && n_threads < THREADS_MAX && add_thread() < 0 &&
	    !n_threads)
		return -EAGAIN;
	if (write(queue[1], w, sizeof(*w)) != sizeof(*w))
		return -EAGAIN;
	atomic_fetch_sub(&n_free, 1);
	return 0;
}

void aside_close(int fd)
{
	const struct work w = {.fd = fd};
	static struct log_limit limit;

	if (fd >= 0 && hand_over(&w) < 0 && log_limit_ok(&limit, 1))
		log_warning("descriptors that children sent stay open: closing others "
			    "takes long");
}

void aside_remove(struct loop *l, struct source *src)
{
	int fd = source_release(l, src);

	if (fd >= 0)
		shutdown(fd, SHUT_RDWR);
	aside_close(fd);
}

void aside_write_pid(int fd, pid_t pid)
{
	const struct work w = {.fd = fd, .pid = pid};

	if (hand_over(&w) < 0)
		close(fd);
}
