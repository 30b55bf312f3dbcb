/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table a level (device, tenant, session) says which member of weftd's answer is which
 * metric. One that weftd's answer lacks, because weftd is older, is left out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/macros.h"
#include "exporter/page.h"
#include "exporter/text.h"
#include "tools/client.h"

#define LABELS_MAX 8
#define MIB        (double)(1 << 20)

enum unit {
	PLAIN,
	LIMIT,  /* "max" is infinity */
	MICROS, /* seconds */
	RATIO,  /* of 1, from per cent */
	MEBI,   /* MiB, from bytes */
};

/* Rows of one metric follow each other, each with another value of its label. */
struct row {
	const char *metric, *key; /* key: of the answer, or "OBJECT/KEY" */
	enum unit unit;
	const char *label, *value; /* one more label; NULL: none */
	const char *help;          /* NULL: as the row before */
};

#define COUNTER_SUFFIX "_total"

static const struct row device_rows[] = {
	{"weft_device_memory_size_bytes", "memory.total", PLAIN, NULL, NULL,
	 "Memory of the device."},
	{"weft_device_memory_used_bytes", "memory.current", PLAIN, NULL, NULL,
	 "Device memory that sessions and ready workers have."},
	{"weft_device_memory_free_bytes", "memory.free", PLAIN, NULL, NULL,
	 "Device memory that nobody has."},
	{"weft_device_utilization_ratio", "gpu.utilization", RATIO, NULL, NULL,
	 "Share of the last second in which a kernel ran, of any session."},
	{"weft_device_memory_utilization_ratio", "gpu.memory.utilization", RATIO, NULL,
	 NULL, "Share of the last second in which device memory was read or written."},
	{"weft_device_gpu_seconds_total", "gpu.time", MICROS, NULL, NULL,
	 "Time in which kernels ran, added up over all sessions that there were."},
	{"weft_draining", "draining", PLAIN, NULL, NULL,
	 "Whether weftd takes no new sessions (1)."},
	{"weft_sessions", "sessions.current", PLAIN, NULL, NULL, "Sessions that run."},
	{"weft_workers_ready", "workers.ready", PLAIN, NULL, NULL,
	 "Workers that wait for a guest."},
	{"weft_swap_size_bytes", "memory.swap.max", LIMIT, NULL, NULL,
	 "Host memory for device memory that is evicted ([daemon] swap)."},
	{"weft_swap_used_bytes", "memory.swap.current", PLAIN, NULL, NULL,
	 "Device memory that is evicted."},
	{"weft_host_memory_used_bytes", "host.current", PLAIN, NULL, NULL,
	 "Host memory that all tenants share with the device or make workers hold."},
	{"weft_host_memory_max_bytes", "host.max", LIMIT, NULL, NULL,
	 "Most of that ([daemon] host.max)."},
};

/* As dcgm-exporter names and measures them, for dashboards that know these. */
static const struct row dcgm_rows[] = {
	{"DCGM_FI_DEV_GPU_UTIL", "gpu.utilization", PLAIN, NULL, NULL,
	 "GPU utilization (in %), as Weft sees it."},
	{"DCGM_FI_DEV_MEM_COPY_UTIL", "gpu.memory.utilization", PLAIN, NULL, NULL,
	 "Memory utilization (in %), as Weft sees it."},
	{"DCGM_FI_DEV_FB_TOTAL", "memory.total", MEBI, NULL, NULL,
	 "Framebuffer memory (in MiB), as Weft sees it."},
	{"DCGM_FI_DEV_FB_USED", "memory.current", MEBI, NULL, NULL,
	 "Framebuffer memory used (in MiB), as Weft sees it."},
	{"DCGM_FI_DEV_FB_FREE", "memory.free", MEBI, NULL, NULL,
	 "Framebuffer memory free (in MiB), as Weft sees it."},
};

#define REFUSED(kind)                                                                    \
	{                                                                                \
		"weft_tenant_refused_total", "refused/" kind, PLAIN, "kind", kind, NULL  \
	}
