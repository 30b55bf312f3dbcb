/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/blocks.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "policies/blocks.h"

/* No SM has room for more. */
#define ON_SM_MAX 256u

static_assert(BLOCKS_PARTS == PAGE_KERNEL_PARTS, "as workers say them");
static_assert(BLOCKS_RESOURCES == PAGE_KERNEL_RESOURCES, "likewise");

/* Workers that compete, and what is decided about each. */
struct crowd {
	struct worker *w[BLOCKS_SESSIONS_MAX];
	struct blocks_session s[BLOCKS_SESSIONS_MAX];
	uint32_t n;
};

static uint32_t number(const _Atomic uint64_t *from, uint32_t most)
{
	return (uint32_t)MIN(atomic_load_explicit(from, memory_order_relaxed), most);
}

static void limit(const struct worker *w, uint32_t permille)
{
	atomic_store_explicit(&w->count->kernel_limit, permille, memory_order_relaxed);
}

/* A page may change at any time: what is decided is by one look. */
static void add(struct crowd *c, struct worker *w)
{
	const struct worker_page *page = w->count;
	struct blocks_session *s = &c->s[c->n];

	*s = (struct blocks_session){.weight = w->tenant->compute.weight,
				     .blocks = number(&page->kernel_blocks, ON_SM_MAX),
				     .fixed = number(&page->kernel_fixed, 1)};
	for (unsigned i = 0; i < BLOCKS_RESOURCES; i++)
		s->need[i] = number(&page->kernel_need[i], BLOCKS_ALL);
	for (unsigned i = 0; i < BLOCKS_PARTS; i++)
		s->speed[i] = number(&page->kernel_speed[i], 1000);
	c->w[c->n++] = w;
}

/* Between two kernels a session has none, and a look may come just then: it competes for so long
 * after it was seen with some. Kernels that run are resized with each change. */
#define LINGER_NS (250 * NSEC_PER_MSEC)

static bool has_kernels(struct worker *w, uint64_t now_ns)
{
	if (w->works_us)
		w->kernels_ns = now_ns;
	return w->kernels_ns && now_ns - w->kernels_ns < LINGER_NS;
}

/* Sessions that have kernels to run; the others have no limit when they begin. */
static void find(struct broker *b, struct crowd *c, uint64_t now_ns)
{
	struct tenant *t;
	struct worker *w;

	c->n = 0;
	list_for_each (t, &b->tenants, link) {
		list_for_each (w, &t->workers, tenant_link) {
			if (w->kind != WORKER_SHARED)
				continue;
			if (has_kernels(w, now_ns) && c->n < BLOCKS_SESSIONS_MAX)
				add(c, w);
			else
				limit(w, PAGE_KERNEL_ALONE);
		}
	}
}

static uint32_t limit_of(const struct blocks_session *s)
{
	if (s->plain)
		return PAGE_KERNEL_PLAIN;
	return s->permille ? MIN(s->permille, PAGE_KERNEL_ALL) : PAGE_KERNEL_ALL;
}

void blocks_look(struct broker *b, uint64_t now_ns)
{
	struct crowd c;

	if (b->blocks == &blocks_all)
		return;
	find(b, &c, now_ns);
	b->blocks->decide(c.s, c.n);
	for (uint32_t i = 0; i < c.n; i++)
		limit(c.w[i], c.n > 1 ? limit_of(&c.s[i]) : PAGE_KERNEL_ALONE);
}
