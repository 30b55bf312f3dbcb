/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs name an operation by 16 bits of a hash of its name, so that a seed stays what it
 * is when operations are numbered anew. What is no operation's is taken as a number, which
 * may be one of a newer library.
 */
#ifndef WEFT_FUZZ_OP_KEY_H
#define WEFT_FUZZ_OP_KEY_H

#include "codec.h"

/* FNV-1a, folded. */
static inline uint16_t op_key(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return (uint16_t)(h >> 16 ^ h);
}

static inline uint16_t op_named(const uint8_t key[2])
{
	static uint16_t op[1u << 16], known;
	uint16_t k = (uint16_t)(key[0] | key[1] << 8);

	for (; known < WIRE_NUM_OPS; known++)
		op[op_key(codec_name(known))] = known;
	return op[k] ? op[k] : k % (WIRE_NUM_OPS + 2);
}

#endif
