/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of a lane, whatever carries it: what a record may look like in each
 * direction, tickets, and replies that come in several records.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/fd.h"
#include "base/log.h"
#include "carrier.h"
#include "fit.h"

#define FLAGS_CMD   (WIRE_F_ASYNC | WIRE_F_PAYLOAD | WIRE_F_APART)
#define FLAGS_REPLY (WIRE_F_REPLY | WIRE_F_MORE | WIRE_F_OUTPUT | WIRE_F_PAYLOAD)

static const struct lane_known all_known;

int lane_new(const struct lane_init *in, struct lane **ret_lane)
{
	struct lane *l = calloc(1, sizeof(*l));
	int r = -ENOMEM;

	if (!l)
		return -ENOMEM;
	l->sock = -1;
	l->guest = in->guest;
	l->tickets = in->tickets;
	if (in->guest)
		l->number = 1 + atomic_fetch_add(&in->tickets->lanes, 1);
	l->known = in->known ? in->known : &all_known;
	l->output = in->output;
	l->carrier_name = in->carrier_name;
	/* A program that is pinned to one processor has its worker on the host. */
	spin_init(&l->spin, in->spin_us,
		  in->guest ? (unsigned)sysconf(_SC_NPROCESSORS_ONLN) : cpus_allowed());
	if (in->guest)
		spin_patient(&l->spin);
	else
		spin_linger(&l->spin);
	/* Cache-line aligned, so that bodies copied in and out move at full speed. */
	l->body_in = aligned_alloc(64, ALIGN_UP(LANE_FIT_ROOM, 64));
	l->body_out = aligned_alloc(64, ALIGN_UP(RING_RECORD_MAX, 64));
	if (l->body_in && l->body_out) {
		l->ops = in->ring ? &window_ops : &stream_ops;
		r = in->ring ? window_init(l, in->ring, in->ring_size, in->weak)
			     : stream_init(l);
	}
	if (r == 0)
		r = fd_set_nonblock(in->sock, 0);
	if (r < 0) {
		lane_disown(l);
		return r;
	}
	l->sock = in->sock;
	l->on_free = in->on_free;
	l->owner = in->owner;
	l->slot = in->slot;
	*ret_lane = l;
	return 0;
}

void lane_free(struct lane *l)
{
	if (!l)
		return;
	if (l->w.self)
		window_say_closed(l);
	if (l->sock >= 0)
		close(l->sock);
	lane_disown(l);
}

void lane_disown(struct lane *l)
{
	if (!l)
		return;
	if (l->ops)
		l->ops->fini(l);
	if (l->on_free)
		l->on_free(l->owner, l->slot);
	free(l->body_in);
	free(l->body_out);
	free(l);
}

/* Starts a record in either direction. Returns room for the body or NULL. */
static void *begin(struct lane *l, const struct wire_hdr *hdr, uint32_t body_size,
		   uint32_t payload_size, void **ret_payload)
{
	struct lane_out *out = &l->out;
	void *body;
	int r;

	out->begun = false;
	out->error = -EMSGSIZE;
	if (body_size % 8 || body_size > WIRE_BODY_MAX || payload_size > WIRE_PAYLOAD_MAX)
		return NULL;
	out->hdr = *hdr;
	out->hdr.words = (uint16_t)((sizeof(*hdr) + body_size) / 8);
	out->hdr.fixed = (uint16_t)(body_size / 8);
	if (payload_size) {
		out->hdr.words += sizeof(struct wire_payload) / 8;
		out->hdr.flags |= WIRE_F_PAYLOAD;
	}
	out->payload_size = payload_size;
	r = l->ops->reserve(l, out, &body);
	if (r < 0) {
		out->error = -EPIPE;
		return NULL;
	}
	out->error = 0;
	out->begun = true;
	out->body = body;
	if (ret_payload)
		*ret_payload = out->payload;
	return body;
}

static int finish(struct lane *l)
{
	struct lane_out *out = &l->out;

	if (unlikely(!out->begun))
		return lane_dead(l) ? -EPIPE : out->error ? out->error : -EINVAL;
	out->begun = false;
	out->error = 0;
	return l->ops->publish(l, out) < 0 ? -EPIPE : 0;
}

bool lane_knows(const struct lane *l, uint16_t op)
{
	const struct lane_known *k = l->known;

	return !k->n || (op < k->n && k->size[op]);
}

/* True if all fields that are not zero are known where the command goes. */
static bool fields_known(const struct lane *l)
{
	const struct lane_out *out = &l->out;
	uint32_t at = l->known->size[out->hdr.op] - 1u, end = wire_fixed(&out->hdr);
	const uint8_t *body = out->body;
	uint8_t any = 0;

	for (; at < end; at++)
		any |= body[at];
	return !any;
}

