/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-listener: accepts one tenant's connections, reads the 64 bytes of the hello and
 * tells weftd of it. The socket stays here until weftd has said to which worker it is to
 * go, or why the guest is refused. So weftd, which knows everything, never reads a byte
 * from a guest nor holds its socket, and a tenant that floods its listener, never says
 * hello, or sends what takes long to close stands in nobody's way but its own.
 *
 * One process per tenant, started by weftd with the listening socket; sandboxed before
 * the first connection is accepted.
 *
 * #syscalls: accept4 recvfrom recvmsg sendto sendmsg epoll_wait epoll_ctl poll close
 * #syscalls: clock_gettime
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "ipc/msg.h"
#include "host.h"
#include "util/sandbox.h"

/* Connections that have not said hello yet. One more waits in the listen queue. */
#define PENDING_MAX 64
/* Connections in all, with the ones that wait for weftd: as many as a tenant may have
 * sessions, and lanes of a session that come at once. */
#define CONNS_MAX 4608
/* A guest writes its hello right after connecting. */
#define HELLO_TIMEOUT_NS (5 * NSEC_PER_SEC)

enum {
	EV_CTL,
	EV_LISTEN,
	EV_CONN
};

enum conn_state {
	CONN_FREE,
	CONN_PENDING, /* has not said hello */
	CONN_WAITING, /* weftd knows of it */
};

struct conn {
	enum conn_state state;
	int fd;
	uint32_t times; /* how often the place was given out: late words are for nobody */
	uint64_t deadline_ns;
	struct wire_hello hello; /* CONN_WAITING */
};

struct listener {
	int epoll;
	bool listening, drains;
	unsigned n, n_pending;
	unsigned used; /* places from here on were never taken */
	struct conn conn[CONNS_MAX];
	struct log_limit log_limit;
};

static int listen_for(struct listener *d, bool on)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = EV_LISTEN};

	if (d->listening == on)
		return 0;
	d->listening = on;
	if (epoll_ctl(d->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, MSG_LISTEN_FD, &ev) <
	    0)
		return -errno;
	return 0;
}

static int listen_if_room(struct listener *d)
{
	return listen_for(d,
			  !d->drains && d->n_pending < PENDING_MAX && d->n < CONNS_MAX);
}