#define EVENT(event)                                                                     \
	{                                                                                \
		"weft_tenant_memory_events_total", "memory.events/" event, PLAIN,        \
			"event", event, NULL                                             \
	}

static const struct row tenant_rows[] = {
	{"weft_tenant_sessions", "sessions.current", PLAIN, NULL, NULL,
	 "Its sessions that run."},
	{"weft_tenant_draining", "draining", PLAIN, NULL, NULL,
	 "Whether it gets no new sessions (1)."},
	{"weft_tenant_sessions_max", "sessions.max", PLAIN, NULL, NULL,
	 "Most sessions at once (sessions.max)."},
	{"weft_tenant_sessions_total", "sessions.total", PLAIN, NULL, NULL,
	 "Sessions that have begun."},
	{"weft_tenant_sessions_waiting", "sessions.waiting", PLAIN, NULL, NULL,
	 "Guest processes that wait for a worker."},
	{"weft_tenant_lanes", "lanes.current", PLAIN, NULL, NULL,
	 "Lanes of its programs' threads."},
	{"weft_tenant_lanes_max", "lanes.max", PLAIN, NULL, NULL,
	 "Most lanes at once (lanes.max)."},
	{"weft_tenant_utilization_ratio", "gpu.utilization", RATIO, NULL, NULL,
	 "Share of the last second in which a kernel of its sessions ran."},
	{"weft_tenant_gpu_seconds_total", "gpu.time", MICROS, NULL, NULL,
	 "Time in which kernels of its sessions ran, added up over sessions."},
	{"weft_tenant_memory_used_bytes", "memory.current", PLAIN, NULL, NULL,
	 "Device memory that it has."},
	{"weft_tenant_memory_peak_bytes", "memory.peak", PLAIN, NULL, NULL,
	 "Most device memory that it had."},
	{"weft_tenant_memory_min_bytes", "memory.min", LIMIT, NULL, NULL,
	 "Device memory that is never evicted (memory.min)."},
	{"weft_tenant_memory_low_bytes", "memory.low", LIMIT, NULL, NULL,
	 "Device memory that is evicted last (memory.low)."},
	{"weft_tenant_memory_high_bytes", "memory.high", LIMIT, NULL, NULL,
	 "Device memory above which it is evicted (memory.high)."},
	{"weft_tenant_memory_max_bytes", "memory.max", LIMIT, NULL, NULL,
	 "Memory above which it is refused (memory.max)."},
	{"weft_tenant_memory_weight", "memory.weight", PLAIN, NULL, NULL,
	 "Weight of its fair share (memory.weight)."},
	{"weft_tenant_compute_weight", "compute.weight", PLAIN, NULL, NULL,
	 "Weight of its share of time (compute.weight)."},
	{"weft_tenant_compute_priority", "compute.priority", PLAIN, NULL, NULL,
	 "Priority of its work (compute.priority)."},
	{"weft_tenant_compute_seconds_total", "compute.stat/usage_usec", MICROS, NULL,
	 NULL, "Time of the device that it has had, shared among those that had work."},
	{"weft_tenant_compute_throttled_total", "compute.stat/nr_throttled", PLAIN, NULL,
	 NULL, "Times that it had had its quota of the device's time (compute.max)."},
	{"weft_tenant_compute_throttled_seconds_total", "compute.stat/throttled_usec",
	 MICROS, NULL, NULL, "Time for which it was held therefore."},
	{"weft_tenant_compute_stalled_seconds_total", "compute.stat/stalled_usec", MICROS,
	 NULL, NULL, "Time in which its sessions had work and not the device."},
	{"weft_tenant_compute_turns_total", "compute.stat/nr_turns", PLAIN, NULL, NULL,
	 "Times that its turn has begun after others had theirs."},
	{"weft_tenant_compute_waited_seconds_total", "compute.stat/waited_usec", MICROS,
	 NULL, NULL, "Time in which it had work and waited for its turn."},
	{"weft_tenant_swap_used_bytes", "memory.swap.current", PLAIN, NULL, NULL,
	 "Its memory that is evicted."},
	{"weft_tenant_swap_max_bytes", "memory.swap.max", LIMIT, NULL, NULL,
	 "Most memory that may be evicted (memory.swap.max)."},
	{"weft_tenant_swap_moved_bytes_total", "memory.stat/moved_out", PLAIN,
	 "direction", "out", "Bytes evicted (out) and made resident again (in)."},
	{"weft_tenant_swap_moved_bytes_total", "memory.stat/moved_in", PLAIN, "direction",
	 "in", NULL},
	{"weft_tenant_host_memory_used_bytes", "host.current", PLAIN, NULL, NULL,
	 "Host memory that it shares with the device."},
	{"weft_tenant_host_memory_max_bytes", "host.max", LIMIT, NULL, NULL,
	 "Most of that (host.max)."},
	{"weft_tenant_worker_memory_used_bytes", "worker.memory.current", PLAIN, NULL,
	 NULL, "Host memory that its workers hold for it."},
	{"weft_tenant_worker_memory_max_bytes", "worker.memory.max", LIMIT, NULL, NULL,
	 "Most of that (worker.memory.max)."},
	{"weft_tenant_calls_total", "used/calls", PLAIN, NULL, NULL,
	 "Commands of its programs."},
	{"weft_tenant_calls_answered_total", "used/calls.answered", PLAIN, NULL, NULL,
	 "Those that it waited for."},
	{"weft_tenant_launches_total", "used/launches", PLAIN, NULL, NULL,
	 "Kernels and graphs launched."},
	{"weft_tenant_copy_bytes_total", "used/copied.to_device", PLAIN, "direction",
	 "to_device", "Bytes that its programs copied."},
	{"weft_tenant_copy_bytes_total", "used/copied.from_device", PLAIN, "direction",
	 "from_device", NULL},
	{"weft_tenant_memory_events_total", "memory.events/low", PLAIN, "event", "low",
	 "Times that limits took effect (memory.events)."},
	EVENT("high"),
	EVENT("max"),
	EVENT("oom"),
	EVENT("reclaim"),
	EVENT("busy"),
	EVENT("frozen"),
	{"weft_tenant_refused_total", "refused/function", PLAIN, "kind", "function",
	 "Requests of its programs for what Weft does not have."},
	REFUSED("feature"),
	REFUSED("table"),
	REFUSED("slot"),
	REFUSED("attribute"),
	REFUSED("device"),
	REFUSED("others"),
};

