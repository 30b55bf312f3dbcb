/* SPDX-License-Identifier: Apache-2.0 */
/* list and info: what there is. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "tools/ctl/csv.h"
#include "tools/ctl/ctl.h"

static void print_device(const struct ctl *ctl, struct json_object *a)
{
	struct json_object *d = json_get(a, "device");
	char used[32], total[32];

	printf("%s, %s of %s in use", json_str(d, "name"),
	       ctl_size(ctl, d, "memory.current", used, sizeof(used)),
	       ctl_size(ctl, d, "memory.total", total, sizeof(total)));
	if (json_u64(d, "memory.swap.max"))
		printf(", %s of %s swapped",
		       ctl_size(ctl, d, "memory.swap.current", used, sizeof(used)),
		       ctl_size(ctl, d, "memory.swap.max", total, sizeof(total)));
	if (json_object_get_boolean(json_get(d, "draining")))
		printf(", drains");
	printf(", %" PRIu64 " %% busy, %" PRIu64 " workers ready\n\n",
	       json_u64(d, "gpu.utilization"), json_u64(d, "workers.ready"));
}

static void print_tenants(const struct ctl *ctl, struct json_object *a, bool detail)
{
	static const struct table_column columns[] = {
		{"TENANT", false}, {"SESSIONS", true}, {"GPU%", true},
		{"MEMORY", true},  {"SWAP", true},     {"PEAK", true},
		{"MAX", true},     {"MIN", true},      {"WEIGHT", true},
		{"GPUTIME", true}, {"SOCKET", false},
	};
	struct table t = {columns, detail ? ARRAY_SIZE(columns) : 7, NULL, 0};
	struct json_object *list = json_get(a, "tenants");

	for (size_t i = 0; i < json_count(list); i++) {
		struct json_object *of = json_object_array_get_idx(list, i);

		ctl_add_text(&t, of, "name");
		table_add(&t,
			  json_object_get_boolean(json_get(of, "draining"))
				  ? "(drains) %" PRIu64
				  : "%" PRIu64,
			  json_u64(of, "sessions.current"));
		ctl_add_number(&t, of, "gpu.utilization");
		ctl_add_size(&t, ctl, of, "memory.current");
		ctl_add_size(&t, ctl, of, "memory.swap.current");
		ctl_add_size(&t, ctl, of, "memory.peak");
		ctl_add_size(&t, ctl, of, "memory.max");
		if (!detail)
			continue;
		ctl_add_size(&t, ctl, of, "memory.min");
		ctl_add_number(&t, of, "memory.weight");
		ctl_add_time(&t, of, "gpu.time");
		ctl_add_text(&t, of, "socket");
	}
	table_print(&t, stdout);
}

/* Prints sessions that run, or that have ended and hold nothing any more. */
static void print_sessions(const struct ctl *ctl, struct json_object *list, bool ended,
			   bool alone)
{
	static const struct table_column running[] = {
		{"SESSION", false}, {"TENANT", false}, {"PROGRAM", false}, {"PID", true},
		{"KIND", false},    {"CALLS", true},   {"LAUNCHES", true}, {"GPU%", true},
		{"MEMORY", true},   {"SWAP", true},    {"PEAK", true},     {"TIME", true},
		{"CARRIER", false},
	};
	static const struct table_column past[] = {
		{"ENDED", false}, {"TENANT", false},  {"PROGRAM", false}, {"PID", true},
		{"CALLS", true},  {"LAUNCHES", true}, {"GPUTIME", true},  {"PEAK", true},
		{"TIME", true},   {"END", false},
	};
	struct table t = {ended ? past : running,
			  ended ? ARRAY_SIZE(past) : ARRAY_SIZE(running), NULL, 0};

	if (!json_count(list))
		return;
	if (!alone)
		putchar('\n');
	for (size_t i = 0; i < json_count(list); i++) {
		struct json_object *of = json_object_array_get_idx(list, i);

		ctl_add_number(&t, of, "session");
		ctl_add_text(&t, of, "tenant");
		ctl_add_text(&t, of, "name");
		ctl_add_number(&t, of, "pid");
		if (!ended)
			ctl_add_text(&t, of, "kind");
		ctl_add_number(&t, of, "calls");
		ctl_add_number(&t, of, "launches");
		if (ended) {
			ctl_add_time(&t, of, "gpu.time");
		} else {
			ctl_add_number(&t, of, "gpu.utilization");
			ctl_add_size(&t, ctl, of, "memory.current");
			ctl_add_size(&t, ctl, of, "memory.swap.current");
		}
		ctl_add_size(&t, ctl, of, "memory.peak");
		ctl_add_time(&t, of, "time");
		ctl_add_text(&t, of, ended ? "end" : "carrier");
	}
	table_print(&t, stdout);
}

static void print_one(const struct ctl *ctl, struct json_object *a, const char *what)
{
	bool tenants = !strcmp(what, "tenants"), ended = !strcmp(what, "ended");
	struct json_object *list = json_get(a, what);

	if (ctl->csv)
		csv_list(tenants ? csv_tenants : ended ? csv_ended : csv_sessions, list);
	else if (tenants)
		print_tenants(ctl, a, false);
	else
		print_sessions(ctl, list, ended, true);
}

int ctl_list(const struct ctl *ctl, int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : ctl->csv ? "tenants" : NULL;
	bool ended = what && !strcmp(what, "ended");
	int status;

	if (what && !ended && strcmp(what, "tenants") != 0 &&
	    strcmp(what, "sessions") != 0)
		return CTL_USAGE;
	_cleanup_(ctl_putp) struct json_object *a =
		ctl_ask(ctl, client_request(ended ? "info" : "list"), &status);
	if (!a)
		return status;
	if (what) {
		print_one(ctl, a, what);
		return 0;
	}
	print_device(ctl, a);
	print_tenants(ctl, a, false);
	print_sessions(ctl, json_get(a, "sessions"), false, false);
	return 0;
}

int ctl_info(const struct ctl *ctl, int argc, char **argv)
{
	int status;
	_cleanup_(ctl_putp) struct json_object *a = ctl_ask(
		ctl, argc < 2 ? client_request("info") : ctl_about("info", argv[1]),
		&status);

	if (!a)
		return status;
	print_device(ctl, a);
	print_tenants(ctl, a, true);
	print_sessions(ctl, json_get(a, "sessions"), false, false);
	print_sessions(ctl, json_get(a, "ended"), true, false);
	print_kernels(stdout, a);
	print_refused(stdout, a);
	return 0;
}
