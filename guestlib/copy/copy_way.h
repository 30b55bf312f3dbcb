/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between the device and host memory that it cannot see; copy.c has the theory. */
#ifndef WEFT_GUEST_COPY_WAY_H
#define WEFT_GUEST_COPY_WAY_H

#include "copy/copy.h"
#include "copy/stage.h"

/* How the pieces of a copy travel. */
struct copy_way {
	struct stage *stage; /* NULL: through the lane */
	enum stage_use use;
	bool helped;
	size_t piece; /* bytes */
};

/* For so many bytes. Ended with idle false if what is under way may never end. */
struct copy_way copy_way_find(struct guest_thread *t, const struct copy *c, size_t total,
			      enum stage_use use);
void copy_way_end(struct copy_way *w, bool idle);

/* Between addresses of the device; one that is c->shared and not c->async is waited for.
 */
CUresult copy_on_device(struct guest_thread *t, const struct copy *c, uint64_t stream);
/* Begins the command of it. False: guest_lost(). */
bool copy_begin_on_device(struct guest_thread *t, const struct copy *c, uint64_t stream);

CUresult copy_to_device(struct guest_thread *t, const struct copy *c, uint64_t stream);
CUresult copy_from_device(struct guest_thread *t, const struct copy *c, uint64_t stream);

#endif
