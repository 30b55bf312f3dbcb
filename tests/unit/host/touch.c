/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that launches name, and how long ago. */
#include <criterion/criterion.h>

#include "base/macros.h"
#include "memory/touch.h"

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
