/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vtest's protocol, version 2, as virglrenderer's vtest_protocol.h has it: what Mesa's driver
 * `virpipe` says on a Unix socket. A message is a head and words; what it has beside words
 * stands with its number.
 */
#ifndef WEFT_GUEST_GL_VTEST_H
#define WEFT_GUEST_GL_VTEST_H

#include <stdint.h>

#define VTEST_VERSION 2u

struct vtest_head {
	uint32_t length; /* of what follows, in words, but where it says bytes */
	uint32_t id;     /* enum vtest_id */
};

enum vtest_id {
	VTEST_GET_CAPS = 1,        /* answer: the set */
	VTEST_RESOURCE_UNREF = 3,  /* a handle */
	VTEST_SUBMIT = 6,          /* commands */
	VTEST_BUSY_WAIT = 7,       /* struct vtest_busy_wait; answer: a word, 1 if busy */
	VTEST_CREATE_RENDERER = 8, /* length is bytes: a program's name with its NUL */
	VTEST_GET_CAPS2 = 9,       /* answer: the set */
	VTEST_PING = 10,           /* answer: its head */
	VTEST_PROTOCOL_VERSION = 11, /* the highest; answer: that to speak */
	/* struct vtest_resource; answer, if it has memory: a byte and with it the memory's
	 * descriptor, or without one: it could not be made */
	VTEST_RESOURCE_CREATE2 = 12,
	/* struct vtest_transfer. The length of a put counts data that is in the memory and
	 * does not follow. */
	VTEST_TRANSFER_GET2 = 13,
	VTEST_TRANSFER_PUT2 = 14,
};

struct vtest_busy_wait {
	uint32_t handle, flags;
};
#define VTEST_BUSY_WAIT_WAITS 1u

struct vtest_resource {
	uint32_t handle, target, format, bind;
	uint32_t width, height, depth, array_size;
	uint32_t last_level, nr_samples;
	uint32_t size; /* bytes of its memory; 0: none */
};

struct vtest_transfer {
	uint32_t handle, level;
	uint32_t x, y, z, w, h, d;
	uint32_t size, offset; /* bytes in its memory */
};

#endif
