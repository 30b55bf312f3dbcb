/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: one piece, or a run of pieces, on its way out or in.
 *
 * A transfer begins with the driver being given copies, and ends when they are done;
 * what has to be unmapped and mapped hides behind the copies of other transfers. Out: the
 * copies come first, then the memory behind the address changes; the device has its own
 * back before the host's is mapped, which takes as long as copying it. In: the other way
 * round.
 * So the data is always in at least one place, and whatever fails, it stays there. What
 * comes to lie in several host pieces that are to be mapped is read at another address
 * meanwhile, so that one is mapped while the next is copied.
 *
 * What is swapped keeps its contents in host memory when it comes back, as long as nobody needs
 * that (hostpool.h). When it leaves again, digests say which parts have changed, and only these are
 * copied. The digests of all that is about to leave are made at once: the device may be somebody
 * else's, and is waited for.
 *
 * All functions are called without space.lock and take it.
 */
#ifndef WEFT_MEM_TRANSFER_H
#define WEFT_MEM_TRANSFER_H

#include "memory/pieces.h"

/* Transfers under way, and copies of one that moves in steps: enough for the copies not
 * to wait for this process. */
#define TRANSFERS 16
#define STEPS     4u
/* Bytes under way at most: a lane that waits for a backing waits for all of them. */
#define TRANSFER_BYTES_MAX (2ull << 30)

struct transfer {
	struct backing *c;
	uint64_t offset, size; /* in c */
	uint64_t begin_ns;
	enum piece_state from, to;
	struct host_piece **host; /* n_host, one behind the other */
	unsigned n_host;
	/* Out, of each part that comes to lie in a host piece; NULL: none are made. They are not
	 * there yet, nor have copies begun, while it is compared. */
	struct digest *digests;
	bool compares;
	struct dev_mem *dev;
	struct dev_event *done;
	CUresult result; /* of what was asked of the device so far */
	bool unmapped;   /* in: what was mapped before is not any more */
	bool mapped;     /* in: the new memory is */
	/* Out: where the device's memory is read while the host's takes its place; 0:
	 * where it was. So many host pieces are mapped there already. */
	CUdeviceptr aside;
	unsigned n_taken;
};

/* One direction of one run of moving. */
struct mover {
	struct space *sp;
	struct dev_ctx *ctx; /* where it copies; NULL: no copies */
	void *held;          /* what mem_env.ctx_put() gets for it */
	struct dev_stream *st;
	struct dev_event *step[STEPS]; /* copies of one transfer, in turn */
	uint64_t run;
	struct transfer ring[TRANSFERS];
	unsigned first, n;
	uint64_t under_way, moved; /* bytes */
	uint64_t unchanged;        /* of what moved out: host memory had it */
	int error;                 /* the first one: -ENOMEM or -EIO */
};

/* copies: it will be used for more than mover_map(). Returns 0, or -EIO: no context, or
 * it is lost. */
int mover_init(struct mover *mv, struct space *sp, bool copies);
/* Ends what is under way. */
void mover_fini(struct mover *mv);

/*
 * Begins to move what lies at addr: out, the piece of that size there, or in, the pieces
 * of that size together, to be one. Ends others first if too many are under way.
 * Nothing happens if that is not there (any more), or somebody waits for the backing.
 * Failures end up in mv->error.
 */
void mover_out(struct mover *mv, CUdeviceptr addr, uint64_t size, enum piece_state to);
void mover_in(struct mover *mv, CUdeviceptr addr, uint64_t size);
/* Maps swapped pieces where they are, with failures as above; done when it returns. */
void mover_map(struct mover *mv, CUdeviceptr addr, uint64_t size);

/* Ends all that is under way. */
void mover_drain(struct mover *mv);
#endif
