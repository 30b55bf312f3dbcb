/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of one VM: the table, found by port pair, and what waits to be written to
 * the Unix socket of each. Not thread-safe.
 */
#ifndef WEFT_CONN_H
#define WEFT_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"

/* Most connections of one VM: a guest process holds a few. */
#define CONN_MAX 4096

/* Bytes that a guest may have on their way on one connection. Guests of today allow
 * themselves no more than 256 KiB whatever we offer, and conn->buf is bounded by it. */
#define CONN_BUF_ALLOC (256u << 10)

/* Bytes that all connections together may keep waiting for slow readers on the host. */
#define CONN_BUDGET (64u << 20)

/* Uses of a slot are told apart modulo 2^24: what fits an event's cookie. */
#define CONN_GEN_MASK 0xffffffu

enum conn_state {
	CONN_FREE,    /* not in use -> OPEN, WAITING */
	CONN_OPEN,    /* has a Unix socket -> CLOSING, RESET, FREE */
	CONN_CLOSING, /* socket closed, the guest was told or will be; its RST -> FREE */
	CONN_RESET,   /* socket closed, an RST is to be sent -> FREE */
	CONN_WAITING, /* the host's end has no room yet -> OPEN, RESET, FREE */
	CONN_NUM_STATES,
};

/* Control packets that wait for a buffer of the guest. */
#define CTL_RESPONSE       1
#define CTL_CREDIT         2
#define CTL_CREDIT_REQUEST 4
#define CTL_SHUTDOWN       8

struct conn {
	/* In vsock->ready while something may be sent to the guest; in vsock->waiting
	 * while WAITING. */
	struct list ready;
	uint32_t guest_port, host_port;
	uint32_t gen;  /* counts uses of this slot, so that stale events are known */
	uint32_t next; /* in a hash chain or the free list, index + 1; 0 ends it */
	int fd;
	enum conn_state state;
	uint64_t give_up_ns; /* of WAITING, on the monotonic clock */

	uint32_t peer_buf_alloc, peer_fwd_cnt; /* as the guest said last */
	uint32_t tx_cnt;                       /* bytes sent to the guest, wraps */
	uint32_t fwd_cnt;      /* bytes of the guest given to the socket, wraps */
	uint32_t told_fwd_cnt; /* fwd_cnt in the last packet to the guest */
	uint8_t ctl;           /* CTL_* */
	uint8_t shut_guest;    /* SHUTDOWN flags the guest sent */
	uint8_t shut_host;     /* SHUTDOWN flags for the guest */
	bool can_read;         /* the socket may have data */
	bool hung_up;          /* the socket's other end is gone altogether */
	bool write_dead;       /* the other end does not read any more */
	bool asked;            /* CREDIT_REQUEST sent since credit ran out */

	char *buf; /* bytes from the guest that the socket did not take yet */
	uint32_t buf_off, buf_len, buf_cap;
};

struct conn_table {
	struct conn *slots; /* CONN_MAX of them */
	uint32_t *hash;     /* CONN_HASH heads, index + 1 */
	uint32_t free_head; /* index + 1 */
	unsigned n;         /* not free */
	uint64_t buffered;  /* capacity of all buf together */
};

/* Returns 0 or -ENOMEM. */
int conn_table_init(struct conn_table *t);

/* Closes everything. Callable on a zeroed table. */
void conn_table_fini(struct conn_table *t);

static inline uint32_t conn_index(const struct conn_table *t, const struct conn *c)
{
	return (uint32_t)(c - t->slots);
}

struct conn *conn_find(struct conn_table *t, uint32_t guest_port, uint32_t host_port);

/*
 * Takes a slot for a pair of ports that is not in the table; state OPEN, everything else
 * zero. Returns NULL if the table is full.
 */
struct conn *conn_new(struct conn_table *t, uint32_t guest_port, uint32_t host_port);

/* Closes the socket and drops what waits for it. */
void conn_close_fd(struct conn_table *t, struct conn *c);

/* Gives a slot back. */
void conn_free(struct conn_table *t, struct conn *c);

/* Keeps bytes for the socket. Returns 0, -ENOBUFS over the budget, or -ENOMEM. */
int conn_buffer(struct conn_table *t, struct conn *c, const struct iovec *iov,
		unsigned n);

/*
 * Writes what waits, counting it in fwd_cnt. Returns 0 (also when some still waits), or
 * the error of the socket.
 */
int conn_flush(struct conn_table *t, struct conn *c);

#endif
