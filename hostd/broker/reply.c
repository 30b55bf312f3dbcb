/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/fd.h"
#include "base/list.h"
#include "broker/broker.h"
#include "broker/reply.h"
#include "broker/tenant.h"
#include "util/conf.h"
#include "util/conf_alias.h"

#define NUMBER_MAX (1ull << 53) /* JavaScript's, and jq's */

struct json_object *reply_ok(void)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "ok", json_object_new_boolean(1));
	return o;
}

void reply_u64(struct json_object *o, const char *key, uint64_t v)
{
	char text[24];

	if (v <= NUMBER_MAX) {
		json_object_object_add(o, key, json_object_new_uint64(v));
		return;
	}
	snprintf(text, sizeof(text), "%" PRIu64, v);
	reply_str(o, key, text);
}

void reply_limit(struct json_object *o, const char *key, uint64_t v)
{
	if (v == UINT64_MAX)
		reply_str(o, key, "max");
	else
		reply_u64(o, key, v);
}

void reply_str(struct json_object *o, const char *key, const char *v)
{
	if (v)
		json_object_object_add(o, key, json_object_new_string(v));
}

void reply_bool(struct json_object *o, const char *key, bool v)
{
	json_object_object_add(o, key, json_object_new_boolean(v));
}

struct json_object *reply_error(int error, const char *fmt, ...)
{
	struct json_object *o = json_object_new_object();
	char text[1200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_object_object_add(o, "ok", json_object_new_boolean(0));
	json_object_object_add(o, "error", json_object_new_string(text));
	json_object_object_add(o, "errno", json_object_new_int(-error));
	return o;
}

/* Names those that there are, as far as they fit. */
struct json_object *reply_no_tenant(struct broker *b, const char *name)
{
	char list[200] = "";
	struct tenant *t;
	size_t n = 0;

	if (!name)
		return reply_error(-EINVAL, "the request names no tenant");
	list_for_each (t, &b->tenants, link) {
		if (n + strlen(t->name) + 8 > sizeof(list)) {
			snprintf(list + n, sizeof(list) - n, ", ...");
			break;
		}
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "",
				      t->name);
	}
	return reply_error(-ENOENT, "no tenant \"%s\" (there are %s)", name, list);
}

static void keep_first(void *arg, bool wrong, const char *text)
{
	char **why = arg;

	if (wrong && !*why)
		*why = strdup(text);
}

struct json_object *reply_contradiction(struct broker *b)
{
	_cleanup_free_ char *why = NULL;

	b->conf->device_total = b->device_total;
	if (!conf_check(b->conf, NULL, keep_first, &why))
		return NULL;
	return reply_error(-EINVAL, "%s", why ? why : "out of memory");
}
