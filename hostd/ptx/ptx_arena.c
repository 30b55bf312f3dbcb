/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx_arena.h"

/* A small module fits in the first block; later ones double up to the largest. */
#define BLOCK_MIN (16u << 10)
#define BLOCK_MAX (1u << 20)

struct block {
	struct block *next;
	size_t cap;
	max_align_t data[];
};

struct ptx_arena {
	struct block *blocks;
	size_t used; /* of the first block */
	size_t next_cap;
};

struct ptx_arena *ptx_arena_new(void)
{
	struct ptx_arena *a = calloc(1, sizeof(*a));

	if (a)
		a->next_cap = BLOCK_MIN;
	return a;
}

void ptx_arena_free(struct ptx_arena *a)
{
	if (!a)
		return;
	while (a->blocks) {
		struct block *b = a->blocks;

		a->blocks = b->next;
		free(b);
	}
	free(a);
}

static struct block *block_new(size_t cap)
{
	struct block *b = malloc(sizeof(*b) + cap);

	if (b)
		b->cap = cap;
	return b;
}

void *ptx_alloc(struct ptx_arena *a, size_t n)
{
	struct block *b = a->blocks;
	void *p;

	if (n > SIZE_MAX / 4)
		return NULL;
	n = n ? ALIGN_UP(n, 16) : 16;
	if (!b || b->cap - a->used < n) {
		if (n > BLOCK_MAX / 4 && b) {
			/* A large piece gets a block of its own behind the current one.
			 */
			struct block *own = block_new(n);

			if (!own)
				return NULL;
			own->next = b->next;
			b->next = own;
			return memset(own->data, 0, n);
		}
		b = block_new(MAX(n, a->next_cap));
		if (!b)
			return NULL;
		b->next = a->blocks;
		a->blocks = b;
		a->used = 0;
		if (a->next_cap < BLOCK_MAX)
			a->next_cap *= 2;
	}
	p = (char *)b->data + a->used;
	a->used += n;
	return memset(p, 0, n);
}

void *ptx_memdup(struct ptx_arena *a, const void *p, size_t n)
{
	void *q = ptx_alloc(a, n);

	if (q && n)
		memcpy(q, p, n);
	return q;
}

char *ptx_strndup(struct ptx_arena *a, const char *s, size_t n)
{
	char *q = ptx_alloc(a, n + 1);

	if (q && n)
		memcpy(q, s, n);
	return q;
}

void *ptx_vec_push(struct ptx_vec *v, size_t size)
{
	char *e;

	if (v->n == v->cap) {
		size_t cap = v->cap ? v->cap * 2 : 16;
		void *p;

		if (cap > SIZE_MAX / 2 / size)
			return NULL;
		p = realloc(v->p, cap * size);
		if (!p)
			return NULL;
		v->p = p;
		v->cap = cap;
	}
	e = (char *)v->p + v->n++ * size;
	return memset(e, 0, size);
}

void ptx_vec_fini(struct ptx_vec *v)
{
	free(v->p);
	*v = (struct ptx_vec){0};
}