static int drop(struct listener *d, struct conn *c)
{
	/* Closing is not enough: who has been given the socket keeps it in the set. */
	epoll_ctl(d->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	close(c->fd);
	d->n_pending -= c->state == CONN_PENDING;
	d->n--;
	c->state = CONN_FREE;
	return listen_if_room(d);
}

static int add(struct listener *d, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
	struct conn *c = d->conn;

	while (c->state)
		c++;
	*c = (struct conn){.state = CONN_PENDING,
			   .fd = fd,
			   .times = c->times + 1,
			   .deadline_ns = clock_now_ns() + HELLO_TIMEOUT_NS};
	d->n_pending++;
	d->n++;
	d->used = MAX(d->used, (unsigned)(c - d->conn) + 1);
	/* An event that comes late is known by its count. */
	ev.data.u64 = (uint64_t)c->times << 32 | (EV_CONN + (uint32_t)(c - d->conn));
	if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return drop(d, c);
	return listen_if_room(d);
}

static int accept_one(struct listener *d)
{
	int fd = accept4(MSG_LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0)
		return add(d, fd);
	/* The peer may have gone meanwhile; nothing of it ends the listener. Without
	 * descriptors, one that is dropped makes room. */
	return (errno == EMFILE || errno == ENFILE) && d->n ? listen_for(d, false) : 0;
}

/* Number by which weftd knows a connection. */
static uint32_t conn_id(const struct listener *d, const struct conn *c)
{
	static_assert(CONNS_MAX <= 1 << 13, "the rest counts");

	return c->times << 13 | (uint32_t)(c - d->conn);
}

static struct conn *find(struct listener *d, uint32_t id)
{
	struct conn *c = &d->conn[MIN(id & 0x1fff, (uint32_t)CONNS_MAX - 1)];

	return c->state == CONN_WAITING && conn_id(d, c) == id ? c : NULL;
}

/* ---- guests ---- */

/* peek: what of a hello has come. */
static int say_refused(struct listener *d, const char *peek, int error)
{
	struct msg m = {.type = MSG_STRANGER};
	bool log = log_limit_ok(&d->log_limit, 5);
	struct wire_hello h;

	memcpy(&h, peek, sizeof(h));
	if (error != -EPROTONOSUPPORT) {
		if (log)
			log_warning("connection refused: %s", strerror(-error));
		return 0;
	}
	if (log)
		log_warning("connection refused: a guest's library speaks version %u of "
			    "the protocol, this host %u to %u: upgrade "
			    "libcuda.so.1 and libnvidia-ml.so.1 there",
			    h.version, WIRE_VERSION_MIN, WIRE_VERSION);
	m.id = h.version;
	return msg_send(MSG_FD, &m, -1, -1);
}

/* Whole hellos only: an edge comes with each further piece. */
static int look(struct listener *d, struct conn *c, bool closed)
{
	struct msg m = {.type = MSG_HELLO, .id = conn_id(d, c)};
	char peek[sizeof(struct wire_hello)] = "";
	ssize_t n = recv(c->fd, peek, sizeof(peek), MSG_PEEK | MSG_DONTWAIT);
	int r;

	if (n < (ssize_t)sizeof(peek) && n != 0 && !closed &&
	    (n > 0 || errno == EAGAIN || errno == EINTR))
		return 0;
	r = host_hello(c->fd, 0, &m.hello.hello);
	if (r < 0) {
		r = say_refused(d, peek, r);
		return r < 0 ? r : drop(d, c);
	}
	c->state = CONN_WAITING;
	c->hello = m.hello.hello;
	d->n_pending--;
	r = msg_send(MSG_FD, &m, -1, -1);
	return r < 0 ? r : listen_if_room(d);
}

/* Closed before its turn came: nothing is to be started for it. */
static int left(struct listener *d, struct conn *c)
{
	struct msg m = {.type = MSG_GONE, .id = conn_id(d, c)};
	int r = msg_send(MSG_FD, &m, -1, -1);

	return r < 0 ? r : drop(d, c);
}

static int on_conn(struct listener *d, struct conn *c, bool closed)
{
	int r = c->state == CONN_PENDING ? look(d, c, closed) : 0;

	/* The guest's hello and its end may have come together. */
	return r == 0 && c->state == CONN_WAITING && closed ? left(d, c) : r;
}

static int drop_late(struct listener *d)
{
	uint64_t now = clock_now_ns();
	int r = 0;

	for (unsigned i = 0; i < d->used && r >= 0; i++) {
		if (d->conn[i].state == CONN_PENDING && now >= d->conn[i].deadline_ns)
			r = drop(d, &d->conn[i]);
	}
	return r < 0 ? r : listen_if_room(d);
}

/* ---- what weftd says ---- */

static int pass(struct listener *d, uint32_t id, int to)
{
	const struct msg m = {.type = MSG_GUEST};
	struct conn *c = find(d, id);

	if (!c)
		return 0;
	if (msg_send(to, &m, c->fd, -1) < 0) /* that worker has no room, or has gone */
		(void)host_refuse(c->fd, -EAGAIN);
	return drop(d, c);
}

static int refuse(struct listener *d, uint32_t id, int error)
{
	struct conn *c = find(d, id);

	if (!c)
		return 0;
	(void)host_refuse(c->fd, error);
	return drop(d, c);
}

/* Tells a weftd that was started again who waits. */
static int resume(struct listener *d, uint32_t id)
{
	struct msg m = {.type = MSG_RESUMED, .id = id};
	int r = msg_send(MSG_FD, &m, -1, -1);

	m.type = MSG_HELLO;
	for (unsigned i = 0; i < d->used && r == 0; i++) {
		if (d->conn[i].state != CONN_WAITING)
			continue;
		m.id = conn_id(d, &d->conn[i]);
		m.hello.hello = d->conn[i].hello;
		r = msg_send(MSG_FD, &m, -1, -1);
	}
	return r;
}

static int drain(struct listener *d)
{
	d->drains = true;
	return listen_if_room(d);
}

static int hear_one(struct listener *d)
{
	_cleanup_close_ int to = -1, other = -1;
	struct msg m;
	int r = msg_recv(MSG_FD, &m, &to, &other);

	if (r < 0)
		return r == -EINTR ? 0 : r;
	if (m.type == MSG_PASS && to >= 0)
		return pass(d, m.id, to);
	if (m.type == MSG_RESUME)
		return resume(d, m.id);
	if (m.type == MSG_DRAIN)
		return drain(d);
	return m.type == MSG_REFUSE ? refuse(d, m.id, m.refuse.error) : -EPROTO;
}

static int hear(struct listener *d)
{
	struct pollfd pfd = {.fd = MSG_FD, .events = POLLIN};
	int r = 0;

	while (r >= 0 && poll(&pfd, 1, 0) == 1)
		r = hear_one(d);
	return r;
}

static int handle(struct listener *d, const struct epoll_event *ev)
{
	uint32_t what = (uint32_t)ev->data.u64;
	struct conn *c;

	if (what == EV_CTL)
		return hear(d);
	if (what == EV_LISTEN)
		return accept_one(d);
	c = &d->conn[what - EV_CONN];
	if (c->times != ev->data.u64 >> 32)
		return 0;
	return on_conn(d, c, ev->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
}

static int loop(struct listener *d)
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
		if (r >= 0 && d->drains && !d->n)
			return -ENODATA;
	}
	return r;
}

