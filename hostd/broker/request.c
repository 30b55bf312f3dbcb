/* SPDX-License-Identifier: Apache-2.0 */
/* Requests at the control socket; weftd(8) lists them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/output.h"
#include "broker/control.h"
#include "broker/keep/changes.h"
#include "broker/operator/describe.h"
#include "broker/operator/drain.h"
#include "broker/operator/events.h"
#include "broker/operator/trace.h"
#include "broker/memory/waiters.h"
#include "broker/operator/kernels.h"
#include "broker/refused.h"
#include "broker/reply.h"
#include "broker/request.h"
#include "broker/tenant.h"
#include "broker/tenants.h"
#include "broker/window.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "util/conf.h"
#include "util/size.h"

#define PROTOCOL 1 /* of doc/control-protocol.md */

/* In an answer, roughly, which must fit into a socket's buffer. */
#define KERNELS_MAX 256

static const char *get_str(struct json_object *q, const char *key)
{
	struct json_object *v;

	if (!json_object_object_get_ex(q, key, &v))
		return NULL;
	return json_object_get_string(v);
}

/* ---- what there is ---- */

/* Limits of a list; unset: everything. */
struct selection {
	const char *tenant;
	uint64_t session, after; /* only this one; only later ones */
};

static struct selection select_from(struct json_object *q)
{
	struct selection s = {.tenant = get_str(q, "tenant")};
	struct json_object *v;

	if (json_object_object_get_ex(q, "session", &v))
		s.session = json_object_get_uint64(v);
	if (json_object_object_get_ex(q, "after", &v))
		s.after = json_object_get_uint64(v);
	return s;
}

static bool selected(const struct selection *s, const char *tenant, uint64_t session)
{
	return (!s->tenant || !strcmp(s->tenant, tenant)) &&
	       (!s->session || s->session == session) && session > s->after;
}

static int by_session(const void *a, const void *b)
{
	struct json_object *const *p = a, *const *q = b, *v, *w;

	json_object_object_get_ex(*p, "session", &v);
	json_object_object_get_ex(*q, "session", &w);
	return json_object_get_uint64(v) < json_object_get_uint64(w) ? -1 : 1;
}

static struct json_object *list_sessions(struct broker *b, const struct selection *sel)
{
	struct json_object *a = json_object_new_array();
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_SESSION &&
		    selected(sel, w->tenant->name, w->session))
			json_object_array_add(a, describe_session(w));
	}
	json_object_array_sort(a, by_session);
	return a;
}

static struct json_object *list_tenants(struct broker *b, const struct selection *sel)
{
	struct json_object *a = json_object_new_array();
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		if (!sel->tenant || !strcmp(sel->tenant, t->name))
			json_object_array_add(a, describe_tenant(t));
	}
	return a;
}

static struct json_object *list_ended(struct broker *b, const struct selection *sel)
{
	struct json_object *a = json_object_new_array();
	unsigned first = b->n_history > HISTORY_MAX ? b->n_history - HISTORY_MAX : 0;

	for (unsigned i = first; i < b->n_history; i++) {
		const struct session_record *h = &b->history[i % HISTORY_MAX];

		if (selected(sel, h->tenant, h->session))
			json_object_array_add(a, describe_record(h));
	}
	return a;
}

/* Adds the refusals of all sessions selected, running and ended. */
static void add_refused(struct broker *b, const struct selection *sel,
			struct json_object *o)
{
	unsigned first = b->n_history > HISTORY_MAX ? b->n_history - HISTORY_MAX : 0;
	struct refused_list sum = {0}, l;
	struct tenant *t;
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->state != WORKER_SESSION ||
		    !selected(sel, w->tenant->name, w->session) ||
		    refused_read(w->count, &l) < 0)
			continue;
		refused_add(&sum, &l);
		refused_fini(&l);
	}
	for (unsigned i = first; i < b->n_history; i++) {
		const struct session_record *h = &b->history[i % HISTORY_MAX];

		if (selected(sel, h->tenant, h->session))
			refused_add(&sum, &h->refused);
	}
	list_for_each (t, &b->tenants, link) {
		if (!sel->after && selected(sel, t->name, UINT64_MAX))
			refused_add_strangers(&sum, &t->strangers);
	}
	json_object_object_add(o, "refused", refused_describe(&sum));
	reply_u64(o, "refused.others", sum.others);
	refused_fini(&sum);
}

