/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes of CUDA arrays, for both ends. Numbers are those of cuda.h: CUarray_format and
 * the flags CUDA_ARRAY3D_*; extents are in elements, 0 where a dimension does not exist.
 */
#ifndef WEFT_SHAPE_H
#define WEFT_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#define ARRAY_LEVELS_MAX 18 /* 131,072 has as many */

#define ARRAY_LAYERED    1u
#define ARRAY_CUBEMAP    4u

struct array_shape {
	uint64_t width, height, depth;
	uint32_t format, channels, flags;
	uint32_t levels; /* 0: not mipmapped */
};

/* Bytes of a channel of the plain formats and of those that say "normalized"; 0: other.
 */
static inline unsigned array_channel_bytes(uint32_t format)
{
	switch (format) {
	case 0x01: /* integers of 8, 16 and 32 bits */
	case 0x08:
		return 1;
	case 0x02:
	case 0x09:
	case 0x10: /* half */
		return 2;
	case 0x03:
	case 0x0a:
	case 0x20: /* float */
		return 4;
	}
	if (format >= 0xc0 && format <= 0xcb)
		return (format - 0xc0) / 3 % 2 ? 2 : 1;
	return 0;
}

/* Bytes of an element; 0 for compressed and planar formats. */
static inline unsigned array_elem_bytes(const struct array_shape *s)
{
	return s->format == 0x50 ? 4 : array_channel_bytes(s->format) * s->channels;
}

/* How many levels an array of that extent can have. */
static inline unsigned array_levels(const struct array_shape *s)
{
	bool layers = s->flags & (ARRAY_LAYERED | ARRAY_CUBEMAP);
	uint64_t n = s->width | s->height | (layers ? 0 : s->depth);
	unsigned levels = 0;

	for (; n; n >>= 1)
		levels++;
	return levels;
}

static inline uint64_t array_halved(uint64_t n, unsigned level)
{
	return n && !(n >> level) ? 1 : n >> level;
}

/* The shape of one level: its extent is halved each time, but for layers and faces. */
static inline struct array_shape array_level(const struct array_shape *s, unsigned level)
{
	struct array_shape l = *s;

	l.width = array_halved(s->width, level);
	l.height = array_halved(s->height, level);
	if (!(s->flags & (ARRAY_LAYERED | ARRAY_CUBEMAP)))
		l.depth = array_halved(s->depth, level);
	l.levels = 0;
	return l;
}

/*
 * True if a box of width bytes, height rows and depth slices at x (bytes), y, z lies in
 * an array. Elements of 0 bytes: only that the numbers are sane.
 */
static inline bool array_holds(const struct array_shape *s, uint64_t x, uint64_t y,
			       uint64_t z, uint64_t width, uint64_t height,
			       uint64_t depth)
{
	unsigned elem = array_elem_bytes(s);
	uint64_t row = elem ? s->width * elem : UINT32_MAX;
	uint64_t rows = elem ? (s->height ? s->height : 1) : UINT32_MAX;
	uint64_t slices = s->depth ? s->depth : 1;

	return x <= row && width <= row - x && y <= rows && height <= rows - y &&
	       z <= slices && depth <= slices - z;
}

#endif