/* Descriptors of a listener: its own, those of connections that wait, and one on its way.
 * */
#define FILES_MAX (CONNS_MAX + 16)

static int start(struct listener *d, struct sandbox *box)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = EV_CTL};
	int r = sandbox_early(MSG_LISTEN_FD + 1);

	if (r < 0)
		return r;
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll < 0 || epoll_ctl(d->epoll, EPOLL_CTL_ADD, MSG_FD, &ev) < 0)
		return -errno;
	r = sandbox_files(box);
	if (r == 0)
		r = sandbox_enter(box);
	return r < 0 ? r : listen_for(d, true);
}

static void usage(FILE *f)
{
	fputs("usage: weft-listener [OPTION]...\n"
	      "Accepts one tenant's connections. Started by weftd; see "
	      "weft-worker(8).\n\n"
	      "  --user NAME|UID:GID   whom to become\n"
	      "  --own-user            nobody else is that user\n"
	      "  --sandbox on|log|off  what is done about forbidden system calls\n"
	      "  -h, --help\n",
	      f);
}

static int parse_options(int argc, char **argv, struct sandbox *box)
{
	static const struct option longs[] = {
		{"help", no_argument, NULL, 'h'},
		{"user", required_argument, NULL, 'U'},
		{"own-user", no_argument, NULL, 'o'},
		{"sandbox", required_argument, NULL, 'S'},
		{},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		if (c == 'h') {
			usage(stdout);
			exit(0);
		}
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
	struct sandbox box = {.kind = SANDBOX_LISTENER, .files = FILES_MAX};
	static struct listener d;
	int r;

	log_set_program("weft-listener");
	if (parse_options(argc, argv, &box) < 0) {
		usage(stderr);
		return 64;
	}
	signal(SIGPIPE, SIG_IGN);
	r = start(&d, &box);
	if (r == 0)
		r = loop(&d);
	log_info("ends: %s", strerror(-r));
	return r == -ENODATA ? 0 : 1;
}
