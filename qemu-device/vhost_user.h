/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vhost-user protocol, back-end side: what QEMU tells the device over its socket.
 * QEMU is believed no more than needed: a message that breaks the protocol, or a region
 * or ring that lies outside its file, ends this connection and nothing else.
 *
 * States of a front end, in order: connected (features are agreed on), memory known,
 * rings started (SET_VRING_KICK) and enabled, rings stopped (GET_VRING_BASE). The owner
 * is told of starts and stops by callbacks. Not thread-safe.
 */
#ifndef WEFT_VHOST_USER_H
#define WEFT_VHOST_USER_H

#include <stdbool.h>
#include <stdint.h>

#include "gmem.h"
#include "virtqueue.h"

/* Queues of a vsock device that reach the back end; QEMU keeps the event queue. */
#define VU_NUM_QUEUES 2

/* Descriptors in one message: SET_MEM_TABLE brings at most eight. */
#define VU_MAX_FDS 8

/* Largest payload: a memory table takes 264 bytes, a configuration 268. */
#define VU_MAX_PAYLOAD 512

enum vu_request {
	VU_GET_FEATURES = 1,
	VU_SET_FEATURES = 2,
	VU_SET_OWNER = 3,
	VU_RESET_OWNER = 4,
	VU_SET_MEM_TABLE = 5,
	VU_SET_VRING_NUM = 8,
	VU_SET_VRING_ADDR = 9,
	VU_SET_VRING_BASE = 10,
	VU_GET_VRING_BASE = 11,
	VU_SET_VRING_KICK = 12,
	VU_SET_VRING_CALL = 13,
	VU_SET_VRING_ERR = 14,
	VU_GET_PROTOCOL_FEATURES = 15,
	VU_SET_PROTOCOL_FEATURES = 16,
	VU_GET_QUEUE_NUM = 17,
	VU_SET_VRING_ENABLE = 18,
	VU_GET_CONFIG = 24,
	VU_SET_CONFIG = 25,
	VU_RESET_DEVICE = 34,
	VU_GET_MAX_MEM_SLOTS = 36,
	VU_ADD_MEM_REG = 37,
	VU_REM_MEM_REG = 38,
	VU_NUM_REQUESTS
};

#define VU_VERSION                        1u
#define VU_VERSION_MASK                   3u
#define VU_F_REPLY                        4u
#define VU_F_NEED_REPLY                   8u

#define VU_PROTOCOL_F_MQ                  0
#define VU_PROTOCOL_F_REPLY_ACK           3
#define VU_PROTOCOL_F_CONFIG              9
#define VU_PROTOCOL_F_RESET_DEVICE        13
#define VU_PROTOCOL_F_CONFIGURE_MEM_SLOTS 15

#define VIRTIO_F_INDIRECT_DESC            28
#define VHOST_USER_F_PROTOCOL             30
#define VIRTIO_F_VERSION_1                32

struct vu_hdr {
	uint32_t request;
	uint32_t flags;
	uint32_t size; /* bytes of payload */
};

struct vu_ops {
	/* A ring was started or its memory found again: look at it, register kick_fd. */
	void (*ring_ready)(void *ctx, unsigned index);
	/* A ring is about to stop or its descriptors to be closed. */
	void (*ring_stop)(void *ctx, unsigned index);
	/*
	 * A driver sets up ring index from entry base on; resumed says that it goes on
	 * where a stopped one was. If not, the guest's driver is a new one.
	 */
	void (*ring_base)(void *ctx, unsigned index, bool resumed);
	/* The whole device is reset, by message or because the front end went away. */
	void (*reset)(void *ctx);
};

struct vu {
	const struct vu_ops *ops;
	void *ctx;
	int fd; /* connection to the front end, -1 if none */
	uint64_t cid;
	uint64_t features;          /* as acknowledged */
	uint64_t protocol_features; /* as acknowledged */
	struct gmem mem;
	struct vq q[VU_NUM_QUEUES];
	bool has_base[VU_NUM_QUEUES]; /* ring was stopped at base[] */
	uint16_t base[VU_NUM_QUEUES];

	/* The message that is being received. */
	struct vu_hdr hdr;
	unsigned char payload[VU_MAX_PAYLOAD];
	size_t have; /* bytes of header and payload */
	int fds[VU_MAX_FDS];
	unsigned n_fds;
};

/* ops and ctx stay the caller's and must live as long as v. */
void vu_init(struct vu *v, uint64_t cid, const struct vu_ops *ops, void *ctx);

/* Serves a connection (non-blocking; taken over). None may be there. */
void vu_attach(struct vu *v, int fd);

/* Drops the connection, the memory and the rings; calls ops->reset. Callable any time. */
void vu_detach(struct vu *v);

/*
 * Receives and handles what is there. Returns 0 or, when the front end is gone or broke
 * the protocol, a negative errno: the caller calls vu_detach().
 */
int vu_receive(struct vu *v);

/*
 * Handles one complete message in hdr, payload and fds, and answers it on the connection.
 * Used by vu_receive() and by the fuzzer. Returns 0 or -errno as vu_receive().
 */
int vu_dispatch(struct vu *v);

/* True between two messages: only then is the state complete. */
static inline bool vu_idle(const struct vu *v)
{
	return v->have == 0;
}

#endif
