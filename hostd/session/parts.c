/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a session that its worker has. */
#include "memory/hostmem.h"
#include "memory/managed.h"
#include "session/session_private.h"

void sess_parts(struct session *s, struct sess_parts *ret)
{
	*ret = (struct sess_parts){
		.ops = s->ops,
		.dev = s->dev,
		.info = &s->info,
		.space = s->space,
		.pools = s->pools,
		.managed = s->managed,
		.touch = &s->touch,
		.gate = &s->gate,
		.page = s->count,
	};
}

void sess_set_hooks(struct session *s, const struct sess_hooks *h)
{
	s->hooks = *h;
}

void sess_set_page(struct session *s, struct worker_page *page)
{
	s->count = s->env.count = page;
	s->touch.page = page;
}

void sess_set_trace(struct session *s, struct trace_area *area)
{
	s->trace = s->env.trace = s->touch.trace = area;
}

int sess_set_hostmem(struct session *s, const struct hostmem_file *f)
{
	int r = hostmem_new(&s->env, f, &s->hostmem);

	if (r == 0)
		managed_set_host(s->managed, s->hostmem);
	return r;
}

void sess_set_status(struct session *s, volatile struct wire_status *status)
{
	s->status = status;
}

uint64_t sess_number(const struct session *s)
{
	return s->number;
}

int sess_end_reason(const struct session *s)
{
	return atomic_load(&s->end_reason);
}

bool sess_active(const struct session *s)
{
	return atomic_load(&s->active);
}

void sess_set_inactive(struct session *s)
{
	atomic_store(&s->active, false);
}

static void on_comes(void *session)
{
	struct session *s = session;

	if (s->hooks.active && !atomic_exchange(&s->active, true))
		s->hooks.active(s->hooks.arg);
}

void sess_bound(struct session *s, bool on)
{
	touch_work_out(&s->touch, on);
	gate_bound(&s->gate, on, on_comes);
}

bool sess_any_lane(struct session *s, bool (*is)(void *arg, unsigned index), void *arg)
{
	bool any = false;

	pthread_mutex_lock(&s->lanes_lock);
	for (unsigned i = 0; i < SESS_LANES_MAX && !any; i++)
		any = s->lanes[i] && is(arg, i);
	pthread_mutex_unlock(&s->lanes_lock);
	return any;
}