/* True if the begun command may be sent; else the reason is in out.error. */
static inline bool may_send(struct lane *l)
{
	if (unlikely(!l->out.begun))
		return false;
	if (likely(!l->known->n) || fields_known(l))
		return true;
	l->out.begun = false;
	l->out.error = -EOPNOTSUPP;
	return false;
}

void lane_fixed(struct lane *l, uint32_t bytes)
{
	l->out.hdr.fixed = (uint16_t)(bytes / 8);
}

void *lane_begin(struct lane *l, uint16_t op, uint32_t body_size, uint32_t payload_size,
		 void **ret_payload)
{
	struct wire_hdr hdr = {.op = op};
	struct lane_reply rest;

	if (unlikely(l->known->n) && !lane_knows(l, op)) {
		l->out.begun = false;
		l->out.error = -EOPNOTSUPP;
		return NULL;
	}
	/* The worker may be stuck writing what nobody came to fetch. */
	while (unlikely(l->more))
		if (lane_next(l, &rest) < 0)
			break;
	return begin(l, &hdr, body_size, payload_size, ret_payload);
}

/*
 * As late as possible: from here on, other lanes' commands wait for this one. Relaxed is
 * enough: a thread that this one signals later reads a later value.
 */
static uint64_t take_ticket(struct lane *l, uint16_t flags)
{
	l->out.hdr.flags |= flags;
	return l->out.hdr.seq = atomic_fetch_add_explicit(&l->tickets->next, 1,
							  memory_order_relaxed);
}

int lane_post(struct lane *l)
{
	_Atomic uint64_t *ordered = &l->tickets->ordered;
	uint64_t was, seq;

	if (unlikely(!may_send(l)))
		return finish(l);
	seq = take_ticket(l, WIRE_F_ASYNC);
	was = atomic_load_explicit(ordered, memory_order_relaxed);
	while (was < seq && !atomic_compare_exchange_weak_explicit(ordered, &was, seq,
								   memory_order_relaxed,
								   memory_order_relaxed))
		;
	return finish(l);
}

/* A mark is the lane's number above the ticket. */
#define MARK_TICKET_BITS 44
#define MARK_TICKET      ((1ull << MARK_TICKET_BITS) - 1)

static uint64_t after_mark(const struct lane *l, const lane_mark *m, uint64_t after)
{
	uint64_t last = m ? atomic_load_explicit(m, memory_order_relaxed) : 0;

	/* Commands of one lane are executed in their order. */
	if ((last ^ (uint64_t)l->number << MARK_TICKET_BITS) <= MARK_TICKET)
		return after;
	return MAX(after, last & MARK_TICKET);
}

static void mark(const struct lane *l, lane_mark *m)
{
	if (m)
		atomic_store_explicit(m,
				      (uint64_t)l->number << MARK_TICKET_BITS |
					      (l->out.hdr.seq & MARK_TICKET),
				      memory_order_relaxed);
}

int lane_post_apart(struct lane *l, uint64_t *after, lane_mark *stream, lane_mark *event)
{
	uint64_t last, seq;

	if (unlikely(!may_send(l)))
		return finish(l);
	last = atomic_load_explicit(&l->tickets->ordered, memory_order_relaxed);
	last = after_mark(l, stream, last);
	last = after_mark(l, event, last);
	seq = take_ticket(l, WIRE_F_ASYNC | WIRE_F_APART);
	/* A command with a later ticket need not come before. */
	*after = MIN(last, seq - 1);
	mark(l, stream);
	mark(l, event);
	return finish(l);
}

/* Takes the next record of the pending reply; prints output that comes before it. */
static int receive_reply(struct lane *l, struct lane_reply *ret_reply)
{
	struct lane_msg m;
	uint16_t flags;
	int r;

	for (;;) {
		r = l->ops->receive(l, &m);
		if (r < 0)
			return r == -EPROTO ? r : -EPIPE;
		flags = m.hdr.flags;
		if (flags & ~FLAGS_REPLY)
			return lane_fail(l, -EPROTO);
		if (!(flags & WIRE_F_OUTPUT))
			break;
		if (flags != (WIRE_F_OUTPUT | WIRE_F_PAYLOAD) || m.hdr.seq != l->in.seq)
			return lane_fail(l, -EPROTO);
		if (l->output)
			l->output(m.payload, m.payload_size);
	}
	if (!(flags & WIRE_F_REPLY) || m.hdr.op != l->in.op || m.hdr.seq != l->in.seq ||
	    m.body_size < sizeof(struct wire_result) || wire_fixed(&m.hdr) > m.body_size)
		return lane_fail(l, -EPROTO);
	l->more = flags & WIRE_F_MORE;
	*ret_reply = (struct lane_reply){.body = m.body,
					 .body_size = m.body_size,
					 .fixed = wire_fixed(&m.hdr),
					 .payload = m.payload,
					 .payload_size = m.payload_size,
					 .more = l->more};
	return 0;
}

