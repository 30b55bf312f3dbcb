/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources of a program that draws: textures and buffers by its numbers, with what each takes
 * of the device's memory. What a program says of them is checked here; virglrenderer checks
 * anew what concerns the driver. One thread.
 */
#ifndef WEFT_GL_RESOURCE_H
#define WEFT_GL_RESOURCE_H

#include <stdint.h>

#include "base/tree.h"
#include "gl.h"
#include "gl_format.h"

struct resource {
	struct tree_node by_handle;
	struct gl_format format;
	struct gl_resource is;
	uint64_t bytes; /* charged */
};

struct resources {
	struct tree all;
	uint32_t n;
	uint64_t bytes;
};

/* Bytes of device memory are charged in pages of this size: below it, what a driver rounds
 * to is its own matter. */
#define RESOURCE_GRAIN 4096u

/*
 * Checks what a program wants and says what it takes: all levels, layers and samples. Returns
 * 0, -EINVAL, or -EEXIST: the number is in use; -ENOSPC: it has GL_RESOURCES_MAX.
 */
int resource_check(const struct resources *rs, const struct gl_resource *want,
		   struct gl_format *ret_format, uint64_t *ret_bytes);

/* Notes one that has been checked. Returns 0 or -ENOMEM. */
int resource_add(struct resources *rs, const struct gl_resource *is,
		 const struct gl_format *f, uint64_t bytes);

/* NULL: there is none of that number. */
struct resource *resource_find(const struct resources *rs, uint32_t handle);

/* Forgets it. Returns its bytes. */
uint64_t resource_remove(struct resources *rs, struct resource *r);

/* A box of a level, checked. */
struct box {
	uint32_t stride,
		layer_stride; /* bytes from row of blocks to row, layer to layer */
	uint32_t bytes;
};

/* Returns 0 or -EINVAL: the box does not lie in the resource, or not on the edges of blocks,
 * or has more than WIRE_PAYLOAD_MAX bytes. */
int resource_box(const struct resource *r, const struct gl_transfer *t, struct box *ret);

#endif
