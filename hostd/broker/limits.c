/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a tenant's limits while it runs, by the control socket or a new file. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "broker/child/cgroup.h"
#include "broker/compute/pace.h"
#include "broker/compute/slices.h"
#include "broker/compute/tpcs.h"
#include "broker/operator/events.h"
#include "broker/limits.h"
#include "broker/memory/ledger.h"
#include "broker/reply.h"
#include "broker/tenant.h"
#include "util/conf.h"
#include "util/size.h"
#include "util/tpcs.h"

static void post_change(const struct tenant *t, const char *key, uint64_t from,
			uint64_t to, const char *by)
{
	struct json_object *e = event_new(t->b, "tenant.changed", t, 0);

	reply_str(e, "key", key);
	reply_limit(e, "from", from);
	reply_limit(e, "to", to);
	reply_str(e, "by", by);
	event_post(t->b, e);
}

static void post_text(const struct tenant *t, const char *key, const char *from,
		      const char *to, const char *by)
{
	struct json_object *e = event_new(t->b, "tenant.changed", t, 0);

	reply_str(e, "key", key);
	reply_str(e, "from", from);
	reply_str(e, "to", to);
	reply_str(e, "by", by);
	event_post(t->b, e);
}

static void tell_bytes(const struct tenant *t, const char *key, uint64_t from,
		       uint64_t to, const char *by)
{
	char a[32], b[32];

	if (from == to)
		return;
	log_info("tenant %s: %s was %s, is %s (%s)", t->name, key,
		 size_format(from, a, sizeof(a)), size_format(to, b, sizeof(b)), by);
	post_change(t, key, from, to, by);
}

static void tell_number(const struct tenant *t, const char *key, unsigned from,
			unsigned to, const char *by)
{
	if (from == to)
		return;
	log_info("tenant %s: %s was %u, is %u (%s)", t->name, key, from, to, by);
	post_change(t, key, from, to, by);
}

static void tell_text(const struct tenant *t, const char *key, const char *from,
		      const char *to, const char *by)
{
	if (!strcmp(from, to))
		return;
	log_info("tenant %s: %s was %s, is %s (%s)", t->name, key, from, to, by);
	post_text(t, key, from, to, by);
}

static void tell_set(const struct tenant *t, const char *key,
		     const struct space_set *from, const struct space_set *to,
		     const char *by)
{
	char a[TPCS_TEXT], b[TPCS_TEXT];

	tell_text(t, key, tpcs_format(from, a, sizeof(a)), tpcs_format(to, b, sizeof(b)),
		  by);
}

static void tell_space(const struct tenant *t, const struct space_want *from,
		       const struct space_want *to, const char *by)
{
	static const char *const yes[] = {"no", "yes"};
	char a[TPCS_TEXT], b[TPCS_TEXT];

	tell_set(t, "tpc.set", &from->tpcs, &to->tpcs, by);
	tell_set(t, "gpc.set", &from->gpcs, &to->gpcs, by);
	tell_text(t, "tpc.count", tpcs_format_count(from, a, sizeof(a)),
		  tpcs_format_count(to, b, sizeof(b)), by);
	tell_text(t, "tpc.exclusive", yes[from->exclusive], yes[to->exclusive], by);
}

static void tell_cap(const struct tenant *t, const struct cap *from, const struct cap *to,
		     const char *by)
{
	char a[CONF_CAP_TEXT], b[CONF_CAP_TEXT];

	tell_text(t, "compute.max", conf_format_cap(from, a, sizeof(a)),
		  conf_format_cap(to, b, sizeof(b)), by);
}

static bool same_memory(const struct conf_memory *a, const struct conf_memory *b)
{
	struct conf_memory x = *a, y = *b;

	for (unsigned i = 0; conf_memory_keys[i]; i++)
		if (*conf_memory_key(&x, conf_memory_keys[i]) !=
		    *conf_memory_key(&y, conf_memory_keys[i]))
			return false;
	return x.weight == y.weight;
}

void limits_change(struct tenant *t, const struct conf_tenant *to, const char *by)
{
	struct conf_memory was = t->memory, will = to->memory;

	for (unsigned i = 0; conf_memory_keys[i]; i++)
		tell_bytes(t, conf_memory_keys[i],
			   *conf_memory_key(&was, conf_memory_keys[i]),
			   *conf_memory_key(&will, conf_memory_keys[i]), by);
	tell_number(t, "memory.weight", was.weight, will.weight, by);
	tell_number(t, "compute.weight", t->compute.weight, to->compute.weight, by);
	tell_number(t, "compute.priority", t->compute.priority, to->compute.priority, by);
	tell_number(t, "compute.latency", t->compute.latency, to->compute.latency, by);
	tell_cap(t, &t->compute.max, &to->compute.max, by);
	tell_text(t, "compute.class", conf_format_class(t->compute.shared),
		  conf_format_class(to->compute.shared), by);
	tell_text(t, "graphics", conf_format_graphics(t->compute.graphics),
		  conf_format_graphics(to->compute.graphics), by);
	tell_text(t, "kernel.rewrite", conf_format_rewrite(t->compute.rewrite),
		  conf_format_rewrite(to->compute.rewrite), by);
	tell_number(t, "sessions.max", t->sessions_max, to->sessions_max, by);
	tell_number(t, "lanes.max", t->lanes_max, to->lanes_max, by);
	tell_bytes(t, "host.max", t->host_max, to->host_max, by);
	if (strcmp(t->vm_uuid, to->vm_uuid) != 0)
		log_info("tenant %s: vm.uuid was %s, is %s (%s)", t->name,
			 *t->vm_uuid ? t->vm_uuid : "not known",
			 *to->vm_uuid ? to->vm_uuid : "not known", by);
	memcpy(t->vm_uuid, to->vm_uuid, sizeof(t->vm_uuid));
	tell_bytes(t, "worker.memory.max", t->wmem_max, to->wmem_max, by);
	t->wmem_max = to->wmem_max;
	if (memcmp(&t->compute.max, &to->compute.max, sizeof(t->compute.max)) != 0)
		pace_changed(t);
	t->compute = to->compute;
	slices_due(t->b);
	tell_space(t, &t->space, &to->space, by);
	t->space = to->space;
	tpcs_due(t->b);
	t->sessions_max = to->sessions_max;
	t->lanes_max = to->lanes_max;
	t->host_max = to->host_max;
	if (!same_memory(&was, &will))
		account_set(t, &will);
	cgroup_limits(t);
}
