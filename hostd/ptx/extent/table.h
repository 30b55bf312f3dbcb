/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of an image by their names, and what is known of each (extent.h). */
#ifndef WEFT_PTX_EXTENT_TABLE_H
#define WEFT_PTX_EXTENT_TABLE_H

#include "ptx/extent/template.h"

struct ptx_extents;

/* Looks at the kernels of the PTX that a device of compute capability sm (90 for 9.0) takes of an
 * image (ptx/fatbin.h). NULL: there is none, it is longer than 32 MiB, or memory is short. One
 * reference, the caller's; any thread, as those below. */
struct ptx_extents *ptx_extents_new(const void *image, size_t size, unsigned sm);
/* Has `by` speak of the kernels of an image before their PTX does; *t may be NULL, and by stays the
 * caller's, as long as t. 0 or -ENOMEM. */
int ptx_extents_say(struct ptx_extents **t, const struct ptx_templates *by,
		    const struct ptx_code *code);
/* One more reference, and one less; NULL is fine. */
struct ptx_extents *ptx_extents_ref(struct ptx_extents *t);
void ptx_extents_put(struct ptx_extents *t);

/* As long as there is a reference. NULL: it is not known, or t is NULL. */
const struct ptx_extent *ptx_extents_find(const struct ptx_extents *t, const char *name);
/* Memory that they take; 0 for NULL. */
size_t ptx_extents_bytes(const struct ptx_extents *t);
/* Kernels, and those of which something is known. */
void ptx_extents_counts(const struct ptx_extents *t, unsigned *ret_all,
			unsigned *ret_known);

#endif
