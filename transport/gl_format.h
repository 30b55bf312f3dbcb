/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of virgl's textures and buffers: how many bytes their pixels take. */
#ifndef WEFT_GL_FORMAT_H
#define WEFT_GL_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

struct gl_format {
	uint8_t w, h;  /* of a block, in pixels; 1 where nothing is compressed */
	uint8_t bytes; /* of a block */
};

/* False: no such format, or one of several planes. */
bool gl_format(uint32_t number, struct gl_format *ret);

/* Bytes of a row of blocks that has width pixels; at most 2^37. */
uint64_t gl_row(const struct gl_format *f, uint32_t width);
/* Rows of blocks in height pixels. */
uint64_t gl_rows(const struct gl_format *f, uint32_t height);

#endif
