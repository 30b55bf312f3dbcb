/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/mps.h"
#include "broker/workers.h"
#include "ipc/mps.h"
#include "util/conf.h"

/* An answer takes 15 ms, and others may have asked. */
#define ANSWER_NS (500 * NSEC_PER_MSEC)

static void kill_now(struct worker *w)
{
	source_remove(w->b->loop, &w->mps);
	w->mps_by_ns = 0;
	child_kill_now(&w->child);
}

/* The worker goes now, for any answer. */
static void on_answer(struct source *src, uint32_t events)
{
	kill_now(container_of(src, struct worker, mps));
}

static int ask(struct worker *w)
{
	const struct mps_request q = {.pid = w->child.pid};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	int r;

	if (snprintf(to.sun_path, sizeof(to.sun_path), "%s/" MPS_SOCKET,
		     w->b->conf->mps) >= (int)sizeof(to.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
	    send(fd, &q, sizeof(q), MSG_NOSIGNAL) != sizeof(q))
		return -errno;
	r = source_add(w->b->loop, &w->mps, fd, EPOLLIN, on_answer);
	if (r == 0)
		fd_steal(&fd);
	return r;
}

/* In the place of a signal. */
static void end(struct child *c)
{
	struct worker *w = container_of(c, struct worker, child);
	int r;

	if (w->mps_by_ns)
		return;
	if (w->state != WORKER_SESSION || !w->b->conf->mps) {
		child_kill_now(c);
		return;
	}
	r = ask(w);
	if (r == 0) {
		w->mps_by_ns = clock_now_ns() + ANSWER_NS;
		return;
	}
	log_warning(
		"weft-mps is not there (%s): if session %llu has work on the device, all "
		"of class shared end",
		strerror(-r), (unsigned long long)w->session);
	child_kill_now(c);
}

void mps_watch(struct worker *w)
{
	w->child.kill = end;
}

void mps_forget(struct worker *w)
{
	source_remove(w->b->loop, &w->mps);
	w->mps_by_ns = 0;
}

uint64_t mps_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	uint64_t next = UINT64_MAX;
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->mps_by_ns && now_ns >= w->mps_by_ns)
			kill_now(w);
		if (w->mps_by_ns)
			next = MIN(next, w->mps_by_ns);
	}
	return next;
}