static const struct row session_rows[] = {
	{"weft_session_age_seconds", "time", MICROS, NULL, NULL, "Time since it began."},
	{"weft_session_lanes", "lanes.current", PLAIN, NULL, NULL,
	 "Lanes of its threads."},
	{"weft_session_utilization_ratio", "gpu.utilization", RATIO, NULL, NULL,
	 "Share of the last second in which a kernel of it ran."},
	{"weft_session_gpu_seconds_total", "gpu.time", MICROS, NULL, NULL,
	 "Time in which kernels of it ran."},
	{"weft_session_memory_used_bytes", "memory.current", PLAIN, NULL, NULL,
	 "Device memory that it has."},
	{"weft_session_memory_peak_bytes", "memory.peak", PLAIN, NULL, NULL,
	 "Most device memory that it had."},
	{"weft_session_memory_waiting", "memory.waiting", PLAIN, NULL, NULL,
	 "Allocations of it that wait for memory."},
	{"weft_session_swap_used_bytes", "memory.swap.current", PLAIN, NULL, NULL,
	 "Its memory that is evicted."},
	{"weft_session_swap_moved_bytes_total", "memory.moved_out", PLAIN, "direction",
	 "out", "Bytes evicted (out) and made resident again (in)."},
	{"weft_session_swap_moved_bytes_total", "memory.moved_in", PLAIN, "direction",
	 "in", NULL},
	{"weft_session_worker_memory_used_bytes", "worker.memory.current", PLAIN, NULL,
	 NULL, "Host memory that its worker holds for it."},
	{"weft_session_calls_total", "calls", PLAIN, NULL, NULL,
	 "Commands of its program."},
	{"weft_session_calls_answered_total", "calls.answered", PLAIN, NULL, NULL,
	 "Those that it waited for."},
	{"weft_session_launches_total", "launches", PLAIN, NULL, NULL,
	 "Kernels and graphs launched."},
	{"weft_session_copy_bytes_total", "copied.to_device", PLAIN, "direction",
	 "to_device", "Bytes that the program copied."},
	{"weft_session_copy_bytes_total", "copied.from_device", PLAIN, "direction",
	 "from_device", NULL},
};

