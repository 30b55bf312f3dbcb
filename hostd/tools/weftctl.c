/* SPDX-License-Identifier: Apache-2.0 */
/* weftctl: what runs, and ending it. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/macros.h"
#include "tools/client.h"
#include "util/size.h"

struct options {
	const char *control;
	bool json;
};

static void usage(FILE *f)
{
	fprintf(f, "usage: weftctl [--control PATH] [--json] COMMAND\n"
		   "  list                      tenants and running sessions\n"
		   "  info [TENANT | SESSION]   the same in detail, and ended sessions\n"
		   "  kill TENANT | SESSION     end sessions at once\n"
		   "  add TENANT [KEY=VALUE]... add a tenant (keys of weftd.conf)\n"
		   "  remove TENANT             end its sessions and forget it\n"
		   "  get TENANT [KEY]          its limits and what it uses\n"
		   "  set TENANT KEY=VALUE...   change its limits\n"
		   "  reclaim TENANT SIZE       move so much of its memory to the host\n"
		   "  shutdown                  end weftd and all sessions\n"
		   "See weftctl(1).\n");
}

/* Digits only name a session, anything else a tenant. */
static void add_target(struct json_object *q, const char *what)
{
	if (what[strspn(what, "0123456789")] == '\0')
		json_object_object_add(q, "session",
				       json_object_new_uint64(strtoull(what, NULL, 10)));
	else
		json_object_object_add(q, "tenant", json_object_new_string(what));
}

/* ---- tables ---- */

static const char *size_of(struct json_object *o, const char *key, char *buf, size_t room)
{
	return size_format(json_u64(o, key), buf, room);
}

static void print_device(struct json_object *a)
{
	struct json_object *d = json_get(a, "device");
	char used[32], total[32];

	printf("%s, %s of %s in use", json_str(d, "name"),
	       size_of(d, "memory_used", used, sizeof(used)),
	       size_of(d, "memory", total, sizeof(total)));
	if (json_u64(d, "swap"))
		printf(", %s of %s away", size_of(d, "swap_used", used, sizeof(used)),
		       size_of(d, "swap", total, sizeof(total)));
	printf(", %llu workers ready\n",
	       (unsigned long long)json_u64(d, "workers_ready"));
}

static void print_tenants(struct json_object *a, bool detail)
{
	struct json_object *list = json_get(a, "tenants");

	printf("\n%-20s %8s %12s %12s %12s %12s%s\n", "TENANT", "SESSIONS", "MEMORY",
	       "AWAY", "PEAK", "MAX", detail ? "  SOCKET" : "");
	for (size_t i = 0; i < json_count(list); i++) {
		struct json_object *t = json_object_array_get_idx(list, i);
		char used[32], away[32], peak[32], max[32];

		printf("%-20s %8llu %12s %12s %12s %12s", json_str(t, "name"),
		       (unsigned long long)json_u64(t, "sessions"),
		       size_of(t, "memory_used", used, sizeof(used)),
		       size_of(t, "memory_away", away, sizeof(away)),
		       size_of(t, "memory_peak", peak, sizeof(peak)),
		       size_of(t, "memory_max", max, sizeof(max)));
		printf("%s%s\n", detail ? "  " : "", detail ? json_str(t, "socket") : "");
	}
}

static void print_sessions(struct json_object *list, const char *title)
{
	if (!json_count(list))
		return;
	printf("\n%-8s %-16s %-18s %8s %10s %10s %12s %9s  %s\n", title, "TENANT",
	       "PROGRAM", "PID", "CALLS", "LAUNCHES", "PEAK", "TIME", "");
	for (size_t i = 0; i < json_count(list); i++) {
		struct json_object *s = json_object_array_get_idx(list, i);
		char peak[32], took[32];

		printf("%-8llu %-16s %-18s %8llu %10llu %10llu %12s %9s  %s\n",
		       (unsigned long long)json_u64(s, "session"), json_str(s, "tenant"),
		       json_str(s, "name"), (unsigned long long)json_u64(s, "pid"),
		       (unsigned long long)json_u64(s, "calls"),
		       (unsigned long long)json_u64(s, "launches"),
		       size_of(s, "memory_peak", peak, sizeof(peak)),
		       time_format(json_u64(s, "time_ns"), took, sizeof(took)),
		       json_str(s, *json_str(s, "end") ? "end" : "carrier"));
	}
}

/* As files of a cgroup: one key's value alone, or every line with its key before it. */
static void print_keys(struct json_object *keys, bool one)
{
	if (!json_object_is_type(keys, json_type_object))
		return;
	json_object_object_foreach(keys, key, value)
	{
		const char *at = value ? json_object_get_string(value) : "";

		while (*at) {
			size_t n = strcspn(at, "\n");

			if (!one)
				printf("%s ", key);
			printf("%.*s\n", (int)n, at);
			at += n + (at[n] == '\n');
		}
	}
}

