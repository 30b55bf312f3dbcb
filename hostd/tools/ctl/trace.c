/* SPDX-License-Identifier: Apache-2.0 */
/* trace: what sessions do, recorded into a file. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tools/ctl/ctl.h"
#include "tools/ctl/trace_file.h"

#define DEFAULT_FILE "weft-trace.json"

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	stopped = sig;
}

/* weftd sends a line many times a second, so that nothing has to be interrupted; the second
 * signal ends the program as usual. */
static void catch_signals(void)
{
	const struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};

	stopped = 0;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

static struct json_object *make(const struct ctl *ctl, int argc, char **argv)
{
	struct json_object *q = client_request("trace");
	struct json_object *names = json_object_new_array();

	for (int i = 1; i < argc; i++)
		json_object_array_add(names, json_object_new_string(argv[i]));
	if (argc > 1)
		json_object_object_add(q, "tenants", names);
	else
		json_object_put(names);
	if (ctl->memory)
		json_object_object_add(q, "memory", json_object_new_boolean(true));
	return q;
}

/* Nanoseconds that were asked for; UINT64_MAX: no number of them. Returns false if the words
 * are no time. */
static bool read_seconds(const struct ctl *ctl, uint64_t *ret_ns)
{
	char *end;
	double d;

	*ret_ns = UINT64_MAX;
	if (!ctl->seconds)
		return true;
	d = strtod(ctl->seconds, &end);
	if (*end || end == ctl->seconds || !(d > 0) || d > 1e6)
		return false;
	*ret_ns = (uint64_t)(d * (double)NSEC_PER_SEC);
	return true;
}

/*
 * Writes what comes, until the time is over, which a signal may say as well: then up to what
 * had happened by that. Times of weftd's begin after since_ns. Returns 0 or -errno.
 */
static int record(struct client *c, struct trace_file *t, uint64_t since_ns, uint64_t ns)
{
	uint64_t at = 0;
	int r = 0;

	while (r == 0 && at < ns && !ferror(t->f)) {
		struct json_object *line = NULL;

		r = client_next(c, &line);
		if (r == 0 && !json_object_is_type(line, json_type_object))
			r = -EPROTO;
		if (r == 0) {
			trace_file_add(t, line);
			at = json_u64(line, "at");
		}
		json_object_put(line);
		if (stopped) {
			ns = MIN(ns, clock_now_ns() - since_ns);
			stopped = 0;
		}
	}
	return r;
}

static void say(const struct ctl *ctl, const struct trace_file *t, const char *path)
{
	FILE *f = strcmp(path, "-") ? stdout : stderr;

	if (ctl->json)
		fprintf(f,
			"{\"ok\": true, \"records\": %" PRIu64 ", \"lost\": %" PRIu64
			", \"sessions.lost\": %" PRIu64 "}\n",
			t->n, t->lost, t->lost_sessions);
	else
		fprintf(f,
			"%s: %" PRIu64 " records; open it at https://ui.perfetto.dev\n",
			path, t->n);
	if (!ctl->json && (t->lost || t->lost_sessions))
		fprintf(stderr,
			"weftctl: %" PRIu64 " records, and %" PRIu64
			" whole sessions, came faster than they were fetched: trace "
			"fewer "
			"tenants\n",
			t->lost, t->lost_sessions);
}

/* Opens the file after weftd has said yes. */
static int write_all(const struct ctl *ctl, struct client *c, struct json_object *hello,
		     uint64_t since_ns, uint64_t ns)
{
	const char *path = ctl->output ? ctl->output : DEFAULT_FILE;
	char begin[40];
	time_t now = time(NULL);
	struct tm tm;
	struct trace_file t = {.begin = begin,
			       .f = strcmp(path, "-") ? fopen(path, "we") : stdout};
	int r, e = 0;

	if (!t.f)
		return ctl_failed(ctl, "%s: %s", path, strerror(errno));
	strftime(begin, sizeof(begin), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	trace_file_begin(&t, hello);
	r = record(c, &t, since_ns, ns);
	trace_file_end(&t);
	if (fflush(t.f) || ferror(t.f))
		e = errno ? errno : EIO;
	if (t.f != stdout && fclose(t.f))
		e = errno;
	if (e)
		return ctl_failed(ctl, "%s: %s", path, strerror(e));
	say(ctl, &t, path);
	return r < 0 ? ctl_failed(ctl, "%s; the trace ends there", client_error(r, NULL))
		     : 0;
}

int ctl_trace(const struct ctl *ctl, int argc, char **argv)
{
	struct json_object *a = NULL;
	struct client c;
	uint64_t since_ns, ns;
	int r;

	if (!read_seconds(ctl, &ns))
		return ctl_failed(ctl, "--seconds: \"%s\" is no time: 10, 0.5",
				  ctl->seconds);
	r = ctl_open(ctl, &c);
	if (r)
		return r;
	catch_signals();
	since_ns = clock_now_ns();
	r = client_ask(&c, make(ctl, argc, argv), &a);
	r = r < 0 ? ctl_failed(ctl, "%s", client_error(r, a))
		  : write_all(ctl, &c, a, since_ns, ns);
	json_object_put(a);
	client_close(&c);
	return r;
}
