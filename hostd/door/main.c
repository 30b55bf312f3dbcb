/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-door: accepts one tenant's connections, reads the 64 bytes of the hello and passes
 * socket and hello on to weftd. So weftd, which knows everything, never reads a byte from
 * a guest, and a tenant that floods its door or never says hello stands in nobody's way
 * but its own.
 *
 * One process per tenant, started by weftd with the listening socket; sandboxed before
 * the first connection is accepted.
 *
 * #syscalls: accept4 recvfrom sendmsg epoll_wait epoll_ctl poll close clock_gettime
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "broker/ctl.h"
#include "host.h"
#include "util/sandbox.h"

/* Connections that have not said hello yet. One more waits in the listen queue. */
#define PENDING_MAX 64
/* A guest writes its hello right after connecting. */
#define HELLO_TIMEOUT_NS (5 * NSEC_PER_SEC)

enum {
	EV_CTL,
	EV_LISTEN,
	EV_PENDING
};

struct pending {
	int fd; /* -1: free */
	uint64_t deadline_ns;
};

struct door {
	int epoll;
	bool listening;
	unsigned n_pending;
	struct pending pending[PENDING_MAX];
	struct log_limit log_limit;
};

static int listen_for(struct door *d, bool on)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = EV_LISTEN};

	if (d->listening == on)
		return 0;
	d->listening = on;
	if (epoll_ctl(d->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, CTL_LISTEN_FD, &ev) <
	    0)
		return -errno;
	return 0;
}

static int drop(struct door *d, struct pending *p)
{
	/* Closing is not enough: who has been given the socket keeps it in the set. */
	epoll_ctl(d->epoll, EPOLL_CTL_DEL, p->fd, NULL);
	close(p->fd);
	p->fd = -1;
	d->n_pending--;
	return listen_for(d, true);
}

static int add(struct door *d, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
	unsigned i = 0;

	while (d->pending[i].fd >= 0)
		i++;
	d->pending[i] = (struct pending){fd, clock_now_ns() + HELLO_TIMEOUT_NS};
	d->n_pending++;
	ev.data.u32 = EV_PENDING + i;
	if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return drop(d, &d->pending[i]);
	return d->n_pending == PENDING_MAX ? listen_for(d, false) : 0;
}

static int accept_one(struct door *d)
{
	int fd = accept4(CTL_LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);

	/* The peer may have gone meanwhile; nothing of it ends the door. */
	return fd < 0 ? 0 : add(d, fd);
}

/* Whole hellos only: an edge comes with each further piece. */
static int look(struct door *d, struct pending *p, bool closed)
{
	struct ctl_msg m = {.type = CTL_HELLO};
	char peek[sizeof(struct wire_hello)];
	ssize_t n = recv(p->fd, peek, sizeof(peek), MSG_PEEK | MSG_DONTWAIT);
	int r;

	if (n < (ssize_t)sizeof(peek) && n != 0 && !closed &&
	    (n > 0 || errno == EAGAIN || errno == EINTR))
		return 0;
	r = host_hello(p->fd, 0, &m.hello);
	if (r == 0)
		r = ctl_send(CTL_FD, &m, p->fd, -1);
	else if (log_limit_ok(&d->log_limit, 5))
		log_warning("connection refused: %s", strerror(-r));
	if (r == -EPIPE || r == -ECONNRESET)
		return r;
	return drop(d, p);
}

static int drop_late(struct door *d)
{
	uint64_t now = clock_now_ns();
	int r = 0;

	for (unsigned i = 0; i < PENDING_MAX && r >= 0; i++) {
		if (d->pending[i].fd >= 0 && now >= d->pending[i].deadline_ns)
			r = drop(d, &d->pending[i]);
	}
	return r;
}

static int handle(struct door *d, const struct epoll_event *ev)
{
	uint32_t what = ev->data.u32;

	if (what == EV_CTL)
		return -ENODATA; /* weftd says nothing: it has gone */
	if (what == EV_LISTEN)
		return accept_one(d);
	if (d->pending[what - EV_PENDING].fd < 0)
		return 0;
	return look(d, &d->pending[what - EV_PENDING],
		    ev->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
}

static int loop(struct door *d)
{
	struct epoll_event ev[16];
	int r = 0;

	while (r >= 0) {
		int n = epoll_wait(d->epoll, ev, ARRAY_SIZE(ev),
				   d->n_pending ? 1000 : -1);

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n && r >= 0; i++)
			r = handle(d, &ev[i]);
		if (r >= 0 && d->n_pending)
			r = drop_late(d);
	}
	return r;
}

/* Its own, those that wait, and one that is on its way. */
#define FILES_MAX (PENDING_MAX + 16)

static int start(struct door *d, struct sandbox *box)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = EV_CTL};
	int r = sandbox_early(CTL_LISTEN_FD + 1);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < PENDING_MAX; i++)
		d->pending[i].fd = -1;
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll < 0 || epoll_ctl(d->epoll, EPOLL_CTL_ADD, CTL_FD, &ev) < 0)
		return -errno;
	r = sandbox_files(box);
	if (r == 0)
		r = sandbox_enter(box);
	return r < 0 ? r : listen_for(d, true);
}

static int parse_options(int argc, char **argv, struct sandbox *box)
{
	static const struct option longs[] = {
		{"user", required_argument, NULL, 'U'},
		{"own-user", no_argument, NULL, 'o'},
		{"sandbox", required_argument, NULL, 'S'},
		{},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 'U')
			box->user = optarg;
		else if (c == 'o')
			box->own_user = true;
		else if (c != 'S' || sandbox_mode_parse(optarg, &box->mode) < 0)
			return -EINVAL;
	}
	return optind == argc ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	struct sandbox box = {.kind = SANDBOX_DOOR, .files = FILES_MAX};
	static struct door d;
	int r;

	log_set_program("weft-door");
	if (parse_options(argc, argv, &box) < 0) {
		fprintf(stderr, "usage: weft-door [--user NAME|UID:GID] [--own-user] "
				"[--sandbox on|log|off]\n"
				"Started by weftd; see weftd(8).\n");
		return 64;
	}
	signal(SIGPIPE, SIG_IGN);
	r = start(&d, &box);
	if (r == 0)
		r = loop(&d);
	log_info("ends: %s", strerror(-r));
	return r == -ENODATA ? 0 : 1;
}
