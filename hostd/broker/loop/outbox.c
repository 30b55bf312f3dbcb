/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of weftd to workers and listeners. A pair takes 160 to 280 of them, and a
 * program with more threads than that may ask in one moment: what does not fit waits here
 * until the other side has read, with the descriptors that go along.
 *
 * Who asks gets one answer, so a worker's threads bound what can wait. One that has more
 * outstanding, or reads nothing for seconds while something waits, is broken.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "broker/loop/loop.h"
#include "broker/loop/outbox.h"
#include "broker/tenant.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "wire.h"

/* An answer and a connection for each lane, and what weftd says of itself. */
#define OUTBOX_MAX (2 * WIRE_SESSIONS_MAX + 64)
/* Descriptors that go along, of a tenant's workers: those of weftd are for all. */
#define OUTBOX_FDS_TENANT_MAX 1024u
/* Without reading a message. */
#define OUTBOX_NS (10 * NSEC_PER_SEC)

struct letter {
	struct list link; /* outbox.letters */
	struct tenant *t; /* NULL: none yet */
	struct msg m;
	int fd[2];
	unsigned n_fds;
};

static void letter_free(struct letter *l)
{
	if (l->t)
		l->t->n_letter_fds -= l->n_fds;
	list_remove(&l->link);
	closep(&l->fd[0]);
	closep(&l->fd[1]);
	free(l);
}

static int dup_fd(int fd, int *ret_fd)
{
	*ret_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd >= 0 && *ret_fd < 0 ? -errno : 0;
}

static int letter_new(struct outbox *o, const struct msg *m, int fd0, int fd1)
{
	unsigned n_fds = (fd0 >= 0) + (fd1 >= 0);
	struct letter *l;
	int r;

	if (o->t && n_fds && o->t->n_letter_fds + n_fds > OUTBOX_FDS_TENANT_MAX)
		return -EMFILE;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->m = *m;
	l->fd[0] = l->fd[1] = -1;
	l->t = o->t;
	l->n_fds = n_fds;
	if (l->t)
		l->t->n_letter_fds += n_fds;
	list_append(&o->letters, &l->link);
	r = dup_fd(fd0, &l->fd[0]);
	if (r == 0)
		r = dup_fd(fd1, &l->fd[1]);
	if (r < 0)
		letter_free(l);
	return r;
}

void outbox_init(struct outbox *o, struct loop *loop, struct source *src)
{
	*o = (struct outbox){.loop = loop, .src = src};
	list_init(&o->letters);
}

void outbox_drop(struct outbox *o)
{
	struct letter *l, *tmp;

	list_for_each_safe (l, tmp, &o->letters, link)
		letter_free(l);
	o->n = 0;
}

static int put(struct outbox *o, const struct msg *m, int fd0, int fd1)
{
	int r = 0;

	if (o->n >= OUTBOX_MAX || (o->n && clock_now_ns() >= o->read_ns + OUTBOX_NS))
		return -ENOBUFS;
	if (!o->n) {
		o->read_ns = clock_now_ns();
		r = source_change(o->loop, o->src, EPOLLIN | EPOLLOUT);
	}
	if (r == 0)
		r = letter_new(o, m, fd0, fd1);
	if (r == 0)
		o->n++;
	return r;
}

int outbox_tell(struct outbox *o, const struct msg *m, int fd0, int fd1)
{
	int r = o->src->fd < 0 ? -EPIPE : -EAGAIN;

	if (r == -EAGAIN && !o->n)
		r = msg_send(o->src->fd, m, fd0, fd1);
	return r == -EAGAIN ? put(o, m, fd0, fd1) : r;
}

bool outbox_is_read(const struct outbox *o)
{
	return o->src->fd >= 0 && !o->n;
}

int outbox_write(struct outbox *o)
{
	while (o->n) {
		struct letter *l = list_entry(o->letters.next, struct letter, link);
		int r = msg_send(o->src->fd, &l->m, l->fd[0], l->fd[1]);

		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		o->read_ns = clock_now_ns();
		letter_free(l);
		o->n--;
	}
	return source_change(o->loop, o->src, EPOLLIN);
}
