/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a session of graphics (WIRE_HELLO_GRAPHICS): one program that draws, and the
 * weft-gl that draws for it, through virglrenderer. Such a session has one lane. What a
 * program says is vtest's protocol, version 2, which Mesa's driver `virpipe` speaks on a Unix
 * socket; weft-guest-gl ends it in the guest, since vtest passes descriptors of memory that
 * both of its ends map, and sends here what those memories have.
 *
 * Formats, targets and binds are numbers of virgl's. A reply's result (struct wire_result) is
 * 0 or a positive errno.
 */
#ifndef WEFT_GL_H
#define WEFT_GL_H

#include <assert.h>
#include <stdint.h>

#include "wire.h"

/* Operations: op of a record. Others belong to sessions that compute. */
enum gl_op {
	/* call, struct gl_caps; payload of the reply: the capability set */
	GL_OP_CAPS = 0x4000,
	GL_OP_RESOURCE_CREATE, /* call, struct gl_resource */
	GL_OP_RESOURCE_UNREF,  /* post, struct gl_handle */
	/* post, struct gl_transfer; payload: the box's rows of blocks, one after the other,
	 * then its next layer's */
	GL_OP_TRANSFER_PUT,
	GL_OP_TRANSFER_GET, /* call, struct gl_transfer; payload of the reply: likewise */
	GL_OP_SUBMIT,       /* post; payload: commands of virgl's, words of 4 bytes */
	GL_OP_WAIT,         /* call, struct gl_wait; the reply's struct gl_busy */
	GL_OP_END
};

/* Sets 1 and 2; no others. */
struct gl_caps {
	uint32_t set;
	uint32_t pad;
};
static_assert(sizeof(struct gl_caps) == 8, "gl_caps is ABI");

/* A program's resources live at once; numbers are the program's choice. */
#define GL_RESOURCES_MAX 65536u

struct gl_resource {
	uint32_t handle, target, format, bind;
	/* At least 1 each, but for array_size of a buffer. */
	uint32_t width, height, depth, array_size;
	uint32_t last_level, nr_samples;
};
static_assert(sizeof(struct gl_resource) == 40, "gl_resource is ABI");

struct gl_handle {
	uint32_t handle;
	uint32_t pad;
};
static_assert(sizeof(struct gl_handle) == 8, "gl_handle is ABI");

/* A box whose bytes fit a payload. */
struct gl_transfer {
	uint32_t handle, level;
	uint32_t x, y, z, w, h, d;
};
static_assert(sizeof(struct gl_transfer) == 32, "gl_transfer is ABI");

struct gl_wait {
	uint32_t wait; /* 1: until all that was submitted is done; 0: is it? */
	uint32_t pad;
};
static_assert(sizeof(struct gl_wait) == 8, "gl_wait is ABI");

struct gl_busy {
	struct wire_result result;
	uint32_t busy;
	uint32_t pad;
};
static_assert(sizeof(struct gl_busy) == 16, "gl_busy is ABI");

#endif
