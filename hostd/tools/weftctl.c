/* SPDX-License-Identifier: Apache-2.0 */
/* weftctl: what runs, and ending it. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/macros.h"
#include "tools/client.h"
#include "tools/table.h"
#include "util/size.h"

#define EXIT_USAGE 64 /* of sysexits.h */

struct options {
	const char *control;
	bool json, bytes, human;
};

/* A command line: its words after the options, of which the first is the command. */
struct command {
	const char *name, *args, *words;
	int least, most; /* arguments; most -1: any number */
	struct json_object *(*make)(int argc, char **argv);
	void (*print)(const struct options *o, char **argv, struct json_object *answer);
};

/* ---- tables ---- */

static const char *size_of(const struct options *o, struct json_object *of,
			   const char *key, char *buf, size_t room)
{
	uint64_t v = json_u64(of, key);

	if (!o->bytes || v == UINT64_MAX)
		return size_format(v, buf, room);
	snprintf(buf, room, "%" PRIu64, v);
	return buf;
}

static void add_size(struct table *t, const struct options *o, struct json_object *of,
		     const char *key)
{
	char buf[32];

	table_add(t, "%s", size_of(o, of, key, buf, sizeof(buf)));
}

static void add_number(struct table *t, struct json_object *of, const char *key)
{
	table_add(t, "%" PRIu64, json_u64(of, key));
}

static void add_text(struct table *t, struct json_object *of, const char *key)
{
	table_add(t, "%s", json_str(of, key));
}

static void print_device(const struct options *o, struct json_object *a)
{
	struct json_object *d = json_get(a, "device");
	char used[32], total[32];

	printf("%s, %s of %s in use", json_str(d, "name"),
	       size_of(o, d, "memory_used", used, sizeof(used)),
	       size_of(o, d, "memory", total, sizeof(total)));
	if (json_u64(d, "swap"))
		printf(", %s of %s evicted",
		       size_of(o, d, "swap_used", used, sizeof(used)),
		       size_of(o, d, "swap", total, sizeof(total)));
	printf(", %" PRIu64 " workers ready\n\n", json_u64(d, "workers_ready"));
}

static void print_tenants(const struct options *o, struct json_object *a, bool detail)
{
	static const struct table_column columns[] = {
		{"TENANT", false}, {"SESSIONS", true}, {"MEMORY", true},
		{"AWAY", true},    {"PEAK", true},     {"MAX", true},
		{"MIN", true},     {"WEIGHT", true},   {"SOCKET", false},
	};
	struct table t = {columns, detail ? ARRAY_SIZE(columns) : 6, NULL, 0};
	struct json_object *list = json_get(a, "tenants");

	for (size_t i = 0; i < json_count(list); i++) {
		struct json_object *of = json_object_array_get_idx(list, i);

		add_text(&t, of, "name");
		add_number(&t, of, "sessions");
		add_size(&t, o, of, "memory_used");
		add_size(&t, o, of, "memory_swap");
		add_size(&t, o, of, "memory_peak");
		add_size(&t, o, of, "memory_max");
		if (!detail)
			continue;
		add_size(&t, o, of, "memory_min");
		add_number(&t, of, "memory_weight");
		add_text(&t, of, "socket");
	}
	table_print(&t, stdout);
}

/* Prints sessions that run, or that have ended and hold nothing any more. */
static void print_sessions(const struct options *o, struct json_object *list, bool ended)
{
	static const struct table_column running[] = {
		{"SESSION", false}, {"TENANT", false},  {"PROGRAM", false},
		{"PID", true},      {"CALLS", true},    {"LAUNCHES", true},
		{"MEMORY", true},   {"AWAY", true},     {"PEAK", true},
		{"TIME", true},     {"CARRIER", false},
	};
	static const struct table_column past[] = {
		{"ENDED", false}, {"TENANT", false}, {"PROGRAM", false},
		{"PID", true},    {"CALLS", true},   {"LAUNCHES", true},
		{"PEAK", true},   {"TIME", true},    {"END", false},
	};
	struct table t = {ended ? past : running,
			  ended ? ARRAY_SIZE(past) : ARRAY_SIZE(running), NULL, 0};
	char took[32];

	if (!json_count(list))
		return;
	putchar('\n');
	for (size_t i = 0; i < json_count(list); i++) {
		struct json_object *of = json_object_array_get_idx(list, i);

		add_number(&t, of, "session");
		add_text(&t, of, "tenant");
		add_text(&t, of, "name");
		add_number(&t, of, "pid");
		add_number(&t, of, "calls");
		add_number(&t, of, "launches");
		if (!ended) {
			add_size(&t, o, of, "memory_used");
			add_size(&t, o, of, "memory_swap");
		}
		add_size(&t, o, of, "memory_peak");
		table_add(&t, "%s",
			  time_format(json_u64(of, "time_ns"), took, sizeof(took)));
		add_text(&t, of, ended ? "end" : "carrier");
	}
	table_print(&t, stdout);
}

