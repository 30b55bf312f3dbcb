/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane: one guest thread's ordered channel to its worker, the same for every carrier.
 *
 * Guest:   lane_begin -> fill the body -> lane_post (fire and forget)
 *                                      or lane_call (wait for the reply)
 * Worker:  lane_recv -> look at the private copy -> lane_reply_begin -> fill -> lane_reply
 *
 * A lane is used by one thread on each side at a time. Nothing on the path of a command
 * locks, allocates or, while the peer is awake, calls the kernel.
 *
 * Errors: -EPIPE the peer is gone (for good: every later call says so at once);
 * -EPROTO the peer broke the protocol; -EMSGSIZE caller's mistake.
 */
#ifndef WEFT_LANE_H
#define WEFT_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "wire.h"

struct lane;

/* Tickets of a session (see "Order" in wire.h); one in the guest, shared by its lanes. */
struct lane_tickets {
	_Atomic uint64_t next;    /* starts at 1 */
	char apart[56];           /* from what is seldom written */
	_Atomic uint64_t ordered; /* the last one of a command that is not apart */
	_Atomic uint32_t lanes;   /* that there have been */
};

/* The last command that was apart and for one object: its lane and its ticket; 0: none. */
typedef _Atomic uint64_t lane_mark;

/*
 * The worker's knowledge of the guest's operations, for the lanes of a session; learnt when
 * it opens (link_learn()).
 */
struct lane_known {
	unsigned n; /* operations; 0: the worker knows what this end does */
	/* Bytes of the fields of a command that are known, and one more; 0: the operation is
	 * not. */
	const uint16_t *size;
};

/* ---- guest side ---- */

/*
 * Begins a command: returns room for body_size bytes (multiple of 8, 8-aligned, not
 * zeroed), or NULL when the lane is dead (the next lane_post/lane_call says -EPIPE).
 * Waits while the ring is full. payload_size may be 0; otherwise *ret_payload is where to
 * write that many bytes. Exactly one lane_post() or lane_call() follows. NULL as well, and
 * -EOPNOTSUPP then, if the worker does not know the operation. lane_post() and lane_call()
 * return -EOPNOTSUPP, and nothing is sent, if a field that it does not know is not zero.
 */
void *lane_begin(struct lane *l, uint16_t op, uint32_t body_size, uint32_t payload_size,
		 void **ret_payload);

/* Sends the begun command without waiting. Takes a ticket. Returns 0 or -EPIPE. */
int lane_post(struct lane *l);

/* True if the worker knows an operation. */
bool lane_knows(const struct lane *l, uint16_t op);

/*
 * Sends the begun command without waiting, as one that is apart (wire.h): for a stream
 * that orders nothing but itself, and maybe an event, with a mark for each; NULL: the
 * stream is the lane's own, there is no event. Writes the field that says what the command
 * comes after, which lies in its body. Takes a ticket. Returns 0 or -EPIPE.
 */
int lane_post_apart(struct lane *l, uint64_t *after, lane_mark *stream, lane_mark *event);

/* A reply as the guest sees it; valid until the next lane_begin() on the lane. */
struct lane_reply {
	const void *body; /* starts with struct wire_result; a private copy */
	uint32_t body_size;
	uint32_t fixed; /* of these, the structure */
	uint32_t payload_size;
	const void *payload; /* in the window or private */
	bool more;           /* lane_next() gives the next record */
};

/*
 * Sends the begun command and waits for its first reply record. WIRE_F_OUTPUT records
 * that come first are handed to the output function of the lane. Returns 0, -EPIPE or
 * -EPROTO.
 */
int lane_call(struct lane *l, struct lane_reply *ret_reply);

/* Halves of lane_call(), one right after the other on the lane: the caller's work in
 * between runs while the worker works. lane_send() returns 0 or -EPIPE. */
int lane_send(struct lane *l);
int lane_answer(struct lane *l, struct lane_reply *ret_reply);

/* Waits for the next record of a reply that had more. Releases the one before. */
int lane_next(struct lane *l, struct lane_reply *ret_reply);

