/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the program has asked us for or registered. It is ordinary memory of
 * this process; the table knows what was asked, for queries.
 */
#ifndef WEFT_GUEST_HOSTMEM_H
#define WEFT_GUEST_HOSTMEM_H

#include "guest.h"

struct hostmem {
	uintptr_t base;
	size_t size;     /* as asked for */
	unsigned flags;  /* CU_MEMHOSTALLOC_* or CU_MEMHOSTREGISTER_* */
	bool registered; /* the program's own */
	uint64_t id;     /* CU_POINTER_ATTRIBUTE_BUFFER_ID, never reused */
};

/* The range that contains addr. Thread-safe. */
bool hostmem_find(uintptr_t addr, struct hostmem *ret_range);

#endif
