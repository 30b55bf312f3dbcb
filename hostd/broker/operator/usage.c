/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <string.h>

#include "base/list.h"
#include "base/macros.h"
#include "broker/tenant.h"
#include "broker/operator/usage.h"
#include "broker/workers.h"
#include "ipc/page.h"

static void read_refused(const struct worker_page *c, struct usage *u)
{
	/* acquire: pairs with the worker's release, which follows the entry */
	uint64_t n = atomic_load_explicit(&c->n_refusals, memory_order_acquire);

	for (uint64_t i = 0; i < MIN(n, (uint64_t)REFUSAL_MAX); i++) {
		uint32_t kind = *(volatile const uint32_t *)&c->refusals[i].kind;

		if (kind < REFUSAL_NUM)
			u->refused[kind] += atomic_load(&c->refusals[i].count);
	}
	u->refused_others = atomic_load(&c->other_refusals);
}

void usage_session(const struct worker *w, struct usage *ret)
{
	const struct worker_page *c = w->count;

	*ret = (struct usage){
		.sessions = 1,
		.calls = atomic_load(&c->calls),
		.posts = atomic_load(&c->posts),
		.launches = atomic_load(&c->launches),
		.to_device = atomic_load(&c->bytes_to_device),
		.from_device = atomic_load(&c->bytes_from_device),
		.moved_out = atomic_load(&c->moved_out_bytes),
		.moved_in = atomic_load(&c->moved_in_bytes),
	};
	read_refused(c, ret);
}

/* All members are counters of one type. */
static void add(struct usage *sum, const struct usage *u)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)u;

	static_assert(sizeof(*sum) % sizeof(*to) == 0, "counters only");
	for (unsigned i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

void usage_tenant(const struct tenant *t, struct usage *ret)
{
	const struct worker *w;
	struct usage u;

	*ret = t->ended;
	list_for_each (w, &t->workers, tenant_link) {
		usage_session(w, &u);
		add(ret, &u);
	}
}

void usage_end(const struct worker *w)
{
	struct usage u;

	usage_session(w, &u);
	add(&w->tenant->ended, &u);
}
