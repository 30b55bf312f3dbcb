/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ipc/trace.h"
#include "tools/client.h"
#include "tools/ctl/trace_file.h"

/* Slices of a thread that one which comes later may still contain. */
#define OPEN_MAX    16u
#define TENANTS_MAX 65536u
#define THREADS_MAX (1u << 20)
#define KERNELS_MAX (1u << 20)

struct trace_tenant {
	char *name;
	/* As told last, in the order of counters[]; UINT64_MAX: not yet */
	uint64_t counters[6];
};

static const char *const counters[] = {
	"memory.current", "memory.swap.current", "gpu.utilization",
	"compute.slice",  "compute.held",        "tpcs",
};

/* Sorts of threads in the trace. */
enum group {
	GROUP_LANE,
	GROUP_STREAM,
	GROUP_TURN,
	GROUP_MOVES,
	GROUP_MEMORY, /* track is no thread: it is where the addresses begin */
};

struct span {
	uint64_t begin, end;
};

/*
 * Slices of one thread contain each other or are apart. What begins within another one and
 * ends after it goes to a thread beside (row): kernels of streams that run side by side
 * though they are one to the guest, pieces that move at once.
 */
struct trace_thread {
	uint64_t session;
	enum group group;
	unsigned track, row;
	struct span open[OPEN_MAX]; /* the latest, none within another, oldest first */
	unsigned n_open;
	uint64_t floor; /* end of what is in open[] no more */
};

/* Name of a kernel, which weftd tells once. */
struct trace_kernel {
	uint64_t session;
	unsigned index;
	char *name;
};

static const struct {
	const char *kind, *label;
	enum group group;
	const char *value; /* what the number is; NULL: nothing */
} kinds[] = {
	{"submit", "launch", GROUP_LANE, "blocks"},
	{"kernel", "kernel", GROUP_STREAM, "blocks"},
	{"graph", "graph launch", GROUP_LANE, "kernels"},
	{"to_device", "copy to device", GROUP_LANE, "bytes"},
	{"from_device", "copy from device", GROUP_LANE, "bytes"},
	{"on_device", "copy on device", GROUP_LANE, "bytes"},
	{"fill", "fill", GROUP_LANE, "bytes"},
	{"wait", "wait for device", GROUP_LANE, NULL},
	{"gate", "wait at gate", GROUP_LANE, NULL},
	{"turn", "turn to move", GROUP_TURN, NULL},
	{"swap_out", "swap out", GROUP_MOVES, "bytes"},
	{"swap_in", "swap in", GROUP_MOVES, "bytes"},
	{"map", "new memory", GROUP_MEMORY, "bytes"},
	{"unmap", "memory ends", GROUP_MEMORY, "bytes"},
	{"reach", "reaches", GROUP_MEMORY, "bytes"},
};

/* ---- events ---- */

