/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes that part and meet, wait for each other and exchange values, in kernels as nvcc
 * makes them (tests/ptx/cu/lanes.cu), optimised and with -G.
 */
#include <criterion/criterion.h>
#include <string.h>

#define KERNELS "lanes"
#include "builds.h"

static void init(void)
{
	cr_assert(gpu_init(&g) == 0);
}

TestSuite(simt_lanes, .init = init, .fini = fini, .timeout = 60);

static void launch(const char *kernel, uint32_t grid, uint32_t block, const void *params)
{
	enum simt_status s = gpu_launch(&g, kernel, grid, block, params);

	cr_assert(s == SIMT_DONE, "%s: %s at line %u", kernel,
		  simt_fault_name(g.fault.code), g.fault.line);
}

/* Runs a kernel whose only parameter is an array of n ints, which is returned. */
static int *run(const char *kernel, uint32_t block, unsigned n)
{
	int *out = gpu_alloc(&g, n * sizeof(*out));

	launch(kernel, 1, block, &out);
	return out;
}

Test(simt_lanes, lanes_leave_a_loop_each_in_its_own_round)
{
	EACH_BUILD
	{
		int *out = gpu_alloc(&g, 4096);

		launch("collatz", 4, 250, &out);
		for (unsigned i = 0; i < 1000; i++) {
			unsigned n = 0;

			for (unsigned x = i + 1; x != 1; n++)
				x = x % 2 ? 3 * x + 1 : x / 2;
			cr_expect(out[i] == (int)n, "%u: %d, not %u", i, out[i], n);
		}
	}
}

static int tangle(int t)
{
	int v = 0;

	for (int i = 0; i < t; i++) {
		for (int j = 0; j < 10; j++) {
			if ((i + j + t) % 7 == 3)
				continue;
			if (j > t % 9)
				break;
			v += i * j;
			if (v > 1000 && t % 5 == 2)
				return v;
		}
		if (i == 50)
			break;
	}
	return v;
}

Test(simt_lanes, break_continue_return)
{
	EACH_BUILD
	{
		int *out = run("tangle", 200, 200);

		for (int t = 0; t < 200; t++)
			cr_expect(out[t] == tangle(t), "%d: %d", t, out[t]);
	}
}

Test(simt_lanes, lock_within_warp)
{
	EACH_BUILD
	{
		int *state = gpu_alloc(&g, 8);

		launch("lock", 3, 96, &state);
		cr_expect(state[0] == 0 && state[1] == 3 * 96);
	}
}

Test(simt_lanes, wait_for_neighbour)
{
	EACH_BUILD
	{
		int *turn = gpu_alloc(&g, 4), *out = gpu_alloc(&g, 256);

		launch("turns", 1, 64, &(void *[]){turn, out});
		for (int i = 0; i < 64; i++)
			cr_expect(out[i] == i);
	}
}

Test(simt_lanes, wait_for_later_code)
{
	EACH_BUILD cr_expect(run("handover", 32, 1)[0] == 42);
}

Test(simt_lanes, syncwarp_of_some)
{
	EACH_BUILD
	{
		int *out = run("partial_sync", 32, 64), s[32];

		for (int l = 0; l < 32; l++)
			s[l] = l < 12 ? l * l : l + 100;
		for (int l = 0; l < 32; l++) {
			cr_expect(out[l] == s[l < 12 ? 11 - l : 12 + 31 - l], "%d", l);
			cr_expect(out[32 + l] == s[31 - l], "%d", l);
		}
	}
}

static int val(int l)
{
	return l * 3 + 1;
}

