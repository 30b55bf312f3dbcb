/* SPDX-License-Identifier: Apache-2.0 */
/* Packets from the guest. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "vsock.h"

/* Packets per turn, so that one direction does not starve the other. */
#define TX_BUDGET 128

/* Skips the packet's header. Returns how many vectors are left, cut to len bytes. */
static unsigned payload_iov(struct vq_chain *c, uint32_t len, struct iovec **ret_iov)
{
	struct iovec *v = c->iov;
	unsigned n = c->n_out, used = 0;
	size_t skip = sizeof(struct vsock_hdr);

	while (n && v->iov_len <= skip) {
		skip -= v->iov_len;
		v++;
		n--;
	}
	*ret_iov = v;
	if (n) {
		v->iov_base = (char *)v->iov_base + skip;
		v->iov_len -= skip;
	}
	while (len && used < n) {
		v[used].iov_len = MIN(v[used].iov_len, (size_t)len);
		len -= (uint32_t)v[used].iov_len;
		used++;
	}
	return used;
}

/* Drops n bytes off the front of the vectors. */
static void iov_skip(struct iovec **v, unsigned *n, size_t bytes)
{
	while (*n && (*v)->iov_len <= bytes) {
		bytes -= (*v)->iov_len;
		(*v)++;
		(*n)--;
	}
	if (*n) {
		(*v)->iov_base = (char *)(*v)->iov_base + bytes;
		(*v)->iov_len -= bytes;
	}
}

static void op_rw(struct vsock *s, struct conn *c, uint32_t len, struct vq_chain *chain)
{
	struct iovec *v;
	unsigned n = payload_iov(chain, len, &v);
	ssize_t sent = 0;

	if (c->state != CONN_OPEN)
		return; /* crossed with our SHUTDOWN or RST */
	if ((c->shut_guest & VSOCK_SHUTDOWN_SEND) || c->buf_len + len > CONN_BUF_ALLOC) {
		guest_warn(s, "port %u: more data than credit allows", c->guest_port);
		vsock_conn_reset(s, c);
		return;
	}
	s->n_bytes_in += len;
	if (!c->buf_len && !c->write_dead && n) {
		struct msghdr m = {.msg_iov = v, .msg_iovlen = n};

		do {
			sent = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
		} while (sent < 0 && errno == EINTR);
		if (sent < 0 && errno != EAGAIN)
			c->write_dead = true;
		sent = MAX(sent, (ssize_t)0);
		c->fwd_cnt += (uint32_t)sent;
		iov_skip(&v, &n, (size_t)sent);
	}
	if (c->write_dead) {
		/* Nobody will read it; what the other end still says comes first. */
		c->fwd_cnt += len - (uint32_t)sent;
	} else if (n) {
		int r = conn_buffer(&s->conns, c, v, n);

		if (r < 0) {
			guest_warn(s, "port %u: no memory for %u bytes: %s",
				   c->guest_port, len, strerror(-r));
			vsock_conn_reset(s, c);
			return;
		}
	}
	vsock_conn_forwarded(s, c);
}

void vsock_conn_forwarded(struct vsock *s, struct conn *c)
{
	/*
	 * Linux guests bound what they have under way by their own buffer size as well:
	 * waiting for a share of ours alone may be waiting for ever.
	 */
	uint32_t window = MIN(CONN_BUF_ALLOC, c->peer_buf_alloc);

	if (c->fwd_cnt != c->told_fwd_cnt && c->fwd_cnt - c->told_fwd_cnt >= window / 4) {
		c->ctl |= CTL_CREDIT;
		vsock_conn_ready(s, c);
	}
	if (c->buf_len && !c->write_dead)
		return;
	if (c->shut_guest == VSOCK_SHUTDOWN_BOTH) {
		vsock_conn_reset(s, c); /* the guest's close() waits for this */
	} else if (c->shut_guest & VSOCK_SHUTDOWN_SEND) {
		shutdown(c->fd, SHUT_WR);
	}
}