static void print_list(const struct options *o, char **argv, struct json_object *a)
{
	print_device(o, a);
	print_tenants(o, a, false);
	print_sessions(o, json_get(a, "sessions"), false);
}

static void print_info(const struct options *o, char **argv, struct json_object *a)
{
	print_device(o, a);
	print_tenants(o, a, true);
	print_sessions(o, json_get(a, "sessions"), false);
	print_sessions(o, json_get(a, "ended"), true);
	print_refused(stdout, a);
}

/* ---- a tenant's keys ---- */

static bool is_size(const char *key)
{
	return strcmp(key, "memory.weight") != 0 && strcmp(key, "memory.events") != 0 &&
	       strcmp(key, "sessions.max") != 0;
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

/* As files of a cgroup: one key's value alone, or every line with its key before it. */
static void print_keys(const struct options *o, char **argv, struct json_object *a)
{
	struct json_object *keys = json_get(a, "keys");

	if (!json_object_is_type(keys, json_type_object))
		return;
	json_object_object_foreach(keys, key, value)
	{
		const char *at = value ? json_object_get_string(value) : "";

		while (*at) {
			int n = (int)strcspn(at, "\n");

			if (!argv[2])
				printf("%s ", key);
			print_value(at, n, o->human && is_size(key));
			at += n + (at[n] == '\n');
		}
	}
}

/* ---- what is said of the rest ---- */

static void print_nothing(const struct options *o, char **argv, struct json_object *a)
{
}

static void print_killed(const struct options *o, char **argv, struct json_object *a)
{
	uint64_t n = json_u64(a, "killed");

	if (n)
		printf("%" PRIu64 " ended\n", n);
	else
		printf("%s has no sessions\n", argv[1]);
}

static void print_added(const struct options *o, char **argv, struct json_object *a)
{
	if (json_object_get_boolean(json_get(a, "existed")))
		fprintf(stderr, "weftctl: tenant %s was there: nothing has changed\n",
			argv[1]);
	printf("%s\n", json_str(json_get(a, "tenant"), "socket"));
}

static void print_moved(const struct options *o, char **argv, struct json_object *a)
{
	uint64_t v = json_u64(a, "bytes");
	char buf[32];

	if (o->human)
		printf("%s moved\n", size_format(v, buf, sizeof(buf)));
	else
		printf("%" PRIu64 " moved\n", v);
}

/* ---- requests ---- */

static struct json_object *make_plain(int argc, char **argv)
{
	return client_request(*argv);
}

/* Digits only name a session, anything else a tenant. */
static struct json_object *make_target(int argc, char **argv)
{
	struct json_object *q = client_request(*argv);

	if (argc < 2)
		return q;
	if (argv[1][strspn(argv[1], "0123456789")] == '\0')
		json_object_object_add(
			q, "session",
			json_object_new_uint64(strtoull(argv[1], NULL, 10)));
	else
		json_object_object_add(q, "tenant", json_object_new_string(argv[1]));
	return q;
}

static struct json_object *make_named(const char *cmd, char **argv)
{
	struct json_object *q = client_request(cmd);

	json_object_object_add(q, "name", json_object_new_string(argv[1]));
	return q;
}

static struct json_object *make_remove(int argc, char **argv)
{
	return make_named("tenant-remove", argv);
}

static struct json_object *make_get(int argc, char **argv)
{
	struct json_object *q = make_named("tenant-get", argv);

	if (argc == 3)
		json_object_object_add(q, "key", json_object_new_string(argv[2]));
	return q;
}

/* NULL if a word is no KEY=VALUE. */
static struct json_object *make_keys(const char *cmd, int argc, char **argv)
{
	struct json_object *q = make_named(cmd, argv), *set = json_object_new_object();

	json_object_object_add(q, "set", set);
	for (int i = 2; i < argc; i++) {
		char *eq = strchr(argv[i], '=');

		if (!eq) {
			json_object_put(q);
			return NULL;
		}
		*eq = '\0';
		json_object_object_add(set, argv[i], json_object_new_string(eq + 1));
	}
	return q;
}

static struct json_object *make_add(int argc, char **argv)
{
	return make_keys("tenant-add", argc, argv);
}

static struct json_object *make_set(int argc, char **argv)
{
	return make_keys("tenant-set", argc, argv);
}

static struct json_object *make_reclaim(int argc, char **argv)
{
	struct json_object *q = make_named("reclaim", argv);

	json_object_object_add(q, "bytes", json_object_new_string(argv[2]));
	return q;
}

static const struct command commands[] = {
	{"list", "", "tenants and running sessions", 0, 0, make_plain, print_list},
	{"info", "[TENANT | SESSION]", "the same in detail, and ended sessions", 0, 1,
	 make_target, print_info},
	{"kill", "TENANT | SESSION", "end sessions at once", 1, 1, make_target,
	 print_killed},
	{"add", "TENANT [KEY=VALUE]...", "add a tenant (keys of weftd.conf)", 1, -1,
	 make_add, print_added},
	{"remove", "TENANT", "end its sessions and forget it", 1, 1, make_remove,
	 print_nothing},
	{"get", "TENANT [KEY]", "its limits and what it uses", 1, 2, make_get,
	 print_keys},
	{"set", "TENANT KEY=VALUE...", "change its limits", 2, -1, make_set,
	 print_nothing},
	{"reclaim", "TENANT SIZE", "move so much of its memory to the host", 2, 2,
	 make_reclaim, print_moved},
	{"shutdown", "", "end weftd and all sessions, and wait for that", 0, 0,
	 make_plain, print_nothing},
};

/* ---- the command line ---- */

static void usage(void)
{
	puts("usage: weftctl [OPTION]... COMMAND [ARGUMENT]...\n"
	     "Sees and controls what runs under weftd. See weftctl(1).\n");
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-8s %-22s %s\n", commands[i].name, commands[i].args,
		       commands[i].words);
	puts("\n"
	     "  -c, --control PATH   the daemon with this control socket\n"
	     "  -j, --json           the daemon's answer, or {\"ok\": false, \"error\": "
	     "...}\n"
	     "  -b, --bytes          list and info: sizes in bytes\n"
	     "  -H, --human          get and reclaim: sizes such as 1.5 GiB\n"
	     "  -h, --help\n"
	     "      --version");
}

