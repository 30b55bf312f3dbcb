/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: those that wait for each other, atomics from several CPU threads, asynchronous
 * copies, clusters (tests/ptx/cu/blocks.cu).
 */
#include <criterion/criterion.h>
#include <string.h>

#define KERNELS "blocks"
#include "builds.h"

static void init(void)
{
	cr_assert(gpu_init(&g) == 0);
}

TestSuite(simt_blocks, .init = init, .fini = fini, .timeout = 60);

#define OK(s) cr_assert((s) == SIMT_DONE, "%s", simt_fault_name(g.fault.code))

Test(simt_blocks, grid_barrier)
{
	EACH_BUILD
	{
		unsigned grid = 12, n = grid * 64;
		int *arrived = gpu_alloc(&g, 8), *data = gpu_alloc(&g, n * 4);
		int *out = gpu_alloc(&g, 4 * n * 4);

		OK(gpu_launch_together(&g, "meet", grid, 64,
				       &(void *[]){arrived, data, out}));
		for (unsigned r = 1; r <= 4; r++)
			for (unsigned i = 0; i < n; i++)
				cr_expect(out[(r - 1) * n + i] ==
					  (int)(r * ((i / 64 + r) % grid + 1)));
	}
}

Test(simt_blocks, decoupled_look_back)
{
	EACH_BUILD
	{
		unsigned grid = 20, n = grid * 256;
		int *in = gpu_alloc(&g, n * 4), *out = gpu_alloc(&g, n * 4);
		int *flag = gpu_alloc(&g, grid * 4), *sum = gpu_alloc(&g, grid * 4),
		    want = 0;

		for (unsigned i = 0; i < n; i++)
			in[i] = (int)(i * 7 % 13);
		OK(gpu_launch_together(&g, "lookback", grid, 256,
				       &(void *[]){in, out, flag, sum}));
		for (unsigned i = 0; i < n; i++) {
			want += in[i];
			cr_expect(out[i] == want);
		}
	}
}

Test(simt_blocks, histogram_on_threads)
{
	EACH_BUILD
	{
		unsigned n = 100000, want[256] = {0};
		uint8_t *in = gpu_alloc(&g, n);
		unsigned *bins = gpu_alloc(&g, 1024);
		struct {
			void *in;
			unsigned n;
			void *bins;
		} p = {in, n, bins};

		for (unsigned i = 0; i < n; i++)
			want[in[i] = (uint8_t)(i * i / 7)]++;
		OK(gpu_launch_threads(&g, "histogram", 16, 256, &p, 4));
		cr_expect_arr_eq(bins, want, sizeof(want));
	}
}

struct cells {
	unsigned add, inc, dec, min, max, and, or, xor;
	int smin, smax;
	unsigned long long add64, max64, cas64;
	long long smin64;
	float fadd;
	double dadd;
	uint16_t h2[2], b2[2], h, cas16;
	unsigned cas_count;
};

Test(simt_blocks, atomics_on_threads)
{
	EACH_BUILD
	{
		struct cells *c = gpu_alloc(&g, sizeof(*c));
		unsigned n = 64 * 128, x = 0;

		c->min = c->and = c->cas_count = ~0u;
		OK(gpu_launch_threads(&g, "atomics", 64, 128, &c, 4));
		for (unsigned i = 0; i < n; i++)
			x ^= i;
		cr_expect(c->add == n * (n - 1) / 2 + 1);
		cr_expect(c->inc == n % 100);
		cr_expect(c->dec == (100 - n % 100) % 100, "%u", c->dec);
		cr_expect(c->min == 5 && c->max == n - 1);
		cr_expect(c->and == ~((1u << 20) - 1) && c->or == (1u << 27) - 1);
		cr_expect(c->xor == x);
		cr_expect(c->smin == -(int)(n - 1) && c->smax == (int)n - 101);
		cr_expect(c->add64 == (unsigned long long)n << 33);
		cr_expect(c->max64 == (unsigned long long)(n - 1) << 20);
		cr_expect(c->smin64 == -((long long)(n - 1) << 34));
		cr_expect(c->fadd == (float)n && c->dadd == n / 2.0);
		cr_expect(c->cas64 == 3ull * n && c->cas16 == (uint16_t)n);
		cr_expect(c->h == 0x6000 && c->h2[0] == 0x6000 && c->h2[1] == 0x6400);
		cr_expect(c->b2[0] == 0x4300 && c->b2[1] == 0x4280);
	}
}

