/* SPDX-License-Identifier: Apache-2.0 */
/*
 *	{"version": 1, "tenants": {"a": {"added": true, "set": {"memory.max": "1G"}},
 *				   "b": {"removed": true}}}
 *
 * Limits are texts, as weftd.conf has them. The file is written anew with each change and
 * put in the place of the one before.
 */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/keep/changes.h"
#include "util/conf.h"

#define VERSION   1
#define FILE_MAX  (4u << 20)
#define FILE_NAME "changes"

static struct {
	char *path, *path_new; /* NULL: nothing is noted */
	struct json_object *tenants;
} changes;

/* ---- making them ---- */

static void say_wrong(const char *tenant, const char *key, const char *text, int error)
{
	_cleanup_free_ char *why = conf_error(key, text, error);

	log_warning("tenant %s: what weftctl set is not set again: %s", tenant,
		    why ? why : key);
}

static void set_keys(struct conf_tenant *ct, struct json_object *set)
{
	json_object_object_foreach(set, key, value)
	{
		const char *text = json_object_get_string(value);
		int r = conf_tenant_set(ct, key, text ? text : "");

		if (r < 0)
			say_wrong(ct->name, key, text ? text : "", r);
	}
}

static struct conf_tenant *find_or_add(struct conf *c, const char *name, bool added)
{
	struct conf_tenant *ct = conf_tenant_find(c, name);

	/* The tenant local is always there; its section may not be. */
	if (ct || (!added && strcmp(name, CONF_LOCAL) != 0) || conf_name_error(name))
		return ct;
	ct = conf_tenant_new(name);
	if (!ct)
		return NULL;
	ct->added = added;
	list_append(&c->tenants, &ct->link);
	return ct;
}

static bool is_true(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) && json_object_get_boolean(v);
}

static void make(struct conf *c, const char *name, struct json_object *change)
{
	struct conf_tenant *ct;
	struct json_object *set;

	if (!json_object_is_type(change, json_type_object))
		return;
	ct = find_or_add(c, name, is_true(change, "added"));
	if (!ct)
		return; /* the file does not have it any more */
	if (is_true(change, "removed")) {
		list_remove(&ct->link);
		conf_tenant_free(ct);
		return;
	}
	if (json_object_object_get_ex(change, "set", &set) &&
	    json_object_is_type(set, json_type_object))
		set_keys(ct, set);
}

/* Returns the tenants of it, the caller's, or NULL. */
static struct json_object *parse(const char *text)
{
	struct json_object *all = json_tokener_parse(text), *v, *tenants = NULL;

	if (json_object_is_type(all, json_type_object) &&
	    json_object_object_get_ex(all, "version", &v) &&
	    json_object_get_int(v) == VERSION &&
	    json_object_object_get_ex(all, "tenants", &v) &&
	    json_object_is_type(v, json_type_object))
		tenants = json_object_get(v);
	json_object_put(all);
	return tenants;
}

static void make_all(struct conf *c, struct json_object *tenants)
{
	json_object_object_foreach(tenants, name, change)
	{
		make(c, name, change);
	}
}

int changes_parse(struct conf *c, const char *text)
{
	struct json_object *tenants = parse(text);

	if (!tenants)
		return -EBADMSG;
	make_all(c, tenants);
	json_object_put(tenants);
	return 0;
}

/* ---- the file ---- */

/* Returns the text, malloced, or NULL: there is none, or it is not ours. */
static char *read_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	char *text;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid() || st.st_size > (off_t)FILE_MAX)
		return NULL;
	text = calloc(1, (size_t)st.st_size + 1);
	if (text && fd_read_full(fd, text, (size_t)st.st_size) < 0) {
		free(text);
		return NULL;
	}
	return text;
}

static int write_file(const char *text)
{
	_cleanup_close_ int fd =
		open(changes.path_new,
		     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, text, strlen(text));
	if (r == 0 && rename(changes.path_new, changes.path) < 0)
		r = -errno;
	return r;
}

static void save(void)
{
	struct json_object *all = json_object_new_object();
	int r;

	json_object_object_add(all, "version", json_object_new_int(VERSION));
	json_object_object_add(all, "tenants", json_object_get(changes.tenants));
	r = write_file(json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY));
	if (r < 0)
		log_warning("%s: %s: a weftd after this one will not have this change",
			    changes.path, strerror(-r));
	json_object_put(all);
}

void changes_apply(struct conf *c)
{
	_cleanup_free_ char *text = NULL;

	free(changes.path);
	free(changes.path_new);
	json_object_put(changes.tenants);
	changes.path_new = NULL;
	changes.tenants = NULL;
	if (asprintf(&changes.path, "%s/" FILE_NAME, c->run_dir) < 0 ||
	    asprintf(&changes.path_new, "%s/" FILE_NAME ".new", c->run_dir) < 0) {
		changes.path = NULL;
		return;
	}
	text = read_file(changes.path);
	changes.tenants = text ? parse(text) : NULL;
	if (text && !changes.tenants)
		log_warning("%s: is no list of changes", changes.path);
	if (!changes.tenants)
		changes.tenants = json_object_new_object();
	if (json_object_object_length(changes.tenants))
		log_info("tenants are as weftctl has changed them: %s", changes.path);
	make_all(c, changes.tenants);
}

/* ---- noting ---- */

/* Returns the change of a tenant, which may be a new one. */
static struct json_object *change_of(const char *tenant)
{
	struct json_object *o;

	if (json_object_object_get_ex(changes.tenants, tenant, &o))
		return o;
	o = json_object_new_object();
	json_object_object_add(changes.tenants, tenant, o);
	return o;
}

static void note_set(struct json_object *change, struct json_object *set)
{
	struct json_object *all;

	if (!set)
		return;
	if (!json_object_object_get_ex(change, "set", &all)) {
		all = json_object_new_object();
		json_object_object_add(change, "set", all);
	}
	json_object_object_foreach(set, key, value)
	{
		const char *text = json_object_get_string(value);

		json_object_object_add(all, key,
				       json_object_new_string(text ? text : ""));
	}
}

void changes_add(const char *tenant, struct json_object *set)
{
	struct json_object *o;

	if (!changes.path)
		return;
	json_object_object_del(changes.tenants, tenant);
	o = change_of(tenant);
	json_object_object_add(o, "added", json_object_new_boolean(1));
	note_set(o, set);
	save();
}

void changes_set(const char *tenant, struct json_object *set)
{
	if (!changes.path)
		return;
	note_set(change_of(tenant), set);
	save();
}

void changes_remove(const char *tenant)
{
	if (!changes.path)
		return;
	json_object_object_del(changes.tenants, tenant);
	/* Where the file has it. */
	json_object_object_add(change_of(tenant), "removed", json_object_new_boolean(1));
	save();
}

void changes_reload(void)
{
	struct json_object *kept;

	if (!changes.path)
		return;
	kept = json_object_new_object();
	json_object_object_foreach(changes.tenants, name, change)
	{
		if (is_true(change, "added"))
			json_object_object_add(kept, name, json_object_get(change));
	}
	json_object_put(changes.tenants);
	changes.tenants = kept;
	save();
}

void changes_end(void)
{
	if (!changes.path)
		return;
	unlink(changes.path);
	json_object_put(changes.tenants);
	free(changes.path);
	free(changes.path_new);
	changes.path = changes.path_new = NULL;
}