static void print_answer(const char *cmd, struct json_object *a, bool one_key)
{
	if (!strcmp(cmd, "tenant-get")) {
		print_keys(json_get(a, "keys"), one_key);
		return;
	}
	if (!strcmp(cmd, "kill")) {
		printf("%llu ended\n", (unsigned long long)json_u64(a, "killed"));
		return;
	}
	if (!strcmp(cmd, "tenant-add")) {
		printf("%s\n", json_str(json_get(a, "tenant"), "socket"));
		return;
	}
	if (!strcmp(cmd, "reclaim")) {
		printf("%llu moved\n", (unsigned long long)json_u64(a, "bytes"));
		return;
	}
	if (strcmp(cmd, "list") && strcmp(cmd, "info"))
		return;
	print_device(a);
	print_tenants(a, !strcmp(cmd, "info"));
	print_sessions(json_get(a, "sessions"), "SESSION");
	if (json_get(a, "ended"))
		print_sessions(json_get(a, "ended"), "ENDED");
	print_refused(stdout, a);
}

/* ---- requests ---- */

static int add_keys(struct json_object *q, int argc, char **argv)
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

static struct json_object *make_key_request(int argc, char **argv, const char **ret_cmd)
{
	bool get = **argv == 'g';
	struct json_object *q;

	*ret_cmd = get ? "tenant-get" : "tenant-set";
	if (get ? argc > 3 : argc < 3)
		return NULL;
	q = client_request(*ret_cmd);
	json_object_object_add(q, "name", json_object_new_string(argv[1]));
	if (get && argc == 3)
		json_object_object_add(q, "key", json_object_new_string(argv[2]));
	if (get || add_keys(q, argc - 2, argv + 2) == 0)
		return q;
	json_object_put(q);
	return NULL;
}

static struct json_object *make_reclaim_request(int argc, char **argv,
						const char **ret_cmd)
{
	struct json_object *q;

	*ret_cmd = "reclaim";
	if (argc != 3)
		return NULL;
	q = client_request(*ret_cmd);
	json_object_object_add(q, "name", json_object_new_string(argv[1]));
	json_object_object_add(q, "bytes", json_object_new_string(argv[2]));
	return q;
}

/* The request for a command line, or NULL if it makes none. */
static struct json_object *make_request(int argc, char **argv, const char **ret_cmd)
{
	struct json_object *q;

	if (!strcmp(*argv, "list") || !strcmp(*argv, "shutdown")) {
		*ret_cmd = *argv;
		return argc == 1 ? client_request(*argv) : NULL;
	}
	if (!strcmp(*argv, "info") || !strcmp(*argv, "kill")) {
		*ret_cmd = *argv;
		if (argc > 2 || (argc == 1 && **argv == 'k'))
			return NULL;
		q = client_request(*argv);
		if (argc == 2)
			add_target(q, argv[1]);
		return q;
	}
	if (argc < 2)
		return NULL;
	if (!strcmp(*argv, "get") || !strcmp(*argv, "set"))
		return make_key_request(argc, argv, ret_cmd);
	if (!strcmp(*argv, "reclaim"))
		return make_reclaim_request(argc, argv, ret_cmd);
	if (strcmp(*argv, "add") && strcmp(*argv, "remove"))
		return NULL;
	*ret_cmd = **argv == 'a' ? "tenant-add" : "tenant-remove";
	q = client_request(*ret_cmd);
	json_object_object_add(q, "name", json_object_new_string(argv[1]));
	if (**argv == 'r' && argc == 2)
		return q;
	if (**argv == 'a' && add_keys(q, argc - 2, argv + 2) == 0)
		return q;
	json_object_put(q);
	return NULL;
}

static int run(const struct options *o, int argc, char **argv)
{
	struct json_object *q, *a = NULL;
	_cleanup_free_ char *why = NULL;
	const char *cmd;
	struct client c;
	int r;

	q = make_request(argc, argv, &cmd);
	if (!q) {
		usage(stderr);
		return 64;
	}
	r = client_open(&c, o->control, &why);
	if (r < 0) {
		fprintf(stderr, "weftctl: %s\n", why ? why : strerror(-r));
		json_object_put(q);
		return 1;
	}
	r = client_ask(&c, q, &a);
	if (r < 0)
		fprintf(stderr, "weftctl: %s\n", client_error(r, a));
	else if (o->json)
		puts(json_object_to_json_string_ext(a, JSON_C_TO_STRING_PRETTY));
	else
		print_answer(cmd, a, argc == 3);
	json_object_put(a);
	client_close(&c);
	return r < 0;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"control", required_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{},
	};
	struct options o = {0};
	int opt;

	while ((opt = getopt_long(argc, argv, "+c:jh", longs, NULL)) >= 0) {
		switch (opt) {
		case 'c':
			o.control = optarg;
			break;
		case 'j':
			o.json = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		case 'V':
			printf("weftctl %s\n", WEFT_VERSION);
			return 0;
		default:
			usage(stderr);
			return 64;
		}
	}
	if (optind == argc) {
		usage(stderr);
		return 64;
	}
	return run(&o, argc - optind, argv + optind);
}