Test(simt_lanes, shuffles_take_the_value_of_the_lane_they_name)
{
	EACH_BUILD
	{
		int *out = run("shuffles", 32, 320);

		for (int l = 0; l < 32; l++) {
			cr_expect(out[l] == val(l * 7 % 32));
			cr_expect(out[32 + l] == val(l < 3 ? l : l - 3));
			cr_expect(out[64 + l] == val(l + 5 > 31 ? l : l + 5));
			cr_expect(out[96 + l] == val(l ^ 9));
			cr_expect(out[128 + l] == val(l / 8 * 8 + 2));
			cr_expect(out[160 + l] == val(l % 4 ? l - 1 : l));
			cr_expect(out[192 + l] == val(l % 16 + 2 > 15 ? l : l + 2));
			cr_expect(out[224 + l] == val(l ^ 3));
			cr_expect(out[256 + l] == val(l ^ 1));
			if (l % 2)
				cr_expect(out[288 + l] == val(l + 2 > 31 ? l : l + 2));
			else
				cr_expect(out[288 + l] == val(l < 2 ? l : l - 2));
		}
	}
}

static unsigned ballot(unsigned (*f)(unsigned))
{
	unsigned b = 0;

	for (unsigned l = 0; l < 32; l++)
		b |= (unsigned)!!f(l) << l;
	return b;
}

static unsigned third(unsigned l)
{
	return l % 3 == 0;
}

Test(simt_lanes, votes_count_the_lanes_that_take_part)
{
	EACH_BUILD
	{
		unsigned *out = (unsigned *)run("votes", 32, 352), x = 0;

		for (unsigned l = 0; l < 32; l++)
			x ^= l * 5;
		for (unsigned l = 0; l < 32; l++) {
			unsigned five = l / 5 * 5;

			cr_expect(out[l] == ballot(third));
			cr_expect(out[32 + l] == 3);
			cr_expect(out[64 + l] == 31u << five);
			cr_expect(out[96 + l] == 0); /* all ones, plus one */
			cr_expect(out[128 + l] == 0);
			cr_expect(out[160 + l] == 496);
			cr_expect(out[192 + l] == (l < 8 ? 7 : 31));
			cr_expect(out[224 + l] == x);
			cr_expect((int)out[256 + l] == -16);
			cr_expect(out[288 + l] == (l >= 20 ? 0xfff00000 : 20));
			cr_expect(out[320 + l] == 0x11111111u << l % 4);
		}
	}
}

Test(simt_lanes, cooperative_groups)
{
	EACH_BUILD
	{
		int *out = run("groups", 256, 768);

		for (int t = 0; t < 256; t++) {
			int w = t / 32 * 32, rank = 0, size = 0;

			cr_expect(out[t] == t / 8 * 64 + 28);
			for (int k = w; k < w + 32; k++) {
				size += k % 3 == 0;
				rank += k % 3 == 0 && k < t;
			}
			if (t % 3 == 0)
				cr_expect(out[256 + t] == rank * 100 + size, "%d: %d", t,
					  out[256 + t]);
			cr_expect(out[512 + t] == t / 2 * 2 + t % 8 / 2);
		}
	}
}

Test(simt_lanes, barrier_without_the_dead)
{
	EACH_BUILD
	{
		int *out = run("early_exit", 256, 256);

		for (int t = 0; t < 192; t++) {
			int o = 191 - t;

			if (t % 5)
				cr_expect(out[t] == (o % 5 ? o : -1), "%d: %d", t,
					  out[t]);
		}
	}
}

Test(simt_lanes, barrier_votes)
{
	EACH_BUILD
	{
		int *out = run("block_votes", 200, 768);

		for (int t = 0; t < 200; t++) {
			cr_expect(out[t] == 67);
			cr_expect(out[256 + t] == 1);
			cr_expect(out[512 + t] == 1);
		}
	}
}

Test(simt_lanes, named_barriers)
{
	EACH_BUILD
	{
		int *out = run("named", 128, 640);

		for (int i = 0; i < 10; i++)
			for (int t = 0; t < 64; t++)
				cr_expect(out[i * 64 + t] == (63 - t) * 10 + i);
	}
}

Test(simt_lanes, barrier_at_two_places)
{
	EACH_BUILD
	{
		int *out = run("split_barrier", 64, 64);

		for (int t = 0; t < 64; t++)
			cr_expect(out[t] == (t % 2 ? -(t - 1) : t + 1));
	}
}

static int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

Test(simt_lanes, lanes_recurse_to_depths_of_their_own)
{
	EACH_BUILD
	{
		int *out = run("recursion", 64, 64);

		for (int t = 0; t < 64; t++)
			cr_expect(out[t] == fib(t % 12));
	}
}

