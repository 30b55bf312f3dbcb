/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A split virtqueue as a device sees it (virtio 1.1, section 2.6), without event
 * indices: chains are taken in order and given back in order, none stays in flight
 * between two calls of the event loop. All ring memory belongs to the guest and may
 * change at any time: each value is read once, then checked. Not thread-safe.
 */
#ifndef WEFT_VIRTQUEUE_H
#define WEFT_VIRTQUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "gmem.h"

/* Largest ring that virtio allows. */
#define VQ_MAX_NUM 32768

/*
 * Most vectors in one chain. A packet of Linux takes 1 or 2, with zero copy up to about
 * 20; sixteen chains of this size still fit one recvmsg (IOV_MAX is 1024).
 */
#define VQ_MAX_IOV 64

struct vq_desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags; /* VQ_DESC_F_* */
	uint16_t next;
};

#define VQ_DESC_F_NEXT     1
#define VQ_DESC_F_WRITE    2
#define VQ_DESC_F_INDIRECT 4

struct vq_used_elem {
	uint32_t id;
	uint32_t len;
};

struct vq_used {
	uint16_t flags;
	uint16_t idx;
	struct vq_used_elem ring[];
};

struct vq_avail {
	uint16_t flags;
	uint16_t idx;
	uint16_t ring[];
};

#define VQ_USED_F_NO_NOTIFY     1
#define VQ_AVAIL_F_NO_INTERRUPT 1

struct vq {
	unsigned num; /* ring size, a power of two; 0 until told */
	uint64_t desc_uva, avail_uva, used_uva;

	/* Set by vq_map(); NULL while the ring is not in shared memory. */
	struct vq_desc *desc;
	struct vq_avail *avail;
	struct vq_used *used;

	uint16_t last_avail; /* next entry of the available ring to take */
	uint16_t used_idx;   /* next entry of the used ring to write */
	bool used_known;     /* used_idx is ours, not to be read from the ring */
	bool started; /* the VMM sent a kick descriptor and did not stop it since */
	bool enabled;
	bool broken;     /* the guest broke the rules: dead until the next start */
	bool notify_off; /* VQ_USED_F_NO_NOTIFY as last written */
	unsigned pushed; /* chains given back since the last vq_signal() */

	int kick_fd, call_fd, err_fd; /* -1 if none */
};

/* One chain of buffers: first those the device reads, then those it writes. */
struct vq_chain {
	uint16_t head;
	unsigned n_out, n_in; /* vectors; those of n_in follow those of n_out in iov */
	uint64_t out_bytes, in_bytes;
	struct iovec iov[VQ_MAX_IOV];
};

void vq_init(struct vq *q);

/* Closes the descriptors and forgets everything. */
void vq_reset(struct vq *q);

/*
 * Finds the ring in memory after its addresses or the memory changed. Returns 0, or
 * -EFAULT (then the ring stays unusable until a later call succeeds).
 */
int vq_map(struct vq *q, const struct gmem *m);

/* True if chains may be taken and given back now. */
static inline bool vq_ready(const struct vq *q)
{
	return q->desc && q->started && q->enabled && !q->broken;
}

/*
 * Takes the next chain. Returns 1, 0 if there is none, or -EPROTO: the guest broke the
 * rules, the queue is now broken and its error descriptor was signalled.
 */
int vq_pop(struct vq *q, struct gmem *m, struct vq_chain *ret_chain);

/* Puts back the last n chains that vq_pop() returned; they were not used. */
void vq_unpop(struct vq *q, unsigned n);

/* Gives a chain back after len bytes were written into it. */
void vq_push(struct vq *q, const struct vq_chain *c, uint32_t len);

/* Interrupts the guest if chains were given back since and it wants to know. */
void vq_signal(struct vq *q);

/*
 * Asks the guest to kick, or not to. Returns true if chains came in meanwhile, for which
 * no kick may come: look again.
 */
bool vq_set_notify(struct vq *q, bool on);

/* Marks a queue broken by the guest. Always returns -EPROTO. */
int vq_break(struct vq *q, const char *why);

#endif