int lane_send(struct lane *l)
{
	if (unlikely(!may_send(l)))
		return finish(l);
	l->out.hdr.seq = atomic_load_explicit(&l->tickets->next, memory_order_relaxed);
	l->in = l->out.hdr;
	return finish(l);
}

int lane_answer(struct lane *l, struct lane_reply *ret_reply)
{
	return receive_reply(l, ret_reply);
}

int lane_call(struct lane *l, struct lane_reply *ret_reply)
{
	int r = lane_send(l);

	return r < 0 ? r : lane_answer(l, ret_reply);
}

int lane_next(struct lane *l, struct lane_reply *ret_reply)
{
	int r;

	if (!l->more)
		return -EINVAL;
	l->more = false;
	r = receive_reply(l, ret_reply);
	return r;
}

int lane_recv(struct lane *l, struct lane_msg *ret_msg)
{
	struct lane_msg m;
	int r;

	r = l->ops->receive(l, &m);
	if (r < 0)
		return r == -EPROTO ? r : -EPIPE;
	if ((m.hdr.flags & ~FLAGS_CMD) ||
	    (m.hdr.flags & (WIRE_F_APART | WIRE_F_ASYNC)) == WIRE_F_APART ||
	    wire_fixed(&m.hdr) > m.body_size)
		return lane_fail(l, -EPROTO);
	l->in = m.hdr;
	*ret_msg = m;
	return 0;
}

int lane_fit_msg(struct lane *l, struct lane_msg *m, uint32_t fixed)
{
	if (!fit_is_known(m->body, wire_fixed(&m->hdr), fixed))
		return -EOPNOTSUPP;
	m->body_size =
		fit_body(l->body_in, m->body, m->body_size, wire_fixed(&m->hdr), fixed);
	m->body = l->body_in;
	m->hdr.fixed = (uint16_t)(fixed / 8);
	return 0;
}

void lane_fit_reply(struct lane *l, struct lane_reply *reply, uint32_t fixed, void *room)
{
	void *to = room ? room : l->body_in;

	reply->body_size =
		fit_body(to, reply->body, reply->body_size, reply->fixed, fixed);
	reply->body = to;
	reply->fixed = fixed;
}

int lane_peek(struct lane *l)
{
	return l->ops->peek ? l->ops->peek(l) : -1;
}

enum lane_behind lane_behind(struct lane *l)
{
	return l->ops->behind && !lane_dead(l) ? l->ops->behind(l) : LANE_CALL;
}

void lane_on_sleep(struct lane *l, void (*fn)(void *arg), void *arg)
{
	l->on_sleep = fn;
	l->sleep_arg = arg;
}

void *lane_reply_begin(struct lane *l, uint16_t flags, uint32_t body_size,
		       uint32_t payload_size, void **ret_payload)
{
	struct wire_hdr hdr = {.op = l->in.op, .seq = l->in.seq};
	void *body;

	/* A reply to a command that expects none would be taken for another's. */
	if (l->in.flags & WIRE_F_ASYNC) {
		l->out.begun = false;
		l->out.error = -EINVAL;
		return NULL;
	}
	hdr.flags = flags & WIRE_F_OUTPUT ? WIRE_F_OUTPUT
					  : WIRE_F_REPLY | (flags & WIRE_F_MORE);
	body = begin(l, &hdr, body_size, payload_size, ret_payload);
	if (body)
		memset(body, 0, body_size);
	return body;
}

int lane_reply(struct lane *l)
{
	return finish(l);
}

_Atomic uint64_t *lane_reply_prepare(struct lane *l, uint64_t *ret_value)
{
	struct lane_out *out = &l->out;

	if (!out->begun || out->payload_size || !l->ops->prepare)
		return NULL;
	return l->ops->prepare(l, out, ret_value);
}

int lane_reply_settle(struct lane *l)
{
	l->out.begun = false;
	return l->ops->settle(l, &l->out) < 0 ? -EPIPE : 0;
}

bool lane_prompt(const struct lane *l)
{
	return l->prompt;
}
