/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's keys at the control socket. Those that can be set are the file's; those that
 * can only be read are spelt as in cgroup v2.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/compute/tpcs.h"
#include "broker/broker.h"
#include "broker/keep/changes.h"
#include "broker/control.h"
#include "broker/operator/gpu_time.h"
#include "broker/limits.h"
#include "broker/memory/account_host.h"
#include "broker/memory/ledger.h"
#include "broker/memory/swap.h"
#include "broker/memory/snapshot.h"
#include "broker/refused.h"
#include "broker/reply.h"
#include "broker/request.h"
#include "broker/tenant.h"
#include "broker/operator/usage.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "util/conf.h"
#include "util/conf_alias.h"
#include "util/tpcs.h"

/* ---- keys that are only read ---- */

typedef void get_fn(struct tenant *t, struct json_object *o, const char *key);

static void get_current(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, account_tenant(t));
}

static void get_peak(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, account_peak(t));
}

static void get_swap_current(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, swap_tenant(t));
}

static void get_free(struct tenant *t, struct json_object *o, const char *key)
{
	uint64_t left, total;

	account_left(t, &left, &total);
	reply_u64(o, key, left);
}

static void get_total(struct tenant *t, struct json_object *o, const char *key)
{
	uint64_t left, total;

	account_left(t, &left, &total);
	reply_u64(o, key, total);
}

static void get_events(struct tenant *t, struct json_object *o, const char *key)
{
	struct json_object *e = json_object_new_object();

	reply_u64(e, "low", t->events.low);
	reply_u64(e, "high", t->events.high);
	reply_u64(e, "max", t->events.max);
	reply_u64(e, "oom", t->events.oom);
	reply_u64(e, "reclaim", t->events.reclaim);
	reply_u64(e, "busy", t->events.busy);
	reply_u64(e, "frozen", t->events.frozen);
	json_object_object_add(o, key, e);
}

/* As its sessions say. */
static void get_stat(struct tenant *t, struct json_object *o, const char *key)
{
	uint64_t movable = 0, pinned = 0, mapped = 0, swapped = 0, cold = 0,
		 unchanged = 0, missed = 0;
	struct json_object *e = json_object_new_object();
	const struct worker *w;
	struct usage u;

	usage_tenant(t, &u);
	list_for_each (w, &t->workers, tenant_link) {
		movable += atomic_load(&w->count->movable_bytes);
		pinned += atomic_load(&w->count->pinned_bytes);
		mapped += atomic_load(&w->count->mapped_bytes);
		swapped += atomic_load(&w->count->swapped_bytes);
		cold += snapshot_cold(w) + snapshot_cold_out(w);
		unchanged += atomic_load(&w->count->unchanged_bytes);
		missed += atomic_load(&w->count->missed_bytes);
	}
	reply_u64(e, "movable", movable);
	reply_u64(e, "pinned", pinned);
	reply_u64(e, "mapped", mapped);
	reply_u64(e, "swapped", swapped);
	reply_u64(e, "moved_out", u.moved_out);
	reply_u64(e, "moved_in", u.moved_in);
	reply_u64(e, "cold", cold);
	reply_u64(e, "unchanged", unchanged);
	reply_u64(e, "missed", missed);
	json_object_object_add(o, key, e);
}

static void get_weight(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, t->memory.weight);
}

static void get_compute_weight(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, t->compute.weight);
}

static void get_priority(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, t->compute.priority);
}

static void get_latency(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, t->compute.latency);
}

static void get_cap(struct tenant *t, struct json_object *o, const char *key)
{
	char text[CONF_CAP_TEXT];

	reply_str(o, key, conf_format_cap(&t->compute.max, text, sizeof(text)));
}

static void get_class(struct tenant *t, struct json_object *o, const char *key)
{
	reply_str(o, key, conf_format_class(t->compute.shared));
}

static void get_graphics(struct tenant *t, struct json_object *o, const char *key)
{
	reply_str(o, key, conf_format_graphics(t->compute.graphics));
}

static void get_rewrite(struct tenant *t, struct json_object *o, const char *key)
{
	reply_str(o, key, conf_format_rewrite(t->compute.rewrite));
}