/* Takes over e. */
static void put_event(struct trace_file *t, struct json_object *e)
{
	fprintf(t->f, "%s\n%s", t->n_events++ ? "," : "",
		json_object_to_json_string_ext(
			e, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(e);
}

/* Nanoseconds, as the microseconds that the format has. */
static void add_us(struct json_object *e, const char *key, uint64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64 ".%03u", ns / 1000,
		 (unsigned)(ns % 1000));
	json_object_object_add(e, key, json_object_new_double_s((double)ns / 1e3, text));
}

static void add_number(struct json_object *o, const char *key, uint64_t n)
{
	json_object_object_add(o, key, json_object_new_uint64(n));
}

static void add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

static struct json_object *new_event(const char *ph, const char *name, unsigned pid,
				     unsigned tid)
{
	struct json_object *e = json_object_new_object();

	add_text(e, "ph", ph);
	add_text(e, "name", name);
	add_number(e, "pid", pid);
	if (tid)
		add_number(e, "tid", tid);
	return e;
}

static struct json_object *add_args(struct json_object *e)
{
	struct json_object *args = json_object_new_object();

	json_object_object_add(e, "args", args);
	return args;
}

static void put_name(struct trace_file *t, const char *what, unsigned pid, unsigned tid,
		     const char *name)
{
	struct json_object *e = new_event("M", what, pid, tid);

	add_text(add_args(e), "name", name);
	put_event(t, e);
}

/* ---- tenants ---- */

/* Number of a tenant's process, from 1 on; 0: no memory. */
static unsigned pid_of(struct trace_file *t, const char *name)
{
	struct trace_tenant *more;

	for (unsigned i = 0; i < t->n_tenants; i++) {
		if (!strcmp(t->tenants[i].name, name))
			return i + 1;
	}
	if (t->n_tenants == TENANTS_MAX)
		return 0;
	more = reallocarray(t->tenants, t->n_tenants + 1, sizeof(*more));
	if (!more)
		return 0;
	t->tenants = more;
	more += t->n_tenants;
	memset(more, 0xff, sizeof(*more));
	more->name = strdup(name);
	if (!more->name)
		return 0;
	put_name(t, "process_name", ++t->n_tenants, 0, name);
	return t->n_tenants;
}

static void put_counter(struct trace_file *t, const char *name, unsigned pid, uint64_t at,
			uint64_t value)
{
	struct json_object *e = new_event("C", name, pid, 0);

	add_us(e, "ts", at);
	add_number(add_args(e), "value", value);
	put_event(t, e);
}

/* Writes those that have changed. */
static void put_counters(struct trace_file *t, struct json_object *of, uint64_t at)
{
	unsigned pid = pid_of(t, json_str(of, "name"));
	struct trace_tenant *tenant = pid ? &t->tenants[pid - 1] : NULL;

	for (unsigned i = 0; tenant && i < ARRAY_SIZE(counters); i++) {
		uint64_t is = json_u64(of, counters[i]);

		if (is != tenant->counters[i])
			put_counter(t, counters[i], pid, at, is);
		tenant->counters[i] = is;
	}
}

/* ---- threads ---- */

static const char *thread_name(const struct trace_thread *th, const char *program,
			       char *buf, size_t room)
{
	char beside[24] = "";

	if (th->row)
		snprintf(beside, sizeof(beside), " (%u)", th->row + 1);
	switch (th->group) {
	case GROUP_LANE:
		snprintf(buf, room, "session %" PRIu64 " %s: thread %u%s", th->session,
			 program, th->track, beside);
		break;
	case GROUP_STREAM:
		snprintf(buf, room, "session %" PRIu64 " %s: stream %x%s", th->session,
			 program, th->track, beside);
		break;
	case GROUP_TURN:
		snprintf(buf, room, "session %" PRIu64 " %s: turns%s", th->session,
			 program, beside);
		break;
	case GROUP_MOVES:
		snprintf(buf, room, "session %" PRIu64 " %s: moves%s", th->session,
			 program, beside);
		break;
	case GROUP_MEMORY:
		snprintf(buf, room, "session %" PRIu64 " %s: memory", th->session,
			 program);
		break;
	}
	return buf;
}

/* Finds a thread or makes one; its number from 1 on, or 0: no memory. */
static unsigned tid_of(struct trace_file *t, unsigned pid, struct json_object *session,
		       enum group group, unsigned track, unsigned row)
{
	uint64_t number = json_u64(session, "session");
	struct trace_thread *th;
	char buf[160];

	for (unsigned i = 0; i < t->n_threads; i++) {
		th = &t->threads[i];
		if (th->session == number && th->group == group && th->track == track &&
		    th->row == row)
			return i + 1;
	}
	if (t->n_threads == THREADS_MAX)
		return 0;
	th = reallocarray(t->threads, t->n_threads + 1, sizeof(*th));
	if (!th)
		return 0;
	t->threads = th;
	th += t->n_threads++;
	*th = (struct trace_thread){
		.session = number, .group = group, .track = track, .row = row};
	put_name(t, "thread_name", pid, t->n_threads,
		 thread_name(th, json_str(session, "name"), buf, sizeof(buf)));
	return t->n_threads;
}

/* Takes a slice if it contains those that came before, or is after them. */
static bool fits(struct trace_thread *th, const struct span *s)
{
	unsigned n = th->n_open;

	while (n && th->open[n - 1].begin >= s->begin && th->open[n - 1].end <= s->end)
		n--;
	if (s->begin < (n ? th->open[n - 1].end : th->floor))
		return false;
	if (n == OPEN_MAX) {
		th->floor = th->open[0].end;
		memmove(th->open, th->open + 1, (OPEN_MAX - 1) * sizeof(*th->open));
		n--;
	}
	th->open[n] = *s;
	th->n_open = n + 1;
	return true;
}

/* ---- kernels ---- */

static void learn(struct trace_file *t, uint64_t session, unsigned index,
		  const char *name)
{
	struct trace_kernel *more;

	if (t->n_kernels == KERNELS_MAX)
		return;
	more = reallocarray(t->kernels, t->n_kernels + 1, sizeof(*more));
	if (!more)
		return;
	t->kernels = more;
	more[t->n_kernels] = (struct trace_kernel){session, index, strdup(name)};
	t->n_kernels += more[t->n_kernels].name != NULL;
}

static void learn_all(struct trace_file *t, struct json_object *session)
{
	struct json_object *names = json_get(session, "names");

	if (!json_object_is_type(names, json_type_object))
		return;
	json_object_object_foreach(names, key, value)
	{
		const char *name = json_object_get_string(value);

		learn(t, json_u64(session, "session"), (unsigned)strtoul(key, NULL, 10),
		      name ? name : "");
	}
}

static const char *kernel_name(const struct trace_file *t, uint64_t session,
			       unsigned index)
{
	for (unsigned i = 0; index && i < t->n_kernels; i++) {
		if (t->kernels[i].session == session && t->kernels[i].index == index)
			return t->kernels[i].name;
	}
	return "";
}

/* ---- slices ---- */

static uint64_t number_at(struct json_object *r, size_t i)
{
	return json_object_get_uint64(json_object_array_get_idx(r, i));
}

static void put_slice(struct trace_file *t, unsigned pid, struct json_object *session,
		      unsigned kind, const struct span *s, struct json_object *r)
{
	unsigned track = (unsigned)number_at(r, 4);
	const char *kernel =
		kernel_name(t, json_u64(session, "session"), (unsigned)number_at(r, 5));
	struct json_object *e, *args;
	unsigned tid, row = 0;

	do
		tid = tid_of(t, pid, session, kinds[kind].group, track, row++);
	while (tid && !fits(&t->threads[tid - 1], s));
	if (!tid)
		return;
	e = new_event("X",
		      *kernel && kinds[kind].group == GROUP_STREAM ? kernel
								   : kinds[kind].label,
		      pid, tid);
	add_text(e, "cat", kinds[kind].kind);
	add_us(e, "ts", s->begin);
	add_us(e, "dur", s->end - s->begin);
	args = add_args(e);
	if (*kernel)
		add_text(args, "kernel", kernel);
	if (kinds[kind].value)
		json_object_object_add(args, kinds[kind].value,
				       json_object_get(json_object_array_get_idx(r, 3)));
	put_event(t, e);
	t->n++;
}

/* An instant, with the addresses, of which those for device memory count from 0. */
static void put_memory(struct trace_file *t, unsigned pid, struct json_object *session,
		       unsigned kind, const struct span *s, struct json_object *r)
{
	const char *kernel =
		kernel_name(t, json_u64(session, "session"), (unsigned)number_at(r, 5));
	unsigned tid = tid_of(t, pid, session, GROUP_MEMORY, 0, 0);
	struct json_object *e, *args;

	if (!tid)
		return;
	e = new_event("i", kinds[kind].label, pid, tid);
	add_text(e, "cat", kinds[kind].kind);
	add_text(e, "s", "t");
	add_us(e, "ts", s->begin);
	args = add_args(e);
	if (*kernel)
		add_text(args, "kernel", kernel);
	add_number(args, "from", number_at(r, 4) * TRACE_PAGE);
	add_number(args, kinds[kind].value, number_at(r, 3));
	put_event(t, e);
	t->n++;
}

/* A record: kind, begin, duration, value, track, name. Kinds that are not known come from a
 * later weftd. */
static void put_record(struct trace_file *t, unsigned pid, struct json_object *session,
		       struct json_object *r)
{
	struct span s;
	const char *kind;

	if (json_count(r) < 6)
		return;
	kind = json_object_get_string(json_object_array_get_idx(r, 0));
	s.begin = number_at(r, 1);
	if (__builtin_add_overflow(s.begin, number_at(r, 2), &s.end))
		return;
	for (unsigned i = 0; kind && i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(kind, kinds[i].kind) != 0)
			continue;
		if (kinds[i].group == GROUP_MEMORY)
			put_memory(t, pid, session, i, &s, r);
		else
			put_slice(t, pid, session, i, &s, r);
	}
}

