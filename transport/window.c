/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in the rings of a shared window; the socket carries doorbells.
 *
 * A side that waits polls for a while, then says in its `parked` word what it waits for,
 * looks once more, and sleeps in poll() on the socket. A side that has published
 * something looks at the other's word, and if it says that this is awaited, resets it and
 * sends one byte. The bytes mean nothing but "look again", so a lost or a surplus one
 * does no harm. Closing the socket ends the lane, and wakes a sleeper too; what was
 * published before is still delivered.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "carrier.h"

/* Looks at shared memory between two looks at the clock (a pause is up to 40 ns). */
#define LOOK_BATCH 16

/* Event for which a side waits. */
struct awaited {
	struct lane *l;
	enum ring_parked why;
	struct lane_out *out; /* RING_WANTS_ROOM: for this record */
	void *record;         /* and here it is */
	bool at_once;         /* nothing was waited for */
};

/* Wakes the peer if it sleeps until what has just been published. */
static void ring_bell(struct lane *l, enum ring_parked why)
{
	struct ring_side *peer = l->w.peer;
	char byte = 0;

	/* Pairs with the store in park(); see ring.h. */
	if (likely(atomic_load_explicit(&peer->parked, memory_order_seq_cst) != why))
		return;
	atomic_store_explicit(&peer->parked, RING_AWAKE, memory_order_relaxed);
	/* Full of doorbells is as good as sent; a closed peer is noticed by whoever
	 * waits. */
	if (send(l->sock, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EPIPE)
		lane_fail(l, -EPIPE);
}

/* 1: it is there, 0: not yet, or -EPROTO, -EPIPE. */
static int look(void *arg)
{
	struct awaited *a = arg;
	struct lane *l = a->l;
	int r = lane_error(l);

	if (unlikely(r))
		return r;
	if (a->why == RING_WANTS_DATA)
		return ring_rx_poll(&l->w.rx);
	r = ring_tx_reserve(&l->w.tx, wire_size(&a->out->hdr), a->out->payload_size,
			    &a->record, &a->out->payload_offset);
	return r == -EAGAIN ? 0 : r < 0 ? r : 1;
}

/* Takes the doorbells out of the socket. Returns false when the peer has closed it. */
static bool drain_bells(struct lane *l)
{
	char bytes[64];
	ssize_t n = recv(l->sock, bytes, sizeof(bytes), MSG_DONTWAIT);

	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Sleeps until the peer rings or closes. Returns as look(), 0 for "look again". */
static int park(struct awaited *a)
{
	struct lane *l = a->l;
	struct pollfd p = {.fd = l->sock, .events = POLLIN};
	bool open = true;
	int r;

	/* Pairs with the load in ring_bell(); look() loads what was published, after it.
	 */
	atomic_store_explicit(&l->w.self->parked, (uint32_t)a->why, memory_order_seq_cst);
	r = look(a);
	if (!r && poll(&p, 1, -1) > 0)
		open = drain_bells(l);
	atomic_store_explicit(&l->w.self->parked, RING_AWAKE, memory_order_relaxed);
	if (r || open)
		return r;
	r = look(a); /* what it published before it closed */
	return r ? r : -EPIPE;
}

static int await(struct awaited *a)
{
	struct lane *l = a->l;
	struct spin_ask ask = {.ready = look, .arg = a, .batch = LOOK_BATCH};
	uint64_t start;
	int r;

	r = look(a);
	a->at_once = r;
	if (r)
		return r;
	/* All that was taken is given back before this side stops: the peer may need it.
	 */
	if (ring_rx_give_back(&l->w.rx, true))
		ring_bell(l, RING_WANTS_ROOM);
	start = clock_now_ns();
	r = spin_poll(&l->spin, &ask);
	if (r)
		return r;
	if (a->why == RING_WANTS_DATA)
		lane_sleeps(l);
	do {
		r = park(a);
	} while (!r);
	spin_learn(&l->spin, clock_now_ns() - start);
	return r;
}

static int window_reserve(struct lane *l, struct lane_out *out, void **ret_body)
{
	struct awaited a = {.l = l, .why = RING_WANTS_ROOM, .out = out};
	int r;

	/* Costs a load; a worker that ended in order has said so. */
	if (unlikely(atomic_load_explicit(&l->w.peer->closed, memory_order_relaxed)))
		return lane_fail(l, -EPIPE);
	r = await(&a);
	if (r < 0)
		return lane_fail(l, r);
	out->payload =
		out->payload_size ? (char *)l->w.tx.bulk + out->payload_offset : NULL;
	l->w.record = a.record;
	/*
	 * The guest writes its command in place. The worker's replies are made in private
	 * memory, so that code which reads back what it wrote reads what it wrote.
	 */
	if (!l->guest) {
		*ret_body = l->body_out;
		return 0;
	}
	*ret_body = (char *)a.record + sizeof(struct wire_hdr) +
		    (out->payload_size ? sizeof(struct wire_payload) : 0);
	return 0;
}

/* Puts the record where it was reserved. */
static void put_record(struct lane *l, const struct lane_out *out)
{
	char *rec = l->w.record;
	size_t head = sizeof(out->hdr);

	if (out->payload_size) {
		struct wire_payload wp = {out->payload_size, out->payload_offset};

		memcpy(rec + head, &wp, sizeof(wp));
		head += sizeof(wp);
	}
	if (!l->guest)
		memcpy(rec + head, l->body_out, wire_size(&out->hdr) - head);
	memcpy(rec, &out->hdr, sizeof(out->hdr));
}

static int window_publish(struct lane *l, struct lane_out *out)
{
	put_record(l, out);
	ring_tx_publish(&l->w.tx, wire_size(&out->hdr), out->payload_size);
	ring_bell(l, RING_WANTS_DATA);
	return lane_error(l);
}

static _Atomic uint64_t *window_prepare(struct lane *l, struct lane_out *out,
					uint64_t *ret_value)
{
	put_record(l, out);
	ring_tx_prepare(&l->w.tx, wire_size(&out->hdr), ret_value);
	return &l->w.tx.ctl->tail;
}

static int window_settle(struct lane *l, struct lane_out *out)
{
	ring_tx_settle(&l->w.tx, wire_size(&out->hdr));
	ring_bell(l, RING_WANTS_DATA);
	return lane_error(l);
}

static int window_receive(struct lane *l, struct lane_msg *ret_msg)
{
	struct awaited a = {.l = l, .why = RING_WANTS_DATA};
	struct lane_msg m = {0};
	size_t body;
	int r;

	ring_rx_release(&l->w.rx);
	if (ring_rx_give_back(&l->w.rx, false))
		ring_bell(l, RING_WANTS_ROOM);
	do {
		r = await(&a);
		if (r < 0)
			return lane_fail(l, r);
		r = ring_rx_next(&l->w.rx, &m.hdr, l->body_in);
	} while (r == -EAGAIN);
	if (r < 0)
		return lane_fail(l, r);
	l->prompt = a.at_once;
	body = wire_size(&m.hdr) - sizeof(m.hdr);
	m.body = l->body_in;
	if (m.hdr.flags & WIRE_F_PAYLOAD) {
		struct wire_payload wp;

		if (body < sizeof(wp))
			return lane_fail(l, -EPROTO);
		memcpy(&wp, l->body_in, sizeof(wp));
		r = ring_rx_payload(&l->w.rx, &wp, &m.payload);
		if (r < 0)
			return lane_fail(l, r);
		m.payload_size = wp.size;
		m.body = l->body_in + sizeof(wp);
		body -= sizeof(wp);
	}
	if (body > WIRE_BODY_MAX)
		return lane_fail(l, -EPROTO);
	m.body_size = (uint32_t)body;
	*ret_msg = m;
	return 0;
}

static int window_peek(struct lane *l)
{
	return ring_rx_peek(&l->w.rx);
}

static enum lane_behind window_behind(struct lane *l)
{
	return ring_rx_behind(&l->w.rx);
}

static void window_fini(struct lane *l)
{
}

int window_init(struct lane *l, struct ring_lane *ring, uint64_t size, bool weak)
{
	struct ring_ctl *out = l->guest ? &ring->cmd : &ring->reply;
	struct ring_ctl *in = l->guest ? &ring->reply : &ring->cmd;
	char *base = (char *)ring;
	struct ring_layout y;
	int r;

	r = ring_layout(size, &y);
	if (r < 0)
		return r;
	if (l->guest) {
		ring_tx_init(&l->w.tx, out, base + y.cmd, base + y.cmd_bulk, y.bulk_size,
			     weak);
		ring_rx_init(&l->w.rx, in, base + y.reply, base + y.reply_bulk,
			     y.bulk_size, weak);
	} else {
		ring_tx_init(&l->w.tx, out, base + y.reply, base + y.reply_bulk,
			     y.bulk_size, weak);
		ring_rx_init(&l->w.rx, in, base + y.cmd, base + y.cmd_bulk, y.bulk_size,
			     weak);
	}
	l->w.self = l->guest ? &ring->guest : &ring->worker;
	l->w.peer = l->guest ? &ring->worker : &ring->guest;
	return 0;
}

const struct carrier_ops window_ops = {
	.name = "window",
	.reserve = window_reserve,
	.publish = window_publish,
	.prepare = window_prepare,
	.settle = window_settle,
	.receive = window_receive,
	.peek = window_peek,
	.behind = window_behind,
	.fini = window_fini,
};