/* Kernels of all running sessions selected. */
static struct json_object *list_kernels(struct broker *b, const struct selection *sel)
{
	struct json_object *a = json_object_new_array();
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_SESSION &&
		    selected(sel, w->tenant->name, w->session) &&
		    json_object_array_length(a) < KERNELS_MAX)
			kernels_add(w, a);
	}
	return a;
}

static struct json_object *request_list(struct broker *b, struct json_object *q,
					void *client)
{
	struct selection sel = select_from(q);
	struct json_object *o = reply_ok();

	reply_str(o, "version", WEFT_VERSION);
	reply_u64(o, "sessions.last", b->next_session);
	json_object_object_add(o, "device", describe_device(b));
	json_object_object_add(o, "tenants", list_tenants(b, &sel));
	json_object_object_add(o, "sessions", list_sessions(b, &sel));
	return o;
}

static bool has_session(struct broker *b, uint64_t session)
{
	unsigned first = b->n_history > HISTORY_MAX ? b->n_history - HISTORY_MAX : 0;
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_SESSION && w->session == session)
			return true;
	}
	for (unsigned i = first; i < b->n_history; i++) {
		if (b->history[i % HISTORY_MAX].session == session)
			return true;
	}
	return false;
}

/* An answer if what is asked for is not there, else NULL. */
static struct json_object *check_selection(struct broker *b, const struct selection *sel)
{
	if (sel->tenant && !tenant_find(b, sel->tenant))
		return reply_no_tenant(b, sel->tenant);
	if (sel->session && !has_session(b, sel->session))
		return reply_error(-ESRCH, "no session %llu",
				   (unsigned long long)sel->session);
	return NULL;
}

static struct json_object *request_info(struct broker *b, struct json_object *q,
					void *client)
{
	struct selection sel = select_from(q);
	struct json_object *o = check_selection(b, &sel);

	if (o)
		return o;
	o = request_list(b, q, client);
	json_object_object_add(o, "ended", list_ended(b, &sel));
	json_object_object_add(o, "kernels", list_kernels(b, &sel));
	add_refused(b, &sel, o);
	return o;
}

/* ---- what can be done ---- */

static void post_killed(const struct worker *w, const char *by)
{
	struct json_object *e = event_new(w->b, "session.killed", w->tenant, w->session);

	reply_str(e, "by", by);
	event_post(w->b, e);
}

static struct json_object *request_kill(struct broker *b, struct json_object *q,
					void *client)
{
	struct selection sel = select_from(q);
	struct json_object *o;
	struct worker *w;
	unsigned n = 0;

	if (!sel.tenant && !sel.session)
		return reply_error(-EINVAL, "neither a session nor a tenant is given");
	o = check_selection(b, &sel);
	if (o)
		return o;
	list_for_each (w, &b->workers, link) {
		if (w->state != WORKER_SESSION ||
		    !selected(&sel, w->tenant->name, w->session))
			continue;
		log_info("tenant %s session %llu: killed (%s)", w->tenant->name,
			 (unsigned long long)w->session, control_who(client));
		post_killed(w, control_who(client));
		worker_kill(w);
		n++;
	}
	o = reply_ok();
	reply_u64(o, "killed", n);
	return o;
}

/* Keys that weftd.conf knows, from the request's "set" object. NULL, or an answer. */
static struct json_object *apply_keys(struct conf_tenant *ct, struct json_object *q)
{
	struct json_object *set;

	if (!json_object_object_get_ex(q, "set", &set))
		return NULL;
	if (!json_object_is_type(set, json_type_object))
		return reply_error(-EINVAL, "\"set\" is no object");
	json_object_object_foreach(set, key, value)
	{
		const char *text = json_object_get_string(value);
		_cleanup_free_ char *why = NULL;
		int r = conf_tenant_set(ct, key, text ? text : "");

		if (r == 0)
			continue;
		why = conf_error(key, text ? text : "", r);
		return reply_error(r, "%s", why ? why : key);
	}
	return NULL;
}

/* The keys of a request that was granted, or NULL. */
static struct json_object *get_set(struct json_object *q)
{
	struct json_object *set = NULL;

	json_object_object_get_ex(q, "set", &set);
	return set;
}

static struct json_object *reply_tenant(struct tenant *t, bool existed)
{
	struct json_object *o = reply_ok();

	json_object_object_add(o, "tenant", describe_tenant(t));
	json_object_object_add(o, "existed", json_object_new_boolean(existed));
	return o;
}

