/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weftd's side of the listeners. A listener keeps the sockets of its guests: weftd knows
 * them by number, says who is refused, or to which worker the listener is to pass a
 * socket. So weftd never holds a guest's socket, whose end may take as long as the guest
 * likes.
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
#include "broker/operator/events.h"
#include "broker/keep/books.h"
#include "broker/listener.h"
#include "broker/loop/aside.h"
#include "broker/loop/loop.h"
#include "broker/loop/outbox.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"

/* A listener that ended is started again after this; one that is to end has as long. */
#define LISTENER_PAUSE_NS (500 * NSEC_PER_MSEC)

static void listener_pause(struct tenant *t)
{
	t->listener_at_ns = clock_now_ns() + LISTENER_PAUSE_NS;
}

/* Drops what is left of a tenant's listener, and the guests that came through it. */
static void listener_gone(struct tenant *t)
{
	books_listener_end(t);
	t->listener_resumes = 0;
	outbox_drop(&t->listener_out);
	aside_remove(t->b->loop, &t->listener_ctl);
	t->b->guests->drop(t);
}

static void on_listener_exit(struct source *src, uint32_t events)
{
	struct tenant *t = container_of(src, struct tenant, listener.exit);
	int status = child_reap(t->b, &t->listener);

	listener_gone(t);
	if (t->removed) {
		tenant_try_release(t);
		return;
	}
	if (status || !t->listener.adopted) {
		log_warning("tenant %s: listener ended with status 0x%x", t->name,
			    status);
		event_post(t->b, event_of_guest(t, "listener.died", 0));
	}
	listener_pause(t);
	if (t->listener.adopted)
		t->listener_at_ns = clock_now_ns(); /* it was to be replaced */
}

static void tell(struct tenant *t, const struct msg *m, int fd)
{
	if (outbox_tell(&t->listener_out, m, fd, -1) < 0)
		child_kill(&t->listener); /* one that does not read */
}

/* Another weftd has started it: what it said to that one it says again. */
static int resumed(struct tenant *t, const struct msg *m)
{
	const struct msg drain = {.type = MSG_DRAIN};

	if (m->type != MSG_RESUMED || m->id != t->listener_resumes)
		return 0;
	t->listener_resumes = 0;
	if (!books_listener_is_new(t))
		tell(t, &drain, -1);
	return 0;
}

int listener_said(struct tenant *t, struct msg *m)
{
	if (t->listener_resumes)
		return resumed(t, m);
	switch (m->type) {
	case MSG_HELLO:
		/* The listener has seen to it already, but it has met guests. */
		clean_text(m->hello.hello.name);
		t->b->guests->come(t, &m->hello.hello, m->id);
		return 0;
	case MSG_GONE:
		t->b->guests->gone(t, m->id);
		return 0;
	case MSG_STRANGER:
		t->strangers.version = m->id;
		t->strangers.n++;
		return 0;
	default:
		return -EPROTO;
	}
}

static int hear(struct tenant *t)
{
	_cleanup_aside_ int fd0 = -1, fd1 = -1;
	struct msg m;
	int r = msg_recv_with(t->listener_ctl.fd, &m, &fd0, &fd1, aside_close);

	if (r == -EAGAIN || r == -EINTR)
		return 0;
	if (r < 0)
		return r;
	r = listener_said(t, &m);
	if (r == -EPROTO)
		log_warning("tenant %s: listener: message %s is refused", t->name,
			    msg_name(m.type));
	return r;
}

static void on_listener(struct source *src, uint32_t events)
{
	struct tenant *t = container_of(src, struct tenant, listener_ctl);
	int r = events & EPOLLOUT ? outbox_write(&t->listener_out) : 0;

	if (r == 0 && events & ~(uint32_t)EPOLLOUT)
		r = hear(t);
	if (r == 0)
		return;
	listener_gone(t);
	child_kill(&t->listener);
}

