/* SPDX-License-Identifier: Apache-2.0 */
/* drain: no session begins, and those that run go on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/ctl/ctl.h"

static struct json_object *make(const struct ctl *ctl, const char *tenant)
{
	struct json_object *q = client_request("drain");

	if (tenant)
		json_object_object_add(q, "tenant", json_object_new_string(tenant));
	if (ctl->undo)
		json_object_object_add(q, "undo", json_object_new_boolean(1));
	return q;
}

static void print(const struct ctl *ctl, const char *tenant, struct json_object *a)
{
	const char *name = tenant ? tenant : "weftd";
	uint64_t n = json_u64(a, "sessions.current");

	if (ctl->undo)
		printf("%s takes sessions again\n", name);
	else if (n)
		printf("%s: no session begins; %" PRIu64 " go on\n", name, n);
	else
		printf("%s is empty\n", name);
}

/* Events that come from now on. */
static int follow(struct client *c)
{
	struct json_object *q = client_request("events"), *a = NULL;
	int r;

	json_object_object_add(q, "follow", json_object_new_boolean(1));
	json_object_object_add(q, "after", json_object_new_int64(INT64_MAX));
	r = client_ask(c, q, &a);
	json_object_put(a);
	return r;
}

/* True if an event is of this kind and of what is drained. */
static bool is_event(struct json_object *e, const char *tenant, const char *kind)
{
	const char *type = json_str(e, "event");
	const char *what = tenant ? "tenant." : "weftd.";

	return !strncmp(type, what, strlen(what)) && !strcmp(type + strlen(what), kind) &&
	       (!tenant || !strcmp(json_str(e, "tenant"), tenant));
}

static int until_empty(const struct ctl *ctl, struct client *c, const char *tenant)
{
	int status = -1;

	while (status < 0) {
		_cleanup_(ctl_putp) struct json_object *e = NULL;
		int r = client_next(c, &e);

		if (r < 0)
			status = ctl_failed(ctl, "%s", client_error(r, NULL));
		else if (is_event(e, tenant, "drained") || is_event(e, tenant, "removed"))
			status = 0;
		else if (is_event(e, tenant, "undrained"))
			status = ctl_failed(ctl, "%s takes sessions again (by %s)",
					    tenant ? tenant : "weftd", json_str(e, "by"));
		else if (is_event(e, NULL, "stopping"))
			status = ctl_failed(ctl, "weftd ends (by %s)", json_str(e, "by"));
	}
	return status;
}

/* Listens before it asks, so that the end cannot come in between. */
static int drain_and_wait(const struct ctl *ctl, const char *tenant)
{
	_cleanup_(ctl_putp) struct json_object *a = NULL;
	struct client c;
	int status = ctl_open(ctl, &c), r;

	if (status)
		return status;
	r = follow(&c);
	if (r < 0)
		status = ctl_failed(ctl, "%s", client_error(r, NULL));
	if (!status)
		a = ctl_answer(ctl, make(ctl, tenant), &status);
	if (a && json_u64(a, "sessions.current")) {
		if (!ctl->json)
			print(ctl, tenant, a);
		fflush(stdout);
		status = until_empty(ctl, &c, tenant);
	}
	client_close(&c);
	return status;
}

int ctl_drain(const struct ctl *ctl, int argc, char **argv)
{
	const char *tenant = argc > 1 ? argv[1] : NULL;
	int status;

	if (ctl->wait && !ctl->undo) {
		status = drain_and_wait(ctl, tenant);
		if (status)
			return status;
	}
	_cleanup_(ctl_putp) struct json_object *a =
		ctl_ask(ctl, make(ctl, tenant), &status);
	if (a)
		print(ctl, tenant, a);
	return status;
}
