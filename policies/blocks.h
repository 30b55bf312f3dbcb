/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: how many of its kernel's blocks each session may have on an SM, while several have
 * kernels on the device at once (class shared), of which new ones begin only where old ones end.
 *
 * Pure, as placement.h: numbers in, decisions out, and any numbers are safe.
 *
 * A kernel's blocks fill an SM by one resource, and leave others unused; and many kernels are no
 * quicker with all the blocks that fit than with half. Where each has fewer, another's run between
 * them, in what is left.
 */
#ifndef WEFT_POLICIES_BLOCKS_H
#define WEFT_POLICIES_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCKS_ABI 1u
/* Resources of an SM, and what it has of each: threads, registers, shared memory, blocks. */
#define BLOCKS_RESOURCES 4u
#define BLOCKS_ALL       1000000u
/* Speeds are known for so many numbers of blocks. */
#define BLOCKS_PARTS 4u
/* Sessions that are decided about at once. */
#define BLOCKS_SESSIONS_MAX 64u

struct blocks_session {
	uint32_t weight; /* of its tenant */
	/* The kernel that it runs most of: how many blocks an SM has room for, 0: nobody knows;
	 * what each takes, of BLOCKS_ALL; its speed with i + 1 of BLOCKS_PARTS of them, per mille
	 * of that with all, 0: nobody knows. */
	uint32_t blocks, need[BLOCKS_RESOURCES], speed[BLOCKS_PARTS];
	bool fixed; /* its grid has no more blocks than these, which begin all at once */

	uint32_t permille; /* decided: of these blocks it may have so many; 0: all */
	bool plain;        /* decided: its kernels run as they are */
};

struct blocks_policy {
	uint32_t abi; /* BLOCKS_ABI */
	const char *name;
	/* Decides about n sessions, which all have kernels to run; plain is false before. */
	void (*decide)(struct blocks_session *s, uint32_t n);
};

/*
 * all: each may have all: who comes first has the SMs until its grid has no more blocks to begin.
 * sim: "Adaptive Simultaneous Multi-tenancy for GPUs", Algorithm 1, with slowdowns for times: each
 *      has the least number of blocks first, and then the one that is slowed down most, by its
 *      weight, has some more, as long as there is room and they make it quicker. Beside a kernel
 *      of which nobody knows anything all run as they are: blocks that stay would leave it none.
 */
extern const struct blocks_policy blocks_all, blocks_sim;

/* NULL: none has that name. */
const struct blocks_policy *blocks_policy_find(const char *name);
/* The i-th; NULL: that was all. The first is the one to use if nothing else is said. */
const struct blocks_policy *blocks_policy_at(unsigned i);

/* Blocks that a session may have on an SM, by what was decided. */
uint32_t blocks_of(const struct blocks_session *s);

#endif
