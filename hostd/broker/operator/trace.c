/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <json-c/json.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/tpcs.h"
#include "broker/memory/swap.h"
#include "broker/operator/gpu_time.h"
#include "broker/operator/trace.h"
#include "broker/operator/trace_read.h"
#include "broker/reply.h"
#include "broker/tenant.h"
#include "broker/workers.h"

/* Between two looks. A session that writes more than TRACE_RECORDS meanwhile loses some. */
#define LOOK_NS (20 * NSEC_PER_MSEC)
/* Records in a line, so that weftd does other things in time; and at least of each
 * session. */
#define LINE_RECORDS    8192u
#define SESSION_RECORDS 64u
/* Sessions that have ended since the last line, and are not told of yet. */
#define ENDED_MAX 256u

struct trace {
	void *client;
	struct json_object *names;    /* of tenants; NULL: all */
	struct json_object *sessions; /* of the line that is sent next */
	unsigned n_records;           /* in it */
	uint64_t left_out;            /* sessions that ended and were too many */
	uint64_t begin_ns, next_ns;
	uint64_t tracing; /* what workers are told: page.h */
};

static const char *const kinds[] = {
	[TRACE_SUBMIT] = "submit",
	[TRACE_KERNEL] = "kernel",
	[TRACE_GRAPH] = "graph",
	[TRACE_TO_DEVICE] = "to_device",
	[TRACE_TO_HOST] = "from_device",
	[TRACE_ON_DEVICE] = "on_device",
	[TRACE_FILL] = "fill",
	[TRACE_WAIT] = "wait",
	[TRACE_GATE] = "gate",
	[TRACE_TURN] = "turn",
	[TRACE_SWAP_OUT] = "swap_out",
	[TRACE_SWAP_IN] = "swap_in",
	[TRACE_MAP] = "map",
	[TRACE_UNMAP] = "unmap",
	[TRACE_REACH] = "reach",
};
static_assert(ARRAY_SIZE(kinds) == TRACE_NUM_KINDS, "each has a name");

/* ---- which sessions ---- */

static bool is_traced(const struct trace *t, const struct tenant *of)
{
	if (!t->names)
		return true;
	for (size_t i = 0; i < json_object_array_length(t->names); i++) {
		struct json_object *v = json_object_array_get_idx(t->names, i);

		if (!strcmp(json_object_get_string(v), of->name))
			return true;
	}
	return false;
}

void trace_session_begins(struct worker *w)
{
	const struct trace *t = w->b->trace;

	if (!t || !w->trace || w->reader || !is_traced(t, w->tenant))
		return;
	w->reader = malloc(sizeof(*w->reader));
	if (!w->reader)
		return;
	trace_reader_init(w->reader, w->trace);
	atomic_store_explicit(&w->count->tracing, t->tracing, memory_order_relaxed);
}

void trace_session_kept(struct worker *w)
{
	if (!w->trace)
		return;
	atomic_store_explicit(&w->count->tracing, 0, memory_order_relaxed);
	/* A thread that is just writing may make one page again. */
	(void)madvise(w->trace->ring, sizeof(w->trace->ring), MADV_REMOVE);
}

static void stop(struct worker *w)
{
	if (!w->reader)
		return;
	free(steal(w->reader));
	trace_session_kept(w);
}

/* ---- lines ---- */

static uint64_t since(const struct trace *t, uint64_t ns)
{
	return ns - MIN(ns, t->begin_ns);
}

static void add(struct json_object *list, uint64_t n)
{
	json_object_array_add(list, json_object_new_uint64(MIN(n, 1ull << 53)));
}

static struct json_object *describe(const struct trace *t, const struct trace_record *r)
{
	struct json_object *o = json_object_new_array_ext(6);
	uint64_t begin_ns = since(t, r->begin_ns);

	json_object_array_add(o, json_object_new_string(kinds[r->kind]));
	add(o, begin_ns);
	add(o, since(t, r->end_ns) - begin_ns);
	add(o, r->value);
	add(o, r->track);
	add(o, r->name);
	return o;
}

