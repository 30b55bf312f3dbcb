/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A front end and a guest driver for weft-vsock in one process: speaks vhost-user over a
 * socket pair and lays rings and packets out in a memfd, as QEMU and Linux would.
 */
#ifndef WEFT_TESTS_VSOCK_FAKE_H
#define WEFT_TESTS_VSOCK_FAKE_H

#include "server.h"

#define FAKE_CID       42
#define FAKE_PORT      22887
#define FAKE_RAM       (8u << 20)
#define FAKE_SPLIT     (1u << 20) /* two adjacent regions meet here */
#define FAKE_UVA       0x7f0000000000ull
#define FAKE_RING      64u
#define FAKE_RX_BUF    3776u
#define FAKE_MAX_CONNS (CONN_MAX + 8)
#define FAKE_BUF_ALLOC (256u << 10)

struct fake_ring {
	struct vq_desc *desc;
	struct vq_avail *avail;
	struct vq_used *used;
	uint64_t gpa;
	int kick, call;
	uint16_t avail_idx, used_seen;
};

struct fake {
	struct server *s;
	int front;
	int memfd;
	char *ram;
	struct fake_ring ring[VU_NUM_QUEUES];
	/* Host ends of connections, in the order in which they were opened. */
	int host[FAKE_MAX_CONNS];
	unsigned n_host;
	int refuse;       /* errno for the next connections, 0 to accept */
	uint32_t tx_buf;  /* guest address for the next packet */
	uint32_t fwd_cnt; /* put into every packet */
	uint32_t buf_alloc;
};

/* A server and a connected front end; nothing agreed on yet. handover may be NULL. */
void fake_init(struct fake *f, const char *handover);
void fake_fini(struct fake *f);

/* Lets the server do what there is to do. */
void fake_steps(struct fake *f);

/* Sends a message with need_reply unset. */
void fake_send(struct fake *f, uint32_t request, const void *payload, uint32_t size,
	       const int *fds, unsigned n_fds);

/* Same with flags; returns the size of the reply's payload, -1 without one. */
int fake_call(struct fake *f, uint32_t request, uint32_t flags, const void *payload,
	      uint32_t size, const int *fds, unsigned n_fds, void *reply);

/* True while the server holds our connection. */
bool fake_connected(struct fake *f);

/* Agrees on features, shares the memory, starts both rings, posts receive buffers. */
void fake_start(struct fake *f);
void fake_start_ring(struct fake *f, unsigned index, uint32_t base);
void fake_stop_ring(struct fake *f, unsigned index);

/* Posts n receive buffers. */
void fake_post(struct fake *f, unsigned n);

/* Adds one chain that begins at descriptor head to a ring, and kicks. */
void fake_offer(struct fake *f, unsigned index, uint16_t head);

/* The guest sends a packet on the connection port -> FAKE_PORT. */
void fake_packet(struct fake *f, uint32_t port, uint16_t op, uint32_t flags,
		 const void *data, uint32_t len);
void fake_packet_hdr(struct fake *f, const struct vsock_hdr *h, const void *data,
		     uint32_t len);

/* The guest takes the next packet; false if there is none. data holds FAKE_RX_BUF. */
bool fake_take(struct fake *f, struct vsock_hdr *ret_hdr, void *data);

/* Takes the next packet and checks what it is. */
void fake_expect(struct fake *f, uint32_t port, uint16_t op);

/* Opens a connection; returns the host's end. */
int fake_open(struct fake *f, uint32_t port);

#endif
