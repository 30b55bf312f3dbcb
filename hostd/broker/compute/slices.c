/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/plugin.h"
#include "broker/compute/slices.h"
#include "broker/loop/outbox.h"
#include "broker/operator/gpu_time.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "policies/time.h"

/* Workers that come and go quickly do not keep weftd deciding. */
#define PAUSE_NS NSEC_PER_MSEC
/* One that does not read what it is told hears of it later. */
#define AGAIN_NS (100 * NSEC_PER_MSEC)

/* While more than one session computes it is looked at so often whether they have work,
 * which workers note 20 times a second, and how much of the device each tenant has had: a
 * driver takes few samples of that, each of one process. */
#define LOOK_NS (4 * NSEC_PER_SEC)
#define BUSY_NS (16 * NSEC_PER_SEC)
/* Fewer notes are none. */
#define LOOKS_MIN 20u

/* First version of the messages that has SLICE. */
#define VERSION_SLICE 2u
/* First one whose SLICE has gather_us. */
#define VERSION_GATHER 4u

void slices_due(struct broker *b)
{
	b->slices.due = true;
}

/* Notes which sessions compute, so that it is they who are told afterwards. */
static uint32_t count_computing(struct tenant *t)
{
	uint32_t n = 0;
	struct worker *w;

	list_for_each (w, &t->workers, tenant_link) {
		w->computes = atomic_load(&w->count->computing) != 0;
		n += w->computes;
	}
	return n;
}

/* Returns whether the tenant computes only since now. */
static bool has_come(struct tenant *t, bool computes)
{
	bool came = computes && !t->takes.computes;

	t->takes.computes = computes;
	if (!computes || came)
		t->takes.pending = t->takes.busy = TIME_UNSEEN;
	return came;
}

/* Per mille of the notes since the last look that a session had work. */
static uint32_t pending(struct worker *w)
{
	uint64_t looks = atomic_load(&w->count->looks);
	uint64_t busy = atomic_load(&w->count->looks_pending);
	uint64_t n = looks - w->looks, of = busy - w->looks_pending;

	w->looks = looks;
	w->looks_pending = busy;
	return n < LOOKS_MIN || of > n ? TIME_UNSEEN : (uint32_t)(of * 1000 / n);
}

/* The session that has the least counts. */
static uint32_t pending_tenant(struct tenant *t)
{
	uint32_t least = TIME_UNSEEN;
	struct worker *w;

	list_for_each (w, &t->workers, tenant_link) {
		uint32_t p = pending(w);

		if (w->computes)
			least = MIN(least, p);
	}
	return least;
}

static uint32_t busy_since(const struct tenant_takes *of, uint64_t gpu_us, uint64_t ns)
{
	return (uint32_t)MIN((gpu_us - of->gpu_us) * 1000 / (ns / NSEC_PER_USEC),
			     TIME_UNSEEN - 1ull);
}

/* Sees who had work since the last time, and, less often, who had how much of the device;
 * begin: there was no last time. */
static void see(struct broker *b, uint64_t now_ns, bool begin)
{
	struct slices *s = &b->slices;
	bool busy = !begin && now_ns >= s->busy_ns + BUSY_NS;
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		struct tenant_takes *of = &t->takes;
		uint32_t seen = pending_tenant(t);
		uint64_t us = gpu_time_tenant(t);

		if (!begin && of->computes)
			of->pending = seen;
		if (busy && of->computes)
			of->busy = busy_since(of, us, now_ns - s->busy_ns);
		if (busy || begin)
			of->gpu_us = us;
	}
	s->look_ns = now_ns;
	s->busy_ns = busy || begin ? now_ns : s->busy_ns;
}

/* All tenants of class shared are one to the policy, in the place of the first that computes:
 * of the default weight, and never seen with work all the time, since long slices of others
 * would not become its own. */
static void see_shared(struct time_tenant *v, bool *any)
{
	*v = (struct time_tenant){.weight = CONF_WEIGHT_DEFAULT,
				  .sessions = v->sessions && !*any,
				  .quota_us = v->quota_us};
	*any |= v->sessions;
}

