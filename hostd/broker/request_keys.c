/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's keys at the control socket. Those that can be set are the file's; those that
 * can only be read are spelt as in cgroup v2. Values are text, as files of a cgroup have
 * it: bytes, or "max"; memory.events has a line for each of its counters.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/control.h"
#include "broker/limits.h"
#include "broker/memory/account_host.h"
#include "broker/memory/ledger.h"
#include "broker/reply.h"
#include "broker/request.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "util/conf.h"

static void bytes_text(uint64_t v, char *buf, size_t room)
{
	if (v == UINT64_MAX)
		snprintf(buf, room, "max");
	else
		snprintf(buf, room, "%" PRIu64, v);
}

/* ---- keys that are only read ---- */

static void get_current(struct tenant *t, char *buf, size_t room)
{
	bytes_text(account_tenant(t), buf, room);
}

static void get_peak(struct tenant *t, char *buf, size_t room)
{
	bytes_text(account_peak(t), buf, room);
}

static void get_swap_current(struct tenant *t, char *buf, size_t room)
{
	bytes_text(t->evicted - t->returning, buf, room);
}

static void get_events(struct tenant *t, char *buf, size_t room)
{
	snprintf(buf, room,
		 "low %" PRIu64 "\nhigh %" PRIu64 "\nmax %" PRIu64 "\noom %" PRIu64
		 "\nreclaim %" PRIu64 "\nbusy %" PRIu64,
		 t->events.low, t->events.high, t->events.max, t->events.oom,
		 t->events.reclaim, t->events.busy);
}

/* As its sessions say. */
static void get_stat(struct tenant *t, char *buf, size_t room)
{
	uint64_t movable = 0, pinned = 0, mapped = 0, swapped = 0, out = 0, in = 0;
	const struct worker *w;

	list_for_each (w, &t->b->workers, link) {
		if (w->state != WORKER_SESSION || w->tenant != t)
			continue;
		movable += atomic_load(&w->count->movable_bytes);
		pinned += atomic_load(&w->count->pinned_bytes);
		mapped += atomic_load(&w->count->mapped_bytes);
		swapped += atomic_load(&w->count->swapped_bytes);
		out += atomic_load(&w->count->moved_out_bytes);
		in += atomic_load(&w->count->moved_in_bytes);
	}
	snprintf(buf, room,
		 "movable %" PRIu64 "\npinned %" PRIu64 "\nmapped %" PRIu64
		 "\nswapped %" PRIu64 "\nmoved_out %" PRIu64 "\nmoved_in %" PRIu64,
		 movable, pinned, mapped, swapped, out, in);
}

static void get_weight(struct tenant *t, char *buf, size_t room)
{
	bytes_text(t->memory.weight, buf, room);
}

static void get_sessions_max(struct tenant *t, char *buf, size_t room)
{
	bytes_text(t->sessions_max, buf, room);
}

static void get_lanes(struct tenant *t, char *buf, size_t room)
{
	bytes_text(account_lanes_tenant(t), buf, room);
}

static void get_lanes_max(struct tenant *t, char *buf, size_t room)
{
	bytes_text(t->lanes_max, buf, room);
}

static void get_host(struct tenant *t, char *buf, size_t room)
{
	bytes_text(t->host_used, buf, room);
}

static void get_host_max(struct tenant *t, char *buf, size_t room)
{
	bytes_text(t->host_max, buf, room);
}

static void get_wmem(struct tenant *t, char *buf, size_t room)
{
	bytes_text(account_wmem_tenant(t), buf, room);
}

static void get_wmem_max(struct tenant *t, char *buf, size_t room)
{
	bytes_text(t->wmem_max, buf, room);
}

static const struct {
	const char *name;
	void (*get)(struct tenant *t, char *buf, size_t room);
} readable[] = {
	{"memory.current", get_current},
	{"memory.peak", get_peak},
	{"memory.swap.current", get_swap_current},
	{"memory.events", get_events},
	{"memory.stat", get_stat},
	{"memory.weight", get_weight},
	{"sessions.max", get_sessions_max},
	{"lanes.current", get_lanes},
	{"lanes.max", get_lanes_max},
	{"host.current", get_host},
	{"host.max", get_host_max},
	{"worker.memory.current", get_wmem},
	{"worker.memory.max", get_wmem_max},
};

/* ---- requests ---- */

static struct tenant *find(struct broker *b, struct json_object *q, const char **ret_name)
{
	struct json_object *v;

	*ret_name = json_object_object_get_ex(q, "name", &v) ? json_object_get_string(v)
							     : NULL;
	return *ret_name ? tenant_find(b, *ret_name) : NULL;
}

static void add(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_object_new_string(value));
}

