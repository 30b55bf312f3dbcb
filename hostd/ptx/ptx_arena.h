/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that lives and dies together: a module, or the tables of one parse. Blocks grow
 * with use; nothing is freed before the whole arena is.
 */
#ifndef WEFT_PTX_ARENA_H
#define WEFT_PTX_ARENA_H

#include <stddef.h>

#include "base/macros.h"

struct ptx_arena;

/* NULL when memory is short. */
struct ptx_arena *ptx_arena_new(void);
void ptx_arena_free(struct ptx_arena *a);
DEFINE_CLEANUP(struct ptx_arena *, ptx_arena_free)

/* Zeroed, aligned to 16 bytes; NULL when memory is short. n may be 0. */
void *ptx_alloc(struct ptx_arena *a, size_t n);

/* Copies; NULL when memory is short. The string gets a NUL. */
void *ptx_memdup(struct ptx_arena *a, const void *p, size_t n);
char *ptx_strndup(struct ptx_arena *a, const char *s, size_t n);

/* A growing array on the heap, for what becomes final in an arena. Zero-initialised. */
struct ptx_vec {
	void *p;
	size_t n, cap;
};

/* One more element of size bytes, zeroed; NULL when memory is short. The pointer holds
 * until the next push. */
void *ptx_vec_push(struct ptx_vec *v, size_t size);
void ptx_vec_fini(struct ptx_vec *v);

#endif
