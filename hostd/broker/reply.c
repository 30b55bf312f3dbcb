/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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

struct json_object *reply_ok(void)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "ok", json_object_new_boolean(1));
	return o;
}

struct json_object *reply_error(int error, const char *fmt, ...)
{
	struct json_object *o = json_object_new_object();
	char text[512];
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