void listener_refuse(struct tenant *t, uint32_t id, int error)
{
	const struct msg m = {.type = MSG_REFUSE, .id = id, .refuse.error = error};

	tell(t, &m, -1);
}

void listener_close(struct tenant *t)
{
	listener_gone(t);
	if (t->listener.pid)
		listener_pause(t);
}

int listener_pass(struct tenant *t, uint32_t id, struct worker *w, const struct msg *m,
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

static int ask(struct tenant *t)
{
	const struct msg m = {.type = MSG_RESUME, .id = (uint32_t)books_head()->times};

	t->listener_resumes = m.id;
	return outbox_tell(&t->listener_out, &m, -1, -1);
}

/* Goes on with the listener of the weftd before us. Returns 0 or -errno: there is none. */
static int go_on(struct tenant *t)
{
	const struct book_tenant *k = t->book;
	_cleanup_close_ int ctl = k ? book_listener_fd(t, "ctl") : -1;
	_cleanup_close_ int pid = k ? book_listener_fd(t, "pid") : -1;
	_cleanup_close_ int out = k ? book_listener_fd(t, "out") : -1;
	int r;

	if (!k || !k->listener_pid || ctl < 0 || pid < 0)
		return -ENOENT;
	if (k->listener_version < MSG_VERSION_OLDEST || k->listener_version > MSG_VERSION)
		return -EPROTONOSUPPORT; /* without us it ends */
	r = source_add(t->b->loop, &t->listener_ctl, ctl, EPOLLIN, on_listener);
	if (r < 0)
		return r;
	fd_steal(&ctl);
	outbox_init(&t->listener_out, t->b->loop, &t->listener_ctl);
	t->listener_out.t = t;
	r = child_adopt(t->b, &t->listener, "weft-listener", k->listener_pid,
			k->listener_uid, fd_steal(&pid), fd_steal(&out),
			on_listener_exit);
	if (r == 0)
		r = ask(t);
	if (r < 0) {
		source_remove(t->b->loop, &t->listener_ctl);
		return r;
	}
	t->listener.out.budget = &t->output;
	return 0;
}

int listener_open(struct tenant *t)
{
	if (go_on(t) == 0)
		return 0;
	books_listener_end(t);
	return listener_start(t);
}

int listener_start(struct tenant *t)
{
	char *argv[] = {(char *)"weft-listener", NULL};
	_cleanup_close_ int ours = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	msg_refuse_fds(ours);
	r = fd_set_nonblock(ours, 1);
	if (r == 0)
		r = source_add(t->b->loop, &t->listener_ctl, ours, EPOLLIN, on_listener);
	if (r < 0)
		return r;
	fd_steal(&ours);
	outbox_init(&t->listener_out, t->b->loop, &t->listener_ctl);
	t->listener_out.t = t;
	r = child_spawn(t->b, &t->listener, argv, (int[]){theirs, t->listen}, 2,
			on_listener_exit);
	if (r < 0) {
		source_remove(t->b->loop, &t->listener_ctl);
		return r;
	}
	t->listener.out.budget = &t->output;
	cgroup_enter(t, t->listener.pid);
	t->listener_at_ns = 0;
	books_listener_begin(t);
	return 0;
}

uint64_t listener_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	uint64_t next = UINT64_MAX;
	struct tenant *t;

	list_for_each (t, &b->leaving, link) {
		if (t->listener_at_ns && now_ns >= t->listener_at_ns) {
			child_kill(&t->listener);
			t->listener_at_ns = 0;
		}
		if (t->listener_at_ns)
			next = MIN(next, t->listener_at_ns);
	}
	list_for_each (t, &b->tenants, link) {
		if (t->listener_at_ns && now_ns >= t->listener_at_ns &&
		    listener_start(t) < 0)
			listener_pause(t);
		if (t->listener_at_ns)
			next = MIN(next, t->listener_at_ns);
	}
	return next;
}
