/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol: what a guest process and its worker say to each other. protocol.md beside
 * this file has the diagrams and the rules in prose.
 *
 * A session is one guest process and one worker. It consists of lanes, one per guest
 * thread that calls into the driver. A lane is a connected stream socket (Unix or vsock)
 * and, where both sides can map the session's window, four rings in that window, in which
 * case the socket carries only doorbells (single bytes for a parked side) and the end of
 * the lane (its closing). A lane opens with one wire_hello and one wire_welcome over the
 * socket, whatever the carrier. After that it carries records:
 *
 *	guest -> worker   commands: wire_hdr, body, optional bulk payload
 *	worker -> guest   replies:  wire_hdr, body, optional bulk payload
 *
 * Body and payload differ in trust and in size. The body (at most WIRE_BODY_MAX) is
 * structured; the receiver copies it once into private memory and only then looks at it.
 * The payload (at most WIRE_PAYLOAD_MAX) is opaque data on its way to or from device
 * memory; it may be used where it lies in the window.
 *
 * Order. hdr.seq is a ticket of the session, not of the lane. Every command that has no
 * reply takes the next ticket; every other command carries the number of the next ticket
 * to be given out. A worker executes a command when all tickets below its seq have been
 * executed, on whatever lane, so what one guest thread has called before it signalled
 * another thread is seen by that thread's calls.
 *
 * A command with WIRE_F_APART concerns a stream that orders nothing but itself, and needs
 * no order beside others of the kind. Its field `after` is a ticket below its own: of the
 * last command without the flag, or of the last one of another lane for the same stream
 * or event, whichever is higher. It is executed when all tickets up to that one are.
 *
 * Two ends may be of different age. The structure of a body says its own length: a shorter
 * one ends in zeros, a longer one is known as far as it is (fit.h), and an operation, a
 * field or a flag is used only if the other end has said that it knows it (api/README.md).
 *
 * All fields are little endian. Padding is zero and is checked.
 */
#ifndef WEFT_WIRE_H
#define WEFT_WIRE_H

#include <assert.h>
#include <stdint.h>

#define WIRE_MAGIC	  0x54464557u /* "WEFT" */
#define WIRE_VERSION	  3u
#define WIRE_VERSION_MIN  3u	      /* the lowest that is spoken */
#define WIRE_BODY_MAX	  (64u << 10) /* 32,764 bytes of parameters and room for arrays */
#define WIRE_FIXED_MAX	  4096u	      /* of a body: its structure, without variable parts */
#define WIRE_PAYLOAD_MAX  (1u << 20)  /* one piece of a copy; larger copies are cut */
#define WIRE_SESSIONS_MAX 256u	      /* lanes of one session, that is, guest threads */
#define WIRE_VSOCK_PORT	  22887u      /* where weft-vsock and AF_VSOCK listeners wait */

/*
 * Flags of a record. A command has ASYNC or not, and PAYLOAD or not. What the worker sends
 * has either REPLY (and perhaps MORE, PAYLOAD) or OUTPUT and PAYLOAD; all of it carries
 * the seq of the call that is being answered. Anything else ends the lane.
 */
#define WIRE_F_REPLY   0x0001u /* worker -> guest: answers the lane's pending command */
#define WIRE_F_MORE    0x0002u /* a further reply record of the same command follows */
#define WIRE_F_OUTPUT  0x0004u /* worker -> guest: payload is text for the guest's stdout;
				* comes before the reply whose call made it visible */
#define WIRE_F_ASYNC   0x0008u /* guest -> worker: no reply; seq is this command's ticket */
#define WIRE_F_PAYLOAD 0x0010u /* a struct wire_payload follows the header */
#define WIRE_F_PAD     0x0020u /* ring only: skip to the start of the ring */
#define WIRE_F_APART   0x0040u /* with ASYNC: the command says what it comes after */

struct wire_hdr {
	uint16_t words; /* of 8 bytes, header and body; payload not included */
	uint16_t fixed; /* of these, the body's structure: what follows has its own length */
	uint16_t op;	/* enum wire_op, generated from api/ */
	uint16_t flags; /* WIRE_F_* */
	uint64_t seq;	/* see "Order"; in replies, that of the command answered */
};
static_assert(sizeof(struct wire_hdr) == 16, "wire_hdr is ABI");

/* Bytes of a record's header and body. */
static inline uint32_t wire_size(const struct wire_hdr *h)
{
	return h->words * 8u;
}

/* Bytes of a body's structure. */
static inline uint32_t wire_fixed(const struct wire_hdr *h)
{
	return h->fixed * 8u;
}

/*
 * First thing after the header of a record with WIRE_F_PAYLOAD (counted in hdr.words).
 * Streams: the bytes follow the record, padded to 8. Windows: they lie at `offset` in the
 * lane's bulk ring of that direction.
 */
struct wire_payload {
	uint32_t size;	 /* bytes, 1 to WIRE_PAYLOAD_MAX */
	uint32_t offset; /* bytes from the start of the bulk ring; 0 on streams */
};
static_assert(sizeof(struct wire_payload) == 8, "wire_payload is ABI");

/* First thing in the body of every reply. */
struct wire_result {
	uint32_t result; /* CUresult of this call */
	uint32_t sticky; /* CUresult of the session, set once a context is lost; else 0 */
};
static_assert(sizeof(struct wire_result) == 8, "wire_result is ABI");

