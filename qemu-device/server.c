/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "connector.h"
#include "handover.h"
#include "server.h"

/* How long a stopped device keeps its connections: a VM may just be paused for a moment.
 */
#define GRACE_MS 500

/* Events taken at a time. */
#define MAX_EVENTS 64

enum event_type {
	EV_LISTEN,
	EV_FRONT,
	EV_KICK,
	EV_CONN,
	EV_HANDOVER,
	EV_TIMER,
};

/* Cookie of an event: type in 8 bits, generation in 24, index in 32. */
static int watch(struct server *s, int fd, uint32_t events, enum event_type type,
		 uint32_t index, uint32_t gen)
{
	struct epoll_event e = {
		.events = events,
		.data.u64 = (uint64_t)type << 56 | (uint64_t)(gen & CONN_GEN_MASK) << 32 |
			    index,
	};

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static void unwatch(struct server *s, int fd)
{
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static int do_connect(void *ctx, uint32_t port)
{
	struct server *s = ctx;

	return connector_ask(s->connector_fd, port);
}

static int do_watch(void *ctx, int fd, uint32_t index, uint32_t gen)
{
	return watch(ctx, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, EV_CONN, index,
		     gen);
}

static void do_note(void *ctx, const struct conn *c, uint32_t index)
{
	struct server *s = ctx;
	struct server_note *n;

	if (!s->notes)
		return;
	n = &s->notes[index];
	n->guest_port = c->guest_port;
	n->host_port = c->host_port;
	n->used = c->state != CONN_FREE;
}

static void grace_arm(struct server *s, unsigned ms)
{
	struct itimerspec t = {.it_value = {.tv_sec = ms / 1000,
					    .tv_nsec = (long)(ms % 1000) * 1000000}};

	timerfd_settime(s->timer_fd, 0, &t, NULL);
}

static void on_ring_ready(void *ctx, unsigned index)
{
	struct server *s = ctx;
	struct vq *q = &s->dev.vu.q[index];

	/* Kicks are edges of the event counter: never read, it cannot overflow. */
	if (s->watched_kick[index] < 0 && q->kick_fd >= 0 &&
	    watch(s, q->kick_fd, EPOLLIN | EPOLLET, EV_KICK, index, 0) == 0)
		s->watched_kick[index] = q->kick_fd;
	if (!vq_ready(q))
		return;
	(void)vq_set_notify(q, true);
	if (index == VSOCK_TX)
		s->dev.tx_pending = true;
	else
		(void)vq_set_notify(q, false);
	grace_arm(s, 0);
}

static void on_ring_stop(void *ctx, unsigned index)
{
	struct server *s = ctx;

	if (s->watched_kick[index] >= 0)
		unwatch(s, s->watched_kick[index]);
	s->watched_kick[index] = -1;
	if (s->dev.conns.n)
		grace_arm(s, MAX(s->grace_ms, 1u));
}

static void on_ring_base(void *ctx, unsigned index, bool resumed)
{
	struct server *s = ctx;

	if (!resumed)
		vsock_drop_all(&s->dev);
}

static void on_reset(void *ctx)
{
	struct server *s = ctx;

	vsock_drop_all(&s->dev);
}

static const struct vu_ops server_vu_ops = {
	.ring_ready = on_ring_ready,
	.ring_stop = on_ring_stop,
	.ring_base = on_ring_base,
	.reset = on_reset,
};

int server_init(struct server *s, uint64_t cid)
{
	int r;

	memset(s, 0, sizeof(*s));
	s->connector_fd = s->supervisor_fd = -1;
	s->listen_fd = s->handover_fd = s->epoll_fd = s->timer_fd = -1;
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++)
		s->watched_kick[i] = -1;
	s->grace_ms = GRACE_MS;
	r = vsock_init(&s->dev, cid, &server_vu_ops, s);
	if (r < 0)
		return r;
	s->dev.connect = do_connect;
	s->dev.watch = do_watch;
	s->dev.note = do_note;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		return -errno;
	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (s->timer_fd < 0)
		return -errno;
	return watch(s, s->timer_fd, EPOLLIN, EV_TIMER, 0, 0);
}

void server_fini(struct server *s)
{
	vsock_fini(&s->dev);
	closep(&s->listen_fd);
	closep(&s->handover_fd);
	closep(&s->supervisor_fd);
	closep(&s->timer_fd);
	closep(&s->epoll_fd);
}

/* One front end at a time: others wait in the backlog. */
static int update_listen(struct server *s)
{
	bool want = s->listen_fd >= 0 && s->dev.vu.fd < 0;
	int r = 0;

	if (want && !s->listen_watched)
		r = watch(s, s->listen_fd, EPOLLIN, EV_LISTEN, 0, 0);
	else if (!want && s->listen_watched)
		unwatch(s, s->listen_fd);
	if (r == 0)
		s->listen_watched = want;
	return r;
}

static int watch_front(struct server *s)
{
	int r = watch(s, s->dev.vu.fd, EPOLLIN | EPOLLRDHUP, EV_FRONT, 0, 0);

	return r < 0 ? r : update_listen(s);
}

int server_start(struct server *s)
{
	int r;

	if (s->handover_fd >= 0) {
		r = watch(s, s->handover_fd, EPOLLIN, EV_HANDOVER, 0, 0);
		if (r < 0)
			return r;
	}
	for (unsigned i = 0; i < CONN_MAX; i++) {
		struct conn *c = &s->dev.conns.slots[i];

		if (c->state == CONN_FREE)
			continue;
		do_note(s, c, i);
		r = c->fd >= 0 ? do_watch(s, c->fd, i, c->gen) : 0;
		if (r < 0)
			return r;
		if (c->state == CONN_WAITING)
			vsock_conn_wait(&s->dev, c);
		else
			vsock_conn_ready(&s->dev, c);
	}
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++) {
		struct vq *q = &s->dev.vu.q[i];

		if (q->started) {
			on_ring_ready(s, i);
			vq_signal(q);
		} else if (s->dev.conns.n) {
			grace_arm(s, MAX(s->grace_ms, 1u));
		}
	}
	s->changed = true;
	return s->dev.vu.fd >= 0 ? watch_front(s) : update_listen(s);
}

