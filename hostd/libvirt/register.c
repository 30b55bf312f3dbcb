/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macros.h"
#include "libvirt/note.h"
#include "libvirt/place.h"
#include "libvirt/register.h"
#include "libvirt/sentence.h"
#include "tools/client.h"
#include "util/tpcs.h"

/* libvirt waits for its hooks; the end of a tenant takes a moment. */
#define ANSWER_S 30
/* A weftd that dies, or is replaced, is there again in less. */
#define RESTART_S 5
#define RETRY_NS  (20 * NSEC_PER_MSEC)

static void put(struct json_object *set, const char *key, const char *value)
{
	json_object_object_add(set, key, json_object_new_string(value));
}

struct json_object *register_keys(const struct domain *d)
{
	struct json_object *set = json_object_new_object();
	char path[CONF_NAME_MAX + 32];

	if (!set)
		return NULL;
	for (unsigned i = 0; i < d->gpu.n_keys; i++) {
		if (strcmp(d->gpu.keys[i].key, "cid") != 0)
			put(set, d->gpu.keys[i].key, d->gpu.keys[i].value);
	}
	if (d->gpu.window_size) {
		snprintf(path, sizeof(path), PLACE_SHM "/weft-%s", d->tenant);
		put(set, "window.path", path);
	}
	put(set, "vm.uuid", d->uuid);
	put(set, "group", PLACE_QEMU_GROUP);
	put(set, "mode", "0660");
	return set;
}

/* ---- asking ---- */

/* weftd is being started again: its socket is still there, or it left with our request. */
static bool comes_back(int error)
{
	return error == -ECONNREFUSED || error == -ECONNRESET || error == -EPIPE ||
	       error == -ENODATA;
}

static int ask_once(struct json_object *q, struct json_object **ret, char **ret_why)
{
	struct timeval wait = {.tv_sec = ANSWER_S};
	char path[160];
	struct client c;
	int r;

	*ret = NULL;
	snprintf(path, sizeof(path), "%s/control", PLACE_RUN);
	r = client_open(&c, path, ret_why);
	if (r < 0)
		return r;
	(void)setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	r = client_ask(&c, json_object_get(q), ret);
	client_close(&c);
	if (r == -EAGAIN)
		*ret_why = sentence("weftd has not answered for %d seconds", ANSWER_S);
	else if (r < 0)
		*ret_why = sentence("%s", client_error(r, *ret));
	if (r < 0) {
		json_object_put(*ret);
		*ret = NULL;
	}
	return r;
}

/* Requests may come twice: one that was carried out and not answered is asked again. */
static int ask(struct json_object *q, struct json_object **ret, char **ret_why)
{
	uint64_t until = clock_now_ns() + RESTART_S * NSEC_PER_SEC;
	int r = ask_once(q, ret, ret_why);

	while (comes_back(r) && clock_now_ns() < until) {
		free(*ret_why);
		nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
		r = ask_once(q, ret, ret_why);
	}
	json_object_put(q);
	return r;
}

static struct json_object *request(const char *cmd, const struct note *n)
{
	struct json_object *q = client_request(cmd);

	put(q, "name", n->tenant);
	return q;
}

/* Asks for what has no answer but yes. */
static int order(struct json_object *q, char **ret_why)
{
	struct json_object *a;
	int r = ask(q, &a, ret_why);

	json_object_put(a);
	return r;
}

int register_ping(char **ret_why)
{
	return order(client_request("ping"), ret_why);
}

/* ---- limits ---- */

static void put_size(struct json_object *set, const char *key, uint64_t v)
{
	char buf[24];

	snprintf(buf, sizeof(buf), "%" PRIu64, v);
	put(set, key, v == UINT64_MAX ? "max" : buf);
}

static void put_space(struct json_object *set, const struct space_want *w)
{
	char text[TPCS_TEXT];

	put(set, "tpc.set", tpcs_format(&w->tpcs, text, sizeof(text)));
	put(set, "gpc.set", tpcs_format(&w->gpcs, text, sizeof(text)));
	put(set, "tpc.count", tpcs_format_count(w, text, sizeof(text)));
	put(set, "tpc.exclusive", w->exclusive ? "yes" : "no");
}

static void put_limits(struct json_object *set, struct conf_tenant *t)
{
	char cap[CONF_CAP_TEXT];

	for (unsigned i = 0; conf_memory_keys[i]; i++)
		put_size(set, conf_memory_keys[i],
			 *conf_memory_key(&t->memory, conf_memory_keys[i]));
	put_size(set, "memory.weight", t->memory.weight);
	put_size(set, "compute.weight", t->compute.weight);
	put_size(set, "compute.priority", t->compute.priority);
	put_size(set, "compute.latency", t->compute.latency);
	put(set, "compute.max", conf_format_cap(&t->compute.max, cap, sizeof(cap)));
	put(set, "compute.class", conf_format_class(t->compute.shared));
	put(set, "kernel.rewrite", conf_format_rewrite(t->compute.rewrite));
	put(set, "graphics", conf_format_graphics(t->compute.graphics));
	put_space(set, &t->space);
	put_size(set, "host.max", t->host_max);
	put_size(set, "sessions.max", t->sessions_max);
	put_size(set, "lanes.max", t->lanes_max);
}

