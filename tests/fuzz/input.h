/* SPDX-License-Identifier: Apache-2.0 */
/* For targets that read steps off their input: after its end come zeros. */
#ifndef WEFT_FUZZ_INPUT_H
#define WEFT_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *p;
	size_t n;
};

/* The next bytes, at most 4; little-endian. */
static inline uint32_t take_bytes(struct input *in, unsigned bytes)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < bytes && in->n; i++, in->n--)
		v |= (uint32_t)*in->p++ << (8 * i);
	return v;
}

static inline uint8_t take(struct input *in)
{
	return (uint8_t)take_bytes(in, 1);
}

#endif
