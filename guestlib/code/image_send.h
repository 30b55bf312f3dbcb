/* SPDX-License-Identifier: Apache-2.0 */
/* Sending images to the worker, which keeps each under a number until it is loaded. */
#ifndef WEFT_GUEST_IMAGE_SEND_H
#define WEFT_GUEST_IMAGE_SEND_H

#include "core/guest.h"

/* Posts size bytes under a new number, for module_load or link_add. INVALID_VALUE: none,
 * or more than IMAGE_SIZE_MAX. */
CUresult image_send_bytes(struct guest_thread *t, const void *data, size_t size,
			  uint64_t *ret_image);

/* Posts all parts of an image; image and max as in image_part(). INVALID_IMAGE. */
CUresult image_send(struct guest_thread *t, const void *image, size_t max,
		    uint64_t *ret_image);

#endif
