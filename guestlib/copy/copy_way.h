/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the device and host memory that it cannot see; copy.c has the theory.
 * copy_to_device() and copy_from_device() are in copy_to.c and copy_from.c.
 */
#ifndef WEFT_GUEST_COPY_WAY_H
#define WEFT_GUEST_COPY_WAY_H

#include "copy/copy.h"
#include "copy/stage.h"

/* Way on which the pieces of a copy travel. */
struct copy_way {
	struct stage *stage; /* NULL: through the lane */
	enum stage_use use;
	bool helped;
	size_t piece; /* bytes */
};

/* Find a way for a copy of total bytes, and end it. idle false: work that is under way
 * may never end. */
struct copy_way copy_way_find(struct guest_thread *t, const struct copy *c, size_t total,
			      enum stage_use use);
void copy_way_end(struct copy_way *w, bool idle);

/* Copies between addresses of the device; waits for a copy that is c->shared and not
 * c->async. */
CUresult copy_on_device(struct guest_thread *t, const struct copy *c, uint64_t stream);
/* Begins the command of such a copy, without sending it. False: the caller returns
 * guest_lost(). */
bool copy_begin_on_device(struct guest_thread *t, const struct copy *c, uint64_t stream);

/* Copy rows between the device and host memory that it does not see. */
CUresult copy_to_device(struct guest_thread *t, const struct copy *c, uint64_t stream);
CUresult copy_from_device(struct guest_thread *t, const struct copy *c, uint64_t stream);

#endif