/* Makes a tenant of what the configuration has now. NULL, or an answer. */
static struct json_object *start_tenant(struct broker *b, const struct conf_tenant *ct,
					struct tenant **ret)
{
	struct json_object *o;
	int r;

	if (conf_complete(b->conf) < 0)
		return reply_error(-ENOMEM, "out of memory");
	o = reply_contradiction(b);
	if (o)
		return o;
	r = tenant_new(b, ct, ret);
	if (r < 0)
		return reply_error(r, "%s", b->why);
	return NULL;
}

static struct json_object *add_tenant(struct broker *b, struct json_object *q,
				      const char *name, struct tenant **ret)
{
	struct conf_tenant *ct = conf_tenant_new(name);
	struct json_object *o;

	if (!ct)
		return reply_error(-ENOMEM, "out of memory");
	ct->added = true;
	list_append(&b->conf->tenants, &ct->link);
	o = apply_keys(ct, q);
	if (!o)
		o = start_tenant(b, ct, ret);
	if (o) {
		list_remove(&ct->link);
		conf_tenant_free(ct);
	}
	return o;
}

/* Names the keys that were set, as far as they fit. */
static void say_added(const char *name, struct json_object *q, const char *by)
{
	struct json_object *set = NULL;
	char keys[600] = "";
	size_t n = 0;

	if (json_object_object_get_ex(q, "set", &set)) {
		json_object_object_foreach(set, key, value)
		{
			const char *text = json_object_get_string(value);

			if (n < sizeof(keys))
				n += (size_t)snprintf(keys + n, sizeof(keys) - n,
						      "%s %s = %s", n ? "," : ":", key,
						      text ? text : "");
		}
	}
	clean_text(keys);
	log_info("tenant %s: added%s (%s)", name, keys, by);
}

static struct json_object *request_tenant_add(struct broker *b, struct json_object *q,
					      void *client)
{
	const char *name = get_str(q, "name");
	const char *why = name ? conf_name_error(name) : "the request names no tenant";
	struct json_object *o;
	struct tenant *t;

	if (why)
		return reply_error(-EINVAL, "%s", why);
	t = tenant_find(b, name);
	if (t)
		return reply_tenant(t, true);
	o = add_tenant(b, q, name, &t);
	if (o || !t)
		return o;
	changes_add(name, get_set(q));
	say_added(name, q, control_who(client));
	tenant_post(t, "tenant.added", control_who(client));
	return reply_tenant(t, false);
}

static void removed(void *client)
{
	control_answer(client, reply_ok());
}

/* Answers when all of it has ended. */
static struct json_object *request_tenant_remove(struct broker *b, struct json_object *q,
						 void *client)
{
	const char *name = get_str(q, "name");
	struct tenant *t = name ? tenant_find(b, name) : NULL;
	struct conf_tenant *ct;

	if (!t)
		return reply_no_tenant(b, name);
	if (!strcmp(name, CONF_LOCAL))
		return reply_error(
			-EPERM, "tenant local is there as long as weftd is; to end its "
				"sessions: weftctl kill local");
	ct = conf_tenant_find(b->conf, name);
	log_info("tenant %s: removed (%s)", name, control_who(client));
	tenant_post(t, "tenant.removed", control_who(client));
	tenant_remove_files(t);
	/* From here on a weftd after this one knows nothing of what would be left. */
	changes_remove(name);
	tenant_remove(t, removed, client);
	if (ct) {
		list_remove(&ct->link);
		conf_tenant_free(ct);
	}
	return NULL;
}

static struct json_object *request_ping(struct broker *b, struct json_object *q,
					void *client)
{
	struct json_object *o = reply_ok();

	reply_str(o, "version", WEFT_VERSION);
	reply_u64(o, "pid", (uint64_t)getpid());
	return o;
}

/* A tenant, or all of weftd; answers how many sessions go on. */
static struct json_object *request_drain(struct broker *b, struct json_object *q,
					 void *client)
{
	const char *name = get_str(q, "tenant");
	struct tenant *t = name ? tenant_find(b, name) : NULL;
	struct json_object *o, *v;
	bool on = true;

	if (name && !t)
		return reply_no_tenant(b, name);
	if (json_object_object_get_ex(q, "undo", &v))
		on = !json_object_get_boolean(v);
	if (t)
		drain_tenant(t, on, control_who(client));
	else
		drain_all(b, on, control_who(client));
	o = reply_ok();
	reply_u64(o, "sessions.current", t ? t->n_sessions : b->n_sessions);
	reply_bool(o, "draining", on);
	return o;
}