/* Bytes of room in which every body can be made to fit. */
#define LANE_FIT_ROOM (sizeof(struct wire_payload) + WIRE_BODY_MAX + WIRE_FIXED_MAX)

/*
 * Gives the reply's structure `fixed` bytes (at most WIRE_FIXED_MAX): zeros where it was
 * shorter, what is not known left out. The body is moved to room (LANE_FIT_ROOM bytes, it
 * may lie there already), or if that is NULL to the lane's own.
 */
void lane_fit_reply(struct lane *l, struct lane_reply *reply, uint32_t fixed, void *room);

/* ---- worker side ---- */

struct lane_msg {
	struct wire_hdr hdr; /* checked: size in range, flags known, direction right */
	const void *body;    /* private copy, 8-aligned */
	uint32_t body_size;
	uint32_t payload_size;
	const void *payload; /* opaque: may change under the reader's eyes */
};

/*
 * Waits for the next command. Polls for the lane's spin time, then parks. The message
 * before is released. Returns 0, -EPIPE when the guest is gone, -EPROTO.
 */
int lane_recv(struct lane *l, struct lane_msg *ret_msg);

/* As lane_fit_reply(), for the command last received. -EOPNOTSUPP if a field that is not
 * known here is not zero: the guest means something by it. */
int lane_fit_msg(struct lane *l, struct lane_msg *m, uint32_t fixed);

/* The op of the next command if lane_recv() saw it behind the one that it returned, so
 * that the next lane_recv() will not wait; else, and where that is not known, -1. Costs no
 * look at what the guest is writing just then. The guest may still change the op. */
int lane_peek(struct lane *l);

/*
 * Tells what the guest has sent since the last question, behind the command received last:
 * nothing, commands without a reply, or one among them that it waits for. The last also where that
 * cannot be told.
 */
enum lane_behind {
	LANE_NOTHING,
	LANE_POSTED,
	LANE_CALL,
};
enum lane_behind lane_behind(struct lane *l);

/* Calls fn(arg), on the thread that receives, before it sleeps for want of a command. */
void lane_on_sleep(struct lane *l, void (*fn)(void *arg), void *arg);

/*
 * Begins a reply record to the command last received: returns room for body_size bytes
 * (zeroed), or NULL when the lane is dead. payload_size as in lane_begin(); what of the payload
 * is not filled in is zeros, or bytes that this guest could see before.
 * flags: 0, WIRE_F_MORE, or WIRE_F_OUTPUT. Waits while the guest is slow to read.
 */
void *lane_reply_begin(struct lane *l, uint16_t flags, uint32_t body_size,
		       uint32_t payload_size, void **ret_payload);

/* Sends the begun reply record. Returns 0 or -EPIPE. */
int lane_reply(struct lane *l);

/*
 * In place of lane_reply(), in two halves, for a begun record without payload that is to
 * be out as soon as something else, a device, stores *ret_value in the word returned: the
 * record becomes ready, and then is taken to be out, stored or not. The word lies in a
 * page of the window that both sides write. If nobody will store it, another record of the
 * same size is begun instead.
 *
 * lane_reply_prepare() returns NULL where there is no such word; then nothing has
 * happened. lane_reply_settle() returns 0 or -EPIPE.
 */
_Atomic uint64_t *lane_reply_prepare(struct lane *l, uint64_t *ret_value);
int lane_reply_settle(struct lane *l);

/* True if the command received last was there already when lane_recv() looked. False where
 * that is not known. */
bool lane_prompt(const struct lane *l);

/* ---- both ---- */

/* Says that the structure of the record begun last has so many bytes (a multiple of 8), and
 * variable parts follow it. Otherwise all of the body is structure. */
void lane_fixed(struct lane *l, uint32_t bytes);

/* True once the peer is gone. Any thread. */
bool lane_dead(const struct lane *l);

/* Marks the lane dead and wakes whoever waits in it. Any thread, async-signal-safe. */
void lane_kill(struct lane *l);

/* Closes the socket and frees the lane; the window stays. Accepts NULL. */
void lane_free(struct lane *l);

#endif
