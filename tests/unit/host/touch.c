/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that launches name, and how long ago. */
#include <criterion/criterion.h>

#include "base/macros.h"
#include "ipc/trace.h"
#include "memory/touch.h"
#include "ptx/extent/table.h"

#define PAGE TOUCH_PAGE
#define BASE (DEVICE_BAND_BASE + 100 * PAGE)

static struct touch t;

static void setup(void)
{
	cr_assert_eq(touch_init(&t), 0);
}

static void teardown(void)
{
	touch_fini(&t);
	touch_fini(&t);
}

TestSuite(touch, .init = setup, .fini = teardown);

static uint32_t latest(CUdeviceptr addr, uint64_t size)
{
	uint32_t last = 0;

	return touch_latest(&t, addr, size, &last);
}

static void launched(const void *params, size_t size)
{
	const struct dev_launch l = {.params = params, .params_size = size};

	touch_launch(&t, &l);
}

Test(touch, addresses_among_parameters_are_touched)
{
	const uint64_t params[] = {
		1,
		BASE + 5,
		UINT64_MAX,
		DEVICE_BAND_BASE - 1,
		DEVICE_BAND_BASE + DEVICE_BAND_SIZE,
		BASE + 7 * PAGE,
	};
	uint32_t before = touch_now(&t);

	/* the last word is cut off */
	launched(params, sizeof(params) - 1);
	cr_assert_eq(touch_now(&t), before + 1);
	cr_assert_eq(latest(BASE, PAGE), before + 1);
	cr_assert_eq(latest(BASE + 7 * PAGE, PAGE), 0);
	cr_assert_eq(latest(BASE - 100 * PAGE, 100 * PAGE), 0);
	launched(params, sizeof(params));
	cr_assert_eq(latest(BASE + 7 * PAGE, PAGE), before + 2);
	launched(NULL, 0);
	cr_assert_eq(touch_now(&t), before + 3);
}

/* A pointer names the beginning of what it points to. */
Test(touch, what_follows_goes_along)
{
	uint32_t last = 0, first = touch_now(&t), now;

	touch_new(&t, BASE, 10 * PAGE);
	now = touch_tick(&t);
	touch_mark(&t, now, BASE + 4 * PAGE + 100);
	cr_assert_eq(touch_latest(&t, BASE, 4 * PAGE, &last), first);
	cr_assert_eq(last, first);
	cr_assert_eq(touch_latest(&t, BASE + 4 * PAGE, PAGE, &last), now);
	cr_assert_eq(touch_latest(&t, BASE + 5 * PAGE, 5 * PAGE, &last), now);
	/* parts of pages */
	last = 0;
	cr_assert_eq(touch_latest(&t, BASE + PAGE / 2, PAGE / 4, &last), first);
	cr_assert_eq(touch_latest(&t, BASE + 3 * PAGE + PAGE / 2, PAGE, &last), now);
	/* something else lies there now */
	touch_tick(&t);
	touch_new(&t, BASE, 10 * PAGE);
	last = 0;
	cr_assert_eq(touch_latest(&t, BASE, 10 * PAGE, &last), now + 1);
	cr_assert_eq(latest(BASE + 4 * PAGE, PAGE), 0);
}

Test(touch, ends_of_the_band)
{
	CUdeviceptr end = DEVICE_BAND_BASE + DEVICE_BAND_SIZE;

	touch_new(&t, end - PAGE, PAGE);
	cr_assert_eq(latest(end - PAGE, 5 * PAGE), touch_now(&t));
	touch_mark(&t, touch_tick(&t), end - 1);
	cr_assert_eq(latest(end - PAGE, PAGE), touch_now(&t));
}

/* Copies say how long they are, and so do launches whose kernel is known. */
Test(touch, what_is_reached_is_marked_to_its_end)
{
	uint32_t now = touch_tick(&t);

	touch_reach(&t, BASE + PAGE - 1, PAGE + 2);
	cr_assert_eq(touch_reached(&t, BASE - PAGE, PAGE), 0);
	cr_assert_eq(touch_reached(&t, BASE, 1), now);
	cr_assert_eq(touch_reached(&t, BASE + 2 * PAGE, PAGE), now);
	cr_assert_eq(touch_reached(&t, BASE + 3 * PAGE, 10 * PAGE), 0);
	cr_assert_eq(latest(BASE, 3 * PAGE), 0, "nobody has named it");
	/* Out of the band at either end, and longer than anything is. */
	now = touch_tick(&t);
	touch_reach(&t, DEVICE_BAND_BASE - PAGE, 2 * PAGE);
	cr_assert_eq(touch_reached(&t, DEVICE_BAND_BASE, PAGE), now);
	cr_assert_eq(touch_reached(&t, DEVICE_BAND_BASE + PAGE, PAGE), 0);
	touch_reach(&t, DEVICE_BAND_BASE + DEVICE_BAND_SIZE - PAGE, 5 * PAGE);
	cr_assert_eq(touch_reached(&t, DEVICE_BAND_BASE + DEVICE_BAND_SIZE - PAGE, PAGE),
		     now);
	touch_reach(&t, DEVICE_BAND_BASE - 2 * PAGE, PAGE);
	touch_reach(&t, BASE + 50 * PAGE, UINT64_MAX / 2);
	cr_assert_eq(touch_reached(&t, BASE + 50 * PAGE, PAGE), 0);
	cr_assert_eq(latest(BASE + 50 * PAGE, PAGE), now, "as far as nobody knows");
	/* Something else lies there now. */
	touch_new(&t, BASE, 4 * PAGE);
	cr_assert_eq(touch_reached(&t, BASE, 4 * PAGE), 0);
}

