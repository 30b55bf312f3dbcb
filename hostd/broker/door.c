/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weftd's side of the doors. A door keeps the sockets of its guests: weftd knows them by
 * number, says who is refused, or to which worker the door is to pass a socket. So weftd
 * never holds a guest's socket, whose end may take as long as the guest likes.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/cgroup.h"
#include "broker/child/child.h"
#include "broker/child/output.h"
#include "broker/door.h"
#include "broker/loop/aside.h"
#include "broker/loop/loop.h"
#include "broker/loop/outbox.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"

/* A door that ended is started again after this; one that is to end has as long. */
#define DOOR_PAUSE_NS (500 * NSEC_PER_MSEC)

static void door_pause(struct tenant *t)
{
	t->door_at_ns = clock_now_ns() + DOOR_PAUSE_NS;
}

/* Drops what is left of a tenant's door, and the guests that came through it. */
static void door_gone(struct tenant *t)
{
	outbox_drop(&t->door_out);
	aside_remove(t->b->loop, &t->door_ctl);
	t->b->guests->drop(t);
}

static void on_door_exit(struct source *src, uint32_t events)
{
	struct tenant *t = container_of(src, struct tenant, door.exit);
	int status = child_reap(t->b, &t->door);

	door_gone(t);
	if (t->removed) {
		tenant_try_release(t);
		return;
	}
	log_warning("tenant %s: door ended with status 0x%x", t->name, status);
	door_pause(t);
}

int door_said(struct tenant *t, struct msg *m)
{
	switch (m->type) {
	case MSG_HELLO:
		/* The door has seen to it already, but it has met guests. */
		clean_text(m->hello.hello.name);
		t->b->guests->come(t, &m->hello.hello, m->id);
		return 0;
	case MSG_GONE:
		t->b->guests->gone(t, m->id);
		return 0;
	default:
		return -EPROTO;
	}
}

static int hear(struct tenant *t)
{
	_cleanup_aside_ int fd0 = -1, fd1 = -1;
	struct msg m;
	int r = msg_recv_with(t->door_ctl.fd, &m, &fd0, &fd1, aside_close);

	if (r == -EAGAIN || r == -EINTR)
		return 0;
	if (r < 0)
		return r;
	r = door_said(t, &m);
	if (r == -EPROTO)
		log_warning("tenant %s: door: message %s is refused", t->name,
			    msg_name(m.type));
	return r;
}

static void on_door(struct source *src, uint32_t events)
{
	struct tenant *t = container_of(src, struct tenant, door_ctl);
	int r = events & EPOLLOUT ? outbox_write(&t->door_out) : 0;

	if (r == 0 && events & ~(uint32_t)EPOLLOUT)
		r = hear(t);
	if (r == 0)
		return;
	door_gone(t);
	child_kill(&t->door);
}

static void tell(struct tenant *t, const struct msg *m, int fd)
{
	if (outbox_tell(&t->door_out, m, fd, -1) < 0)
		child_kill(&t->door); /* one that does not read */
}

void door_refuse(struct tenant *t, uint32_t id, int error)
{
	const struct msg m = {.type = MSG_REFUSE, .id = id, .refuse.error = error};

	tell(t, &m, -1);
}

void door_close(struct tenant *t)
{
	door_gone(t);
	if (t->door.pid)
		door_pause(t);
}

int door_pass(struct tenant *t, uint32_t id, struct worker *w, const struct msg *m,
	      int window_fd)
{
	const struct msg pass = {.type = MSG_PASS, .id = id};
	_cleanup_close_ int from = -1, to = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	to = pair[0];
	from = pair[1];
	r = outbox_tell(&w->out, m, from, window_fd);
	if (r == 0)
		tell(t, &pass, to);
	return r;
}

int door_start(struct tenant *t)
{
	char *argv[] = {(char *)"weft-door", NULL};
	_cleanup_close_ int ours = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	msg_refuse_fds(ours);
	r = fd_set_nonblock(ours, 1);
	if (r == 0)
		r = source_add(t->b->loop, &t->door_ctl, ours, EPOLLIN, on_door);
	if (r < 0)
		return r;
	fd_steal(&ours);
	outbox_init(&t->door_out, t->b->loop, &t->door_ctl);
	t->door_out.t = t;
	r = child_spawn(t->b, &t->door, argv, (int[]){theirs, t->listen}, 2,
			on_door_exit);
	if (r < 0) {
		source_remove(t->b->loop, &t->door_ctl);
		return r;
	}
	t->door.out.budget = &t->output;
	cgroup_enter(t, t->door.pid);
	t->door_at_ns = 0;
	return 0;
}

uint64_t door_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	uint64_t next = UINT64_MAX;
	struct tenant *t;

	list_for_each (t, &b->leaving, link) {
		if (t->door_at_ns && now_ns >= t->door_at_ns) {
			child_kill(&t->door);
			t->door_at_ns = 0;
		}
		if (t->door_at_ns)
			next = MIN(next, t->door_at_ns);
	}
	list_for_each (t, &b->tenants, link) {
		if (t->door_at_ns && now_ns >= t->door_at_ns && door_start(t) < 0)
			door_pause(t);
		if (t->door_at_ns)
			next = MIN(next, t->door_at_ns);
	}
	return next;
}
