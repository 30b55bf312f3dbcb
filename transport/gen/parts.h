/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variable parts of a body: each begins at a multiple of 8 after the fixed structure,
 * in the order of the description; what lies between a part's end and the next multiple
 * of 8 is zero. Reading happens in a private copy of the body. For generated code.
 */
#ifndef WEFT_PARTS_H
#define WEFT_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct parts {
	const uint8_t *base;
	uint32_t size; /* of the whole body */
	uint32_t at;   /* where the next part begins; at most size, a multiple of 8 */
	bool bad;      /* a part did not fit or had dirt behind it; never cleared */
};

static inline bool parts_zero(const uint8_t *p, uint32_t size)
{
	uint8_t any = 0;

	for (uint32_t i = 0; i < size; i++)
		any |= p[i];
	return !any;
}

/* Takes the next part, count elements of elem_size bytes; NULL (and bad) if wrong. */
static inline const void *parts_take(struct parts *p, uint32_t count, uint32_t max,
				     uint32_t elem_size)
{
	uint64_t bytes = (uint64_t)count * elem_size;
	uint64_t room = (bytes + 7) & ~7ull;
	const uint8_t *part = p->base + p->at;

	if (p->bad || count > max || room > p->size - p->at ||
	    !parts_zero(part + bytes, (uint32_t)(room - bytes))) {
		p->bad = true;
		return NULL;
	}
	p->at += (uint32_t)room;
	return part;
}

/* Takes a string: size counts its NUL, and there is none before. */
static inline const char *parts_take_str(struct parts *p, uint32_t size, uint32_t max)
{
	const char *s = parts_take(p, size, max, 1);

	if (s && (size == 0 || strnlen(s, size) != size - 1))
		p->bad = true;
	return p->bad ? NULL : s;
}

/* True if all parts were right and nothing follows them. */
static inline bool parts_end(const struct parts *p)
{
	return !p->bad && p->at == p->size;
}

/* ---- writing ---- */

static inline uint32_t parts_room(uint64_t bytes)
{
	return (uint32_t)((bytes + 7) & ~7ull);
}

/* Zeroes what follows a part of `bytes` bytes up to the next multiple of 8. */
static inline void parts_zero_tail(void *part, uint64_t bytes)
{
	memset((uint8_t *)part + bytes, 0, parts_room(bytes) - bytes);
}

#endif
