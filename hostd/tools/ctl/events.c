/* SPDX-License-Identifier: Apache-2.0 */
/* events: what happened, and what happens. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ctl/csv.h"
#include "tools/ctl/ctl.h"

/* Members that have a place of their own in the line. */
static bool is_head(const char *key)
{
	static const char *const heads[] = {"number",  "at",      "event", "tenant",
					    "session", "key",     "from",  "to",
					    "by",      "left_out"};

	for (unsigned i = 0; i < ARRAY_SIZE(heads); i++) {
		if (!strcmp(key, heads[i]))
			return true;
	}
	return false;
}

static const char *value_of(const struct ctl *ctl, struct json_object *e, const char *key,
			    const char *what, char *buf, size_t room)
{
	if (ctl_is_size(what))
		return ctl_size(ctl, e, key, buf, room);
	if (!ctl->bytes && (!strcmp(what, "time") || !strcmp(what, "gpu.time")))
		return time_format(json_u64(e, key), buf, room);
	return json_str(e, key);
}

/* "memory.max 1 GiB -> 2 GiB" */
static void print_change(const struct ctl *ctl, struct json_object *e)
{
	const char *key = json_str(e, "key");
	char from[32], to[32];

	if (*key)
		printf("  %s %s -> %s", key,
		       value_of(ctl, e, "from", key, from, sizeof(from)),
		       value_of(ctl, e, "to", key, to, sizeof(to)));
}

static void print_event(const struct ctl *ctl, struct json_object *e)
{
	char buf[32];

	if (ctl->json) {
		puts(json_object_to_json_string_ext(
			e, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
		return;
	}
	if (!json_object_is_type(e, json_type_object))
		return;
	if (ctl->csv) {
		csv_row(csv_events, e);
		return;
	}
	printf("%.19s  %-16s", json_str(e, "at"), json_str(e, "event"));
	if (*json_str(e, "tenant"))
		printf("  %s", json_str(e, "tenant"));
	if (json_u64(e, "session"))
		printf("  session %s", json_str(e, "session"));
	print_change(ctl, e);
	json_object_object_foreach(e, key, value)
	{
		(void)value;
		if (!is_head(key))
			printf("  %s %s", key,
			       value_of(ctl, e, key, key, buf, sizeof(buf)));
	}
	if (*json_str(e, "by"))
		printf("  by %s", json_str(e, "by"));
	if (json_u64(e, "left_out"))
		printf("  (%s before it left out)", json_str(e, "left_out"));
	putchar('\n');
}

static struct json_object *make(const struct ctl *ctl, int argc, char **argv)
{
	struct json_object *q = client_request("events");

	if (argc > 1)
		json_object_object_add(q, "tenant", json_object_new_string(argv[1]));
	if (ctl->after)
		json_object_object_add(
			q, "after",
			json_object_new_uint64(strtoull(ctl->after, NULL, 10)));
	return q;
}

static int follow(const struct ctl *ctl, struct json_object *q)
{
	struct json_object *e = NULL;
	struct client c;
	int r = ctl_open(ctl, &c);

	if (r) {
		json_object_put(q);
		return r;
	}
	setlinebuf(stdout);
	if (ctl->csv)
		csv_head(csv_events);
	json_object_object_add(q, "follow", json_object_new_boolean(1));
	r = client_ask(&c, q, &e);
	while (r == 0) {
		json_object_put(steal(e));
		r = client_next(&c, &e);
		if (r == 0)
			print_event(ctl, e);
	}
	r = ctl_failed(ctl, "%s", client_error(r, e));
	json_object_put(e);
	client_close(&c);
	return r;
}

int ctl_events(const struct ctl *ctl, int argc, char **argv)
{
	struct json_object *q = make(ctl, argc, argv), *list;
	int status;

	if (ctl->follow)
		return follow(ctl, q);
	_cleanup_(ctl_putp) struct json_object *a = ctl_ask(ctl, q, &status);
	list = json_get(a, "events");
	if (a && ctl->csv)
		csv_head(csv_events);
	for (size_t i = 0; i < json_count(list); i++)
		print_event(ctl, json_object_array_get_idx(list, i));
	return status;
}