/* In the words of cpu.stat, and of pressure stall information. */
static void get_compute_stat(struct tenant *t, struct json_object *o, const char *key)
{
	struct json_object *e = json_object_new_object();

	reply_u64(e, "usage_usec", t->pace.used_ns / NSEC_PER_USEC);
	reply_u64(e, "nr_throttled", t->pace.n_held);
	reply_u64(e, "throttled_usec", t->pace.held_ns / NSEC_PER_USEC);
	reply_u64(e, "stalled_usec", t->pace.stalled_ns / NSEC_PER_USEC);
	reply_u64(e, "nr_turns", t->pace.n_turns);
	reply_u64(e, "waited_usec", t->pace.waited_ns / NSEC_PER_USEC);
	json_object_object_add(o, key, e);
}

static void put_set(struct json_object *o, const char *key, const struct space_set *s)
{
	char text[TPCS_TEXT];

	reply_str(o, key, tpcs_format(s, text, sizeof(text)));
}

static void get_tpcs(struct tenant *t, struct json_object *o, const char *key)
{
	put_set(o, key, &t->space.tpcs);
}

static void get_gpcs(struct tenant *t, struct json_object *o, const char *key)
{
	put_set(o, key, &t->space.gpcs);
}

static void get_tpc_count(struct tenant *t, struct json_object *o, const char *key)
{
	char text[TPCS_TEXT];

	if (t->space.count && !t->space.percent)
		reply_u64(o, key, t->space.count);
	else
		reply_str(o, key, tpcs_format_count(&t->space, text, sizeof(text)));
}

static void get_exclusive(struct tenant *t, struct json_object *o, const char *key)
{
	reply_str(o, key, t->space.exclusive ? "yes" : "no");
}

static void get_tpcs_current(struct tenant *t, struct json_object *o, const char *key)
{
	put_set(o, key, tpcs_of(t));
}

static void get_sessions(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, t->n_sessions);
}

static void get_sessions_waiting(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, t->n_waiting);
}

static void get_sessions_max(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, t->sessions_max);
}

static void get_lanes(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, account_lanes_tenant(t));
}

static void get_lanes_max(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, t->lanes_max);
}

static void get_host(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, t->host_used);
}

static void get_host_max(struct tenant *t, struct json_object *o, const char *key)
{
	reply_limit(o, key, t->host_max);
}

static void get_wmem(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, account_wmem_tenant(t));
}

static void get_wmem_max(struct tenant *t, struct json_object *o, const char *key)
{
	reply_limit(o, key, t->wmem_max);
}

static void get_gpu_busy(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, gpu_busy_tenant(t));
}

static void get_gpu_time(struct tenant *t, struct json_object *o, const char *key)
{
	reply_u64(o, key, gpu_time_tenant(t));
}

static void get_sessions_total(struct tenant *t, struct json_object *o, const char *key)
{
	struct usage u;

	usage_tenant(t, &u);
	reply_u64(o, key, u.sessions);
}

static void get_used(struct tenant *t, struct json_object *o, const char *key)
{
	struct json_object *e = json_object_new_object();
	struct usage u;

	usage_tenant(t, &u);
	reply_u64(e, "calls", u.calls + u.posts);
	reply_u64(e, "calls.answered", u.calls);
	reply_u64(e, "launches", u.launches);
	reply_u64(e, "copied.to_device", u.to_device);
	reply_u64(e, "copied.from_device", u.from_device);
	json_object_object_add(o, key, e);
}

static void get_refused(struct tenant *t, struct json_object *o, const char *key)
{
	struct json_object *e = json_object_new_object();
	struct usage u;

	usage_tenant(t, &u);
	for (unsigned i = 0; i < REFUSAL_NUM; i++)
		reply_u64(e, refused_kind((enum refusal)i), u.refused[i]);
	reply_u64(e, "others", u.refused_others);
	json_object_object_add(o, key, e);
}

static void get_profile(struct tenant *t, struct json_object *o, const char *key)
{
	const struct conf_tenant *ct = conf_tenant_find(t->b->conf, t->name);

	reply_str(o, key, ct ? ct->profile : "");
}

static void get_uuid(struct tenant *t, struct json_object *o, const char *key)
{
	reply_str(o, key, t->vm_uuid);
}

