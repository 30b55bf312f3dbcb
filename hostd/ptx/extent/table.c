/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/extent/table.h"
#include "ptx/fatbin.h"

/* Parsing takes up to 30 times as much memory, for a moment. */
#define TEXT_MAX (32u << 20)

struct kernel {
	char *name;
	struct ptx_extent *extent;
};

struct ptx_extents {
	_Atomic unsigned refs;
	unsigned n, all;
	size_t bytes;
	const struct ptx_templates *by; /* NULL: nobody says anything else */
	struct ptx_code code;           /* of the image, if somebody does */
	struct kernel kernels[]; /* in the order of their names */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct kernel *)a)->name, ((const struct kernel *)b)->name);
}

static void add(struct ptx_extents *t, const struct ptx_module *m,
		const struct ptx_func *f)
{
	struct kernel k = {.extent = ptx_extent_new(m, f)};

	t->all++;
	if (k.extent)
		k.name = strdup(f->name);
	if (!k.name) {
		ptx_extent_free(k.extent);
		return;
	}
	t->kernels[t->n++] = k;
	t->bytes += sizeof(k) + strlen(k.name) + 1 + ptx_extent_bytes(k.extent);
}

static struct ptx_extents *table_new(size_t n)
{
	struct ptx_extents *t = calloc(1, sizeof(*t) + n * sizeof(struct kernel));

	if (t)
		atomic_init(&t->refs, 1);
	return t;
}

static struct ptx_extents *of_module(const struct ptx_module *m)
{
	struct ptx_extents *t = table_new(m->nfuncs);

	if (!t)
		return NULL;
	for (uint32_t i = 0; i < m->nfuncs; i++) {
		if (m->funcs[i].is_entry)
			add(t, m, &m->funcs[i]);
	}
	qsort(t->kernels, t->n, sizeof(*t->kernels), by_name);
	return t;
}

struct ptx_extents *ptx_extents_new(const void *image, size_t size, unsigned sm)
{
	_cleanup_free_ char *text = NULL;
	struct ptx_extents *t;
	struct ptx_module *m;
	size_t len;

	if (fatbin_ptx(image, size, sm, &text, &len) < 0 || len > TEXT_MAX ||
	    ptx_parse(text, len, NULL, &m) < 0)
		return NULL;
	t = of_module(m);
	ptx_module_free(m);
	return t;
}

int ptx_extents_say(struct ptx_extents **t, const struct ptx_templates *by,
		    const struct ptx_code *code)
{
	if (!*t)
		*t = table_new(0);
	if (!*t)
		return -ENOMEM;
	(*t)->by = by;
	(*t)->code = *code;
	return 0;
}

struct ptx_extents *ptx_extents_ref(struct ptx_extents *t)
{
	if (t)
		atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
	return t;
}

void ptx_extents_put(struct ptx_extents *t)
{
	if (!t || atomic_fetch_sub(&t->refs, 1) > 1)
		return;
	for (unsigned i = 0; i < t->n; i++) {
		free(t->kernels[i].name);
		ptx_extent_free(t->kernels[i].extent);
	}
	free(t);
}

const struct ptx_extent *ptx_extents_find(const struct ptx_extents *t, const char *name)
{
	const struct kernel key = {.name = (char *)name}, *k;
	const struct ptx_extent *said;

	if (!t)
		return NULL;
	said = ptx_templates_find(t->by, &t->code, name);
	if (said)
		return said;
	k = bsearch(&key, t->kernels, t->n, sizeof(key), by_name);
	return k ? k->extent : NULL;
}

size_t ptx_extents_bytes(const struct ptx_extents *t)
{
	return t ? sizeof(*t) + t->bytes : 0;
}

void ptx_extents_counts(const struct ptx_extents *t, unsigned *ret_all,
			unsigned *ret_known)
{
	*ret_all = t ? t->all : 0;
	*ret_known = t ? t->n : 0;
}
