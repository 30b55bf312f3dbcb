/* SPDX-License-Identifier: Apache-2.0 */
/* Moving many bytes, with the help of a few threads where there are processors. */
#ifndef WEFT_GUEST_MOVE_H
#define WEFT_GUEST_MOVE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Reserve the helper threads for a copy of many pieces, and release them. move_begin()
 * returns false if another copy has them or there are none; move_end() then must not be
 * called. A thread does not nest such pairs.
 */
bool move_begin(void);
void move_end(void);

/* Copies as memcpy(). helped: the caller is between a move_begin() that returned true and
 * its move_end(). */
void move_bytes(void *dst, const void *src, size_t size, bool helped);

/* Brings size bytes that are about to be written into this processor's cache: storing to
 * lines that are in no cache takes most of the time of a small memcpy(). Any address. */
void move_prepare(const void *dst, size_t size);

#endif
