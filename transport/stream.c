/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records over the socket alone. A record is sent with one system call; received bytes
 * are buffered, so that small records cost less than one each. Payloads that do not fit
 * the buffer are read straight to their place.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "carrier.h"

/* Holds a largest record whole, so that a body is looked at where it was received. */
#define STREAM_BUF (128u << 10)

static_assert(STREAM_BUF > RING_RECORD_MAX, "a record must fit the buffer");

static int stream_reserve(struct lane *l, struct lane_out *out, void **ret_body)
{
	int r = lane_error(l);

	if (r)
		return r;
	if (out->payload_size && !l->s.tx_payload) {
		/* Clear: who replies may not fill in all. */
		l->s.tx_payload = calloc(1, WIRE_PAYLOAD_MAX);
		if (!l->s.tx_payload)
			return lane_fail(l, -ENOMEM);
	}
	out->payload = out->payload_size ? l->s.tx_payload : NULL;
	out->payload_offset = 0;
	*ret_body = l->body_out;
	return 0;
}

/* Sends everything; the array is consumed. */
static int send_all(int sock, struct iovec *iov, unsigned n)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};

	while (msg.msg_iovlen) {
		ssize_t sent = sendmsg(sock, &msg, MSG_NOSIGNAL);

		if (sent < 0) {
			if (errno == EINTR)
				continue;
			return -EPIPE;
		}
		while (msg.msg_iovlen && (size_t)sent >= msg.msg_iov->iov_len) {
			sent -= (ssize_t)msg.msg_iov->iov_len;
			msg.msg_iov++;
			msg.msg_iovlen--;
		}
		if (msg.msg_iovlen) {
			msg.msg_iov->iov_base = (char *)msg.msg_iov->iov_base + sent;
			msg.msg_iov->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

static int stream_publish(struct lane *l, struct lane_out *out)
{
	struct wire_payload wp = {.size = out->payload_size};
	uint64_t zero = 0;
	size_t head = sizeof(out->hdr) + (wp.size ? sizeof(wp) : 0);
	struct iovec iov[5];
	unsigned n = 0;

	iov[n++] = (struct iovec){&out->hdr, sizeof(out->hdr)};
	if (wp.size)
		iov[n++] = (struct iovec){&wp, sizeof(wp)};
	if (wire_size(&out->hdr) > head)
		iov[n++] = (struct iovec){l->body_out, wire_size(&out->hdr) - head};
	if (wp.size) {
		iov[n++] = (struct iovec){out->payload, wp.size};
		if (wp.size % 8)
			iov[n++] = (struct iovec){&zero, 8 - wp.size % 8};
	}
	return send_all(l->sock, iov, n) < 0 ? lane_fail(l, -EPIPE) : 0;
}

/* Condition for which recv_some() waits. */
struct wanted {
	int sock;
	void *buf;
	size_t len;
	ssize_t got;
};

/* 1: got something, 0: not yet, -EPIPE. */
static int try_recv(void *arg)
{
	struct wanted *w = arg;

	w->got = recv(w->sock, w->buf, w->len, MSG_DONTWAIT);
	if (w->got > 0)
		return 1;
	return w->got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
}

/* Receives at least one byte and at most len. Polls first, as a window does. */
static ssize_t recv_some(struct lane *l, void *buf, size_t len)
{
	struct wanted w = {.sock = l->sock, .buf = buf, .len = len};
	struct spin_ask ask = {.ready = try_recv, .arg = &w, .batch = 1};
	uint64_t start = clock_now_ns();
	int r = spin_poll(&l->spin, &ask);

	if (r)
		return r < 0 ? r : w.got;
	lane_sleeps(l);
	do {
		w.got = recv(l->sock, buf, len, 0);
	} while (w.got < 0 && errno == EINTR);
	spin_learn(&l->spin, clock_now_ns() - start);
	return w.got > 0 ? w.got : -EPIPE;
}

/* Makes sure that len contiguous bytes from rx_at are in the buffer. */
static int fill(struct lane *l, size_t len)
{
	struct stream_lane *s = &l->s;

	if (s->rx_at == s->rx_end)
		s->rx_at = s->rx_end = 0;
	if (s->rx_at + len > STREAM_BUF) {
		memmove(s->rx, s->rx + s->rx_at, s->rx_end - s->rx_at);
		s->rx_end -= s->rx_at;
		s->rx_at = 0;
	}
	while (s->rx_end - s->rx_at < len) {
		ssize_t n = recv_some(l, s->rx + s->rx_end, STREAM_BUF - s->rx_end);

		if (n < 0)
			return lane_fail(l, -EPIPE);
		s->rx_end += (size_t)n;
	}
	return 0;
}

/* Reads a payload that is not whole in the buffer to memory of its own. */
static int fetch_payload(struct lane *l, size_t len)
{
	struct stream_lane *s = &l->s;
	size_t have = s->rx_end - s->rx_at;

	if (!s->rx_payload) {
		s->rx_payload = malloc(WIRE_PAYLOAD_MAX);
		if (!s->rx_payload)
			return lane_fail(l, -ENOMEM);
	}
	memcpy(s->rx_payload, s->rx + s->rx_at, have);
	s->rx_at = s->rx_end = 0;
	while (have < len) {
		ssize_t n = recv_some(l, s->rx_payload + have, len - have);

		if (n < 0)
			return lane_fail(l, -EPIPE);
		have += (size_t)n;
	}
	return 0;
}

static int take_payload(struct lane *l, struct lane_msg *m)
{
	struct stream_lane *s = &l->s;
	struct wire_payload wp;
	size_t len;
	int r;

	if (m->body_size < sizeof(wp))
		return lane_fail(l, -EPROTO);
	memcpy(&wp, m->body, sizeof(wp));
	if (!wp.size || wp.size > WIRE_PAYLOAD_MAX || wp.offset)
		return lane_fail(l, -EPROTO);
	m->body = (const char *)m->body + sizeof(wp);
	m->body_size -= (uint32_t)sizeof(wp);
	m->payload_size = wp.size;
	len = ALIGN_UP((size_t)wp.size, 8);
	if (s->rx_end - s->rx_at >= len) {
		m->payload = s->rx + s->rx_at;
		s->rx_at += len;
		return 0;
	}
	/* The body moves out of the way: reading the payload reuses the buffer. */
	memcpy(l->body_in, m->body, m->body_size);
	m->body = l->body_in;
	r = fetch_payload(l, len);
	m->payload = s->rx_payload;
	return r;
}

static int stream_receive(struct lane *l, struct lane_msg *ret_msg)
{
	struct stream_lane *s = &l->s;
	struct lane_msg m = {0};
	uint32_t size;
	int r;

	if (lane_error(l))
		return lane_error(l);
	r = fill(l, sizeof(m.hdr));
	if (r < 0)
		return r;
	memcpy(&m.hdr, s->rx + s->rx_at, sizeof(m.hdr));
	size = wire_size(&m.hdr);
	if (size < sizeof(m.hdr) || size > RING_RECORD_MAX)
		return lane_fail(l, -EPROTO);
	r = fill(l, size);
	if (r < 0)
		return r;
	m.body = s->rx + s->rx_at + sizeof(m.hdr);
	m.body_size = size - (uint32_t)sizeof(m.hdr);
	s->rx_at += size;
	if (m.hdr.flags & WIRE_F_PAYLOAD) {
		r = take_payload(l, &m);
		if (r < 0)
			return r;
	}
	if (m.body_size > WIRE_BODY_MAX)
		return lane_fail(l, -EPROTO);
	*ret_msg = m;
	return 0;
}

static void stream_fini(struct lane *l)
{
	free(l->s.rx);
	free(l->s.tx_payload);
	free(l->s.rx_payload);
}

int stream_init(struct lane *l)
{
	l->s.rx = malloc(STREAM_BUF);
	return l->s.rx ? 0 : -ENOMEM;
}

const struct carrier_ops stream_ops = {
	.name = "stream",
	.reserve = stream_reserve,
	.publish = stream_publish,
	.receive = stream_receive,
	.fini = stream_fini,
};
