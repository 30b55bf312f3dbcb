/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a counted session with contents that can be checked. The functions are one
 * thread's, but for map_backing().
 */
#ifndef WEFT_TEST_HOST_ITEMS_H
#define WEFT_TEST_HOST_ITEMS_H

#include "counted.h"
#include "memory/move.h"
#include "memory/space.h"

#define PIECE    (128ull << 10)
#define MIB      (1ull << 20)
#define PAGE     (2 * MIB)
#define TOTAL    (256 * MIB)

#define OK(call) cr_assert_eq(call, CUDA_SUCCESS)

enum kind {
	SMALL,
	LARGE,
	ARENA,
	RANGE, /* two handles of the guest's, one behind the other */
	KINDS
};

struct item {
	enum kind kind;
	CUdeviceptr addr;
	uint64_t bytes, reserved;
	uint32_t seed;
};

/* A device of TOTAL bytes in pieces of PIECE. */
struct session *start(void);

struct item new_item(struct session *s, enum kind kind, uint64_t bytes, uint32_t seed);
void write_item(struct session *s, struct item *it, uint32_t seed);
void check_item(struct session *s, const struct item *it);
void free_item(struct session *s, const struct item *it);
/* Fresh memory in a range. */
void map_backing(struct session *s, CUdeviceptr addr, uint64_t size);

uint64_t used_bytes(struct session *s);
struct space_residency residency(struct session *s);
/* Checks that the books and the device agree. */
void check_books(struct session *s);
/* Nothing is swapped any more. */
void within_reach(struct session *s);

#endif
