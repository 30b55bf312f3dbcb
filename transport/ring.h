/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record ring with a bulk ring beside it, one producer and one consumer, in memory
 * shared with a peer that may be hostile. A lane has two: commands and replies.
 *
 * Each end keeps its positions in private memory and publishes them; what it reads of the
 * other's is checked and copied before use. Positions count bytes for ever and never wrap
 * back. Nothing here waits or knows about sockets: that is window.c.
 *
 * Publishing and the parked words pair like this (all four sequentially consistent, so
 * one of the two sides always sees the other):
 *	publisher: store tail (or head), then load the peer's parked
 *	waiter:    store own parked, then load tail (or head), then sleep
 */
#ifndef WEFT_RING_H
#define WEFT_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lane.h"
#include "wire.h"

/* Records begin at multiples of this, so that a header fits wherever one may begin. */
#define RING_ALIGN      16u
#define RING_SIZE       (256u << 10) /* of records; over twice the largest record */
#define RING_CTL_SIZE   4096u
#define RING_BULK_ALIGN 64u
#define RING_RECORD_MAX                                                                  \
	(sizeof(struct wire_hdr) + sizeof(struct wire_payload) + WIRE_BODY_MAX)
#define RING_LAST_MAX 48u /* a record that the line of the tail holds */
/* A record without its header. */
#define RING_REST_MAX (RING_RECORD_MAX - sizeof(struct wire_hdr))
/* Below this a lane cannot carry WIRE_PAYLOAD_MAX in both directions. */
#define RING_LANE_MIN (RING_CTL_SIZE + 2ull * RING_SIZE + 2ull * WIRE_PAYLOAD_MAX)

static_assert(RING_SIZE >= 2 * (RING_RECORD_MAX + RING_ALIGN), "padding must always fit");

/* Why a side sleeps; the value of ring_side.parked. */
enum ring_parked {
	RING_AWAKE = 0,
	RING_WANTS_DATA = 1, /* until the peer moves a tail */
	RING_WANTS_ROOM = 2, /* until the peer moves a head */
};

/*
 * One direction. Each line is written by one side only. A small record lies in the line of
 * the tail as well: a consumer that waits has it with the line that it looks at, and waits
 * for no other one.
 */
struct ring_ctl {
	_Alignas(64) _Atomic uint64_t tail; /* producer: bytes of records published */
	_Atomic uint64_t last_end;          /* producer: the tail behind last; 0: none */
	_Atomic uint64_t last[RING_LAST_MAX / 8]; /* producer: a small record */
	_Alignas(64) _Atomic uint64_t head; /* consumer: bytes of records given back */
	_Atomic uint64_t bulk_head;         /* consumer: bytes of bulk given back */
};

/* One side of the lane, whichever direction it waits for. */
struct ring_side {
	_Alignas(64) _Atomic uint32_t parked; /* enum ring_parked; peer resets to awake */
	_Atomic uint32_t closed;              /* this side is gone or going */
};

/* Written by the worker before it sends the welcome: a guest that does not find here what
 * the welcome says looks at other memory than the worker. */
struct ring_proof {
	_Alignas(64) uint64_t session;
	uint64_t proof;
};

/* Layout at wire_welcome.lane_offset; protocol.md draws it. */
struct ring_lane {
	struct ring_ctl cmd;
	struct ring_ctl reply;
	struct ring_side guest;
	struct ring_side worker;
	struct ring_proof proof;
};
static_assert(sizeof(struct ring_ctl) == 128, "ring_ctl is ABI");
static_assert(sizeof(struct ring_lane) == 448, "ring_lane is ABI");

/* Where the parts of a lane are; both sides compute it from the lane's size alone. */
struct ring_layout {
	uint64_t cmd, reply;           /* offsets of the record rings, RING_SIZE each */
	uint64_t cmd_bulk, reply_bulk; /* offsets of the bulk rings */
	uint64_t bulk_size;            /* of each */
};

