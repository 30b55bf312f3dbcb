/* SPDX-License-Identifier: Apache-2.0 */
/* Links of images to one: the images go to the host, the linked one comes back. */
#ifndef WEFT_GUEST_LINKER_H
#define WEFT_GUEST_LINKER_H

#include "code/jit.h"

struct guest_link {
	uint64_t handle;
	struct jit_options jit; /* of cuLinkCreate; its logs are filled by later calls */
	void *image;            /* valid until the link is destroyed */
};

/* Tells the worker of a link that has its handle and options. */
CUresult linker_create(struct guest_thread *t, struct guest_link *l);

/* Adds an image that was sent, under a name for messages, which go to jit's logs. */
CUresult linker_add(struct guest_thread *t, struct guest_link *l, CUjitInputType type,
		    uint64_t image, const char *name, struct jit_options *jit);

/* Links, with the messages in l's logs; *ret_size: bytes of the linked image.
 * linker_fetch() then brings the image into l->image, malloced and l's. */
CUresult linker_complete(struct guest_thread *t, struct guest_link *l, size_t *ret_size);
CUresult linker_fetch(struct guest_thread *t, struct guest_link *l, size_t size);

/* Has the worker forget the link; handle and image are still the caller's to free. */
CUresult linker_destroy(struct guest_thread *t, struct guest_link *l);

/*
 * Compiles one image to machine code by a link of its own. Writes jit's logs. On success
 * ret_code is malloced and the caller's.
 */
CUresult linker_compile(struct guest_thread *t, CUjitInputType type, const void *data,
			size_t size, const struct jit_options *jit, void **ret_code,
			size_t *ret_size);

#endif
