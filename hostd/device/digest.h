/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of device memory, by which is known whether it has changed.
 *
 * A range is 32-bit words, 16 bytes after 16 bytes dealt out to chains, DIGEST_CHAINS in each
 * block of DIGEST_BLOCK bytes: a chain is a polynomial of its words in y, and a digest that of
 * all chains in z, modulo 2^61 - 1; twice, with secrets of their own. Of two ranges of up to
 * DIGEST_MAX bytes that differ, the difference is a polynomial of degree 2^16 at most, so with
 * secrets that nobody knows they have one digest with a probability of (2^16 / 2^61)^2 = 2^-90
 * (Carter and Wegman, 1979).
 */
#ifndef WEFT_DEVICE_DIGEST_H
#define WEFT_DEVICE_DIGEST_H

#include <stdint.h>

#define DIGEST_BLOCK  (512u << 10)
#define DIGEST_CHAINS 256u
#define DIGEST_MAX    (64ull << 20)
#define DIGEST_BITS   16u /* of a chain's number */
#define DIGEST_PRIME  ((1ull << 61) - 1)

struct digest {
	uint64_t word[2];
};

/* Secrets: y, and its powers up to the fourth; z, to the powers of 1, 2, 4, ... */
struct digest_key {
	uint64_t y[2][4], z[2][DIGEST_BITS];
};

struct digest_range {
	uint64_t addr, bytes; /* a multiple of DIGEST_BLOCK, at most DIGEST_MAX */
};

/* Makes a key of random numbers. Returns 0 or -errno. */
int digest_key_new(struct digest_key *ret_key);
/* Adds a block of memory of this process to the digest of a range, which is 0 at first. */
void digest_add(const struct digest_key *key, const void *p, uint64_t block,
		struct digest *d);

/* The PTX of a kernel that adds, for range blockIdx.y, block blockIdx.x of it to four sums, those of
 * the low and of the high halves of words for each of the two secrets; with DIGEST_CHAINS threads.
 * Its parameter is struct digest_args; sums[range][4] are zero before, and may be its variable
 * `totals`. */
extern const char digest_ptx[];

#define DIGEST_RANGES 128u

struct digest_args {
	struct digest_key key;
	uint64_t sums; /* device memory */
	struct {
		uint64_t addr, blocks;
	} range[DIGEST_RANGES];
};

struct digest digest_of_sums(const uint64_t sums[4]);

#endif
