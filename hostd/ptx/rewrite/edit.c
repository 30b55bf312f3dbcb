/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "ptx/rewrite/edit.h"

struct edit {
	struct ptx_span at;
	size_t order;
	char *text;
};

void ptx_edit(struct ptx_edits *e, struct ptx_span at, const char *fmt, ...)
{
	struct edit *new = ptx_vec_push(&e->v, sizeof(*new));
	va_list ap;

	va_start(ap, fmt);
	if (!new) {
		e->failed = true;
	} else if (vasprintf(&new->text, fmt, ap) < 0) {
		new->text = NULL;
		e->failed = true;
	} else {
		new->at = at;
		new->order = e->v.n;
	}
	va_end(ap);
}

static int compare(const void *a, const void *b)
{
	const struct edit *x = a, *y = b;

	if (x->at.begin != y->at.begin)
		return x->at.begin < y->at.begin ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

int ptx_edits_write(struct ptx_edits *e, const char *text, struct ptx_span part,
		    FILE *out)
{
	struct edit *all = e->v.p;
	uint32_t at = part.begin;

	if (e->failed)
		return -ENOMEM;
	if (e->v.n)
		qsort(all, e->v.n, sizeof(*all), compare);
	for (size_t i = 0; i < e->v.n; i++) {
		fwrite(text + at, 1, all[i].at.begin - at, out);
		fputs(all[i].text, out);
		at = all[i].at.end;
	}
	fwrite(text + at, 1, part.end - at, out);
	return ferror(out) ? -ENOMEM : 0;
}

void ptx_edits_fini(struct ptx_edits *e)
{
	for (size_t i = 0; i < e->v.n; i++)
		free(((struct edit *)e->v.p)[i].text);
	ptx_vec_fini(&e->v);
}