/* ---- values ---- */

static struct json_object *member(struct json_object *o, const char *key)
{
	const char *slash = strchr(key, '/');
	char outer[32];

	if (!slash)
		return json_get(o, key);
	snprintf(outer, sizeof(outer), "%.*s", (int)(slash - key), key);
	return json_get(json_get(o, outer), slash + 1);
}

static double scaled(double n, enum unit unit)
{
	switch (unit) {
	case PLAIN:
	case LIMIT:
		return n;
	case MICROS:
		return n / 1e6;
	case RATIO:
		return n / 100;
	case MEBI:
		return floor(n / MIB);
	}
	return NAN;
}

/* A number (a large one is text), 1 for yes, or infinity for "max". Returns false if there
 * is none. */
static bool value_of(struct json_object *o, const struct row *r, double *ret)
{
	struct json_object *v = member(o, r->key);
	const char *text = json_object_get_string(v);

	if (json_object_is_type(v, json_type_boolean)) {
		*ret = json_object_get_boolean(v);
		return true;
	}
	if (json_object_is_type(v, json_type_int)) {
		*ret = scaled((double)json_object_get_uint64(v), r->unit);
		return true;
	}
	if (!json_object_is_type(v, json_type_string))
		return false;
	if (*text >= '0' && *text <= '9')
		*ret = scaled((double)strtoull(text, NULL, 10), r->unit);
	else if (r->unit == LIMIT && !strcmp(text, "max"))
		*ret = INFINITY;
	else
		return false;
	return true;
}

static bool is_counter(const char *metric)
{
	size_t n = strlen(metric), m = strlen(COUNTER_SUFFIX);

	return n > m && !strcmp(metric + n - m, COUNTER_SUFFIX);
}

/* ---- levels ---- */

/* Labels that all samples of an object have, before a row's own. */
struct labels {
	struct text_label of[LABELS_MAX];
	unsigned n;
	char number[24]; /* a session's */
};

static void add_label(struct labels *l, const char *name, const char *value)
{
	l->of[l->n++] = (struct text_label){name, value};
}

static void label_device(struct json_object *o, struct labels *l)
{
	add_label(l, "gpu", "0");
	add_label(l, "modelName", json_str(o, "name"));
}

static void label_nothing(struct json_object *o, struct labels *l)
{
}

static void label_tenant(struct json_object *o, struct labels *l)
{
	add_label(l, "tenant", json_str(o, "name"));
	add_label(l, "vm_uuid", json_str(o, "vm.uuid"));
}

static void label_session(struct json_object *o, struct labels *l)
{
	add_label(l, "tenant", json_str(o, "tenant"));
	add_label(l, "vm_uuid", json_str(o, "vm.uuid"));
	snprintf(l->number, sizeof(l->number), "%llu",
		 (unsigned long long)json_u64(o, "session"));
	add_label(l, "session", l->number);
}

struct level {
	const struct row *rows;
	unsigned n;
	void (*label)(struct json_object *o, struct labels *l);
};

static void write_sample(struct text *t, const struct level *lv, const struct row *r,
			 struct json_object *o)
{
	struct labels l = {0};
	double value = 0;

	if (!value_of(o, r, &value))
		return;
	lv->label(o, &l);
	if (r->label)
		add_label(&l, r->label, r->value);
	text_sample(t, r->metric, l.of, value);
}

