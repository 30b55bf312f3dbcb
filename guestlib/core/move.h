/* SPDX-License-Identifier: Apache-2.0 */
/* Moving many bytes, with the help of a few threads where there are processors. */
#ifndef WEFT_GUEST_MOVE_H
#define WEFT_GUEST_MOVE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Gets the helpers for a copy of many pieces; false: somebody else has them, or there are
 * none. Never inside a pair of the same thread.
 */
bool move_begin(void);
void move_end(void);

/* memcpy(). helped: between move_begin(), which said true, and move_end(). */
void move_bytes(void *dst, const void *src, size_t size, bool helped);

/* Brings memory that is about to be written into this processor's cache: storing to lines
 * that are in no cache is what takes longest in a small memcpy(). Any address. */
void move_prepare(const void *dst, size_t size);

#endif
