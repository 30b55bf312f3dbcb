/* SPDX-License-Identifier: Apache-2.0 */
/* get and set: a tenant's keys, which read as files of a cgroup do. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "tools/ctl/csv.h"
#include "tools/ctl/ctl.h"

/* Prints one number or text as it is, sizes and times for people. */
static void print_value(const struct ctl *ctl, const char *key, struct json_object *of,
			const char *name)
{
	char buf[32];

	if (ctl_is_size(key))
		puts(ctl_size(ctl, of, name, buf, sizeof(buf)));
	else if (!ctl->bytes && !strcmp(key, "gpu.time"))
		puts(time_format(json_u64(of, name), buf, sizeof(buf)));
	else
		puts(json_str(of, name));
}

/* One key's value alone, or every line with its key before it, as files of a cgroup. */
/* A line for each key; one within another is named by both. */
static void print_csv(struct json_object *keys)
{
	static const char *const head[] = {"key", "value", NULL};
	char name[128];

	csv_head(head);
	if (!json_object_is_type(keys, json_type_object))
		return;
	json_object_object_foreach(keys, key, value)
	{
		if (!json_object_is_type(value, json_type_object)) {
			csv_cell(key, ',');
			csv_cell(json_str(keys, key), '\n');
			continue;
		}
		json_object_object_foreach(value, inner, unused)
		{
			(void)unused;
			snprintf(name, sizeof(name), "%s.%s", key, inner);
			csv_cell(name, ',');
			csv_cell(json_str(value, inner), '\n');
		}
	}
}

static void print_keys(const struct ctl *ctl, struct json_object *keys, bool named)
{
	if (!json_object_is_type(keys, json_type_object))
		return;
	json_object_object_foreach(keys, key, value)
	{
		if (!json_object_is_type(value, json_type_object)) {
			if (named)
				printf("%s ", key);
			print_value(ctl, key, keys, key);
			continue;
		}
		json_object_object_foreach(value, name, unused)
		{
			(void)unused;
			if (named)
				printf("%s ", key);
			printf("%s ", name);
			print_value(ctl, key, value, name);
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
	if (ctl->csv)
		print_csv(json_get(a, "keys"));
	else
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