/* Adds one key, or (key NULL) all of them, to o. */
static int get_keys(struct tenant *t, const char *key, struct json_object *o)
{
	char text[256];
	unsigned n = 0;

	for (unsigned i = 0; conf_memory_keys[i]; i++) {
		if (key && strcmp(key, conf_memory_keys[i]) != 0)
			continue;
		bytes_text(*conf_memory_key(&t->memory, conf_memory_keys[i]), text,
			   sizeof(text));
		add(o, conf_memory_keys[i], text);
		n++;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(readable); i++) {
		if (key && strcmp(key, readable[i].name) != 0)
			continue;
		readable[i].get(t, text, sizeof(text));
		add(o, readable[i].name, text);
		n++;
	}
	return n ? 0 : -ENOENT;
}

static struct json_object *reply_keys(struct json_object *keys)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "ok", json_object_new_boolean(1));
	json_object_object_add(o, "keys", keys);
	return o;
}

/* Names all keys that can be read. */
static struct json_object *reply_no_key(const char *key)
{
	char list[400];
	size_t n = 0;

	for (unsigned i = 0; conf_memory_keys[i]; i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s, ",
				      conf_memory_keys[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(readable); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
				      readable[i].name);
	return reply_error(-ENOENT, "no key \"%s\" (there are %s)", key, list);
}

struct json_object *request_tenant_get(struct broker *b, struct json_object *q,
				       void *client)
{
	struct json_object *keys, *v = NULL;
	const char *name, *key = NULL;
	struct tenant *t = find(b, q, &name);

	if (!t)
		return reply_no_tenant(b, name);
	if (json_object_object_get_ex(q, "key", &v))
		key = json_object_get_string(v);
	keys = json_object_new_object();
	if (get_keys(t, key, keys) < 0) {
		json_object_put(keys);
		return reply_no_key(key);
	}
	return reply_keys(keys);
}

static bool may_set(const char *key)
{
	struct conf_memory m;

	return conf_memory_key(&m, key) || !strcmp(key, "memory.weight") ||
	       !strcmp(key, "sessions.max") || !strcmp(key, "lanes.max") ||
	       !strcmp(key, "host.max");
}

/* Answers for a key that cannot be set: read-only, unknown, or only in weftd.conf. */
static struct json_object *reply_fixed(const char *key)
{
	struct conf_tenant probe = {0};
	bool known = conf_tenant_set(&probe, key, "") != -ENOENT;

	free(probe.owner);
	free(probe.group);
	for (unsigned i = 0; i < ARRAY_SIZE(readable) && !known; i++) {
		if (!strcmp(readable[i].name, key))
			return reply_error(-EPERM, "%s can only be read", key);
	}
	if (!known)
		return reply_no_key(key);
	return reply_error(-EPERM,
			   "%s cannot be changed while weftd runs: change weftd.conf and "
			   "restart weftd",
			   key);
}

/* All of it, on a copy. NULL, or an answer. */
static struct json_object *parse_set(struct json_object *set, struct conf_tenant *copy)
{
	json_object_object_foreach(set, key, value)
	{
		const char *text = json_object_get_string(value);
		_cleanup_free_ char *why = NULL;
		int r;

		if (!may_set(key))
			return reply_fixed(key);
		r = conf_tenant_set(copy, key, text ? text : "");
		if (r == 0)
			continue;
		why = conf_error(key, text ? text : "", r);
		return reply_error(r, "%s", why ? why : key);
	}
	return NULL;
}

static void copy_limits(struct conf_tenant *to, const struct conf_tenant *from)
{
	to->memory = from->memory;
	to->sessions_max = from->sessions_max;
	to->lanes_max = from->lanes_max;
	to->host_max = from->host_max;
	to->wmem_max = from->wmem_max;
}

/* Changes what the configuration has of it, unless that contradicts the rest of it. */
static struct json_object *change(struct broker *b, struct tenant *t,
				  struct json_object *set, struct conf_tenant *ret_copy)
{
	struct conf_tenant *ct = conf_tenant_find(b->conf, t->name), was = {0};
	struct json_object *o;

	ret_copy->memory = t->memory;
	ret_copy->sessions_max = t->sessions_max;
	ret_copy->lanes_max = t->lanes_max;
	ret_copy->host_max = t->host_max;
	ret_copy->wmem_max = t->wmem_max;
	o = parse_set(set, ret_copy);
	if (o || !ct)
		return o;
	copy_limits(&was, ct);
	copy_limits(ct, ret_copy);
	o = reply_contradiction(b);
	if (o)
		copy_limits(ct, &was);
	return o;
}

struct json_object *request_tenant_set(struct broker *b, struct json_object *q,
				       void *client)
{
	struct json_object *set, *keys, *o;
	struct conf_tenant copy = {0};
	const char *name;
	struct tenant *t = find(b, q, &name);

	if (!t)
		return reply_no_tenant(b, name);
	if (!json_object_object_get_ex(q, "set", &set) ||
	    !json_object_is_type(set, json_type_object))
		return reply_error(-EINVAL, "the request sets nothing");
	o = change(b, t, set, &copy);
	if (o)
		return o;
	limits_change(t, &copy, control_who(client));
	keys = json_object_new_object();
	get_keys(t, NULL, keys);
	return reply_keys(keys);
}
