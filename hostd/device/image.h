/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an image: one, unless it is a row of fatbin containers. Those are what
 * belongs to a program of relocatable device code (first the linked machine code, then
 * the container of each object file), or the inputs of a link. Any thread.
 */
#ifndef WEFT_DEVICE_IMAGE_H
#define WEFT_DEVICE_IMAGE_H

#include <stddef.h>

struct image_part {
	const void *data; /* in the image */
	size_t size;
};

/*
 * Steps through the parts; *pos is 0 at first and belongs to this function. Returns 1
 * with a part, 0 behind the last one, -EBADMSG when a container is longer than the image
 * or is followed by something else.
 */
int image_next(const void *image, size_t size, size_t *pos, struct image_part *ret);

#endif