static void put_lost(struct trace_file *t, unsigned pid, uint64_t at, uint64_t lost)
{
	struct json_object *e = new_event("i", "lost records", pid, 0);

	add_us(e, "ts", at);
	add_text(e, "s", "p");
	add_number(add_args(e), "records", lost);
	put_event(t, e);
	t->lost += lost;
}

static void put_session(struct trace_file *t, struct json_object *session, uint64_t at)
{
	struct json_object *records = json_get(session, "records");
	unsigned pid = pid_of(t, json_str(session, "tenant"));
	uint64_t lost = json_u64(session, "lost");

	learn_all(t, session);
	for (size_t i = 0; pid && i < json_count(records); i++)
		put_record(t, pid, session, json_object_array_get_idx(records, i));
	if (pid && lost)
		put_lost(t, pid, at, lost);
}

/* ---- the file ---- */

void trace_file_begin(struct trace_file *t, struct json_object *hello)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "weftd", json_str(hello, "version"));
	add_text(o, "device", json_str(hello, "device"));
	add_text(o, "begin", t->begin);
	fprintf(t->f,
		"{\"displayTimeUnit\":\"ns\",\n\"otherData\":%s,\n\"traceEvents\":[",
		json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

void trace_file_add(struct trace_file *t, struct json_object *line)
{
	struct json_object *tenants = json_get(line, "tenants");
	struct json_object *sessions = json_get(line, "sessions");
	uint64_t at = json_u64(line, "at");

	for (size_t i = 0; i < json_count(tenants); i++)
		put_counters(t, json_object_array_get_idx(tenants, i), at);
	for (size_t i = 0; i < json_count(sessions); i++)
		put_session(t, json_object_array_get_idx(sessions, i), at);
	t->lost_sessions += json_u64(line, "sessions.lost");
}

void trace_file_end(struct trace_file *t)
{
	fputs("\n]}\n", t->f);
	for (unsigned i = 0; i < t->n_tenants; i++)
		free(t->tenants[i].name);
	for (unsigned i = 0; i < t->n_kernels; i++)
		free(t->kernels[i].name);
	free(steal(t->tenants));
	free(steal(t->threads));
	free(steal(t->kernels));
	t->n_tenants = t->n_threads = t->n_kernels = 0;
}