int server_adopt_front(struct server *s, int fd)
{
	int r = fd_set_nonblock(fd, 1);

	if (r < 0) {
		close(fd);
		return r;
	}
	vu_attach(&s->dev.vu, fd);
	s->changed = true;
	return watch_front(s);
}

static void front_gone(struct server *s, int why)
{
	if (why == -ECONNRESET)
		log_info("front end disconnected");
	else
		log_warning("front end dropped: %s", strerror(-why));
	/* The supervisor has a copy of the socket: say it is over, not just close. */
	shutdown(s->dev.vu.fd, SHUT_RDWR);
	unwatch(s, s->dev.vu.fd);
	vu_detach(&s->dev.vu);
	grace_arm(s, 0);
	s->changed = true;
	s->over = s->listen_fd < 0; /* nobody else can come */
	if (update_listen(s) < 0)
		log_error("cannot listen any more");
}

static void handle_listen(struct server *s)
{
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int r;

	if (fd < 0)
		return;
	log_info("front end connected");
	r = server_adopt_front(s, fd);
	if (r < 0)
		front_gone(s, r);
}

static void handle_front(struct server *s)
{
	int r = vu_receive(&s->dev.vu);

	s->changed = true;
	if (r < 0)
		front_gone(s, r);
}

static void handle_timer(struct server *s)
{
	uint64_t n;

	if (read(s->timer_fd, &n, sizeof(n)) < 0)
		return;
	if (s->dev.conns.n)
		log_info("device stopped: %u connections closed", s->dev.conns.n);
	vsock_reset_all(&s->dev);
}

/* The state is only whole between two messages of the front end. */
static void handle_handover(struct server *s)
{
	if (!vu_idle(&s->dev.vu))
		return;
	if (handover_offer(s) == 0)
		s->handed_over = true;
}

static void handle_event(struct server *s, const struct epoll_event *e)
{
	uint32_t index = (uint32_t)e->data.u64;
	uint32_t gen = (uint32_t)(e->data.u64 >> 32) & CONN_GEN_MASK;

	switch ((enum event_type)(e->data.u64 >> 56)) {
	case EV_LISTEN:
		handle_listen(s);
		break;
	case EV_FRONT:
		/* An earlier event of this round may have ended it. */
		if (s->dev.vu.fd >= 0)
			handle_front(s);
		break;
	case EV_KICK:
		if (index == VSOCK_TX)
			s->dev.tx_pending = true;
		break;
	case EV_CONN:
		vsock_conn_event(&s->dev, index, gen, e->events);
		break;
	case EV_HANDOVER:
		handle_handover(s);
		break;
	case EV_TIMER:
		handle_timer(s);
		break;
	}
}

int server_step(struct server *s, int timeout_ms)
{
	struct epoll_event ev[MAX_EVENTS];
	int n;

	timeout_ms = vsock_retry(&s->dev, timeout_ms);
	if (vsock_work(&s->dev))
		timeout_ms = 0;
	if (s->changed && s->supervisor_fd >= 0 && vu_idle(&s->dev.vu)) {
		s->changed = false;
		if (handover_snapshot(s) < 0)
			log_warning("supervisor has no copy of the device's state");
	}
	n = epoll_wait(s->epoll_fd, ev, MAX_EVENTS, timeout_ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n && !s->handed_over; i++)
		handle_event(s, &ev[i]);
	return 0;
}

int server_run(struct server *s)
{
	int r = 0;

	while (r == 0 && !s->handed_over && !s->over)
		r = server_step(s, -1);
	return r;
}
