/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on a GPU, however many there are, as the host's NVML lists them. */
#include <criterion/criterion.h>

#include "nvml_fake.h"

/* The table of the driver's functions names texture references. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "device/cuda/nvml.h"

static struct device dev;

static void open_nvml(void)
{
	dev = (struct device){0};
	cuda_nvml_open(&dev);
	cr_assert_not_null(dev.nvml);
}

static void close_nvml(void)
{
	cuda_nvml_close(&dev);
}

TestSuite(device_nvml, .init = open_nvml, .fini = close_nvml, .timeout = 60);

Test(device_nvml, many_processes)
{
	uint64_t least, most;

	for (fake_nvml.processes = 1; fake_nvml.processes <= 5000;
	     fake_nvml.processes = 3 * fake_nvml.processes + 1) {
		cr_expect_eq(cuda_overhead(&dev), 1000 + fake_nvml.processes - 1);
		cr_expect(cuda_footprint(&dev, &least, &most));
		cr_expect_eq(most, 1000 + fake_nvml.processes - 1);
	}
	fake_nvml.asked = 0;
	fake_nvml.processes = 1000;
	cr_expect_gt(cuda_overhead(&dev), 0);
	cr_expect_eq(fake_nvml.asked, 1, "the room stays");
	fake_nvml.processes = 1u << 20;
	cr_expect_eq(cuda_overhead(&dev), 0, "there is an end");
}

Test(device_nvml, samples_of_many_processes)
{
	uint64_t memory, busy;

	fake_nvml.processes = 700;
	cr_expect_eq(cuda_busy_ns(&dev, &memory) % 40, 0);
	busy = cuda_busy_ns(&dev, &memory);
	cr_expect_gt(busy, 0, "this process's share is known");
	fake_nvml.sampled = 0;
	for (unsigned i = 0; i < 100; i++)
		cr_expect_geq(cuda_busy_ns(&dev, &memory), busy);
	cr_expect_leq(fake_nvml.sampled, 30, "as often as the driver samples");
}
