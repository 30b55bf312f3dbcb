/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List of what the guest was refused. It lies in the pages that weftd reads, so entries
 * are only ever added, and complete before they are counted in.
 */
#include <string.h>

#include "session/command.h"

/* Names come from the guest and end up on an operator's terminal. */
static void copy_clean(char *to, const char *from)
{
	unsigned i;

	for (i = 0; i < REFUSAL_TEXT - 1 && from[i]; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	memset(to + i, 0, REFUSAL_TEXT - i);
}

static struct page_refusal *find_locked(struct worker_page *c, enum refusal kind,
					const char *what)
{
	uint64_t n = atomic_load_explicit(&c->n_refusals, memory_order_relaxed);

	for (uint64_t i = 0; i < n; i++) {
		if (c->refusals[i].kind == kind && !strcmp(c->refusals[i].what, what))
			return &c->refusals[i];
	}
	if (n == REFUSAL_MAX)
		return NULL;
	memcpy(c->refusals[n].what, what, REFUSAL_TEXT);
	c->refusals[n].kind = kind;
	/* release: pairs with weftd's load, which then reads the entry */
	atomic_store_explicit(&c->n_refusals, n + 1, memory_order_release);
	return &c->refusals[n];
}

void sess_refuse(struct session *s, enum refusal kind, const char *what, uint64_t total)
{
	struct worker_page *c = s->count;
	char clean[REFUSAL_TEXT];
	struct page_refusal *f;
	uint64_t count;

	copy_clean(clean, what);
	pthread_mutex_lock(&s->refusal_lock);
	f = find_locked(c, kind, clean);
	if (f) {
		count = atomic_load_explicit(&f->count, memory_order_relaxed);
		count = total ? MAX(count, total) : count + 1;
		atomic_store_explicit(&f->count, count, memory_order_relaxed);
	} else {
		atomic_fetch_add_explicit(&c->other_refusals, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&s->refusal_lock);
}
