/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "tools/client.h"
#include "tools/ctl/top_view.h"
#include "util/size.h"

#define USEC       1000000.0
#define NAME_LEAST 24u /* columns; before it gets less, columns at the right go */

static const char *const sort_names[TOP_NUM_SORTS] = {
	[TOP_NAME] = "name",         [TOP_GPU] = "gpu",   [TOP_TIME] = "time",
	[TOP_MEMORY] = "memory",     [TOP_SWAP] = "swap", [TOP_WAITING] = "waiting",
	[TOP_SESSIONS] = "sessions",
};

enum top_sort top_sort_find(const char *name)
{
	unsigned i = 0;

	while (i < TOP_NUM_SORTS && strcmp(name, sort_names[i]) != 0)
		i++;
	return (enum top_sort)i;
}

const char *top_sort_names(void)
{
	return "name, gpu, time, memory, swap, waiting, sessions";
}

/* ---- reading ---- */

/* Names of programs are guests' text. */
static void copy_text(char *to, size_t room, const char *from)
{
	size_t i;

	for (i = 0; i + 1 < room && from[i]; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	to[i] = '\0';
}

static int by_number(const void *a, const void *b)
{
	const struct top_row *p = a, *q = b;

	return (p->session > q->session) - (p->session < q->session);
}

/* A counter may be smaller than before where somebody else answers. */
static double rate(uint64_t now, uint64_t before, double seconds)
{
	return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static void add_rates(const struct top_view *v, struct top_row *row, uint64_t now_us)
{
	double seconds = (double)(now_us - v->at_us) / USEC;
	const struct top_row *was = NULL;

	if (v->n_before)
		was = bsearch(row, v->before, v->n_before, sizeof(*row), by_number);
	if (!was)
		return;
	row->launches_s = rate(row->launches, was->launches, seconds);
	row->copied_s = rate(row->copied, was->copied, seconds);
}

static void read_tenant(struct top_row *row, struct json_object *o)
{
	copy_text(row->name, sizeof(row->name), json_str(o, "name"));
	row->sessions = json_u64(o, "sessions.current");
	row->waiting = json_u64(o, "sessions.waiting");
	row->max = json_u64(o, "memory.max");
	row->drains = json_object_get_boolean(json_get(o, "draining"));
}

static void read_session(struct top_row *row, struct json_object *o)
{
	copy_text(row->name, sizeof(row->name), json_str(o, "tenant"));
	copy_text(row->program, sizeof(row->program), json_str(o, "name"));
	copy_text(row->kind, sizeof(row->kind), json_str(o, "kind"));
	row->session = json_u64(o, "session");
	row->pid = json_u64(o, "pid");
	row->waiting = json_u64(o, "memory.waiting");
	row->age_us = json_u64(o, "time");
	row->launches = json_u64(o, "launches");
	row->copied = json_u64(o, "copied.to_device") + json_u64(o, "copied.from_device");
}

static void read_device(struct top_view *v, struct json_object *a)
{
	struct json_object *d = json_get(a, "device"), *list = json_get(a, "tenants");

	copy_text(v->device, sizeof(v->device), json_str(d, "name"));
	v->memory = json_u64(d, "memory.current");
	v->memory_total = json_u64(d, "memory.total");
	v->swap = json_u64(d, "memory.swap.current");
	v->swap_max = json_u64(d, "memory.swap.max");
	v->busy = json_u64(d, "gpu.utilization");
	v->drains = json_object_get_boolean(json_get(d, "draining"));
	v->n_sessions = json_u64(d, "sessions.current");
	v->n_tenants = json_count(list);
	v->n_waiting = 0;
	for (size_t i = 0; i < v->n_tenants; i++)
		v->n_waiting +=
			json_u64(json_object_array_get_idx(list, i), "sessions.waiting");
}

static void keep_before(struct top_view *v)
{
	free(v->before);
	v->before = NULL;
	v->n_before = 0;
	if (!v->n || !v->rows[0].session) {
		free(steal(v->rows));
		return;
	}
	v->before = steal(v->rows);
	v->n_before = v->n;
	qsort(v->before, v->n_before, sizeof(*v->before), by_number);
}

int top_read(struct top_view *v, struct json_object *answer, uint64_t now_us)
{
	struct json_object *list =
		json_get(answer, v->by_session ? "sessions" : "tenants");
	size_t n = json_count(list);

	read_device(v, answer);
	keep_before(v);
	v->n = 0;
	v->rows = calloc(MAX(n, (size_t)1), sizeof(*v->rows));
	if (!v->rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		struct top_row *row = &v->rows[v->n];

		*row = (struct top_row){.memory = json_u64(o, "memory.current"),
					.swap = json_u64(o, "memory.swap.current"),
					.busy = json_u64(o, "gpu.utilization"),
					.gpu_us = json_u64(o, "gpu.time")};
		if (v->by_session)
			read_session(row, o);
		else
			read_tenant(row, o);
		if (!v->by_session && v->hide_idle && !row->sessions && !row->waiting)
			continue;
		if (v->by_session)
			add_rates(v, row, now_us);
		v->n++;
	}
	v->at_us = now_us;
	top_sort(v);
	return 0;
}

void top_fini(struct top_view *v)
{
	free(v->rows);
	free(v->before);
	*v = (struct top_view){0};
}

/* ---- sorting ---- */

static uint64_t key_of(const struct top_view *v, const struct top_row *row)
{
	switch (v->sort) {
	case TOP_GPU:
		return row->busy;
	case TOP_TIME:
		return v->by_session ? row->age_us : row->gpu_us;
	case TOP_MEMORY:
		return row->memory;
	case TOP_SWAP:
		return row->swap;
	case TOP_WAITING:
		return row->waiting;
	case TOP_SESSIONS:
		return v->by_session ? (uint64_t)row->launches_s : row->sessions;
	case TOP_NAME:
	case TOP_NUM_SORTS:
		break;
	}
	return 0;
}

/* Numbers from the largest on, names from A on; of equals those with more sessions first,
 * then by name and number. */
static int compare(const void *a, const void *b, void *arg)
{
	const struct top_row *p = a, *q = b;
	const struct top_view *v = arg;
	uint64_t x = key_of(v, p), y = key_of(v, q);
	int r = (x < y) - (x > y);

	if (!r && v->sort != TOP_NAME)
		r = (p->sessions < q->sessions) - (p->sessions > q->sessions);
	if (!r)
		r = strcmp(p->name, q->name);
	if (!r)
		r = by_number(p, q);
	return v->reverse ? -r : r;
}

void top_sort(struct top_view *v)
{
	if (v->n)
		qsort_r(v->rows, v->n, sizeof(*v->rows), compare, v);
}

/* ---- cells ---- */

typedef void cell_fn(const struct top_view *v, const struct top_row *row, char *buf,
		     size_t room);

static void put_size(const struct top_view *v, uint64_t bytes, char *buf, size_t room)
{
	if (v->bytes && bytes != UINT64_MAX)
		snprintf(buf, room, "%" PRIu64, bytes);
	else
		size_format(bytes, buf, room);
}

static void cell_sessions(const struct top_view *v, const struct top_row *row, char *buf,
			  size_t room)
{
	snprintf(buf, room, "%s%" PRIu64, row->drains ? "drains " : "", row->sessions);
}

static void cell_waiting(const struct top_view *v, const struct top_row *row, char *buf,
			 size_t room)
{
	snprintf(buf, room, "%" PRIu64, row->waiting);
}

static void cell_busy(const struct top_view *v, const struct top_row *row, char *buf,
		      size_t room)
{
	snprintf(buf, room, "%" PRIu64, row->busy);
}

static void cell_gpu_time(const struct top_view *v, const struct top_row *row, char *buf,
			  size_t room)
{
	time_format(row->gpu_us, buf, room);
}

static void cell_memory(const struct top_view *v, const struct top_row *row, char *buf,
			size_t room)
{
	put_size(v, row->memory, buf, room);
}

static void cell_swap(const struct top_view *v, const struct top_row *row, char *buf,
		      size_t room)
{
	put_size(v, row->swap, buf, room);
}

static void cell_max(const struct top_view *v, const struct top_row *row, char *buf,
		     size_t room)
{
	put_size(v, row->max, buf, room);
}

static void cell_session(const struct top_view *v, const struct top_row *row, char *buf,
			 size_t room)
{
	snprintf(buf, room, "%" PRIu64, row->session);
}

static void cell_program(const struct top_view *v, const struct top_row *row, char *buf,
			 size_t room)
{
	snprintf(buf, room, "%s", row->program);
}

static void cell_kind(const struct top_view *v, const struct top_row *row, char *buf,
		      size_t room)
{
	snprintf(buf, room, "%s", row->kind);
}

static void cell_pid(const struct top_view *v, const struct top_row *row, char *buf,
		     size_t room)
{
	snprintf(buf, room, "%" PRIu64, row->pid);
}

static void cell_launches(const struct top_view *v, const struct top_row *row, char *buf,
			  size_t room)
{
	snprintf(buf, room, "%.0f", row->launches_s);
}

static void cell_copied(const struct top_view *v, const struct top_row *row, char *buf,
			size_t room)
{
	put_size(v, (uint64_t)row->copied_s, buf, room);
}

static void cell_age(const struct top_view *v, const struct top_row *row, char *buf,
		     size_t room)
{
	time_format(row->age_us, buf, room);
}

/* ---- lines ---- */

/* The first is the tenant's name, which gets what the others leave. */
static const struct column {
	const char *title;
	unsigned width;
	bool left;
	cell_fn *cell;
} tenant_columns[] =
	{
		{"GPU%", 4, false, cell_busy},
		{"MEMORY", 10, false, cell_memory},
		{"SWAP", 10, false, cell_swap},
		{"SESSIONS", 9, false, cell_sessions},
		{"WAIT", 5, false, cell_waiting},
		{"MAX", 10, false, cell_max},
		{"GPUTIME", 10, false, cell_gpu_time},
},
  session_columns[] = {
	  {"SESSION", 7, false, cell_session},   {"PROGRAM", 16, true, cell_program},
	  {"GPU%", 4, false, cell_busy},         {"MEMORY", 10, false, cell_memory},
	  {"SWAP", 10, false, cell_swap},        {"WAIT", 5, false, cell_waiting},
	  {"LAUNCH/s", 8, false, cell_launches}, {"COPY/s", 10, false, cell_copied},
	  {"TIME", 10, false, cell_age},         {"PID", 8, false, cell_pid},
	  {"KIND", 8, true, cell_kind},
};

struct layout {
	const struct column *columns;
	unsigned n, name;
};

static unsigned longest_name(const struct top_view *v)
{
	size_t n = strlen("TENANT");

	for (unsigned i = 0; i < v->n; i++)
		n = MAX(n, strlen(v->rows[i].name));
	return (unsigned)n;
}

static struct layout lay_out(const struct top_view *v, unsigned width)
{
	struct layout l = {tenant_columns, ARRAY_SIZE(tenant_columns), 0};
	unsigned wants = longest_name(v), used = 0;

	if (v->by_session) {
		l.columns = session_columns;
		l.n = ARRAY_SIZE(session_columns);
	}
	for (unsigned i = 0; i < l.n; i++)
		used += l.columns[i].width + 1 + (v->bytes ? 4 : 0);
	while (l.n && used + MIN(wants, NAME_LEAST) > width)
		used -= l.columns[--l.n].width + 1 + (v->bytes ? 4 : 0);
	l.name = MIN(wants, width > used ? width - used : 1);
	return l;
}

/* Text that is too long loses its middle: names of machines differ at their ends. */
static void cut(char *text, unsigned width)
{
	size_t n = strlen(text), tail = width / 4;

	if (n <= width)
		return;
	if (width < 4) {
		text[width] = '\0';
		return;
	}
	text[width - tail - 1] = '~';
	memmove(text + width - tail, text + n - tail, tail + 1);
}

/* A line out of a name and cells; row NULL: the titles. */
static void put_line(const struct top_view *v, const struct top_row *row, unsigned width,
		     char *buf)
{
	struct layout l = lay_out(v, MIN(width, TOP_LINE - 1));
	char cell[64];
	size_t n;

	snprintf(cell, sizeof(cell), "%s", row ? row->name : "TENANT");
	cut(cell, l.name);
	n = (size_t)snprintf(buf, TOP_LINE, "%-*s", (int)l.name, cell);
	for (unsigned i = 0; i < l.n; i++) {
		unsigned w = l.columns[i].width + (v->bytes ? 4 : 0);

		if (row)
			l.columns[i].cell(v, row, cell, sizeof(cell));
		else
			snprintf(cell, sizeof(cell), "%s", l.columns[i].title);
		cut(cell, w);
		n += (size_t)snprintf(buf + n, TOP_LINE - n,
				      l.columns[i].left ? " %-*s" : " %*s", (int)w, cell);
	}
	while (n && buf[n - 1] == ' ')
		n--;
	buf[n] = '\0';
}

void top_titles(const struct top_view *v, unsigned width, char *buf)
{
	put_line(v, NULL, width, buf);
}

void top_line(const struct top_view *v, unsigned i, unsigned width, char *buf)
{
	put_line(v, &v->rows[i], width, buf);
}

/* "Memory [|||||     ] text" */
static void put_bar(const char *title, uint64_t part, uint64_t all, const char *text,
		    unsigned width, char *buf)
{
	unsigned room = MIN(width, 120u), bar, filled, n;

	bar = room > strlen(text) + 14 ? room - (unsigned)strlen(text) - 14 : 0;
	filled =
		all ? (unsigned)((double)bar * (double)MIN(part, all) / (double)all + 0.5)
		    : 0;
	n = (unsigned)snprintf(buf, TOP_LINE, "%-7s", title);
	if (bar)
		buf[n++] = '[';
	for (unsigned i = 0; i < bar; i++)
		buf[n++] = i < filled ? '|' : ' ';
	if (bar)
		buf[n++] = ']';
	snprintf(buf + n, TOP_LINE - n, " %s", text);
}

static void put_memory(const struct top_view *v, const char *title, uint64_t part,
		       uint64_t all, unsigned width, char *buf)
{
	char a[32], b[32], text[80];

	put_size(v, part, a, sizeof(a));
	put_size(v, all, b, sizeof(b));
	snprintf(text, sizeof(text), "%s of %s", a, b);
	put_bar(title, part, all, text, width, buf);
}

bool top_head(const struct top_view *v, unsigned i, unsigned width, char *buf)
{
	char text[16];

	switch (i) {
	case 0:
		snprintf(buf, TOP_LINE,
			 "%s: %" PRIu64 " tenants, %" PRIu64 " sessions, %" PRIu64
			 " wait%s",
			 v->device, v->n_tenants, v->n_sessions, v->n_waiting,
			 v->drains ? ", drains" : "");
		break;
	case 1:
		snprintf(text, sizeof(text), "%" PRIu64 " %%",
			 MIN(v->busy, (uint64_t)100));
		put_bar("GPU", v->busy, 100, text, width, buf);
		break;
	case 2:
		put_memory(v, "Memory", v->memory, v->memory_total, width, buf);
		break;
	case 3:
		if (v->swap_max) {
			put_memory(v, "Swap", v->swap, v->swap_max, width, buf);
			break;
		}
		return false;
	default:
		return false;
	}
	if (width < TOP_LINE)
		buf[width] = '\0';
	return true;
}