enum wire_carrier {
	WIRE_CARRIER_STREAM = 0, /* everything over the socket */
	WIRE_CARRIER_WINDOW = 1, /* rings in the window, socket for doorbells */
	WIRE_NUM_CARRIERS
};

/*
 * Offers of a hello: how records may travel, and which memory both sides could have in
 * common. A window that is offered by its key is one that the guest has mapped; by
 * descriptor, one that the guest would map if it came with the welcome. The guest knows
 * whether its connection brings descriptors; the worker does not, for what it has is a
 * Unix socket even where the guest's end is a vsock. Bits that are not known are ignored.
 */
#define WIRE_OFFER_STREAM     (1u << 0)
/* 1 << 1 was version 1's offer of either kind of window. */
#define WIRE_OFFER_KEY	      (1u << 2)
#define WIRE_OFFER_DESCRIPTOR (1u << 3)

/* Beside the offers: doorbells go through a vsock, so both sides poll for longer. */
#define WIRE_HELLO_VSOCK (1u << 30)
/* Beside the offers, on lane 0: a session of graphics (gl.h), of which a weft-gl takes care. */
#define WIRE_HELLO_GRAPHICS (1u << 29)
/* Beside the offers, on lane 0: the session only monitors. It gets no context, can make
 * none, and takes no device memory, so it opens where a tenant's memory is full. */
#define WIRE_HELLO_MONITOR (1u << 31)

/* Kind of the session's window: one of those offered. */
enum wire_window {
	WIRE_WINDOW_NONE = 0,
	WIRE_WINDOW_KEY = 1,
	WIRE_WINDOW_DESCRIPTOR = 2,
	WIRE_NUM_WINDOWS
};

/* Why a lane is a stream although a window was offered. Others may be added. */
enum wire_why {
	WIRE_WHY_NOT_OFFERED = 0,
	WIRE_WHY_NONE = 1,    /* the host has no window for this guest */
	WIRE_WHY_OTHER = 2,   /* the one offered by key is not the host's */
	WIRE_WHY_FULL = 3,    /* other sessions have all of it */
	WIRE_WHY_THREADS = 4, /* the session's other lanes have all of its part */
	WIRE_NUM_WHYS
};

/* guest -> worker, first bytes on every lane's socket */
struct wire_hello {
	uint32_t magic;	     /* WIRE_MAGIC */
	uint16_t version;    /* highest version that the guest speaks */
	uint16_t lane;	     /* 0 opens a session; others join the one that token names */
	uint32_t pid;	     /* the guest process, for lists; not believed otherwise */
	uint32_t tid;	     /* the guest thread, likewise */
	uint8_t token[16];   /* lane 0: zero; else from the welcome of lane 0, never zero */
	uint32_t offers;     /* bit set of WIRE_OFFER_*, WIRE_HELLO_* */
	uint32_t window_key; /* with WIRE_OFFER_KEY that of the window which the guest has
			      * mapped (see wire_window_id), never zero; else zero */
	char name[24];	     /* process name for lists, NUL padded */
};
static_assert(sizeof(struct wire_hello) == 64, "wire_hello is ABI");

/* worker -> guest, the answer; on lane 0 of a session whose window is a descriptor, that
 * comes with it */
struct wire_welcome {
	uint32_t magic;	  /* WIRE_MAGIC */
	uint16_t version; /* to speak from now on: the lower of both ends' highest */
	uint16_t carrier; /* enum wire_carrier of this lane, chosen by the worker */
	int32_t error;	  /* 0, or a negative errno; then the lane is over */
	uint8_t window;	  /* enum wire_window of the session */
	uint8_t why;	  /* enum wire_why, if the lane is a stream */
	uint16_t proof;	  /* of a lane in the window: see struct ring_proof */
	uint8_t token[16];	/* of the session, for joining lanes */
	uint64_t session;	/* number of the session, for messages and lists */
	uint64_t window_size;	/* bytes that the guest must have mapped; 0: no window */
	uint64_t lane_offset;	/* where this lane's struct ring_lane begins, 4096-aligned */
	uint64_t lane_size;	/* bytes from lane_offset */
	uint64_t band_base;	/* device addresses lie in [band_base, band_base+band_size) */
	uint64_t band_size;
	uint64_t status_offset; /* of the session's struct wire_status in the window; 0 in
				 * a window by key: the session has none there */
};
static_assert(sizeof(struct wire_welcome) == 88, "wire_welcome is ABI");

/*
 * One cache line of the window, written by the worker only. The guest reads it on calls
 * that it would otherwise answer without asking.
 */
struct wire_status {
	uint32_t sticky;   /* CUresult once the context is lost, else 0 */
	uint32_t deferred; /* CUresult of the first failed asynchronous command, else 0 */
	uint8_t pad[56];
};
static_assert(sizeof(struct wire_status) == 64, "wire_status is ABI");

/* Version of the page below alone: all behind it follows that of the welcome. */
#define WIRE_WINDOW_VERSION 3u

/* A VM's window (ivshmem) begins with this page; weftd writes it before the VM starts. */
struct wire_window_id {
	uint32_t magic;	  /* WIRE_MAGIC */
	uint32_t version; /* WIRE_WINDOW_VERSION */
	uint32_t key;	  /* nonzero, random for each VM start */
	uint32_t pad;
	uint64_t size; /* bytes of the window */
};
static_assert(sizeof(struct wire_window_id) == 24, "wire_window_id is ABI");

#endif