Test(simt_blocks, pipelined_copies)
{
	EACH_BUILD
	{
		float *in = gpu_alloc(&g, 8192), *out = gpu_alloc(&g, 8192);

		for (int i = 0; i < 2048; i++)
			in[i] = (float)i;
		OK(gpu_launch(&g, "async_copy", 1, 256, &(void *[]){in, out}));
		for (int i = 0; i < 2048; i++)
			cr_expect(out[i] == (float)(2 * (i / 256 * 256 + 255 - i % 256)));
	}
}

Test(simt_blocks, an_mbarrier_holds_the_block_until_all_have_arrived)
{
	EACH_BUILD
	{
		int *out = gpu_alloc(&g, 4096);

		OK(gpu_launch(&g, "block_barrier", 1, 128, &out));
		for (int i = 0; i < 5; i++)
			for (int t = 0; t < 128; t++)
				cr_expect(out[i * 128 + t] == 127 - t + i);
	}
}

Test(simt_blocks, blocks_of_a_cluster_reach_one_anothers_memory)
{
	EACH_BUILD
	{
		if (!has_kernel("cluster"))
			continue;
		int *out = gpu_alloc(&g, 4096);
		struct simt_launch l = {
			.func = simt_program_find(g.prog, "cluster"),
			.mem = &g.mem,
			.grid = {4, 1, 1},
			.block = {64, 1, 1},
			.params = &out,
		};
		struct simt_cta *c[4];
		unsigned left = 4;

		cr_assert(simt_func_attr(l.func)->cluster[0] == 4);
		cr_assert(simt_launch_prepare(&l) == 0);
		cr_assert(l.cluster_size == 4);
		for (unsigned i = 0; i < 4; i++) {
			cr_assert(simt_cta_new(&c[i]) == 0);
			cr_assert(simt_cta_start(c[i], &l, (uint32_t[]){i, 0, 0}, 0) ==
				  0);
		}
		cr_assert(simt_cta_cluster(c, 4) == 0);
		for (bool done[4] = {0}; left;)
			for (unsigned i = 0; i < 4; i++) {
				enum simt_status s =
					done[i] ? SIMT_WAIT : simt_cta_run(c[i], 1000);

				cr_assert(s != SIMT_FAULT, "%s",
					  simt_fault_name(simt_cta_fault(c[i])->code));
				if (s == SIMT_DONE)
					done[i] = true, left--;
			}
		for (int r = 0; r < 4; r++)
			for (int t = 0; t < 64; t++)
				cr_expect(out[r * 64 + t] / 1000 == (r + 1) % 4);
		for (int t = 0; t < 64; t++)
			cr_expect(out[256 + t] == t + 4, "%d: %d", t, out[256 + t]);
		for (unsigned i = 0; i < 4; i++)
			simt_cta_free(c[i]);
	}
}

Test(simt_blocks, special_registers)
{
	EACH_BUILD
	{
		unsigned *out = gpu_alloc(&g, 4096);
		uint64_t *times = gpu_alloc(&g, 4096);

		g.as_is = true; /* each block on an SM of its own */
		OK(gpu_launch(&g, "where", 2, 128, &(void *[]){out, times}));
		for (unsigned i = 0; i < 256; i++) {
			cr_expect((out[i] & 255) == i / 128);
			cr_expect((out[i] >> 8 & 255) == 2);
			cr_expect((out[i] >> 16 & 255) == i % 128 / 32);
			cr_expect(out[i] >> 24 == i % 32);
			cr_expect(out[256 + i] == (1u << i % 32) - 1);
			cr_expect(times[2 * i] < 1000000000);
			cr_expect(times[2 * i + 1] > 1600000000000000000ull);
		}
	}
}

Test(simt_blocks, launch_limits)
{
	const char *list = all_builds();

	cr_assert(next_build(&list));
	struct simt_launch l = {
		.func = simt_program_find(g.prog, "histogram"),
		.mem = &g.mem,
		.grid = {1, 1, 1},
		.block = {1024, 1, 1},
	};

	cr_expect(simt_launch_prepare(&l) == 0);
	l.block[1] = 2;
	cr_expect(simt_launch_prepare(&l) < 0);
	l.block[0] = 0;
	cr_expect(simt_launch_prepare(&l) < 0);
	l.block[0] = l.block[1] = 1;
	l.grid[2] = 0;
	cr_expect(simt_launch_prepare(&l) < 0);
	l.grid[2] = 1;
	l.dyn_shared_bytes = SIMT_MAX_SHARED_BYTES;
	cr_expect(simt_launch_prepare(&l) < 0);
	l.dyn_shared_bytes = SIMT_MAX_SHARED_BYTES - 1024;
	cr_expect(simt_launch_prepare(&l) == 0);
	l.cluster[0] = 3;
	l.cluster[1] = l.cluster[2] = 1;
	cr_expect(simt_launch_prepare(&l) < 0);
}
