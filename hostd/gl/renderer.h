/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The renderer of one program: virglrenderer with one context, and what is charged for the
 * program's resources. All of one thread, which is the one that opened it.
 */
#ifndef WEFT_GL_RENDERER_H
#define WEFT_GL_RENDERER_H

#include <stdbool.h>
#include <stdint.h>

#include "gl/meter.h"
#include "gl/resource.h"
#include "ipc/accounts.h"

struct renderer;

/* Opens virglrenderer on the open display, and fences that a thread of its own waits for and
 * tells the meter of, which stays the caller's. Returns 0, -ENOMEM, or -ENODEV: it makes no context. */
int renderer_open(struct meter *m, struct renderer **ret);

/* Begins the program's context; what it makes is charged from now on. name: for logs.
 * Returns 0 or -errno. */
int renderer_begin(struct renderer *r, const struct accounts *accounts, const char *name);

/* Bytes that a capability set has, at most GL_CAPS_MAX; 0: there is none of that number. */
#define GL_CAPS_MAX 8192u
uint32_t renderer_caps_size(uint32_t set);
/* Fills in as many bytes of it. */
void renderer_caps(uint32_t set, void *ret);

/* Requests of a program. These return 0, -EINVAL (the program's mistake: nothing has
 * happened), -EEXIST, -ENOSPC, -EDQUOT (its tenant's limit), -ENOMEM (the driver's), -ENOENT
 * or -EIO. */
int renderer_create(struct renderer *r, const struct gl_resource *want);
int renderer_unref(struct renderer *r, uint32_t handle);
/* Checks a transfer, and says how its bytes lie. */
int renderer_box(const struct renderer *r, const struct gl_transfer *t, struct box *ret);
/* Moves b->bytes bytes; may be in memory that others write. */
int renderer_put(struct renderer *r, const struct gl_transfer *t, const struct box *b,
		 void *data);
int renderer_get(struct renderer *r, const struct gl_transfer *t, const struct box *b,
		 void *data);
/* Draws. The words are the renderer's to change. */
int renderer_submit(struct renderer *r, uint32_t *words, uint32_t n);

/* Whether anything that was submitted is not done; with wait, waits until nothing is. */
bool renderer_busy(struct renderer *r, bool wait);

/* Bytes charged now. Any thread. */
uint64_t renderer_bytes(const struct renderer *r);

#endif
