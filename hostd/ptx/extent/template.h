/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where kernels reach memory, as an operator says it: for machine code, whose PTX nobody has, and for
 * kernels of which PTX does not say enough. A text, which hostd/doc/extents.md describes:
 *
 *	weft-extents 1
 *	code *
 *	kernel rows
 *	at u64[0] + each(u32[16], 4096) bytes 512
 *
 * As with what is found in PTX, a launch may reach more or less all the same (extent.h).
 */
#ifndef WEFT_PTX_EXTENT_TEMPLATE_H
#define WEFT_PTX_EXTENT_TEMPLATE_H

#include <stddef.h>

#include "ptx/extent/extent.h"

#define TEMPLATES_TEXT_MAX (1u << 20) /* bytes of a text */

struct ptx_templates;

/* The code of an image: 128 bits of XXH3. A program may well make code with the hash of other code:
 * what is said of that is a prediction, and its own. */
struct ptx_code {
	uint64_t hash[2];
};

struct ptx_code ptx_code_of(const void *image, size_t size);

/* A mistake in a text, and its line, from 1 on. */
struct ptx_template_error {
	unsigned line;
	const char *why;
};

/* 0, -EINVAL (*ret_error says why) or -ENOMEM. The caller's; any thread, as those below. */
int ptx_templates_new(const char *text, size_t size, struct ptx_templates **ret,
		      struct ptx_template_error *ret_error);
/* NULL is fine. */
void ptx_templates_free(struct ptx_templates *t);
/* Returns what is said of a kernel of this code, or of this name in any. NULL: there is none, or t
 * is NULL. As long as t. */
const struct ptx_extent *ptx_templates_find(const struct ptx_templates *t,
					    const struct ptx_code *code,
					    const char *kernel);

#endif