/* Fills in what the policy is told; false: there is not enough memory. */
static bool look(struct broker *b, uint64_t now_ns, uint32_t *ret_n)
{
	struct slices *s = &b->slices;
	uint32_t n = 0, n_computing = 0;
	struct time_tenant *v;
	bool came = false, shared = false;
	struct tenant *t;

	if (!plugin_room(b, ret_n))
		return false;
	v = b->asked.tenants;
	list_for_each (t, &b->tenants, link) {
		uint32_t sessions = count_computing(t);

		came |= has_come(t, sessions);
		n_computing += sessions;
		v[n++] = (struct time_tenant){
			.weight = t->compute.weight,
			.priority = t->pace.late ? 0 : t->compute.priority,
			.sessions = sessions,
			.set = t->pace.set,
			.out = t->pace.out,
			.goes = !t->pace.stopped,
			.quota_us = t->compute.max.quota_us};
		if (t->compute.shared)
			see_shared(&v[n - 1], &shared);
	}
	if (n_computing < 2)
		s->look_ns = 0;
	else if (came || !s->look_ns || now_ns >= s->look_ns + LOOK_NS)
		see(b, now_ns, came || !s->look_ns);
	n = 0;
	list_for_each (t, &b->tenants, link) {
		v[n].pending = t->compute.shared ? 0 : t->takes.pending;
		v[n++].busy = t->compute.shared ? 0 : t->takes.busy;
	}
	return true;
}

/* Returns false if it has to hear of it later. */
static bool tell(struct worker *w, uint32_t us, uint32_t gather_us, uint64_t now_ns)
{
	const struct msg m = {
		.type = MSG_SLICE,
		.slice = {.us = us,
			  .gather_us = w->version < VERSION_GATHER ? 0 : gather_us}};

	if (!w->computes || w->kind != WORKER_ISOLATED || w->version < VERSION_SLICE ||
	    (w->slice_us == us && w->gather_us == m.slice.gather_us && !w->slice_unsure))
		return true;
	if (w->resume_id || !outbox_is_read(&w->out) ||
	    outbox_tell(&w->out, &m, -1, -1) < 0)
		return false;
	if (w->slice_us != us) {
		w->slice_before_us = w->slice_us;
		w->slice_us = us;
		w->sliced_ns = now_ns;
	}
	w->gather_us = m.slice.gather_us;
	w->slice_unsure = false;
	return true;
}

/* Gathering is for who has more of the device than somebody less urgent, who has it meanwhile;
 * not for who has work all the time, and leaves nothing. */
static uint32_t gather_us(const struct broker *b, uint32_t i, uint32_t least)
{
	const struct time_tenant *t = &b->asked.tenants[i];

	if (!t->sessions || t->priority <= b->asked.tenants[least].priority ||
	    b->asked.us[i] <= b->asked.us[least])
		return 0;
	return t->pending == TIME_UNSEEN || t->pending < TIME_GATHER_PENDING
		       ? TIME_GATHER_US
		       : 0;
}

/* Decides, and tells. Returns false if somebody has to hear of it later. */
static bool decide(struct broker *b, uint64_t now_ns)
{
	const struct tenant *t;
	bool told = true;
	struct worker *w;
	uint32_t n, least, i = 0;

	if (!look(b, now_ns, &n))
		return false;
	plugin_slices(b, n);
	least = time_least_urgent(b->asked.tenants, n);
	list_for_each (t, &b->tenants, link) {
		uint32_t us = t->pace.late ? TIME_BELOW_US : b->asked.us[i];
		uint32_t gather = least < n ? gather_us(b, i, least) : 0;

		list_for_each (w, &t->workers, tenant_link)
			told &= tell(w, us, gather, now_ns);
		i++;
	}
	return told;
}

uint64_t slices_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	struct slices *s = &b->slices;
	uint64_t next;

	if ((s->again_ns && now_ns >= s->again_ns) ||
	    (s->look_ns && now_ns >= s->look_ns + LOOK_NS))
		s->due = true;
	if (s->due && now_ns >= s->at_ns) {
		s->due = false;
		s->at_ns = now_ns + PAUSE_NS;
		s->again_ns = decide(b, now_ns) ? 0 : now_ns + AGAIN_NS;
	}
	if (s->due)
		return s->at_ns;
	next = s->again_ns ? s->again_ns : UINT64_MAX;
	return s->look_ns ? MIN(next, s->look_ns + LOOK_NS) : next;
}