static int wrong(const char *fmt, ...)
{
	va_list ap;

	fputs("weftctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("; weftctl --help has all commands\n", stderr);
	return EXIT_USAGE;
}

static const struct command *find_command(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	}
	return NULL;
}

/* Says what is wrong as the caller reads answers. Returns the exit status. */
static int failed(const struct options *o, int error, struct json_object *answer,
		  const char *why)
{
	const char *text = why ? why : client_error(error, answer);
	struct json_object *a;

	if (!o->json) {
		fprintf(stderr, "weftctl: %s\n", text);
		return 1;
	}
	a = json_object_new_object();
	json_object_object_add(a, "ok", json_object_new_boolean(0));
	json_object_object_add(a, "error", json_object_new_string(text));
	puts(json_object_to_json_string_ext(a, CLIENT_JSON));
	json_object_put(a);
	return 1;
}

static int ask(const struct options *o, const struct command *cmd, char **argv,
	       struct json_object *q)
{
	_cleanup_free_ char *why = NULL;
	struct json_object *a = NULL;
	struct client c;
	int r = client_open(&c, o->control, &why);

	if (r < 0) {
		json_object_put(q);
		return failed(o, r, NULL, why);
	}
	r = client_ask(&c, q, &a);
	if (r == 0 && !strcmp(cmd->name, "shutdown"))
		r = client_wait_end(&c);
	if (r < 0)
		r = failed(o, r, a, NULL);
	else if (o->json)
		puts(json_object_to_json_string_ext(a, CLIENT_JSON));
	else
		cmd->print(o, argv, a);
	json_object_put(a);
	client_close(&c);
	return r;
}

static int run(const struct options *o, int argc, char **argv)
{
	const struct command *cmd;
	struct json_object *q;

	if (!argc)
		return wrong("no command");
	cmd = find_command(*argv);
	if (!cmd)
		return wrong("unknown command \"%s\"", *argv);
	q = argc - 1 >= cmd->least && (cmd->most < 0 || argc - 1 <= cmd->most)
		    ? cmd->make(argc, argv)
		    : NULL;
	if (!q)
		return wrong("%s takes %s", cmd->name,
			     *cmd->args ? cmd->args : "no arguments");
	return ask(o, cmd, argv, q);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"control", required_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"bytes", no_argument, NULL, 'b'},
		{"human", no_argument, NULL, 'H'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{},
	};
	struct options o = {0};
	int opt;

	while ((opt = getopt_long(argc, argv, "c:jbHh", longs, NULL)) >= 0) {
		switch (opt) {
		case 'c':
			o.control = optarg;
			break;
		case 'j':
			o.json = true;
			break;
		case 'b':
			o.bytes = true;
			break;
		case 'H':
			o.human = true;
			break;
		case 'h':
			usage();
			return 0;
		case 'V':
			printf("weftctl %s\n", WEFT_VERSION);
			return 0;
		default:
			return EXIT_USAGE; /* getopt has said what */
		}
	}
	return run(&o, argc - optind, argv + optind);
}
