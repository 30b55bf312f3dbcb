/* SPDX-License-Identifier: Apache-2.0 */
/* Packets for the guest. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "vsock.h"

/* Turns of connections per turn of the device. */
#define RX_BUDGET 64

void vsock_conn_event(struct vsock *s, uint32_t index, uint32_t gen, uint32_t events)
{
	struct conn *c;

	if (index >= CONN_MAX)
		return;
	c = &s->conns.slots[index];
	if (c->state != CONN_OPEN || c->gen != gen)
		return;
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		if (!(c->shut_guest & VSOCK_SHUTDOWN_RCV))
			c->can_read = true;
		if (events & (EPOLLHUP | EPOLLERR))
			c->hung_up = true;
		vsock_conn_ready(s, c);
	}
	if ((events & EPOLLOUT) && c->buf_len && !c->write_dead) {
		if (conn_flush(&s->conns, c) < 0) {
			c->fwd_cnt += c->buf_len;
			c->write_dead = true;
		}
		vsock_conn_forwarded(s, c);
	}
}

static void header_put(const struct vq_chain *c, const struct vsock_hdr *h)
{
	size_t at = 0;

	for (unsigned i = c->n_out; i < c->n_out + c->n_in && at < sizeof(*h); i++) {
		size_t part = MIN(c->iov[i].iov_len, sizeof(*h) - at);

		memcpy(c->iov[i].iov_base, (const char *)h + at, part);
		at += part;
	}
}

static void conn_header(struct vsock *s, struct conn *c, uint16_t op, uint32_t len,
			struct vsock_hdr *ret_hdr)
{
	*ret_hdr = (struct vsock_hdr){
		.src_cid = VSOCK_CID_HOST,
		.dst_cid = s->vu.cid,
		.src_port = c->host_port,
		.dst_port = c->guest_port,
		.len = len,
		.type = VSOCK_TYPE_STREAM,
		.op = op,
		.flags = op == VSOCK_OP_SHUTDOWN ? c->shut_host : 0,
		.buf_alloc = CONN_BUF_ALLOC,
		.fwd_cnt = c->fwd_cnt,
	};
	c->told_fwd_cnt = c->fwd_cnt;
	c->ctl &= (uint8_t)~CTL_CREDIT;
}

/* Takes a buffer of the guest that holds more than a header. As vq_pop(). */
static int pop_buffer(struct vsock *s, struct vq_chain *ret_chain)
{
	struct vq *q = &s->vu.q[VSOCK_RX];
	int r = vq_pop(q, &s->vu.mem, ret_chain);

	if (r == 1 && ret_chain->in_bytes <= sizeof(struct vsock_hdr))
		return vq_break(q, "receive buffer without room");
	return r;
}

/* Sends a packet without payload. Returns 1, or 0 or -EPROTO as vq_pop(). */
static int send_header(struct vsock *s, const struct vsock_hdr *h)
{
	struct vq_chain *chain = &s->batch[0];
	int r = pop_buffer(s, chain);

	if (r <= 0)
		return r;
	header_put(chain, h);
	vq_push(&s->vu.q[VSOCK_RX], chain, sizeof(*h));
	s->n_packets_out++;
	return 1;
}

static int send_control(struct vsock *s, struct conn *c, uint16_t op)
{
	struct vsock_hdr h;
	uint8_t ctl = c->ctl;
	uint32_t told = c->told_fwd_cnt;
	int r;

	conn_header(s, c, op, 0, &h);
	r = send_header(s, &h);
	if (r <= 0) {
		c->ctl = ctl;
		c->told_fwd_cnt = told;
	}
	return r;
}