static int set_limits(const struct note *n, struct conf_tenant *t, char **ret_why)
{
	struct json_object *q = request("tenant-set", n), *set = json_object_new_object();

	put_limits(set, t);
	json_object_object_add(q, "set", set);
	return order(q, ret_why);
}

int register_set(const struct note *n, const struct gpu *g, char **ret_why)
{
	struct conf_tenant *t = conf_tenant_new(n->tenant);
	int r = t ? 0 : -ENOMEM;

	*ret_why = NULL;
	for (unsigned i = 0; i < g->n_keys && r == 0; i++) {
		r = conf_tenant_set(t, g->keys[i].key, g->keys[i].value);
		if (r == -ENOENT) /* "cid" */
			r = 0;
	}
	if (r == 0)
		r = set_limits(n, t, ret_why);
	conf_tenant_free(t);
	return r;
}

/* ---- the tenant ---- */

static int add(const struct note *n, struct json_object **ret, char **ret_why)
{
	struct json_object *q = request("tenant-add", n);

	json_object_object_add(q, "set", json_object_get(n->set));
	return ask(q, ret, ret_why);
}

static bool same_window(const struct note *n, struct json_object *tenant)
{
	uint64_t has = json_u64(tenant, "window.size");

	return has == strtoull(json_str(n->set, "window.size"), NULL, 10);
}

static int set_noted(const struct note *n, char **ret_why)
{
	struct conf_tenant *t = conf_tenant_new(n->tenant);
	int r = t ? 0 : -ENOMEM;

	if (r == 0) {
		json_object_object_foreach(n->set, key, value)(void)
			conf_tenant_set(t, key, json_object_get_string(value));
		r = set_limits(n, t, ret_why);
	}
	conf_tenant_free(t);
	return r;
}

/* The tenant is there, for the same VM. */
static int again(const struct note *n, struct json_object *tenant, char **ret_why)
{
	struct json_object *a = NULL;
	int r;

	if (same_window(n, tenant))
		return set_noted(n, ret_why);
	r = order(request("tenant-remove", n), ret_why);
	if (r == 0)
		r = add(n, &a, ret_why);
	json_object_put(a);
	return r;
}

int register_add(const struct note *n, bool renew, char **ret_why)
{
	struct json_object *a = NULL, *tenant;
	int r;

	*ret_why = NULL;
	r = add(n, &a, ret_why);
	if (r < 0)
		return r;
	tenant = json_get(a, "tenant");
	if (json_object_get_boolean(json_get(a, "existed"))) {
		if (strcmp(json_str(tenant, "vm.uuid"), n->uuid) != 0) {
			*ret_why = sentence(
				"tenant %s is there already, for something else: remove "
				"it (weftd.conf, weftctl remove), or name another by "
				"<weft:gpu tenant='...'>",
				n->tenant);
			r = -EEXIST;
		} else if (renew) {
			r = again(n, tenant, ret_why);
		}
	}
	json_object_put(a);
	return r;
}

/* Looks for the tenant: this VM's (0), somebody else's (-EEXIST), nobody's (-ENOENT). */
static int find(const struct note *n, char **ret_why)
{
	struct json_object *q = client_request("list"), *a, *list, *t;
	int r;

	put(q, "tenant", n->tenant);
	r = ask(q, &a, ret_why);
	if (r < 0)
		return -EIO;
	list = json_get(a, "tenants");
	if (json_count(list) == 1) {
		t = json_object_array_get_idx(list, 0);
		r = strcmp(json_str(t, "vm.uuid"), n->uuid) ? -EEXIST : 0;
	} else {
		r = -ENOENT;
	}
	json_object_put(a);
	return r;
}

int register_remove(const struct note *n, char **ret_why)
{
	char *why = NULL;
	int r;

	*ret_why = NULL;
	r = find(n, ret_why);
	if (r == -EEXIST)
		return 0;
	if (r < 0)
		return r;
	r = order(request("tenant-remove", n), ret_why);
	if (r != -EREMOTEIO)
		return r;
	/* Asked twice, since the first weftd has died of it, or another was faster. */
	if (find(n, &why) != -EIO) {
		free(*ret_why);
		*ret_why = NULL;
		r = 0;
	}
	free(why);
	return r;
}