static const struct {
	const char *name;
	get_fn *get;
} readable[] = {
	{"memory.current", get_current},
	{"memory.peak", get_peak},
	{"memory.swap.current", get_swap_current},
	{"memory.free", get_free},
	{"memory.total", get_total},
	{"memory.events", get_events},
	{"memory.stat", get_stat},
	{"memory.weight", get_weight},
	{"compute.weight", get_compute_weight},
	{"compute.priority", get_priority},
	{"compute.latency", get_latency},
	{"compute.max", get_cap},
	{"compute.class", get_class},
	{"compute.stat", get_compute_stat},
	{"kernel.rewrite", get_rewrite},
	{"graphics", get_graphics},
	{"tpc.set", get_tpcs},
	{"gpc.set", get_gpcs},
	{"tpc.count", get_tpc_count},
	{"tpc.exclusive", get_exclusive},
	{"tpc.current", get_tpcs_current},
	{"sessions.current", get_sessions},
	{"sessions.waiting", get_sessions_waiting},
	{"sessions.max", get_sessions_max},
	{"lanes.current", get_lanes},
	{"lanes.max", get_lanes_max},
	{"host.current", get_host},
	{"host.max", get_host_max},
	{"worker.memory.current", get_wmem},
	{"worker.memory.max", get_wmem_max},
	{"gpu.utilization", get_gpu_busy},
	{"gpu.time", get_gpu_time},
	{"sessions.total", get_sessions_total},
	{"used", get_used},
	{"refused", get_refused},
	{"vm.uuid", get_uuid},
	{"profile", get_profile},
};

/* ---- requests ---- */

static struct tenant *find(struct broker *b, struct json_object *q, const char **ret_name)
{
	struct json_object *v;

	*ret_name = json_object_object_get_ex(q, "name", &v) ? json_object_get_string(v)
							     : NULL;
	return *ret_name ? tenant_find(b, *ret_name) : NULL;
}

/* Adds one key, or (key NULL) all of them, to o. */
static int get_keys(struct tenant *t, const char *key, struct json_object *o)
{
	unsigned n = 0;

	for (unsigned i = 0; conf_memory_keys[i]; i++) {
		if (key && strcmp(key, conf_memory_keys[i]) != 0)
			continue;
		reply_limit(o, conf_memory_keys[i],
			    *conf_memory_key(&t->memory, conf_memory_keys[i]));
		n++;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(readable); i++) {
		if (key && strcmp(key, readable[i].name) != 0)
			continue;
		readable[i].get(t, o, readable[i].name);
		n++;
	}
	return n ? 0 : -ENOENT;
}

void keys_describe(struct tenant *t, struct json_object *o)
{
	get_keys(t, NULL, o);
}

static struct json_object *reply_keys(struct json_object *keys)
{
	struct json_object *o = reply_ok();

	json_object_object_add(o, "keys", keys);
	return o;
}

/* Names all keys that can be read. */
static struct json_object *reply_no_key(const char *key)
{
	char list[1024];
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

	return conf_memory_key(&m, key) || conf_alias_known(key) ||
	       conf_is_space_key(key) || !strcmp(key, "memory.weight") ||
	       !strcmp(key, "compute.weight") || !strcmp(key, "compute.priority") ||
	       !strcmp(key, "compute.latency") || !strcmp(key, "compute.max") ||
	       !strcmp(key, "graphics") || !strcmp(key, "kernel.rewrite") ||
	       !strcmp(key, "compute.class") || !strcmp(key, "sessions.max") ||
	       !strcmp(key, "lanes.max") || !strcmp(key, "host.max") ||
	       !strcmp(key, "vm.uuid");
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
	to->compute = from->compute;
	to->space = from->space;
	memcpy(to->profile, from->profile, sizeof(to->profile));
	memcpy(to->vm_uuid, from->vm_uuid, sizeof(to->vm_uuid));
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
	ret_copy->compute = t->compute;
	ret_copy->space = t->space;
	memcpy(ret_copy->vm_uuid, t->vm_uuid, sizeof(ret_copy->vm_uuid));
	ret_copy->sessions_max = t->sessions_max;
	ret_copy->lanes_max = t->lanes_max;
	ret_copy->host_max = t->host_max;
	ret_copy->wmem_max = t->wmem_max;
	if (ct)
		memcpy(ret_copy->profile, ct->profile, sizeof(ret_copy->profile));
	memcpy(ret_copy->name, t->name, sizeof(ret_copy->name));
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
	changes_set(t->name, set);
	limits_change(t, &copy, control_who(client));
	keys = json_object_new_object();
	get_keys(t, NULL, keys);
	return reply_keys(keys);
}
