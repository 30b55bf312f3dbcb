/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/tpcs.h"
#include "broker/loop/outbox.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "policies/space.h"
#include "util/conf.h"

/* One that does not read what it is told hears of it later. */
#define AGAIN_NS (10 * NSEC_PER_MSEC)

/* First version of the messages that has TPCS. */
#define VERSION_TPCS 2u
/* ... that has TPC_MAP for workers. */
#define VERSION_TPC_MAP 4u

static_assert(MSG_TPCS_MAX == SPACE_TPCS_MAX, "a set fits");

/* ---- where they are ---- */

bool tpcs_unknown(const struct broker *b)
{
	return !b->conf->space_known;
}

/* No two have the same bit. */
static bool is_right(const struct msg_tpc_map *m)
{
	struct space_set seen = {{0}};

	for (uint32_t i = 0; i < m->n; i++) {
		if (m->bit[i] >= SPACE_TPCS_MAX || space_has(&seen, m->bit[i]))
			return false;
		space_add(&seen, m->bit[i]);
	}
	return true;
}

int tpcs_found(struct broker *b, const struct msg_tpc_map *m)
{
	struct space_map *map = &b->conf->space;

	if (!is_right(m))
		return -EPROTO;
	if (b->conf->space_known)
		return 0;
	b->conf->space_known = true;
	if (!m->n)
		log_info("the device cannot keep kernels to some of its TPCs: tpc.set, "
			 "gpc.set and tpc.count cannot be had");
	map->n = m->n;
	memcpy(map->gpc, m->gpc, sizeof(map->gpc));
	memcpy(b->tpcs.bit, m->bit, sizeof(b->tpcs.bit));
	tpcs_due(b);
	return 0;
}

/* ---- deciding ---- */

void tpcs_due(struct broker *b)
{
	b->tpcs.due = true;
}

void tpcs_fini(struct broker *b)
{
	free(b->tpcs.tenants);
}

static bool has_all(const struct broker *b, const struct space_set *s)
{
	return space_count(s) >= b->conf->space.n;
}

/*
 * A tenant that contradicts the rest is refused when it is asked for. In a file, before the
 * device is known, it is not: its section is told of then, and left out here.
 */
static void assign(struct broker *b, uint32_t n)
{
	struct space_tenant *v = b->tpcs.tenants;
	struct space_why why = space_assign(&b->conf->space, v, n);

	for (uint32_t i = 0; why.error && i < n; i++) {
		v[why.tenant].want = (struct space_want){0};
		why = space_assign(&b->conf->space, v, n);
	}
}

/* If there is not enough memory, it is still due. */
static void decide(struct broker *b)
{
	struct space_tenant *v;
	struct tenant *t;
	uint32_t n = 0;

	list_for_each (t, &b->tenants, link)
		n++;
	v = realloc(b->tpcs.tenants, (n + 1) * sizeof(*v));
	if (!v)
		return;
	b->tpcs.tenants = v;
	n = 0;
	list_for_each (t, &b->tenants, link)
		v[n++] = (struct space_tenant){.want = t->space, .has = t->tpcs};
	assign(b, n);
	n = 0;
	list_for_each (t, &b->tenants, link)
		t->tpcs = v[n++].gets;
	b->tpcs.due = false;
	b->tpcs.untold = true;
}

const struct space_set *tpcs_of(struct tenant *t)
{
	/* Sessions are told in the next round. */
	if (t->b->tpcs.due && !tpcs_unknown(t->b))
		decide(t->b);
	return &t->tpcs;
}

/* ---- telling ---- */

static struct msg message(const struct broker *b, const struct space_set *s)
{
	struct msg m = {.type = MSG_TPCS};
	uint32_t in_gpc[UINT8_MAX + 1] = {0};

	if (has_all(b, s))
		return m;
	for (uint32_t i = 0; i < b->conf->space.n; i++) {
		uint8_t bit = b->tpcs.bit[i], gpc = b->conf->space.gpc[i];

		if (!space_has(s, i))
			continue;
		m.tpcs.bits[bit / 64] |= 1ull << bit % 64;
		m.tpcs.n++;
		in_gpc[gpc]++;
		m.tpcs.n_in_gpc = MAX(m.tpcs.n_in_gpc, in_gpc[gpc]);
	}
	return m;
}

static bool knows(const struct worker *w, const struct msg *m)
{
	return !w->tpcs_unsure && !memcmp(&w->tpcs, &m->tpcs, sizeof(w->tpcs));
}

static int tell(struct worker *w, const struct msg *m)
{
	int r;

	if (w->version < VERSION_TPCS)
		return m->tpcs.n ? -EOPNOTSUPP : 0;
	r = outbox_tell(&w->out, m, -1, -1);
	if (r < 0)
		return r;
	w->tpcs = m->tpcs;
	w->tpcs_unsure = false;
	return 0;
}

/* Returns false if it has to hear of it later. */
static bool tell_session(struct worker *w, const struct msg *m)
{
	if (knows(w, m) || w->version < VERSION_TPCS)
		return true;
	return !w->resume_id && outbox_is_read(&w->out) && tell(w, m) == 0;
}

/* For streams that programs themselves keep to some. */
static int tell_map(struct worker *w)
{
	const struct space_map *map = &w->b->conf->space;
	struct msg m = {.type = MSG_TPC_MAP, .tpc_map.n = map->n};

	if (!map->n || w->version < VERSION_TPC_MAP)
		return 0;
	memcpy(m.tpc_map.gpc, map->gpc, sizeof(m.tpc_map.gpc));
	memcpy(m.tpc_map.bit, w->b->tpcs.bit, sizeof(m.tpc_map.bit));
	return outbox_tell(&w->out, &m, -1, -1);
}

int tpcs_begin(struct worker *w)
{
	struct msg m;
	int r = tell_map(w);

	if (r < 0)
		return r;
	m = message(w->b, tpcs_of(w->tenant));
	return knows(w, &m) ? 0 : tell(w, &m);
}

static bool tell_all(struct broker *b)
{
	const struct tenant *t;
	bool told = true;
	struct worker *w;

	list_for_each (t, &b->tenants, link) {
		struct msg m = message(b, &t->tpcs);

		list_for_each (w, &t->workers, tenant_link)
			told &= tell_session(w, &m);
	}
	return told;
}

uint64_t tpcs_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	struct tpcs *s = &b->tpcs;

	/* Workers of the weftd before keep what they were told until it is known. */
	if (tpcs_unknown(b))
		return UINT64_MAX;
	if (s->due)
		decide(b);
	if (s->untold || (s->again_ns && now_ns >= s->again_ns)) {
		s->untold = false;
		s->again_ns = tell_all(b) ? 0 : now_ns + AGAIN_NS;
	}
	if (s->due && !s->again_ns)
		s->again_ns = now_ns + AGAIN_NS;
	return s->again_ns ? s->again_ns : UINT64_MAX;
}
