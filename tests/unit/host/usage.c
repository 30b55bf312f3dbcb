/* SPDX-License-Identifier: Apache-2.0 */
/* Use by sessions, whatever their workers write into the page. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/list.h"
#include "broker/tenant.h"
#include "broker/operator/usage.h"
#include "broker/workers.h"
#include "ipc/page.h"

static struct tenant t;
static struct worker_page pages[2];
static struct worker workers[2];
static struct usage u;

static void begin(unsigned i)
{
	workers[i].count = &pages[i];
	workers[i].tenant = &t;
	list_append(&t.workers, &workers[i].tenant_link);
}

static void setup(void)
{
	list_init(&t.workers);
	begin(0);
	begin(1);
}

TestSuite(usage, .init = setup);

Test(usage, a_tenant_has_what_its_sessions_have_and_ended_ones_had)
{
	pages[0].launches = 3;
	pages[1].launches = 4;
	pages[1].moved_out_bytes = 9;
	usage_tenant(&t, &u);
	cr_expect_eq(u.sessions, 2);
	cr_expect_eq(u.launches, 7);
	usage_end(&workers[0]);
	list_remove(&workers[0].tenant_link);
	pages[0].launches = 100; /* nobody looks any more */
	usage_tenant(&t, &u);
	cr_expect_eq(u.sessions, 2);
	cr_expect_eq(u.launches, 7);
	cr_expect_eq(u.moved_out, 9);
}

Test(usage, refusals_are_counted_by_kind)
{
	pages[0].refusals[0].kind = REFUSAL_SLOT;
	pages[0].refusals[0].count = 2;
	pages[0].refusals[1].kind = REFUSAL_NUM; /* no kind */
	pages[0].refusals[1].count = 3;
	pages[0].n_refusals = UINT64_MAX;
	pages[0].other_refusals = 5;
	usage_tenant(&t, &u);
	cr_expect_eq(u.refused[REFUSAL_SLOT], 2);
	cr_expect_eq(u.refused_others, 5);
	cr_expect_eq(u.refused[REFUSAL_FUNCTION], 0);
}