/* Lays the payload room of a buffer out for reading. Returns the number of vectors. */
static unsigned payload_room(const struct vq_chain *c, size_t max, struct iovec *iov)
{
	size_t skip = sizeof(struct vsock_hdr);
	unsigned n = 0;

	for (unsigned i = c->n_out; i < c->n_out + c->n_in && max; i++) {
		size_t len = c->iov[i].iov_len;
		size_t off = MIN(len, skip);

		skip -= off;
		len = MIN(len - off, max);
		if (!len)
			continue;
		iov[n].iov_base = (char *)c->iov[i].iov_base + off;
		iov[n].iov_len = len;
		max -= len;
		n++;
	}
	return n;
}

static size_t payload_size(const struct vq_chain *c)
{
	return MIN(c->in_bytes - sizeof(struct vsock_hdr), (uint64_t)UINT32_MAX);
}

/* Gives n bytes that lie in the first buffers to the guest. Returns buffers used. */
static unsigned send_batch(struct vsock *s, struct conn *c, size_t n)
{
	unsigned used = 0;

	while (n) {
		struct vq_chain *chain = &s->batch[used++];
		size_t part = MIN(n, payload_size(chain));
		struct vsock_hdr h;

		conn_header(s, c, VSOCK_OP_RW, (uint32_t)part, &h);
		header_put(chain, &h);
		vq_push(&s->vu.q[VSOCK_RX], chain, (uint32_t)(sizeof(h) + part));
		c->tx_cnt += (uint32_t)part;
		s->n_packets_out++;
		s->n_bytes_out += part;
		n -= part;
	}
	return used;
}

/* The socket has ended. */
static void conn_eof(struct conn *c)
{
	uint8_t flags = VSOCK_SHUTDOWN_SEND;

	c->can_read = false;
	if (c->hung_up || c->write_dead)
		flags = VSOCK_SHUTDOWN_BOTH;
	if ((c->shut_host | flags) != c->shut_host) {
		c->shut_host |= flags;
		c->ctl |= CTL_SHUTDOWN;
	}
}

/*
 * Reads from the socket into buffers of the guest, as far as its credit goes. Returns 1
 * if something was sent, 0 if there is nothing to send now, -ENOBUFS if the guest has no
 * buffers, or -EPROTO for a broken queue.
 */
