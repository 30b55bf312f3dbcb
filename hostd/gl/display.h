/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The display that weft-gl draws on: contexts of its own on an EGL device, with no window
 * system and no surface. On a real GPU that device is the one which CUDA has as the daemon's;
 * without one Mesa's software rasteriser is taken. One thread opens it; virglrenderer makes
 * contexts current on threads of its own as well.
 */
#ifndef WEFT_GL_DISPLAY_H
#define WEFT_GL_DISPLAY_H

#include <stdbool.h>

/*
 * Opens the display of CUDA's device number `ordinal`, or with -1 that of the rasteriser,
 * whose kernels have `threads` host threads (0: as many as it likes). Returns 0, or -ENODEV
 * and *ret_why (a constant).
 */
int display_open(int ordinal, unsigned threads, const char **ret_why);

/* A context of at least that version's core profile, or NULL; one that shares objects with
 * the caller's current one, if it is to. */
void *display_context(int major, int minor, bool shared);
void display_context_free(void *context);
/* Makes it current on the calling thread; NULL: none. Returns 0 or -EIO. */
int display_current(void *context);

#endif
