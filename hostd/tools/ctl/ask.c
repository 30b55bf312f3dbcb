/* SPDX-License-Identifier: Apache-2.0 */
/* Asking weftd, and saying why there is no answer. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "tools/ctl/ctl.h"

void ctl_putp(struct json_object **o)
{
	json_object_put(*o);
}

int ctl_failed(const struct ctl *ctl, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	struct json_object *a;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (!ctl->json) {
		fprintf(stderr, "weftctl: %s\n", text ? text : "out of memory");
		return 1;
	}
	a = json_object_new_object();
	json_object_object_add(a, "ok", json_object_new_boolean(0));
	json_object_object_add(a, "error", json_object_new_string(text ? text : ""));
	puts(json_object_to_json_string_ext(a, CLIENT_JSON));
	json_object_put(a);
	return 1;
}

int ctl_open(const struct ctl *ctl, struct client *ret)
{
	_cleanup_free_ char *why = NULL;
	int r = client_open(ret, ctl->control, &why);

	return r < 0 ? ctl_failed(ctl, "%s", why ? why : client_error(r, NULL)) : 0;
}

struct json_object *ctl_answer(const struct ctl *ctl, struct json_object *request,
			       int *ret_status)
{
	bool ends = !strcmp(json_str(request, "cmd"), "shutdown");
	struct json_object *a = NULL;
	struct client c;
	int r;

	*ret_status = ctl_open(ctl, &c);
	if (*ret_status) {
		json_object_put(request);
		return NULL;
	}
	r = client_ask(&c, request, &a);
	if (r == 0 && ends)
		r = client_wait_end(&c);
	client_close(&c);
	if (r == 0)
		return a;
	*ret_status = ctl_failed(ctl, "%s", client_error(r, a));
	json_object_put(a);
	return NULL;
}

struct json_object *ctl_ask(const struct ctl *ctl, struct json_object *request,
			    int *ret_status)
{
	struct json_object *a = ctl_answer(ctl, request, ret_status);

	if (!a || !ctl->json)
		return a;
	puts(json_object_to_json_string_ext(a, CLIENT_JSON));
	json_object_put(a);
	return NULL;
}

struct json_object *ctl_named(const char *cmd, const char *name)
{
	struct json_object *q = client_request(cmd);

	json_object_object_add(q, "name", json_object_new_string(name));
	return q;
}

struct json_object *ctl_about(const char *cmd, const char *what)
{
	struct json_object *q = client_request(cmd);

	if (what[strspn(what, "0123456789")] == '\0')
		json_object_object_add(q, "session",
				       json_object_new_uint64(strtoull(what, NULL, 10)));
	else
		json_object_object_add(q, "tenant", json_object_new_string(what));
	return q;
}
