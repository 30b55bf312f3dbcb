/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGHUP: the configuration is read again, and what can change under running programs
 * does. A file with a mistake changes nothing. Afterwards the file holds: limits that
 * were set at the control socket are what it says. Tenants that were added there stay.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/keep/changes.h"
#include "broker/keep/config.h"
#include "broker/operator/events.h"
#include "broker/limits.h"
#include "broker/reload.h"
#include "broker/tenant.h"
#include "broker/tenants.h"
#include "broker/window.h"
#include "util/conf.h"
#include "util/notify.h"

#define BY "configuration file"

static void say_check(void *arg, bool wrong, const char *text)
{
	if (wrong)
		log_error("%s", text);
	else
		log_warning("%s", text);
}

unsigned reload_report(const struct conf *c, const char *file)
{
	return conf_check(c, file, say_check, NULL);
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* ---- what needs a restart ---- */

/* Adds a name to a list of them. */
static void name_if(bool differs, const char *key, char *buf, size_t room)
{
	size_t n = strlen(buf);

	if (differs)
		snprintf(buf + n, room - n, "%s%s", n ? ", " : "", key);
}

static void compare_daemon(const struct conf *is, const struct conf *file)
{
	char list[256] = "";

#define DIFFERS(field, key) name_if(is->field != file->field, key, list, sizeof(list))
#define TEXT_DIFFERS(field, key)                                                         \
	name_if(!same(is->field, file->field), key, list, sizeof(list))
	TEXT_DIFFERS(socket, "socket");
	TEXT_DIFFERS(control, "control");
	TEXT_DIFFERS(operators, "operators");
	TEXT_DIFFERS(viewers, "viewers");
	TEXT_DIFFERS(user, "user");
	DIFFERS(users_first, "users");
	TEXT_DIFFERS(sandbox, "sandbox");
	TEXT_DIFFERS(cgroup, "cgroup");
	TEXT_DIFFERS(device, "device");
	TEXT_DIFFERS(placement, "placement");
	TEXT_DIFFERS(time, "time");
	DIFFERS(rewrite, "kernel.rewrite");
	TEXT_DIFFERS(blocks, "kernel.policy");
	TEXT_DIFFERS(mps, "mps");
	TEXT_DIFFERS(extents, "extents");
	DIFFERS(tpcs, "tpcs");
	DIFFERS(threads, "threads");
	DIFFERS(memory, "memory");
	DIFFERS(swap, "swap");
	DIFFERS(host_max, "host.max");
	DIFFERS(reserve, "reserve");
	DIFFERS(piece, "piece");
	DIFFERS(kill_s, "reclaim.kill");
	DIFFERS(pool, "pool");
	if (*list)
		log_warning(
			"[daemon] %s: changed in the file, takes effect when weftd is "
			"restarted",
			list);
}

static void compare_tenant(const struct conf_tenant *is, const struct conf_tenant *file)
{
	char list[256] = "";

	name_if(!same(is->socket, file->socket), "socket", list, sizeof(list));
	name_if(is->mode != file->mode, "mode", list, sizeof(list));
	name_if(!same(is->owner, file->owner), "owner", list, sizeof(list));
	name_if(!same(is->group, file->group), "group", list, sizeof(list));
	name_if(!same(is->window_path, file->window_path), "window.path", list,
		sizeof(list));
	name_if(is->window_size != file->window_size, "window.size", list, sizeof(list));
	if (*list)
		log_warning("tenant %s: %s: changed in the file, takes effect when weftd "
			    "is restarted",
			    is->name, list);
}

/* ---- tenants ---- */

static void keep_place(struct conf_tenant *is, const struct conf_tenant *file)
{
	is->memory = file->memory;
	is->compute = file->compute;
	is->space = file->space;
	memcpy(is->profile, file->profile, sizeof(is->profile));
	memcpy(is->vm_uuid, file->vm_uuid, sizeof(is->vm_uuid));
	is->host_max = file->host_max;
	is->wmem_max = file->wmem_max;
	is->sessions_max = file->sessions_max;
	is->lanes_max = file->lanes_max;
	is->at = file->at;
	is->again_at = file->again_at;
	is->socket_at = file->socket_at;
	is->window_at = file->window_at;
	is->uuid_at = file->uuid_at;
	memcpy(is->memory_at, file->memory_at, sizeof(is->memory_at));
	is->added = false;
}

static void start_tenant(struct broker *b, struct conf_tenant *ct)
{
	struct tenant *t;

	list_remove(&ct->link);
	if (tenant_new(b, ct, &t) < 0) {
		conf_tenant_free(ct);
		return;
	}
	tenant_post(t, "tenant.added", BY);
	list_append(&b->conf->tenants, &ct->link);
}

static void end_tenant(struct broker *b, struct conf_tenant *is)
{
	struct tenant *t = tenant_find(b, is->name);

	if (t && (t->n_sessions || t->n_waiting)) {
		log_warning(
			"tenant %s: not in the file any more, but has sessions: stays "
			"until \"weftctl remove %s\" or the next reload",
			t->name, t->name);
		return;
	}
	log_info("tenant %s: removed (%s)", is->name, BY);
	if (t) {
		tenant_post(t, "tenant.removed", BY);
		window_remove(&t->window);
		tenant_remove(t, NULL, NULL);
	}
	list_remove(&is->link);
	conf_tenant_free(is);
}

static void apply(struct broker *b, struct conf *file)
{
	struct conf_tenant *is, *ct, *tmp;

	list_for_each_safe (is, tmp, &b->conf->tenants, link) {
		struct tenant *t = tenant_find(b, is->name);

		ct = conf_tenant_find(file, is->name);
		if (!ct && !is->added)
			end_tenant(b, is);
		if (!ct)
			continue;
		compare_tenant(is, ct);
		keep_place(is, ct);
		if (t)
			limits_change(t, is, BY);
	}
	list_for_each_safe (ct, tmp, &file->tenants, link) {
		if (!conf_tenant_find(b->conf, ct->name))
			start_tenant(b, ct);
	}
}

/* ---- reading ---- */

/* Tenants of the control socket are in no file; what a new one says must suit them, too.
 */
static void move_added(struct conf *from, struct conf *to)
{
	struct conf_tenant *ct, *tmp;

	list_for_each_safe (ct, tmp, &from->tenants, link) {
		if (!ct->added || conf_tenant_find(to, ct->name))
			continue;
		list_remove(&ct->link);
		list_append(&to->tenants, &ct->link);
	}
}

/* Sockets without a key of their own are made where all others are. */
static int keep_run_dir(const struct conf *is, struct conf *file)
{
	char *dir = strdup(is->run_dir);

	if (!dir)
		return -ENOMEM;
	if (strcmp(is->run_dir, file->run_dir) != 0)
		log_warning("[daemon] run-dir: changed in the file, takes effect when "
			    "weftd is restarted");
	free(file->run_dir);
	file->run_dir = dir;
	return 0;
}

void reload(struct broker *b, const char *by)
{
	struct conf file;
	int r;

	notify_reloading();
	r = b->read_conf(&file);
	if (r == 0)
		r = keep_run_dir(b->conf, &file);
	if (r == 0) {
		file.device_total = b->device_total;
		file.space = b->conf->space;
		file.space_known = b->conf->space_known;
		move_added(b->conf, &file);
		r = conf_complete(&file) < 0 || reload_report(&file, b->conf_name)
			    ? -EINVAL
			    : 0;
		move_added(&file, b->conf);
	}
	if (r == 0) {
		compare_daemon(b->conf, &file);
		apply(b, &file);
		changes_reload();
		config_keep(file.text);
		log_info("configuration read again (%s)", by);
		event_post(b, event_new(b, "weftd.reloaded", NULL, 0));
	} else {
		log_error("configuration not read again: nothing has changed (%s)", by);
		event_post(b, event_new(b, "weftd.reload_failed", NULL, 0));
	}
	conf_fini(&file);
	notify_manager("READY=1");
}
