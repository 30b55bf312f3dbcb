/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to transport: what a lane is made of, and the table of functions with which a
 * carrier moves its records. lane.c holds the rules of the protocol; stream.c and
 * window.c only move bytes.
 */
#ifndef WEFT_CARRIER_H
#define WEFT_CARRIER_H

#include "base/macros.h"
#include "lane.h"
#include "ring.h"

/* The record being written. */
struct lane_out {
	struct wire_hdr hdr;
	uint32_t payload_size;
	uint32_t payload_offset; /* in the bulk ring */
	void *payload;
	void *body; /* where it is written */
	int error;  /* why there is nothing to send: -EPIPE, -EMSGSIZE, ... */
	bool begun; /* lane_begin() or lane_reply_begin() succeeded */
};

struct carrier_ops {
	const char *name;
	/*
	 * Makes room for wire_size(&out->hdr) bytes and for the payload; waits while there is
	 * none. Sets out->payload, payload_offset and *ret_body. Returns 0, -EPIPE,
	 * -EPROTO or -ENOMEM.
	 */
	int (*reserve)(struct lane *l, struct lane_out *out, void **ret_body);
	/* Sends what was reserved. Returns 0, -EPIPE or -EPROTO. */
	int (*publish)(struct lane *l, struct lane_out *out);
	/* The halves of lane_reply(); NULL: the carrier has none. */
	_Atomic uint64_t *(*prepare)(struct lane *l, struct lane_out *out,
				     uint64_t *ret_value);
	int (*settle)(struct lane *l, struct lane_out *out);
	/*
	 * Waits for the next record, letting go of the one before. The
	 * record's and the payload's size are checked; flags are not. Returns 0, -EPIPE,
	 * -EPROTO, -ENOMEM.
	 */
	int (*receive)(struct lane *l, struct lane_msg *ret_msg);
	/* The op of the record that receive() will not wait for, or -1; NULL: it cannot
	 * tell. */
	int (*peek)(struct lane *l);
	/* As lane_behind(); NULL: it cannot tell. */
	enum lane_behind (*behind)(struct lane *l);
	void (*fini)(struct lane *l);
};

/* How long to poll before sleeping; learns from what polling brought. See spin.c. */
struct spin {
	uint64_t max_ns; /* 0: never poll */
	uint64_t min_ns; /* what the budget shrinks to */
	uint64_t budget_ns;
	uint64_t brief_ns; /* beyond it only a few threads of a process poll */
	unsigned waits;
};

struct window_lane {
	struct ring_side *self, *peer;
	struct ring_tx tx;
	struct ring_rx rx;
	void *record; /* the reserved place in the ring */
};

struct stream_lane {
	char *rx; /* received, not yet taken */
	size_t rx_at, rx_end;
	char *tx_payload; /* staging, allocated with the first payload */
	char *rx_payload; /* likewise, for payloads that are not whole in rx */
};

struct lane {
	const struct carrier_ops *ops;
	int sock;
	bool guest;       /* which side this is */
	atomic_int error; /* 0 while it lives; then -EPIPE or -EPROTO for good */
	struct spin spin;

	const struct lane_known *known; /* guest: what the worker knows; never NULL */
	struct lane_tickets *tickets; /* guest; not owned */
	uint32_t number;	      /* guest: of those that took tickets there, the how many */
	void (*output)(const void *text, size_t size);

	struct lane_out out;
	struct wire_hdr in; /* guest: the pending call's; worker: the command in hand */
	bool more;          /* guest: records of the last reply are still to come */
	bool prompt;        /* worker: see lane_prompt() */

	char *body_out; /* private room for a record being written, header included */
	char *body_in;  /* private copy of the body received last; room to make it fit */

	struct window_lane w;
	struct stream_lane s;

	void (*on_sleep)(void *arg); /* worker; NULL: nobody wants to know */
	void *sleep_arg;

	/* Called when the lane is freed: gives a slot of the window, of the link back. */
	void (*on_free)(void *owner, unsigned slot);
	void *owner;
	unsigned slot;
	const char *carrier_name;
};

/* Before waiting for a record for longer than polling takes. */
static inline void lane_sleeps(struct lane *l)
{
	if (l->on_sleep)
		l->on_sleep(l->sleep_arg);
}

/* Makes a lane of either carrier on a connected socket; see lane.c. */
struct lane_init {
	int sock; /* taken over on success */
	bool guest;
	unsigned spin_us;
	struct ring_lane *ring; /* NULL: stream */
	uint64_t ring_size;
	bool weak; /* the mapping is write-combining */
	struct lane_tickets *tickets;
	const struct lane_known *known; /* NULL: as this end; else outlives the lane */
	void (*output)(const void *text, size_t size);
	const char *carrier_name; /* a literal */
	void (*on_free)(void *owner, unsigned slot);
	void *owner;
	unsigned slot;
};

int lane_new(const struct lane_init *in, struct lane **ret_lane);

/* Frees the lane but leaves its socket to the caller. Accepts NULL. */
void lane_disown(struct lane *l);

/* Makes the lane dead for the given reason (the first one stays); wakes its thread. In
 * lane_end.c. */
int lane_fail(struct lane *l, int error);

static inline int lane_error(const struct lane *l)
{
	return atomic_load_explicit(&l->error, memory_order_relaxed);
}

extern const struct carrier_ops stream_ops;
extern const struct carrier_ops window_ops;

int stream_init(struct lane *l);
int window_init(struct lane *l, struct ring_lane *ring, uint64_t size, bool weak);
/* Tells the peer through shared memory that this side is going. Async-signal-safe. */
static inline void window_say_closed(struct lane *l)
{
	atomic_store_explicit(&l->w.self->closed, 1, memory_order_relaxed);
}

/* Polls for up to max_us, if the peer may be running meanwhile: cpus, this side's and the
 * peer's together, are two or more. */
void spin_init(struct spin *s, unsigned max_us, unsigned cpus);

/* Polls longer where there are many processors. */
void spin_patient(struct spin *s);

/* Polls longer, too, but not for long after a long wait, and few threads of a process at
 * a time. */
void spin_linger(struct spin *s);

/* Question of spin_poll(): 1 there is something, 0 not yet, or a negative errno. */
struct spin_ask {
	int (*ready)(void *arg);
	void *arg;
	unsigned batch; /* questions between two looks at the clock */
};

/* Polls for as long as seems worth it. Returns what the last question gave. */
int spin_poll(struct spin *s, const struct spin_ask *ask);

/* Tells how long the whole wait took when polling had not been enough. */
void spin_learn(struct spin *s, uint64_t waited_ns);

/* How long a guest's thread polls for a reply: about as long as waking up would take. */
#define LANE_GUEST_SPIN_US 50u
/* A doorbell through a vsock takes several times as long: both sides poll longer. */
#define LANE_VSOCK_FACTOR 4u

#endif
