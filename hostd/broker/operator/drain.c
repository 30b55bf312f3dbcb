/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/list.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/operator/drain.h"
#include "broker/operator/events.h"
#include "broker/guests.h"
#include "broker/keep/books.h"
#include "broker/reply.h"
#include "broker/tenant.h"

static void post(struct broker *b, const struct tenant *t, const char *type,
		 const char *by)
{
	struct json_object *e = event_new(b, type, t, 0);

	reply_str(e, "by", by);
	event_post(b, e);
}

static void check_tenant(struct tenant *t)
{
	if (t->draining && !t->n_sessions)
		post(t->b, t, "tenant.drained", NULL);
}

static void check_all(struct broker *b)
{
	if (b->draining && !b->n_sessions)
		post(b, NULL, "weftd.drained", NULL);
}

void drain_tenant(struct tenant *t, bool on, const char *by)
{
	if (t->draining == on)
		return;
	t->draining = on;
	if (t->book)
		t->book->draining = on;
	log_info("tenant %s: %s (%s)", t->name,
		 on ? "drains, no session begins" : "takes sessions again", by);
	post(t->b, t, on ? "tenant.draining" : "tenant.undrained", by);
	if (!on)
		return;
	guests_refuse(t, -ESHUTDOWN);
	check_tenant(t);
}

void drain_all(struct broker *b, bool on, const char *by)
{
	struct tenant *t;

	if (b->draining == on)
		return;
	b->draining = on;
	if (books_head())
		books_head()->draining = on;
	log_info("%s (%s)", on ? "drains, no session begins" : "takes sessions again",
		 by);
	post(b, NULL, on ? "weftd.draining" : "weftd.undrained", by);
	if (!on)
		return;
	list_for_each (t, &b->tenants, link)
		guests_refuse(t, -ESHUTDOWN);
	check_all(b);
}

void drain_ended(struct tenant *t)
{
	check_tenant(t);
	check_all(t->b);
}
