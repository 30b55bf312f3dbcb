/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/refused.h"

/* The first time, the second, the fourth, and so on. */
static bool is_due(uint64_t count)
{
	return !(count & (count - 1));
}

bool refused_count(struct refused_list *l, enum refusal kind, const char *what)
{
	bool due = false;
	unsigned i;

	pthread_mutex_lock(&l->lock);
	for (i = 0; i < l->n; i++) {
		if (l->of[i].kind == kind &&
		    !strncmp(l->of[i].what, what, REFUSAL_TEXT - 1))
			break;
	}
	if (i < REFUSAL_MAX) {
		if (i == l->n) {
			memset(l->of[i].what, 0, REFUSAL_TEXT);
			snprintf(l->of[i].what, REFUSAL_TEXT, "%s", what);
			l->of[i].kind = kind;
			l->of[i].count = l->of[i].told = 0;
			l->n++;
		}
		due = is_due(++l->of[i].count);
	}
	pthread_mutex_unlock(&l->lock);
	return due;
}

bool refused_next(struct refused_list *l, enum refusal *ret_kind, char *ret_what,
		  uint64_t *ret_count, bool *ret_first)
{
	bool found = false;
	unsigned i;

	pthread_mutex_lock(&l->lock);
	for (i = 0; i < l->n && !found; i++) {
		if (l->of[i].count < 2 * l->of[i].told || l->of[i].count == l->of[i].told)
			continue;
		*ret_kind = l->of[i].kind;
		memcpy(ret_what, l->of[i].what, REFUSAL_TEXT);
		*ret_first = !l->of[i].told;
		*ret_count = l->of[i].told = l->of[i].count;
		found = true;
	}
	pthread_mutex_unlock(&l->lock);
	return found;
}
