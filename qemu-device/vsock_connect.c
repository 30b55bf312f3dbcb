/* SPDX-License-Identifier: Apache-2.0 */
/* Connections on their way: from the guest's REQUEST to the Unix socket that answers. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "vsock.h"

/*
 * A full backlog refuses connect() at once, and nothing tells when it has room again: we
 * ask every few milliseconds, in turn, and not all at once however many a guest opens. A
 * Linux guest gives up after 2 s; we do before, so that it hears why.
 */
#define RETRY_MS      5
#define RETRY_AT_ONCE 64
#define GIVE_UP_MS    1500

/* Makes room by giving up on the guest's RST for some connection that is over. */
static void evict_closing(struct vsock *s)
{
	for (unsigned i = 0; i < CONN_MAX; i++) {
		struct conn *c = &s->conns.slots[i];

		if (c->state == CONN_CLOSING && !c->ctl) {
			vsock_conn_forget(s, c);
			return;
		}
	}
}

/* The connection has its socket: the guest may know. */
static void conn_opened(struct vsock *s, struct conn *c, int fd)
{
	c->fd = fd;
	c->state = CONN_OPEN;
	c->can_read = true;
	c->ctl = CTL_RESPONSE;
	if (s->watch(s->ctx, fd, conn_index(&s->conns, c), c->gen) < 0)
		vsock_conn_reset(s, c);
	vsock_conn_ready(s, c);
}

void vsock_conn_wait(struct vsock *s, struct conn *c)
{
	uint64_t now = clock_now_ns();

	c->state = CONN_WAITING;
	c->give_up_ns = now + GIVE_UP_MS * NSEC_PER_MSEC;
	if (list_empty(&s->waiting))
		s->retry_ns = now + RETRY_MS * NSEC_PER_MSEC;
	list_append(&s->waiting, &c->ready);
}

void vsock_connect(struct vsock *s, const struct vsock_hdr *h)
{
	struct conn *c;
	int fd;

	if (s->conns.n == CONN_MAX)
		evict_closing(s);
	fd = s->connect(s->ctx, h->dst_port);
	if (fd < 0 && fd != -EAGAIN) {
		guest_warn(s, "connection to port %u refused: %s", h->dst_port,
			   strerror(-fd));
		vsock_orphan_reset(s, h);
		return;
	}
	c = conn_new(&s->conns, h->src_port, h->dst_port);
	if (!c) {
		guest_warn(s, "connection refused: the guest has %d already", CONN_MAX);
		if (fd >= 0)
			close(fd);
		vsock_orphan_reset(s, h);
		return;
	}
	c->peer_buf_alloc = h->buf_alloc;
	c->peer_fwd_cnt = h->fwd_cnt;
	if (s->note)
		s->note(s->ctx, c, conn_index(&s->conns, c));
	if (fd >= 0)
		conn_opened(s, c, fd);
	else
		vsock_conn_wait(s, c);
}

static void retry_one(struct vsock *s, struct conn *c, uint64_t now)
{
	int fd = s->connect(s->ctx, c->host_port);

	list_remove(&c->ready);
	if (fd >= 0) {
		conn_opened(s, c, fd);
	} else if (fd == -EAGAIN && now < c->give_up_ns) {
		list_append(&s->waiting, &c->ready);
	} else {
		guest_warn(s, "connection to port %u refused: %s", c->host_port,
			   strerror(-fd));
		vsock_conn_reset(s, c);
	}
}

int vsock_retry(struct vsock *s, int timeout_ms)
{
	unsigned n = 0;
	uint64_t now;
	int wait_ms;

	if (list_empty(&s->waiting))
		return timeout_ms;
	now = clock_now_ns();
	if (now >= s->retry_ns) {
		struct list *last = s->waiting.prev, *at;

		/* Each once: those that still wait go behind the last. */
		do {
			at = s->waiting.next;
			retry_one(s, list_entry(at, struct conn, ready), now);
		} while (at != last && ++n < RETRY_AT_ONCE);
		s->retry_ns = now + RETRY_MS * NSEC_PER_MSEC;
		if (list_empty(&s->waiting))
			return timeout_ms;
	}
	wait_ms = (int)((s->retry_ns - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
	return timeout_ms < 0 ? wait_ms : MIN(timeout_ms, wait_ms);
}