static void post_stopping(struct broker *b, const char *by)
{
	struct json_object *e = event_new(b, "weftd.stopping", NULL, 0);

	reply_str(e, "by", by);
	event_post(b, e);
}

static struct json_object *request_shutdown(struct broker *b, struct json_object *q,
					    void *client)
{
	log_info("ends: shutdown (%s)", control_who(client));
	post_stopping(b, control_who(client));
	b->stop = true;
	return reply_ok();
}

static void reclaimed(void *client, uint64_t bytes)
{
	struct json_object *o = reply_ok();

	reply_u64(o, "bytes", bytes);
	control_answer(client, o);
}

/* Answers when it is done. */
static struct json_object *request_reclaim(struct broker *b, struct json_object *q,
					   void *client)
{
	const char *name = get_str(q, "name"), *size = get_str(q, "bytes");
	struct tenant *t = name ? tenant_find(b, name) : NULL;
	uint64_t bytes;
	int r;

	if (!t)
		return reply_no_tenant(b, name);
	if (!size || size_parse(size, &bytes) < 0)
		return reply_error(-EINVAL, "\"%s\" is no size: 1536M, 1.5G, 1GiB, max",
				   size ? size : "");
	if (!b->swap)
		return reply_error(-EOPNOTSUPP, "nothing can move: weftd has no swap "
						"(weftd.conf, [daemon] swap)");
	r = waiters_operator(t, bytes, clock_now_ns(), reclaimed, client);
	return r < 0 ? reply_error(r, "out of memory") : NULL;
}

static bool had_tenant(const struct broker *b, const char *name)
{
	for (uint64_t n = events_first(b); n <= events_last(b); n++) {
		if (!strcmp(events_at(b, n)->tenant, name))
			return true;
	}
	return false;
}

/* Kept ones; or, with follow, these and all that come. */
static struct json_object *request_events(struct broker *b, struct json_object *q,
					  void *client)
{
	struct json_object *o = reply_ok(), *v, *list;
	const char *tenant = get_str(q, "tenant");
	uint64_t after = 0, first = events_first(b);

	if (tenant && !tenant_find(b, tenant) && !had_tenant(b, tenant)) {
		json_object_put(o);
		return reply_no_tenant(b, tenant);
	}
	if (json_object_object_get_ex(q, "after", &v))
		after = json_object_get_uint64(v);
	reply_u64(o, "events.last", events_last(b));
	if (json_object_object_get_ex(q, "follow", &v) && json_object_get_boolean(v)) {
		control_follow(client, MIN(after, events_last(b)), tenant);
		return o;
	}
	list = json_object_new_array();
	for (uint64_t n = MAX(after + 1, first); n > after && n <= events_last(b); n++) {
		const struct event *e = events_at(b, n);

		if (!tenant || !strcmp(tenant, e->tenant))
			json_object_array_add(list, json_tokener_parse(e->text));
	}
	json_object_object_add(o, "events", list);
	return o;
}

/* Names in a request, of tenants that are there. Returns an answer if it is none of that. */
static struct json_object *check_names(struct broker *b, struct json_object *list)
{
	if (!json_object_is_type(list, json_type_array))
		return reply_error(-EINVAL, "\"tenants\" is no list of names");
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *v = json_object_array_get_idx(list, i);

		if (!json_object_is_type(v, json_type_string))
			return reply_error(-EINVAL, "\"tenants\" is no list of names");
		if (!tenant_find(b, json_object_get_string(v)))
			return reply_no_tenant(b, json_object_get_string(v));
	}
	return NULL;
}

/* Answers, and then sends what is traced until the client closes. */
static struct json_object *request_trace(struct broker *b, struct json_object *q,
					 void *client)
{
	struct json_object *o = NULL, *names = NULL, *memory = NULL;
	int r;

	if (json_object_object_get_ex(q, "tenants", &names))
		o = check_names(b, names);
	if (o)
		return o;
	if (json_object_object_get_ex(q, "memory", &memory) &&
	    !json_object_is_type(memory, json_type_boolean))
		return reply_error(-EINVAL, "\"memory\" is neither true nor false");
	if (b->trace)
		return reply_error(-EBUSY, "%s traces already, and one may at a time",
				   control_who(trace_client(b)));
	r = trace_begin(b, client, names, json_object_get_boolean(memory));
	if (r < 0)
		return reply_error(r, "out of memory");
	control_stream(client);
	return trace_hello(b);
}

static struct json_object *request_hello(struct broker *b, struct json_object *q,
					 void *client);

