/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of what guests asked for and were refused. The names are text of the guest's that
 * a worker has passed on: they are cut to printable characters here once more, since a
 * worker is not believed either, and are for an operator to read.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/macros.h"
#include "broker/refused.h"
#include "ipc/page.h"
#include "wire.h"

/* Different ones in an answer, which must fit into a socket's buffer. */
#define SUM_MAX 256

static const char *const kind_names[REFUSAL_NUM] = {
	[REFUSAL_FUNCTION] = "function",   [REFUSAL_FEATURE] = "feature",
	[REFUSAL_TABLE] = "table",         [REFUSAL_SLOT] = "slot",
	[REFUSAL_ATTRIBUTE] = "attribute", [REFUSAL_DEVICE] = "device",
	[REFUSAL_VERSION] = "version",
};

const char *refused_kind(enum refusal kind)
{
	return kind_names[kind];
}

static void copy_text(char *to, const char *from)
{
	unsigned i;

	for (i = 0; i < REFUSAL_TEXT - 1 && from[i]; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	to[i] = '\0';
}

int refused_read(const struct worker_page *c, struct refused_list *ret)
{
	/* acquire: pairs with the worker's release, which follows the entry */
	uint64_t n = atomic_load_explicit(&c->n_refusals, memory_order_acquire);
	struct refused_list l = {.others = atomic_load(&c->other_refusals)};

	n = MIN(n, (uint64_t)REFUSAL_MAX);
	l.of = n ? calloc(n, sizeof(*l.of)) : NULL;
	if (n && !l.of)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++) {
		struct page_refusal e;

		memcpy(&e, &c->refusals[i], sizeof(e));
		if (e.kind >= REFUSAL_NUM)
			continue;
		l.of[l.n].kind = (enum refusal)e.kind;
		copy_text(l.of[l.n].what, e.what);
		l.of[l.n++].count = e.count;
	}
	*ret = l;
	return 0;
}

static struct refused *find(struct refused_list *l, const struct refused *f)
{
	for (unsigned i = 0; i < l->n; i++) {
		if (l->of[i].kind == f->kind && !strcmp(l->of[i].what, f->what))
			return &l->of[i];
	}
	return NULL;
}

static struct refused *find_or_add(struct refused_list *sum, const struct refused *f)
{
	struct refused *found = find(sum, f);

	if (found || sum->n == SUM_MAX)
		return found;
	if (!sum->of)
		sum->of = calloc(SUM_MAX, sizeof(*sum->of));
	if (!sum->of)
		return NULL;
	found = &sum->of[sum->n++];
	*found = *f;
	found->count = 0;
	return found;
}

void refused_add(struct refused_list *sum, const struct refused_list *l)
{
	sum->others += l->others;
	for (unsigned i = 0; i < l->n; i++) {
		struct refused *f = find_or_add(sum, &l->of[i]);

		if (f)
			f->count += l->of[i].count;
		else
			sum->others += l->of[i].count;
	}
}

void refused_add_strangers(struct refused_list *sum, const struct strangers *s)
{
	struct refused f = {.kind = REFUSAL_VERSION, .count = s->n};
	struct refused_list one = {.n = 1, .of = &f};

	if (!s->n)
		return;
	snprintf(f.what, sizeof(f.what), "library of protocol %u, host %u to %u",
		 s->version, WIRE_VERSION_MIN, WIRE_VERSION);
	refused_add(sum, &one);
}

void refused_fini(struct refused_list *l)
{
	free(l->of);
	*l = (struct refused_list){0};
}

static int by_count(const void *a, const void *b)
{
	const struct refused *x = a, *y = b;

	return x->count < y->count ? 1 : x->count > y->count ? -1 : 0;
}

struct json_object *refused_describe(struct refused_list *l)
{
	struct json_object *a = json_object_new_array();

	if (l->n)
		qsort(l->of, l->n, sizeof(*l->of), by_count);
	for (unsigned i = 0; i < l->n; i++) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "kind",
				       json_object_new_string(kind_names[l->of[i].kind]));
		json_object_object_add(o, "what", json_object_new_string(l->of[i].what));
		json_object_object_add(o, "count",
				       json_object_new_uint64(l->of[i].count));
		json_object_array_add(a, o);
	}
	return a;
}
