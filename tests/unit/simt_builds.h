/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of kernels as nvcc makes them, in each of several builds. */
#ifndef WEFT_TEST_SIMT_BUILDS_H
#define WEFT_TEST_SIMT_BUILDS_H

#include <criterion/criterion.h>

#include "../ptx/gpu.h"
#include "base/macros.h"

static struct gpu g;

static void fini(void)
{
	gpu_fini(&g);
}

static void init(void)
{
	cr_assert(gpu_init(&g) == 0);
}

static bool load(const char *name)
{
	gpu_reset(&g);
	cr_assert(gpu_load_file(&g, name) == 0, "%s: %s", name, g.log);
	return true;
}

/* Of the test's own builds[], names of PTX files. */
#define EACH_BUILD                                                                       \
	for (unsigned _b = 0; _b < ARRAY_SIZE(builds) && load(builds[_b]); _b++)

#endif