/* ---- traces ---- */

static struct trace_area area;
static struct worker_page page;

static void begin_trace(uint64_t tracing)
{
	t.page = &page;
	t.trace = &area;
	atomic_store(&page.tracing, tracing);
}

static struct trace_record record(unsigned i)
{
	const struct trace_slot *s = &area.ring[i];

	return (struct trace_record){s->begin_ns, s->end_ns, s->value,
				     s->kind,     s->track,  s->name};
}

static void expect_record(unsigned i, enum trace_kind kind, uint64_t first,
			  uint64_t bytes, uint32_t name)
{
	struct trace_record r = record(i);

	cr_expect_eq(atomic_load(&area.ring[i].number), i, "%u", i);
	cr_expect_eq(r.kind, kind, "%u", i);
	cr_expect_eq(r.track, (BASE - DEVICE_BAND_BASE) / PAGE + first, "%u: %u", i,
		     r.track);
	cr_expect_eq(r.value, bytes, "%u", i);
	cr_expect_eq(r.name, name, "%u", i);
	cr_expect(r.begin_ns && r.begin_ns == r.end_ns, "%u", i);
}

Test(touch, nothing_is_told_unless_memory_is_traced)
{
	const uint64_t params[] = {BASE};

	begin_trace(1);
	launched(params, sizeof(params));
	touch_reach(&t, BASE, PAGE);
	touch_new(&t, BASE, PAGE);
	touch_gone(&t, BASE, PAGE);
	cr_expect_eq(atomic_load(&area.taken), 0);
}

Test(touch, a_trace_is_told_of_memory)
{
	const uint64_t params[] = {BASE + 5, 3, BASE + 7 * PAGE};
	const struct dev_launch l = {
		.params = params, .params_size = sizeof(params), .traced = 8};

	begin_trace(TRACING_MEMORY);
	touch_new(&t, BASE, 10 * PAGE);
	touch_launch(&t, &l);
	touch_reach(&t, BASE + PAGE - 1, PAGE + 2);
	touch_reach(&t, DEVICE_BAND_BASE - 2 * PAGE, PAGE);
	touch_reach(&t, BASE, 0);
	touch_gone(&t, BASE, 10 * PAGE);
	expect_record(1, TRACE_MAP, 0, 10 * PAGE, 0);
	expect_record(2, TRACE_REACH, 0, 0, 7);
	expect_record(3, TRACE_REACH, 7, 0, 7);
	cr_expect_eq(record(2).begin_ns, record(3).begin_ns, "one launch");
	expect_record(4, TRACE_REACH, 0, 3 * PAGE, 0);
	expect_record(5, TRACE_REACH, 0, 0, 0);
	expect_record(6, TRACE_UNMAP, 0, 10 * PAGE, 0);
	cr_expect_eq(atomic_load(&area.taken), 6);
}

/* A row of each 4 MiB, and the first page of another part twice. */
static const char rows[] =
	".version 7.0\n.target sm_90\n.address_size 64\n"
	".visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
	".reg .u64 %p<6>;\n.reg .u32 %r<3>;\n"
	"ld.param.u64 %p1, [a];\nld.param.u64 %p2, [b];\n"
	"mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %p3, %r1, 4194304;\n"
	"add.s64 %p4, %p1, %p3;\nst.global.u32 [%p4], %r1;\n"
	"ld.global.u32 %r2, [%p2];\nst.global.u32 [%p2+8], %r2;\nret;\n}\n";

static struct dev_launch launch_of_rows(const struct ptx_extents *e)
{
	static const uint64_t params[] = {BASE, BASE + 9 * PAGE};
	const struct dev_launch l = {
		.params = params,
		.params_size = sizeof(params),
		.grid = {3, 1, 1},
		.block = {1, 1, 1},
		.extent = ptx_extents_find(e, "k"),
	};

	cr_assert(l.extent);
	return l;
}

Test(touch, what_is_reached_is_worked_out_where_somebody_wants_to_know)
{
	struct ptx_extents *e = ptx_extents_new(rows, sizeof(rows) - 1, 90);
	const struct dev_launch l = launch_of_rows(e);

	touch_launch(&t, &l);
	cr_expect_eq(touch_reached(&t, BASE, 10 * PAGE), 0);
	cr_expect_eq(latest(BASE + 9 * PAGE, PAGE), touch_now(&t));
	touch_work_out(&t, true);
	cr_expect_eq(atomic_load(&t.followed), touch_now(&t), "that one may have");
	touch_launch(&t, &l);
	touch_work_out(&t, true);
	cr_expect_eq(touch_reached(&t, BASE + 4 * PAGE, PAGE), touch_now(&t));
	cr_expect_lt(atomic_load(&t.followed), touch_now(&t));
	ptx_extents_put(e);
}

Test(touch, a_trace_is_told_of_what_is_reached)
{
	struct ptx_extents *e = ptx_extents_new(rows, sizeof(rows) - 1, 90);
	const struct dev_launch l = launch_of_rows(e);

	begin_trace(TRACING_MEMORY);
	touch_launch(&t, &l);
	for (unsigned i = 0; i < 3; i++)
		expect_record(1 + i, TRACE_REACH, 2 * i, PAGE, 0);
	expect_record(4, TRACE_REACH, 9, PAGE, 0);
	cr_expect_eq(atomic_load(&area.taken), 4, "pages of one part are told once");
	cr_expect_eq(record(1).begin_ns, record(4).begin_ns);
	ptx_extents_put(e);
}