static int send_data(struct vsock *s, struct conn *c, uint32_t credit)
{
	struct iovec iov[VSOCK_RX_BATCH * VQ_MAX_IOV];
	struct msghdr m = {.msg_iov = iov};
	unsigned n_chains = 0, used;
	size_t room = 0;
	ssize_t n;

	while (n_chains < VSOCK_RX_BATCH && room < credit) {
		struct vq_chain *chain = &s->batch[n_chains];
		int r = pop_buffer(s, chain);

		if (r < 0)
			return r;
		if (r == 0)
			break;
		m.msg_iovlen += payload_room(chain, credit - room, iov + m.msg_iovlen);
		room += payload_size(chain);
		n_chains++;
	}
	if (!n_chains)
		return -ENOBUFS;
	do {
		n = recvmsg(c->fd, &m, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	used = n > 0 ? send_batch(s, c, (size_t)n) : 0;
	vq_unpop(&s->vu.q[VSOCK_RX], n_chains - used);
	if (n > 0)
		return 1;
	if (n == 0)
		conn_eof(c);
	else if (errno == EAGAIN)
		c->can_read = false;
	else
		vsock_conn_reset(s, c);
	return 0;
}

static uint32_t conn_credit(const struct conn *c)
{
	uint32_t under_way = c->tx_cnt - c->peer_fwd_cnt;

	return under_way >= c->peer_buf_alloc ? 0 : c->peer_buf_alloc - under_way;
}

/* Sends the most urgent control packet. Returns as send_data(). */
static int send_pending(struct vsock *s, struct conn *c)
{
	static const struct {
		uint8_t ctl;
		uint16_t op;
	} order[] = {
		{CTL_RESPONSE, VSOCK_OP_RESPONSE},
		{CTL_CREDIT, VSOCK_OP_CREDIT_UPDATE},
		{CTL_CREDIT_REQUEST, VSOCK_OP_CREDIT_REQUEST},
		{CTL_SHUTDOWN, VSOCK_OP_SHUTDOWN},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(order); i++) {
		int r;

		if (!(c->ctl & order[i].ctl))
			continue;
		r = send_control(s, c, order[i].op);
		if (r <= 0)
			return r < 0 ? r : -ENOBUFS;
		c->ctl &= (uint8_t)~order[i].ctl;
		if (order[i].ctl == CTL_SHUTDOWN && c->shut_host == VSOCK_SHUTDOWN_BOTH) {
			conn_close_fd(&s->conns, c);
			c->state = CONN_CLOSING;
		}
		return 1;
	}
	return 0;
}

/* One turn of a connection. Returns as send_data(). */
static int conn_turn(struct vsock *s, struct conn *c)
{
	uint32_t credit;
	int r;

	if (c->state == CONN_RESET) {
		r = send_control(s, c, VSOCK_OP_RST);
		if (r <= 0)
			return r < 0 ? r : -ENOBUFS;
		vsock_conn_forget(s, c);
		return 0;
	}
	if (c->state == CONN_OPEN && c->can_read && !(c->ctl & CTL_RESPONSE)) {
		credit = conn_credit(c);
		if (credit) {
			r = send_data(s, c, credit);
			if (r != 0)
				return r;
		} else if (!c->asked) {
			c->asked = true;
			c->ctl |= CTL_CREDIT_REQUEST;
		}
	}
	/* Everything was read when the other end hung up: now the guest may know. */
	if (c->state == CONN_OPEN && c->hung_up && !c->can_read &&
	    c->shut_host != VSOCK_SHUTDOWN_BOTH)
		conn_eof(c);
	return send_pending(s, c);
}

/* Sends answers that belong to no connection. Returns as send_data(). */
static int send_orphans(struct vsock *s)
{
	while (s->n_orphans) {
		const struct vsock_orphan *o = &s->orphans[s->orphan_head];
		struct vsock_hdr h = {
			.src_cid = o->src_cid,
			.dst_cid = s->vu.cid,
			.src_port = o->src_port,
			.dst_port = o->dst_port,
			.type = o->type,
			.op = VSOCK_OP_RST,
		};
		int r = send_header(s, &h);

		if (r <= 0)
			return r < 0 ? r : -ENOBUFS;
		s->orphan_head = (s->orphan_head + 1) % VSOCK_MAX_ORPHANS;
		s->n_orphans--;
	}
	return 0;
}

/* Makes packets for the guest. True if there are more and the guest has buffers. */
static bool rx_work(struct vsock *s)
{
	struct vq *q = &s->vu.q[VSOCK_RX];
	int r = 0;

	if (!vq_ready(q) || (!s->n_orphans && list_empty(&s->ready)))
		return false;
	r = send_orphans(s);
	for (unsigned i = 0; r >= 0 && i < RX_BUDGET && !list_empty(&s->ready); i++) {
		struct conn *c = list_entry(s->ready.next, struct conn, ready);

		/* To the end of the line, and out of it when it has nothing to say. */
		list_remove(&c->ready);
		r = conn_turn(s, c);
		if (r > 0 || r == -ENOBUFS)
			vsock_conn_ready(s, c);
	}
	vq_signal(q);
	if (r == -EPROTO) {
		if (log_limit_ok(&s->limit, 1))
			log_warning("the guest's receive queue is broken, stopped");
		return false;
	}
	/* A kick is wanted only while packets wait for buffers. */
	if (r == -ENOBUFS)
		return vq_set_notify(q, true);
	(void)vq_set_notify(q, false);
	return s->n_orphans || !list_empty(&s->ready);
}

bool vsock_work(struct vsock *s)
{
	bool more = vsock_tx_work(s);

	/* Answers first made now may be what the transmit queue waits for. */
	if (rx_work(s))
		more = true;
	return more || (s->tx_pending && vq_ready(&s->vu.q[VSOCK_TX]) &&
			s->n_orphans < VSOCK_MAX_ORPHANS);
}
