/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image that cuLinkComplete() gives back: a program may store, copy and load it
 * again, and its length can be seen from its first bytes. It is a fatbin container whose
 * entries are of a kind of our own; each holds one input as a container.
 *
 *	container: 16 bytes, as in ptx/fatbin.h
 *	entry:	   64 bytes, kind LINKED_KIND, then the input's container, padded to 8
 *
 * A device is given the inner containers, one behind the other, which it links.
 */
#ifndef WEFT_SESS_LINKED_H
#define WEFT_SESS_LINKED_H

#include <stdbool.h>

#include "session/image.h"

#define LINKED_KIND 0x5745u

/*
 * Makes the result of n inputs, each a container or PTX text. The caller frees
 * ret_image->data. Returns 0, -EINVAL (no input), -E2BIG or -ENOMEM.
 */
int linked_pack(const struct image *inputs, unsigned n, struct image *ret_image);

/* True if the image is a result of linked_pack(), or looks like one. */
bool linked_is(const struct image *img);

/*
 * The inner containers, one behind the other; foreign bytes are checked. The caller frees
 * ret_image->data. Returns 0, -EBADMSG or -ENOMEM.
 */
int linked_unpack(const struct image *img, struct image *ret_image);

#endif
