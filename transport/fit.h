/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of an end of another age. A body is a structure and variable parts behind it;
 * structures only ever grow at their end. Pure functions.
 */
#ifndef WEFT_FIT_H
#define WEFT_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* True if what a structure of `have` bytes has beyond `fixed` bytes is zero. */
bool fit_is_known(const void *body, uint32_t have, uint32_t fixed);

/*
 * Copies a body of `size` bytes, `have` of them its structure, so that its structure has
 * `fixed` bytes: cut, or with zeros at its end. The room may hold the body, at its start or
 * 8 bytes behind. Returns the new size; there must be room for size + fixed bytes.
 */
uint32_t fit_body(void *room, const void *body, uint32_t size, uint32_t have,
		  uint32_t fixed);

#endif
