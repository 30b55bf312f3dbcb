/* SPDX-License-Identifier: Apache-2.0 */
/* A launch's descriptor has the bits of TPCs that it is not to run on, on its way to the
 * device: a driver that calls back. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* as cuda.h has it */
#include "device/cuda/driver.h"
#include "device/cuda/mask.h"
#include "test.h"

#define QMD_BYTES 384

static struct {
	void (*fn)(void *arg, int domain, int event, const void *params);
	bool on, refuses;
	unsigned n_subscribed, n_enabled;
} driver;

static CUresult subscribe(uint32_t *ret, void (*fn)(void *, int, int, const void *),
			  void *arg)
{
	driver.fn = fn;
	driver.n_subscribed++;
	*ret = 77;
	return CUDA_SUCCESS;
}

static CUresult enable(uint32_t on, uint32_t subscriber, int domain, int event)
{
	cr_assert_eq(subscriber, 77);
	cr_assert_eq(domain, 0xb);
	cr_assert_eq(event, 1);
	driver.on = on;
	driver.n_enabled++;
	return CUDA_SUCCESS;
}

static const void *table[12] = {(void *)sizeof(table)};

static CUresult export_table(const void **ret, const CUuuid *id)
{
	if (driver.refuses)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = table;
	return CUDA_SUCCESS;
}

static void setup(void)
{
	table[3] = (const void *)subscribe;
	table[6] = (const void *)enable;
	cu.cuGetExportTable = export_table;
}

static unsigned char qmd[QMD_BYTES];

/* As the driver launches; the descriptor stays as it is if nobody looks. */
static void launch(unsigned char version)
{
	struct {
		uint64_t size;
		void *unknown[3];
		unsigned char *qmd;
	} params = {sizeof(params), {NULL}, qmd};

	memset(qmd, 0, sizeof(qmd));
	qmd[72] = version;
	if (driver.on)
		driver.fn(NULL, 0xb, 1, &params);
}

static uint64_t word(unsigned at)
{
	uint64_t w;

	memcpy(&w, qmd + at, sizeof(w));
	return w;
}

TestSuite(device_mask, .init = setup);

Test(device_mask, nobody_pays_without_a_mask)
{
	cr_assert(cuda_mask_set(NULL));
	cr_assert_eq(driver.n_subscribed, 0);
	cr_assert_eq(driver.n_enabled, 0);
}

Test(device_mask, bits_that_are_not_allowed_are_off)
{
	const uint64_t bits[2] = {0xf, 1ull << 19};
	unsigned turn = cuda_mask_turn();

	cr_assert(cuda_mask_set(bits));
	cr_assert_neq(cuda_mask_turn(), turn);
	launch(0x40);
	cr_assert_eq(word(304), ~0xfull);
	cr_assert_eq(word(312), ~(1ull << 19));
	cr_assert_eq(word(0) & 0xffffffff, 0x80000000u, "they count");
	turn = cuda_mask_turn();
	cr_assert(cuda_mask_set(NULL));
	cr_assert_neq(cuda_mask_turn(), turn, "graphs hear of it");
	cr_assert_eq(driver.on, false);
	launch(0x40);
	cr_assert_eq(word(0), 0);
	cr_assert(cuda_mask_set(bits));
	cr_assert_eq(driver.n_subscribed, 1, "once");
}

Test(device_mask, other_descriptors_are_left_alone)
{
	const uint64_t bits[2] = {1, 0};

	cr_assert(cuda_mask_set(bits));
	launch(0x30);
	cr_assert_eq(word(304), 0);
	launch(0x50);
	cr_assert_eq(word(304), 0);
	driver.fn(NULL, 0xb, 1, &(uint64_t){8});
	driver.fn(NULL, 0xa, 1, NULL);
	launch(0x40);
	cr_assert_eq(word(304), ~1ull);
}

Test(device_mask, a_driver_without_it_says_so)
{
	const uint64_t bits[2] = {1, 0};
	unsigned turn = cuda_mask_turn();

	driver.refuses = true;
	cr_assert_not(cuda_mask_set(bits));
	cr_assert_eq(cuda_mask_turn(), turn);
	cr_assert(cuda_mask_set(NULL));
	driver.refuses = false;
	table[0] = (void *)(6 * sizeof(void *));
	cr_assert_not(cuda_mask_set(bits), "another table");
}

/* A launch of a stream that has some of the TPCs: no more than the process has either. */
Test(device_mask, a_launch_has_less)
{
	const uint64_t bits[2] = {0xff, 0}, some[2] = {0x3, 0};
	uint64_t now[2];

	cr_assert(cuda_mask_need());
	cr_assert_not(cuda_mask_get(now));
	launch(0x40);
	cr_assert_eq(word(304), 0, "others have all");
	cuda_mask_only(some);
	launch(0x40);
	cr_assert_eq(word(304), ~0x3ull);
	cr_assert_eq(word(312), ~0ull);
	cuda_mask_only(NULL);
	cr_assert(cuda_mask_set(bits));
	cr_assert(cuda_mask_get(now));
	cr_assert_eq(now[0], 0xff);
	launch(0x40);
	cr_assert_eq(word(304), ~0xffull);
	cr_assert(cuda_mask_set(NULL));
	cr_assert(driver.on, "the stream is still there");
	launch(0x40);
	cr_assert_eq(word(304), 0);
}

Test(device_mask, places_in_a_set)
{
	struct dev_tpc_map map = {.n = 4, .gpc = {0, 0, 1, 1}, .bit = {0, 9, 64, 70}};
	const struct dev_tpcs all = {.n = 0};
	const struct dev_tpcs set = {.bits = {1 << 9, 1 << 6 | 1}, .n = 3, .n_in_gpc = 2};
	struct dev_tpcs got = dev_tpcs_pick(&map, &all, (uint64_t[2]){0x9, 0});

	cr_assert_eq(got.n, 2);
	cr_assert_eq(got.n_in_gpc, 1);
	cr_assert(got.bits[0] == 1 && got.bits[1] == 1 << 6);
	got = dev_tpcs_pick(&map, &set, (uint64_t[2]){0x6, 0});
	cr_assert_eq(got.n, 2);
	cr_assert_eq(got.n_in_gpc, 2, "both of GPC 1");
	cr_assert(got.bits[0] == 0 && got.bits[1] == (1 << 6 | 1));
	got = dev_tpcs_pick(&map, &set, (uint64_t[2]){0x8, 1});
	cr_assert_eq(got.n, 3, "none of these: all");
	cr_assert_eq(got.bits[0], set.bits[0]);
}
