/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vsock device of one VM: packets of its two rings on one side, a Unix socket for
 * each connection on the other.
 *
 * Bytes of a guest go from its memory into the socket in place (vsock_tx.c), bytes of a
 * socket straight into the buffers that the guest posted (vsock_rx.c). Only what a socket
 * does not take at once is copied and kept, within the credit the guest was given.
 * Connections are opened by guests only. Whatever a guest sends, it can lose its own
 * connections, or its own device until its driver starts it again, and nothing else.
 * Not thread-safe; nothing blocks.
 */
#ifndef WEFT_VSOCK_H
#define WEFT_VSOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "conn.h"
#include "vhost_user.h"

#define VSOCK_CID_HOST    2

#define VSOCK_TYPE_STREAM 1

enum vsock_op {
	VSOCK_OP_INVALID = 0,
	VSOCK_OP_REQUEST = 1,
	VSOCK_OP_RESPONSE = 2,
	VSOCK_OP_RST = 3,
	VSOCK_OP_SHUTDOWN = 4,
	VSOCK_OP_RW = 5,
	VSOCK_OP_CREDIT_UPDATE = 6,
	VSOCK_OP_CREDIT_REQUEST = 7,
};

#define VSOCK_SHUTDOWN_RCV  1u
#define VSOCK_SHUTDOWN_SEND 2u
#define VSOCK_SHUTDOWN_BOTH 3u

struct vsock_hdr {
	uint64_t src_cid, dst_cid;
	uint32_t src_port, dst_port;
	uint32_t len; /* bytes that follow */
	uint16_t type, op;
	uint32_t flags; /* of VSOCK_OP_SHUTDOWN */
	uint32_t buf_alloc, fwd_cnt;
} __attribute__((packed));

static_assert(sizeof(struct vsock_hdr) == 44, "virtio ABI");

enum vsock_queue {
	VSOCK_RX = 0, /* to the guest */
	VSOCK_TX = 1, /* from the guest */
};

/* Buffers of the guest that one read from a socket fills. */
#define VSOCK_RX_BATCH 16

/* Answers to packets that belong to no connection, waiting for buffers of the guest. */
#define VSOCK_MAX_ORPHANS 256

struct vsock_orphan {
	uint64_t src_cid;
	uint32_t src_port, dst_port;
	uint16_t type;
};

struct vsock {
	struct vu vu;
	/*
	 * Connects to what answers a port. Returns a non-blocking descriptor or -errno;
	 * -EAGAIN if it may have room soon.
	 */
	int (*connect)(void *ctx, uint32_t port);
	/* Watches a connection's descriptor, edge-triggered. Returns 0 or -errno. */
	int (*watch)(void *ctx, int fd, uint32_t index, uint32_t gen);
	/* Tells that a pair of ports was opened or is gone; may be NULL. */
	void (*note)(void *ctx, const struct conn *c, uint32_t index);
	void *ctx;

	struct conn_table conns;
	struct list ready;   /* conn.ready: something may be sent to the guest */
	struct list waiting; /* conn.ready: the host's end has no room yet */
	uint64_t retry_ns;   /* when to try the waiting ones next */
	struct vsock_orphan orphans[VSOCK_MAX_ORPHANS];
	unsigned orphan_head, n_orphans;
	bool tx_pending; /* packets of the guest may be waiting */
	struct log_limit limit;
	uint64_t n_packets_in, n_packets_out, n_bytes_in, n_bytes_out;
	struct vq_chain batch[VSOCK_RX_BATCH];
};

/* connect, watch, note and ctx are set by the caller afterwards. 0 or -ENOMEM. */
int vsock_init(struct vsock *s, uint64_t cid, const struct vu_ops *ops, void *ctx);
void vsock_fini(struct vsock *s);

/* An event (EPOLLIN and so on) of a connection; stale ones are recognised by gen. */
void vsock_conn_event(struct vsock *s, uint32_t index, uint32_t gen, uint32_t events);

/*
 * Moves packets both ways until nothing can be moved or a fair share was. Returns true
 * if there is more to do: call again without waiting.
 */
bool vsock_work(struct vsock *s);

/*
 * Tries connections that wait for room on the host, if it is time to. Returns how long
 * the caller may sleep, ms: at most timeout_ms (-1: for ever).
 */
int vsock_retry(struct vsock *s, int timeout_ms);

/* The guest's driver is gone: closes every connection and forgets it. */
void vsock_drop_all(struct vsock *s);

/* Closes every connection; the guest, which may know of them, will be told. */
void vsock_reset_all(struct vsock *s);

/* Parts of the device, shared by its files. */

/* Messages per second that a guest may cause in the log. */
#define VSOCK_LOG_BURST 5

#define guest_warn(s, ...)                                                               \
	do {                                                                             \
		if (log_limit_ok(&(s)->limit, VSOCK_LOG_BURST))                          \
			log_warning(__VA_ARGS__);                                        \
	} while (0)

/* Closes the socket and has an RST sent. */
void vsock_conn_reset(struct vsock *s, struct conn *c);

/* Gives the slot back; the guest knows already, or never will. */
void vsock_conn_forget(struct vsock *s, struct conn *c);

/* Has the connection looked at when packets for the guest are made. */
void vsock_conn_ready(struct vsock *s, struct conn *c);

/* Handles a REQUEST that belongs to no connection yet. */
void vsock_connect(struct vsock *s, const struct vsock_hdr *h);

/* Has a connection in state WAITING tried again for a while. */
void vsock_conn_wait(struct vsock *s, struct conn *c);

/* Answers a packet that belongs to no connection. */
void vsock_orphan_reset(struct vsock *s, const struct vsock_hdr *h);

/* Handles packets of the guest. True if there are more. */
bool vsock_tx_work(struct vsock *s);

/* After bytes went to the socket: tells the guest, ends what was waiting for that. */
void vsock_conn_forwarded(struct vsock *s, struct conn *c);

#endif
