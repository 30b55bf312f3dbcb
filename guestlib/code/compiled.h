/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code for images that bring PTX: compiled once by the host's driver, and kept
 * (core/code_cache.h) for every process that loads the same image with the same options.
 */
#ifndef WEFT_GUEST_COMPILED_H
#define WEFT_GUEST_COMPILED_H

#include "core/code_cache.h"
#include "code/jit.h"

struct compiled {
	struct code_key key;
	void *code; /* malloced, the caller's */
	size_t size;
};

/*
 * Finds an image's machine code, or has it compiled and keeps it. jit's logs and time are
 * those of compiling; empty if the code was found. Arguments as of image_part(). Returns
 * false if the image is to be loaded as it is: it has no PTX to compile, the device makes
 * no machine code, the cache is off, or compiling failed (loading says why).
 */
bool compiled_get(struct guest_thread *t, const void *image, size_t max,
		  struct jit_options *jit, struct compiled *ret);

#endif
