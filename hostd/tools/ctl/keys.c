/* SPDX-License-Identifier: Apache-2.0 */
/* get and set: a tenant's keys, which read as files of a cgroup do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "tools/ctl/ctl.h"
#include "util/size.h"

static bool is_size(const char *key)
{
	return strcmp(key, "memory.weight") != 0 && strcmp(key, "memory.events") != 0 &&
	       strcmp(key, "sessions.max") != 0 && strncmp(key, "lanes.", 6) != 0;
}

/* A value, or a line of memory.stat: its last word is the number. */
static void print_value(const char *text, int n, bool human)
{
	const char *last = memrchr(text, ' ', (size_t)n);
	char *end, buf[32];
	uint64_t v;

	last = last ? last + 1 : text;
	v = strtoull(last, &end, 10);
	if (human && end == text + n && end > last)
		printf("%.*s%s\n", (int)(last - text), text,
		       size_format(v, buf, sizeof(buf)));
	else
		printf("%.*s\n", n, text);
}

/* One key's value alone, or every line with its key before it. */
static void print_keys(const struct ctl *ctl, struct json_object *keys, bool named)
{
	if (!json_object_is_type(keys, json_type_object))
		return;
	json_object_object_foreach(keys, key, value)
	{
		const char *at = value ? json_object_get_string(value) : "";

		while (*at) {
			int n = (int)strcspn(at, "\n");

			if (named)
				printf("%s ", key);
			print_value(at, n, !ctl->bytes && is_size(key));
			at += n + (at[n] == '\n');
		}
	}
}

int ctl_get(const struct ctl *ctl, int argc, char **argv)
{
	struct json_object *q = ctl_named("tenant-get", argv[1]);
	int status;

	if (argc == 3)
		json_object_object_add(q, "key", json_object_new_string(argv[2]));
	_cleanup_(ctl_putp) struct json_object *a = ctl_ask(ctl, q, &status);
	if (!a)
		return status;
	print_keys(ctl, json_get(a, "keys"), argc < 3);
	return 0;
}

int ctl_keys(struct json_object *q, int argc, char **argv)
{
	struct json_object *set = json_object_new_object();

	json_object_object_add(q, "set", set);
	for (int i = 0; i < argc; i++) {
		char *eq = strchr(argv[i], '=');

		if (!eq)
			return -EINVAL;
		*eq = '\0';
		json_object_object_add(set, argv[i], json_object_new_string(eq + 1));
	}
	return 0;
}

int ctl_set(const struct ctl *ctl, int argc, char **argv)
{
	struct json_object *q = ctl_named("tenant-set", argv[1]);
	int status;

	if (ctl_keys(q, argc - 2, argv + 2) < 0) {
		json_object_put(q);
		return CTL_USAGE;
	}
	json_object_put(ctl_ask(ctl, q, &status));
	return status;
}
