/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "broker/broker.h"
#include "broker/compute/filler.h"
#include "broker/loop/outbox.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"

/* First version of the messages that has FILL. */
#define VERSION_FILL 3u

static bool tell(struct worker *w, bool on)
{
	const struct msg m = {.type = MSG_FILL, .fill.on = on};

	return outbox_tell(&w->out, &m, -1, -1) == 0;
}

static struct worker *find(struct broker *b)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_READY && w->kind == WORKER_ISOLATED &&
		    w->version >= VERSION_FILL && outbox_is_read(&w->out))
			return w;
	}
	return NULL;
}

void filler_set(struct broker *b, bool on)
{
	struct worker *w;

	if (on == (b->filler != NULL))
		return;
	if (!on) {
		filler_give_up(b->filler);
		return;
	}
	w = find(b);
	if (w && tell(w, true))
		b->filler = w;
}

bool filler_works(const struct broker *b)
{
	return b->filler && atomic_load(&b->filler->count->pending);
}

void filler_give_up(struct worker *w)
{
	if (w->b->filler != w)
		return;
	/* If it cannot be told it is a broken peer, and ends. */
	(void)tell(w, false);
	w->b->filler = NULL;
}

void filler_forget(struct worker *w)
{
	if (w->b->filler == w)
		w->b->filler = NULL;
}
