/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: the allocations of the process
 *
 * What the worker has said of an allocation is kept until that is freed, so that it need
 * not be asked again. Looked up by any address within, without a lock: the band of device
 * addresses is divided into units, and each unit knows the allocation that covers its
 * beginning and those that begin in it. Records and tables are never freed, only used
 * again, so a reader at worst finds a record of something else, which says so.
 *
 * Ranges that the program maps by itself are not kept: they change in parts.
 */
#ifndef WEFT_GUEST_EXTENT_TABLE_H
#define WEFT_GUEST_EXTENT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define EXTENT_GRAIN                                                                     \
	512u /* of an allocation: no less is given, nor at other addresses               \
	      */

struct extent_info {
	uint64_t base, size; /* bytes, as asked for */
	uint64_t id;         /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	uint64_t ctx, pool;  /* as in pointer_info_rep */
	uint64_t shareable;  /* 0 or 1 */
};

/* The allocation at addr, up to the end of its last grain. Lock-free. */
bool extent_table_find(uint64_t addr, struct extent_info *ret_info);

/*
 * Keeps one, unless something has been freed since extent_table_generation() gave that
 * value: then it might be what the worker has told of. Without memory it is not kept.
 */
void extent_table_add(const struct extent_info *info, uint64_t generation);
uint64_t extent_table_generation(void);

/* Of the allocation at addr, or of all of them, nothing is known any more. Any thread. */
void extent_table_drop(uint64_t addr);
void extent_table_clear(void);

#endif
