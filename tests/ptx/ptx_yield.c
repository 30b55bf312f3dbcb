/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are stopped at their yield points, at moments that are random, and go on: the same
 * to the last bit as without. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#define GRID   5u
#define BLOCK  128u
#define SHARED (BLOCK * 4 + 3) /* a multiple of nothing */

static struct gpu gpu;

static void run(const char *kernel, bool as_is, unsigned n, uint64_t *ret)
{
	uint64_t *out = gpu_alloc(&gpu, GRID * BLOCK * sizeof(*out));
	const struct {
		uint64_t out;
		uint32_t n;
	} params = {(uintptr_t)out, n};

	for (unsigned i = 0; i < GRID * BLOCK; i++)
		out[i] = i % 11;
	gpu.as_is = as_is;
	cr_assert_eq(gpu_launch(&gpu, kernel, GRID, BLOCK, &params), SIMT_DONE,
		     "%s: line %u", kernel, gpu.fault.line);
	memcpy(ret, out, GRID * BLOCK * sizeof(*out));
}

static void check(const char *kernel, unsigned n)
{
	static uint64_t with[GRID * BLOCK], without[GRID * BLOCK];
	uint64_t stops;

	cr_assert_eq(setenv("WEFT_TEST_PERSIST", "yield", 1), 0);
	cr_assert_eq(gpu_init(&gpu), 0);
	gpu.shared_bytes = SHARED;
	cr_assert_eq(gpu_load_file(&gpu, "loops-90.ptx"), 0, "%s", gpu.log);
	run(kernel, true, n, without);
	cr_assert_eq(gpu.stops, 0);
	for (unsigned i = 0; i < 20; i++) {
		run(kernel, false, n, with);
		for (unsigned k = 0; k < GRID * BLOCK; k++)
			cr_assert_eq(with[k], without[k], "%s: thread %u: %lx, not %lx",
				     kernel, k, with[k], without[k]);
	}
	stops = gpu.stops;
	cr_assert_gt(stops, 50, "%s: stopped %lu times", kernel, stops);
	gpu_fini(&gpu);
}

Test(ptx_yield, threads_of_one_block_stop_apart)
{
	check("apart", 60);
}

Test(ptx_yield, registers_of_every_kind_are_kept)
{
	check("kinds", 2000);
}

Test(ptx_yield, shared_memory_is_kept)
{
	check("together", 900);
}

Test(ptx_yield, loops_one_after_the_other)
{
	check("several", 200);
}

Test(ptx_yield, a_loop_that_is_common_among_others)
{
	check("tree", 4000);
}