/* Writes all rows of all objects: the format wants a metric's samples together. */
static void write_level(struct text *t, const struct level *lv, struct json_object *list)
{
	if (!json_count(list))
		return;
	for (unsigned i = 0, next; i < lv->n; i = next) {
		const struct row *r = &lv->rows[i];

		for (next = i + 1; next < lv->n && !lv->rows[next].help;)
			next++;
		text_metric(t, r->metric, is_counter(r->metric) ? "counter" : "gauge",
			    r->help);
		for (size_t k = 0; k < json_count(list); k++) {
			for (unsigned j = i; j < next; j++)
				write_sample(t, lv, &lv->rows[j],
					     json_object_array_get_idx(list, k));
		}
	}
}

/* ---- what tells of things in labels ---- */

static void write_one(struct text *t, const char *name, const char *help, double value)
{
	const struct text_label none[] = {{NULL, NULL}};

	text_metric(t, name, is_counter(name) ? "counter" : "gauge", help);
	text_sample(t, name, none, value);
}

static void write_build(struct text *t, struct json_object *answer)
{
	const struct text_label l[] = {{"version", json_str(answer, "version")},
				       {"exporter_version", WEFT_VERSION},
				       {NULL, NULL}};

	text_metric(t, "weft_build_info", "gauge", "Versions; always 1.");
	text_sample(t, "weft_build_info", l, 1);
}

static void write_model(struct text *t, struct json_object *device)
{
	const struct text_label l[] = {{"name", json_str(device, "name")}, {NULL, NULL}};

	text_metric(t, "weft_device_info", "gauge", "Name of the device; always 1.");
	text_sample(t, "weft_device_info", l, 1);
}

/* The program's name is the guest's own text: it is a label of this metric alone. */
static void write_programs(struct text *t, struct json_object *sessions)
{
	char pid[24];

	if (!json_count(sessions))
		return;
	text_metric(
		t, "weft_session_info", "gauge",
		"Program, process number in the guest, carrier, and whether it computes "
		"or draws (kind); always 1.");
	for (size_t i = 0; i < json_count(sessions); i++) {
		struct json_object *o = json_object_array_get_idx(sessions, i);
		struct labels l = {0};

		label_session(o, &l);
		snprintf(pid, sizeof(pid), "%llu",
			 (unsigned long long)json_u64(o, "pid"));
		add_label(&l, "program", json_str(o, "name"));
		add_label(&l, "pid", pid);
		add_label(&l, "carrier", json_str(o, "carrier"));
		add_label(&l, "kind", json_str(o, "kind"));
		text_sample(t, "weft_session_info", l.of, 1);
	}
}

/* ---- the page ---- */

static void write_device(struct text *t, struct json_object *device, bool dcgm)
{
	static const struct level own = {device_rows, ARRAY_SIZE(device_rows),
					 label_nothing};
	static const struct level others = {dcgm_rows, ARRAY_SIZE(dcgm_rows),
					    label_device};
	struct json_object *list = json_object_new_array();

	write_model(t, device);
	json_object_array_add(list, json_object_get(device));
	write_level(t, &own, list);
	if (dcgm)
		write_level(t, &others, list);
	json_object_put(list);
}

void page_write(struct text *t, const struct answers *a, bool dcgm)
{
	static const struct level tenant = {tenant_rows, ARRAY_SIZE(tenant_rows),
					    label_tenant};
	static const struct level session = {session_rows, ARRAY_SIZE(session_rows),
					     label_session};
	struct json_object *sessions = json_get(a->list, "sessions");

	write_one(t, "weft_up", "Whether weftd answered (1) or not (0).",
		  a->list != NULL);
	write_one(t, "weft_scrape_duration_seconds", "Time that weftd took to answer.",
		  a->seconds);
	if (!a->list)
		return;
	write_build(t, a->list);
	write_device(t, json_get(a->list, "device"), dcgm);
	write_level(t, &tenant, json_get(a->list, "tenants"));
	write_one(t, "weft_sessions_left_out",
		  "Sessions that are not shown, since there are too many (--sessions).",
		  (double)a->sessions_left_out);
	write_programs(t, sessions);
	write_level(t, &session, sessions);
}