/* Reads at most so many of a session, and adds it to the line if there is anything. */
static void add_session(struct trace *t, struct worker *w, unsigned most)
{
	struct json_object *records = json_object_new_array();
	struct json_object *names = json_object_new_object(), *o;
	char text[TRACE_NAME_TEXT], key[16];
	struct trace_record r;
	unsigned n = 0;

	while (n < most && trace_read(w->reader, w->trace, &r)) {
		if (trace_read_name(w->reader, w->trace, r.name, text)) {
			snprintf(key, sizeof(key), "%u", r.name);
			json_object_object_add(names, key, json_object_new_string(text));
		}
		json_object_array_add(records, describe(t, &r));
		n++;
	}
	if (n < most)
		trace_read_end(w->reader, w->trace);
	t->n_records += n;
	if (!n && !w->reader->lost) {
		json_object_put(records);
		json_object_put(names);
		return;
	}
	o = json_object_new_object();
	reply_u64(o, "session", w->session);
	reply_str(o, "tenant", w->tenant->name);
	reply_str(o, "name", w->hello.name);
	reply_u64(o, "pid", w->hello.pid);
	reply_u64(o, "lost", w->reader->lost);
	w->reader->lost = 0;
	json_object_object_add(o, "names", names);
	json_object_object_add(o, "records", records);
	json_object_array_add(t->sessions, o);
}

void trace_session_ends(struct worker *w)
{
	struct trace *t = w->b->trace;

	if (!t || !w->reader)
		return;
	if (t->n_records < LINE_RECORDS &&
	    json_object_array_length(t->sessions) < ENDED_MAX)
		add_session(t, w, TRACE_RECORDS);
	else
		t->left_out++;
	stop(w);
}

static void add_sessions(struct broker *b)
{
	unsigned n = 1, most;
	struct worker *w;

	list_for_each (w, &b->workers, link)
		n += w->reader != NULL;
	most = MAX(LINE_RECORDS / n, SESSION_RECORDS);
	list_for_each (w, &b->workers, link) {
		if (w->reader)
			add_session(b->trace, w, most);
	}
}

/* The longest that one of its sessions was told. */
static uint64_t slice_us(const struct tenant *t)
{
	const struct worker *w;
	uint64_t us = 0;

	list_for_each (w, &t->workers, tenant_link)
		us = MAX(us, (uint64_t)w->slice_us);
	return us;
}

static struct json_object *list_tenants(const struct broker *b)
{
	struct json_object *list = json_object_new_array(), *o;
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		if (!is_traced(b->trace, t))
			continue;
		o = json_object_new_object();
		reply_str(o, "name", t->name);
		reply_u64(o, "memory.current", t->granted);
		reply_u64(o, "memory.swap.current", swap_tenant(t));
		reply_u64(o, "gpu.utilization", gpu_busy_tenant(t));
		reply_u64(o, "compute.slice", slice_us(t));
		reply_u64(o, "compute.held", t->pace.held_until_ns != 0);
		reply_u64(o, "tpcs", space_count(tpcs_of(t)));
		json_object_array_add(list, o);
	}
	return list;
}

struct json_object *trace_line(struct broker *b, uint64_t now_ns)
{
	struct trace *t = b->trace;
	struct json_object *o = json_object_new_object();

	add_sessions(b);
	reply_u64(o, "at", since(t, now_ns));
	json_object_object_add(o, "tenants", list_tenants(b));
	json_object_object_add(o, "sessions", t->sessions);
	reply_u64(o, "sessions.lost", t->left_out);
	t->sessions = json_object_new_array();
	t->n_records = 0;
	t->left_out = 0;
	return o;
}

uint64_t trace_next_ns(const struct broker *b)
{
	return b->trace ? b->trace->next_ns : UINT64_MAX;
}

void trace_later(struct broker *b, uint64_t now_ns)
{
	b->trace->next_ns = now_ns + LOOK_NS;
}

/* ---- begin and end ---- */

int trace_begin(struct broker *b, void *client, struct json_object *names, bool memory)
{
	struct trace *t = calloc(1, sizeof(*t));
	struct worker *w;

	if (!t)
		return -ENOMEM;
	t->client = client;
	t->names = json_object_get(names);
	t->tracing = memory ? TRACING_MEMORY : 1;
	t->sessions = json_object_new_array();
	t->begin_ns = clock_now_ns();
	t->next_ns = t->begin_ns + LOOK_NS;
	b->trace = t;
	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_SESSION)
			trace_session_begins(w);
	}
	return 0;
}

void *trace_client(const struct broker *b)
{
	return b->trace ? b->trace->client : NULL;
}

struct json_object *trace_hello(const struct broker *b)
{
	struct json_object *o = reply_ok();

	reply_str(o, "version", WEFT_VERSION);
	reply_str(o, "device", b->device_name);
	return o;
}

void trace_forget(struct broker *b, const void *client)
{
	struct trace *t = b->trace;
	struct worker *w;

	if (!t || t->client != client)
		return;
	list_for_each (w, &b->workers, link)
		stop(w);
	json_object_put(t->names);
	json_object_put(t->sessions);
	free(t);
	b->trace = NULL;
}
