/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "profile/launch.h"

/* Launches that differ by addresses alone, of which so many are kept. */
#define ALIKE_MAX 3u

int spans_add(struct spans *s, uint64_t from, uint64_t to)
{
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		struct span *v = realloc(s->v, room * sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->room = room;
	}
	s->v[s->n++] = (struct span){from, to};
	return 0;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct span *)a)->from, y = ((const struct span *)b)->from;

	return (x > y) - (x < y);
}

void spans_join(struct spans *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_address);
	for (size_t i = 0; i < s->n; i++) {
		if (n && s->v[i].from <= s->v[n - 1].to)
			s->v[n - 1].to = MAX(s->v[n - 1].to, s->v[i].to);
		else
			s->v[n++] = s->v[i];
	}
	s->n = n;
}

const struct span *spans_find(const struct spans *s, uint64_t address)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (s->v[mid].from <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && address < s->v[lo - 1].to ? &s->v[lo - 1] : NULL;
}

void spans_free(struct spans *s)
{
	free(s->v);
	*s = (struct spans){0};
}

void launch_free(struct launch *l)
{
	free(l->params);
	spans_free(&l->memory);
	spans_free(&l->reached);
	*l = (struct launch){0};
}

uint64_t launch_word(const struct launch *l, size_t offset, unsigned bytes)
{
	uint64_t v = 0;

	if (offset <= l->size && bytes <= l->size - offset)
		memcpy(&v, (const char *)l->params + offset, bytes);
	return v;
}

/* ---- kernels ---- */

bool kernels_can_name(const char *name)
{
	const char *at = name;

	while (isgraph((unsigned char)*at) && *at != '#')
		at++;
	return at > name && !*at;
}

struct kernel *kernels_get(struct kernels *k, const struct ptx_code *code,
			   const char *name)
{
	struct kernel **v, *new;

	for (size_t i = 0; i < k->n; i++) {
		if (memcmp(&k->v[i]->code, code, sizeof(*code)) == 0 &&
		    strcmp(k->v[i]->name, name) == 0)
			return k->v[i];
	}
	v = realloc(k->v, (k->n + 1) * sizeof(*v));
	if (v)
		k->v = v;
	new = v ? calloc(1, sizeof(*new)) : NULL;
	if (new)
		new->name = strdup(name);
	if (!new || !new->name) {
		free(new);
		return NULL;
	}
	new->code = *code;
	return k->v[k->n++] = new;
}

void kernels_free(struct kernels *k)
{
	for (size_t i = 0; i < k->n; i++) {
		for (unsigned j = 0; j < k->v[i]->n; j++)
			launch_free(&k->v[i]->launch[j]);
		free(k->v[i]->name);
		free(k->v[i]);
	}
	free(k->v);
	*k = (struct kernels){0};
}

static bool is_address(const struct launch *l, size_t offset)
{
	return spans_find(&l->memory, launch_word(l, offset, 8)) != NULL;
}

/* Whether two launches differ by addresses alone. *ret_moved: there they do. */
static bool same_numbers(const struct launch *a, const struct launch *b, bool *ret_moved)
{
	*ret_moved = false;
	if (a->size != b->size || memcmp(&a->shape, &b->shape, sizeof(a->shape)) != 0)
		return false;
	for (size_t o = 0; o < a->size; o += 4) {
		size_t word = o & ~(size_t)7;

		if (launch_word(a, o, MIN(a->size - o, 4u)) ==
		    launch_word(b, o, MIN(b->size - o, 4u)))
			continue;
		if (!is_address(a, word) || !is_address(b, word))
			return false;
		*ret_moved = true;
	}
	return true;
}

bool kernel_sees(struct kernel *k, const struct launch *l)
{
	unsigned alike = 0;
	bool moved;

	k->seen++;
	for (unsigned i = 0; i < k->n; i++) {
		if (!same_numbers(&k->launch[i], l, &moved))
			continue;
		alike++;
		if (!moved)
			return false;
	}
	return alike < ALIKE_MAX && k->n < LAUNCHES_MAX;
}

void kernel_keep(struct kernel *k, struct launch *l)
{
	k->launch[k->n++] = *l;
	*l = (struct launch){0};
}
