/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memories that a program's driver has mapped for its resources: vtest gives it one for each,
 * with all levels and layers, one after the other, and speaks of places in it. One thread.
 */
#ifndef WEFT_GUEST_GL_MEMORY_H
#define WEFT_GUEST_GL_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tree.h"
#include "gl.h"
#include "gl_format.h"

struct memory {
	struct tree_node by_handle;
	struct gl_format format;
	struct gl_resource is;
	char *at; /* NULL: it has none */
	uint64_t size;
};

struct memories {
	struct tree all;
};

/* Makes that of a resource, with size bytes; *ret_fd is the caller's (-1 with size 0).
 * Returns 0, -EEXIST, -EINVAL (an unknown format) or -errno. */
int memory_new(struct memories *ms, const struct gl_resource *is, uint64_t size,
	       int *ret_fd);
/* NULL: there is none. */
struct memory *memory_find(const struct memories *ms, uint32_t handle);
void memory_free(struct memories *ms, struct memory *m);
void memories_fini(struct memories *ms);

/* A box of a resource that begins at `offset` of its memory. */
struct memory_box {
	struct gl_transfer t;
	uint64_t offset;
};

/* A walk over a box, in parts that a payload has room for. */
struct memory_walk {
	struct memory_box box;
	uint32_t z, row, x; /* where the next part begins */
};

/* Begins one. False: the box does not lie in the memory, as a broken driver might say. */
bool memory_walk(const struct memory *m, const struct memory_box *b,
		 struct memory_walk *ret);
/* The next part. Returns its bytes; 0: there is none. */
uint32_t memory_next(const struct memory *m, struct memory_walk *w,
		     struct memory_box *ret);
/* Copies such a part's rows to `packed`, one after the other, or back. */
void memory_pack(const struct memory *m, const struct memory_box *b, void *packed);
void memory_unpack(const struct memory *m, const struct memory_box *b,
		   const void *packed);

#endif