/* Returns 0, or -EINVAL when lane_size is too small or not a multiple of 4096. */
int ring_layout(uint64_t lane_size, struct ring_layout *ret_layout);

/* The producer's end. */
struct ring_tx {
	struct ring_ctl *ctl;
	char *data, *bulk;
	uint64_t bulk_size;
	bool weak; /* write-combining mapping: stores need fences */
	uint64_t tail, bulk_tail;
	uint64_t head_seen, bulk_head_seen;
};

/* The consumer's end. */
struct ring_rx {
	struct ring_ctl *ctl;
	const char *data, *bulk;
	uint64_t bulk_size;
	bool weak;
	uint64_t head, bulk_head; /* everything below is given back or about to be */
	uint64_t head_out, bulk_head_out; /* published */
	uint64_t tail_seen;
	uint64_t next, bulk_next; /* where head goes on the next release */
	uint64_t looked;          /* ring_rx_behind() has told of what is below it */
};

void ring_tx_init(struct ring_tx *tx, struct ring_ctl *ctl, void *data, void *bulk,
		  uint64_t bulk_size, bool weak);
void ring_rx_init(struct ring_rx *rx, struct ring_ctl *ctl, const void *data,
		  const void *bulk, uint64_t bulk_size, bool weak);

/*
 * Finds contiguous room for a record of size bytes (header included) and for payload
 * bytes of bulk (0: none). Reserving twice without publishing reserves the same room.
 * Returns 0, -EAGAIN (full), -EPROTO (the consumer published nonsense).
 */
int ring_tx_reserve(struct ring_tx *tx, uint32_t size, uint32_t payload,
		    void **ret_record, uint32_t *ret_payload_offset);

/* Publishes the reserved record, which the caller has filled; size is a multiple of 8. */
void ring_tx_publish(struct ring_tx *tx, uint32_t size, uint32_t payload);

/*
 * In place of ring_tx_publish(), in two halves, for a record without payload that something
 * else publishes: it becomes ready, to be out as soon as *ret_tail is stored in ctl->tail;
 * and is taken to be out, stored or not. If nobody stores it, another record may be
 * reserved instead.
 */
void ring_tx_prepare(struct ring_tx *tx, uint32_t size, uint64_t *ret_tail);
void ring_tx_settle(struct ring_tx *tx, uint32_t size);

/* 1 if a record waits, 0 if not, -EPROTO. Loads what the producer published. */
int ring_rx_poll(struct ring_rx *rx);

/* The op of the next record if an earlier poll saw it; -1: none did, or it begins
 * elsewhere. Does not load the producer's position. The record may change until
 * ring_rx_next() copies it. */
int ring_rx_peek(struct ring_rx *rx);

/*
 * Tells what the producer has published since the last question: nothing, records, or one among
 * them that it waits for an answer to. The last again, until that is taken, and where what lies
 * there is no record. Loads the producer's position.
 */
enum lane_behind ring_rx_behind(struct ring_rx *rx);

/*
 * Takes the next record: a checked private copy of its header, and one of the rest of it,
 * wire_size(hdr) - sizeof(hdr) bytes, in ret_rest, which has room for RING_REST_MAX. Returns 0,
 * -EAGAIN (none), -EPROTO.
 */
int ring_rx_next(struct ring_rx *rx, struct wire_hdr *ret_hdr, void *ret_rest);

/* Checks a payload that the record taken last claims. Returns 0 or -EPROTO. */
int ring_rx_payload(struct ring_rx *rx, const struct wire_payload *wp,
		    const void **ret_data);

/* Lets go of the record taken last and of its payload. */
void ring_rx_release(struct ring_rx *rx);

/*
 * Tells the producer how far the consumer is, if that is worth a cache miss or if force
 * says so. Returns true if it did; then the producer may have to be woken.
 */
bool ring_rx_give_back(struct ring_rx *rx, bool force);

#endif
