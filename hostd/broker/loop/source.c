/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"
#include "broker/loop/loop.h"

int source_add(struct broker *b, struct source *src, int fd, uint32_t events,
	       void (*fn)(struct source *, uint32_t))
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	src->fd = fd;
	src->fn = fn;
	return 0;
}

int source_change(struct broker *b, struct source *src, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	return epoll_ctl(b->epoll, EPOLL_CTL_MOD, src->fd, &ev) < 0 ? -errno : 0;
}

int source_release(struct broker *b, struct source *src)
{
	if (src->fd >= 0)
		epoll_ctl(b->epoll, EPOLL_CTL_DEL, src->fd, NULL);
	/* An event of this round may still name it: loop_run() looks at fd. */
	return fd_steal(&src->fd);
}

void source_remove(struct broker *b, struct source *src)
{
	int fd = source_release(b, src);

	closep(&fd);
}