/* Fields, beside cmd and protocol, end with NULL. */
static const struct request {
	const char *name;
	struct json_object *(*fn)(struct broker *, struct json_object *, void *);
	bool changes;
	const char *fields[4];
} requests[] = {
	{"hello", request_hello, false, {}},
	{"ping", request_ping, false, {}},
	{"list", request_list, false, {"tenant", "session"}},
	{"info", request_info, false, {"tenant", "session", "after"}},
	{"events", request_events, false, {"after", "tenant", "follow"}},
	{"trace", request_trace, false, {"tenants", "memory"}},
	{"kill", request_kill, true, {"tenant", "session"}},
	{"tenant-add", request_tenant_add, true, {"name", "set"}},
	{"tenant-remove", request_tenant_remove, true, {"name"}},
	{"tenant-get", request_tenant_get, false, {"name", "key"}},
	{"tenant-set", request_tenant_set, true, {"name", "set"}},
	{"reclaim", request_reclaim, true, {"name", "bytes"}},
	{"drain", request_drain, true, {"tenant", "undo"}},
	{"shutdown", request_shutdown, true, {}},
};

static struct json_object *request_hello(struct broker *b, struct json_object *q,
					 void *client)
{
	struct json_object *o = request_ping(b, q, client);
	struct json_object *list = json_object_new_object();

	reply_u64(o, "protocol", PROTOCOL);
	reply_str(o, "may", control_may_change(client) ? "change" : "look");
	for (unsigned i = 0; i < ARRAY_SIZE(requests); i++) {
		struct json_object *fields = json_object_new_array();

		for (unsigned k = 0; requests[i].fields[k]; k++)
			json_object_array_add(
				fields, json_object_new_string(requests[i].fields[k]));
		json_object_object_add(list, requests[i].name, fields);
	}
	json_object_object_add(o, "requests", list);
	return o;
}

/* Lists names of requests or fields in a buffer. */
static void add_name(char *buf, size_t room, const char *name)
{
	size_t n = strlen(buf);

	snprintf(buf + n, room - n, "%s%s", n ? ", " : "", name);
}

static struct json_object *reply_no_request(const char *name)
{
	char list[400] = "";

	for (unsigned i = 0; i < ARRAY_SIZE(requests); i++)
		add_name(list, sizeof(list), requests[i].name);
	if (!name)
		return reply_error(-EINVAL, "the object has no cmd (there are %s)", list);
	return reply_error(-EINVAL, "no such request: \"%.100s\" (there are %s)", name,
			   list);
}

static bool has_field(const struct request *r, const char *name)
{
	for (unsigned i = 0; r->fields[i]; i++) {
		if (!strcmp(r->fields[i], name))
			return true;
	}
	return !strcmp(name, "cmd") || !strcmp(name, "protocol");
}

/* An answer if weftd does not know all that is asked, else NULL. */
static struct json_object *check_fields(const struct request *r, struct json_object *q)
{
	char list[200] = "";

	json_object_object_foreach(q, key, value)
	{
		if (!strcmp(key, "protocol") &&
		    (!json_object_is_type(value, json_type_int) ||
		     json_object_get_int64(value) < 1 ||
		     json_object_get_int64(value) > PROTOCOL))
			return reply_error(-EPROTONOSUPPORT,
					   "this weftd (%s) speaks protocol 1 to %d: use "
					   "the weftctl that came with it",
					   WEFT_VERSION, PROTOCOL);
		if (has_field(r, key))
			continue;
		for (unsigned i = 0; r->fields[i]; i++)
			add_name(list, sizeof(list), r->fields[i]);
		return reply_error(-EINVAL, "%s has no field \"%.100s\" (there are %s)",
				   r->name, key, *list ? list : "none");
	}
	return NULL;
}

struct json_object *request_handle(struct broker *b, struct json_object *q, void *client)
{
	const char *name = get_str(q, "cmd");
	const struct request *r = NULL;
	struct json_object *o;

	for (unsigned i = 0; name && i < ARRAY_SIZE(requests); i++) {
		if (!strcmp(name, requests[i].name))
			r = &requests[i];
	}
	if (!r)
		return reply_no_request(name);
	o = check_fields(r, q);
	if (o)
		return o;
	if (r->changes && !control_may_change(client))
		return reply_error(-EPERM,
				   "viewers may look and change nothing: %s is for root, "
				   "the user of weftd, and the group of operators",
				   name);
	return r->fn(b, q, client);
}
