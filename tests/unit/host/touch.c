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
