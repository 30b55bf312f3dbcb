/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session on a small software device, fed commands by a guest that says what it likes.
 * An input is a series of records:
 *
 *	operation (2 bytes: op_key.h), flags (1 byte: enum record_flag, and the lane in
 *the two high bits), body size / 8 (1 byte), payload size (1 byte), body
 *
 * In a body a word whose last byte is 0xf5 becomes a handle: type, generation and index
 * from its first three bytes, few of each, so that commands meet objects that others have
 * made. One whose last byte is 0xf6 becomes the size of the ready module. One whose last
 * byte is 0xf7 makes the command one of another age: its structure is longer (or shorter)
 * by as many words as the first byte says, and the word becomes the second byte. Whatever
 * comes, the session ends in order and nothing of it is left.
 *
 * Host functions are left out: without a second guest thread their stream stands still.
 */
#ifndef WEFT_FUZZ_SESSION_H
#define WEFT_FUZZ_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "loopback.h"
#include "session/command.h"
#include "session/session.h"

enum record_flag {
	RECORD_POSTED = 1, /* without a reply */
	RECORD_REPLAY = 2, /* a ticket that was used before */
	RECORD_LARGE = 4,  /* a payload a thousand times as large */
	RECORD_MODULE = 8, /* the payload is the ready module */
	RECORD_MOVE = 16,  /* first memory moves, as the payload byte says; no payload */
	RECORD_APART = 32, /* says itself what it comes after */
};

#define FUZZ_LANES 3

struct fuzz_session {
	struct session *s;
	unsigned n_lanes;
	struct loopback lb[FUZZ_LANES];
	struct lane_tickets tickets; /* of all lanes */
	_Atomic uint64_t charged;
	int host_fd;
};

/* Aborts if it cannot be had. */
void fuzz_session_open(struct fuzz_session *f, unsigned n_lanes,
		       enum wire_carrier carrier);
/* Waits until all of it is gone, and aborts if something is left. */
void fuzz_session_close(struct fuzz_session *f);

/*
 * Plays those records that are for a lane (all, if there is one). Each lane's may be
 * played in a thread of its own.
 */
void fuzz_session_play(struct fuzz_session *f, unsigned lane, const uint8_t *data,
		       size_t size);

#endif