static void op_shutdown(struct vsock *s, struct conn *c, uint32_t flags)
{
	c->shut_guest |= flags & VSOCK_SHUTDOWN_BOTH;
	if (c->state == CONN_WAITING ||
	    (c->state == CONN_CLOSING && c->shut_guest == VSOCK_SHUTDOWN_BOTH)) {
		vsock_conn_reset(s, c);
		return;
	}
	if (c->state != CONN_OPEN)
		return;
	if (c->shut_guest & VSOCK_SHUTDOWN_RCV) {
		shutdown(c->fd, SHUT_RD);
		c->can_read = false;
	}
	vsock_conn_forwarded(s, c);
}

static void handle_packet(struct vsock *s, const struct vsock_hdr *h,
			  struct vq_chain *chain)
{
	struct conn *c;

	/* Not ours to speak for: as if sent into the void. */
	if (h->src_cid != s->vu.cid)
		return;
	if (h->dst_cid != VSOCK_CID_HOST || h->type != VSOCK_TYPE_STREAM) {
		vsock_orphan_reset(s, h);
		return;
	}
	c = conn_find(&s->conns, h->src_port, h->dst_port);
	if (c && h->op == VSOCK_OP_REQUEST && c->state != CONN_OPEN) {
		/* The guest has forgotten the old one and uses its port again. */
		vsock_conn_forget(s, c);
		c = NULL;
	}
	if (!c) {
		if (h->op == VSOCK_OP_REQUEST)
			vsock_connect(s, h);
		else
			vsock_orphan_reset(s, h);
		return;
	}
	if (c->peer_buf_alloc != h->buf_alloc || c->peer_fwd_cnt != h->fwd_cnt) {
		c->peer_buf_alloc = h->buf_alloc;
		c->peer_fwd_cnt = h->fwd_cnt;
		c->asked = false;
		vsock_conn_ready(s, c);
	}
	switch (h->op) {
	case VSOCK_OP_RST:
		vsock_conn_forget(s, c);
		break;
	case VSOCK_OP_SHUTDOWN:
		op_shutdown(s, c, h->flags);
		break;
	case VSOCK_OP_RW:
		op_rw(s, c, h->len, chain);
		break;
	case VSOCK_OP_CREDIT_UPDATE:
		break;
	case VSOCK_OP_CREDIT_REQUEST:
		if (c->state == CONN_OPEN) {
			c->ctl |= CTL_CREDIT;
			vsock_conn_ready(s, c);
		}
		break;
	default:
		guest_warn(s, "port %u: operation %u out of place", c->guest_port, h->op);
		vsock_conn_reset(s, c);
	}
}

/* Copies the header out of guest memory and checks its length against the chain. */
static int header_get(const struct vq_chain *c, struct vsock_hdr *ret_hdr)
{
	size_t at = 0;

	for (unsigned i = 0; i < c->n_out && at < sizeof(*ret_hdr); i++) {
		size_t part = MIN(c->iov[i].iov_len, sizeof(*ret_hdr) - at);

		memcpy((char *)ret_hdr + at, c->iov[i].iov_base, part);
		at += part;
	}
	if (at < sizeof(*ret_hdr) || ret_hdr->len > c->out_bytes - sizeof(*ret_hdr))
		return -EPROTO;
	return 0;
}

bool vsock_tx_work(struct vsock *s)
{
	struct vq *q = &s->vu.q[VSOCK_TX];
	struct vq_chain *chain = &s->batch[0];
	int r = 1;

	if (!s->tx_pending || !vq_ready(q))
		return false;
	(void)vq_set_notify(q, false);
	for (unsigned i = 0; i < TX_BUDGET; i++) {
		struct vsock_hdr h;

		/* No room for an answer: goes on when the guest has taken some. */
		if (s->n_orphans == VSOCK_MAX_ORPHANS)
			return false;
		r = vq_pop(q, &s->vu.mem, chain);
		if (r <= 0)
			break;
		s->n_packets_in++;
		if (header_get(chain, &h) == 0)
			handle_packet(s, &h, chain);
		else
			guest_warn(s, "packet of %llu bytes is cut off",
				   (unsigned long long)chain->out_bytes);
		vq_push(q, chain, 0);
	}
	vq_signal(q);
	if (r < 0) {
		guest_warn(s, "the guest's transmit queue is broken, stopped");
		s->tx_pending = false;
		return false;
	}
	if (r == 0 && !vq_set_notify(q, true)) {
		s->tx_pending = false;
		return false;
	}
	return true;
}