Test(simt_lanes, stack_overflow)
{
	EACH_BUILD
	{
		int *out = gpu_alloc(&g, 256);

		cr_assert(gpu_launch(&g, "overflow", 1, 64, &out) == SIMT_FAULT);
		cr_expect(g.fault.code == SIMT_FAULT_STACK);
		cr_expect_not_null(strstr(g.fault.func, "forever"));
	}
}

Test(simt_lanes, function_pointers)
{
	EACH_BUILD
	{
		int *out = run("pointers", 96, 96);

		for (int t = 0; t < 96; t++)
			cr_expect(out[t] == (t % 3 == 0   ? t + 1
					     : t % 3 == 1 ? t * 2
							  : t * t) +
						    2);
		out = run("virtuals", 64, 64);
		for (int t = 0; t < 64; t++)
			cr_expect(out[t] == (t % 2 ? t * t : t * 3));
	}
}

Test(simt_lanes, wild_function_pointer)
{
	EACH_BUILD
	{
		int *out = gpu_alloc(&g, 256);
		const uint64_t bad[] = {0, 5, SIMT_CODE_BASE + 8,
					SIMT_CODE_BASE + (1 << 20),
					(uint64_t)(uintptr_t)out};

		for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
			struct {
				void *out;
				uint64_t f;
			} p = {out, bad[i]};

			cr_assert(gpu_launch(&g, "bad_pointer", 1, 32, &p) == SIMT_FAULT);
			cr_expect(g.fault.code == SIMT_FAULT_PC &&
				  g.fault.addr == bad[i]);
		}
	}
}

Test(simt_lanes, structures_by_value)
{
	EACH_BUILD
	{
		struct {
			int v[40];
			int *out;
		} p;

		for (int i = 0; i < 40; i++)
			p.v[i] = i;
		p.out = gpu_alloc(&g, 256);
		launch("by_value", 1, 64, &p);
		for (int t = 0; t < 64; t++)
			cr_expect(p.out[t] == 780 + 780 * t);
	}
}

Test(simt_lanes, lanes_take_their_own_branch_of_a_switch)
{
	EACH_BUILD
	{
		int *out = gpu_alloc(&g, 256);

		for (int i = 0; i < 32; i++)
			out[i] = i % 9;
		for (int i = 32; i < 40; i++)
			out[i] = i * 10;
		launch("switches", 1, 32, &out);
		for (int i = 0; i < 32; i++) {
			const int want[] = {5, 320, 990, i, 338, 99, 116, -1, -1};

			cr_expect(out[i] == want[i % 9], "%d: %d", i, out[i]);
		}
	}
}

/* A kernel that never ends gives the thread back, and can be stopped. */
Test(simt_lanes, an_endless_kernel_yields_and_can_be_stopped)
{
	static const char *const kernels[] = {"endless", "endless_pure"};

	EACH_BUILD for (unsigned k = 0; k < ARRAY_SIZE(kernels); k++)
	{
		int *p = gpu_alloc(&g, 4);
		bool stop = false;
		struct simt_launch l = {
			.func = simt_program_find(g.prog, kernels[k]),
			.mem = &g.mem,
			.grid = {1, 1, 1},
			.block = {96, 1, 1},
			.params = &p,
			.stop = &stop,
		};
		struct simt_stats st;
		enum simt_status s = SIMT_DONE;

		cr_assert(simt_launch_prepare(&l) == 0);
		cr_assert(simt_cta_start(g.cta, &l, (uint32_t[3]){0}, 0) == 0);
		for (int i = 0; i < 10; i++) {
			s = simt_cta_run(g.cta, 10000);
			cr_assert(s != SIMT_DONE && s != SIMT_FAULT);
		}
		simt_cta_stats(g.cta, &st);
		cr_expect(st.warp_instr <= 10 * 10000);
		stop = true;
		cr_assert(simt_cta_run(g.cta, 10000) == SIMT_FAULT);
		cr_expect(simt_cta_fault(g.cta)->code == SIMT_FAULT_KILLED);
	}
}
