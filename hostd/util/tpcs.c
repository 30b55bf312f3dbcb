/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/space.h"
#include "util/tpcs.h"

/* Returns 0 or -errno; moves text behind the number. */
static int number(const char **text, uint32_t *ret_n)
{
	unsigned long n;
	char *end;

	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	n = strtoul(*text, &end, 10);
	*text = end;
	*ret_n = (uint32_t)n;
	return n < SPACE_TPCS_MAX ? 0 : -ERANGE;
}

static int add_range(const char **text, struct space_set *set)
{
	uint32_t first = 0, last;
	int r = number(text, &first);

	last = first;
	if (r == 0 && **text == '-') {
		(*text)++;
		r = number(text, &last);
	}
	if (r < 0)
		return r;
	if (last < first)
		return -EINVAL;
	while (first <= last)
		space_add(set, first++);
	return 0;
}

int tpcs_parse(const char *text, struct space_set *ret_set)
{
	struct space_set set = {{0}};
	int r;

	if (strcmp(text, "all") != 0) {
		do {
			r = add_range(&text, &set);
			if (r < 0)
				return r;
		} while (*text++ == ',');
		if (text[-1])
			return -EINVAL;
	}
	*ret_set = set;
	return 0;
}

const char *tpcs_format(const struct space_set *set, char *buf, size_t room)
{
	size_t n = 0;

	snprintf(buf, room, "%s", space_is_empty(set) ? "all" : "");
	for (uint32_t i = 0; i < SPACE_TPCS_MAX && n < room; i++) {
		uint32_t first = i;

		if (!space_has(set, i))
			continue;
		while (space_has(set, i + 1))
			i++;
		n += (size_t)snprintf(buf + n, room - n, first == i ? "%s%u" : "%s%u-%u",
				      n ? "," : "", first, i);
	}
	return buf;
}

const char *tpcs_format_count(const struct space_want *want, char *buf, size_t room)
{
	if (want->count)
		snprintf(buf, room, "%u%s", want->count, want->percent ? "%" : "");
	else
		snprintf(buf, room, "max");
	return buf;
}
