/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of code images: cuModuleLoadData and its kin get a bare pointer. The image is not
 * decoded here; it goes to the host as it is.
 */
#ifndef WEFT_GUEST_IMAGE_H
#define WEFT_GUEST_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_WRAPPER_MAGIC   0x466243b1u /* nvcc puts it into .nvFatBinSegment */
#define IMAGE_CONTAINER_MAGIC 0xba55ed50u /* a fatbin */
#define IMAGE_ELF_MAGIC       0x464c457fu

/* More than any image there is; a length beyond it is taken for damage. */
#define IMAGE_SIZE_MAX ((uint64_t)2 << 30)

/*
 * Finds a part of an image, all of which are sent one after the other. A wrapper consists
 * of the container that it points to and, when it was made by linking device code (nvcc
 * -rdc), the containers of the single objects, which a host without matching machine code
 * links itself. A container, an ELF file and text (with its NUL) have one part,
 * themselves. Reads as much as the headers promise and no more than max bytes from image
 * on (SIZE_MAX where the end is unknown); a wrapper leads outside of that. *ret_data
 * points into the program's memory. Returns 0, -ENOENT past the last part, or -EINVAL for
 * data that is none of these or lies about its sizes.
 */
int image_part(const void *image, size_t max, unsigned index, const void **ret_data,
	       size_t *ret_size);

/*
 * True if a part of an image has to be compiled before a GPU of compute capability
 * major.minor can run it: text, or a container with PTX and no machine code for that GPU.
 */
bool image_needs_compiler(const void *part, size_t size, unsigned major, unsigned minor);

#endif
