/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: the allocations of the process
 *
 * Answers of the worker about an allocation are kept until it is freed, so that the
 * worker need not be asked again. An allocation is found by any address within, without a
 * lock: the band of device addresses is divided into units, and each unit knows the
 * allocation that covers its beginning and those that begin in it. Records and tables are
 * never freed, only used again, so a reader at worst finds a record of something else,
 * which says so.
 *
 * Ranges that the program maps by itself are not kept: they change in parts.
 */
#ifndef WEFT_GUEST_EXTENT_TABLE_H
#define WEFT_GUEST_EXTENT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes: an allocation begins at a multiple of it, and takes no less. */
#define EXTENT_GRAIN 512u

struct extent_info {
	uint64_t base, size; /* bytes, as asked for */
	uint64_t id;         /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	uint64_t ctx, pool;  /* as in pointer_info_rep */
	uint64_t shareable;  /* 0 or 1 */
};

/* Finds the allocation that contains addr, the rest of its last grain included. False:
 * none is known. Lock-free. */
bool extent_table_find(uint64_t addr, struct extent_info *ret_info);

/*
 * Keeps an allocation of which the worker has told, unless anything has been freed since
 * extent_table_generation() gave the value of generation: the answer may then be about
 * memory that is gone. Without memory it is not kept.
 */
void extent_table_add(const struct extent_info *info, uint64_t generation);
uint64_t extent_table_generation(void);

/* Forget the allocation that contains addr, and all of them. Any thread. */
void extent_table_drop(uint64_t addr);
void extent_table_clear(void);

#endif
