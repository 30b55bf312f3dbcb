/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carry chains: every instruction that sets the carry before every one that reads it,
 * over all edges of their operands, against arithmetic of one more bit. The carry of sub
 * is that of adding the complement (what ptxas makes of it: IADD3.X of ~b).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "check.h"
#include "gpu.h"

typedef unsigned __int128 u128;
typedef __int128 s128;

enum kind {
	ADD,
	SUB,
	MAD_LO,
	MAD_HI,
	NUM_KINDS
};

static const char *const first_name[] = {"add.cc", "sub.cc", "mad.lo.cc", "mad.hi.cc"};
static const char *const next_name[] = {"addc", "subc", "madc.lo", "madc.hi"};

/* One instruction on numbers of bits; the carry comes in *carry and leaves there. */
static u64 model(enum kind k, unsigned bits, bool is_signed, u64 a, u64 b, u64 c,
		 unsigned *carry)
{
	u64 mask = bits == 32 ? 0xffffffff : ~0ull;
	u128 v = 0, prod = (u128)a * b;

	if (is_signed)
		prod = bits == 32 ? (u128)((s64)(s32)a * (s32)b)
				  : (u128)((s128)(s64)a * (s64)b);
	switch (k) {
	case ADD:
		v = (u128)a + b + *carry;
		break;
	case SUB:
		v = (u128)a + (~b & mask) + *carry;
		break;
	case MAD_LO:
		v = (prod & mask) + c + *carry;
		break;
	case MAD_HI:
		v = (prod >> bits & mask) + c + *carry;
		break;
	case NUM_KINDS:
		break;
	}
	*carry = (unsigned)(v >> bits) & 1;
	return (u64)v & mask;
}

#define EDGES  7
#define BLOCK  343 /* blocks of one less than a multiple of the warp, or so */
#define INPUTS (EDGES * EDGES * EDGES * EDGES * EDGES * EDGES)

static const u64 edges[2][EDGES] = {
	{0, 1, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff},
	{0, 1, 0x7fffffffffffffff, 0x8000000000000000, 0x00000000ffffffff,
	 0xfffffffffffffffe, 0xffffffffffffffff},
};

/*
 * Six operands from the table, the first instruction, the second, and the carry that it
 * leaves. What odd lanes do in between leaves the carry of even ones alone.
 */
static const char text[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry k(.param .u64 p, .param .u64 q) {\n"
	".reg .pred %%odd; .reg .b32 %%r<9>; .reg .b64 %%rd<9>;\n"
	".reg .b%u %%x<7>; .reg .b%u %%y<9>;\n"
	"ld.param.u64 %%rd1, [p]; ld.param.u64 %%rd2, [q];\n"
	"mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x; mov.u32 %%r3, %%ntid.x;\n"
	"mad.lo.u32 %%r4, %%r2, %%r3, %%r1; mul.wide.u32 %%rd3, %%r4, 32;\n"
	"add.u64 %%rd2, %%rd2, %%rd3;\n"
	"and.b32 %%r5, %%r1, 1; setp.ne.u32 %%odd, %%r5, 0;\n"
	"%s"
	"%s.%c%u %%y1, %%x1, %%x2%s;\n"
	"@%%odd add.u%u %%y6, %%x1, %%x2; @%%odd sub.u%u %%y7, %%x3, %%x4;\n"
	"%s.cc.%c%u %%y2, %%x4, %%x5%s;\n"
	"@%%odd add.cc.u%u %%y6, %%x1, 0; @!%%odd addc.u%u %%y3, 0, 0;\n"
	"@%%odd mov.b%u %%y3, 77;\n"
	"st.global.u%u [%%rd2], %%y1; st.global.u%u [%%rd2+8], %%y2;\n"
	"st.global.u%u [%%rd2+16], %%y3; ret; }\n";

/* Loads %x1 to %x6: the digits of the thread's number choose them. */
static void operands(unsigned bits, char *buf, size_t size)
{
	int n = 0;

	for (unsigned i = 1; i <= 6; i++)
		n += snprintf(
			buf + n, size - (size_t)n,
			"rem.u32 %%r5, %%r4, %u; div.u32 %%r4, %%r4, %u;\n"
			"mul.wide.u32 %%rd4, %%r5, 8; add.u64 %%rd4, %%rd1, %%rd4;\n"
			"ld.global.u%u %%x%u, [%%rd4];\n",
			EDGES, EDGES, bits, i);
	snprintf(buf + n, size - (size_t)n,
		 "mov.u32 %%r1, %%tid.x; and.b32 %%r5, %%r1, 1;\n");
}

static void check(struct gpu *g, enum kind one, enum kind two, unsigned bits,
		  bool is_signed)
{
	const u64 *e = edges[bits == 64];
	char load[1024], ptx[4096], t = is_signed ? 's' : 'u';
	u64 *table, *out;
	unsigned bad = 0;

	operands(bits, load, sizeof(load));
	snprintf(ptx, sizeof(ptx), text, bits, bits, load, first_name[one], t, bits,
		 one >= MAD_LO ? ", %x3" : "", bits, bits, next_name[two], t, bits,
		 two >= MAD_LO ? ", %x6" : "", bits, bits, bits, bits, bits, bits);
	gpu_reset(g);
	cr_assert(gpu_load(g, ptx) == 0, "%s\n%s", g->log, ptx);
	table = gpu_alloc(g, sizeof(edges[0]));
	out = gpu_alloc(g, INPUTS * 32ul);
	memcpy(table, e, sizeof(edges[0]));
	cr_assert(gpu_launch(g, "k", INPUTS / BLOCK, BLOCK, &(void *[]){table, out}) ==
		  SIMT_DONE);
	for (unsigned i = 0; i < INPUTS && bad < 3; i++) {
		unsigned carry = one == SUB, n = i;
		u64 x[6], y[3];

		for (unsigned k = 0; k < 6; k++, n /= EDGES)
			x[k] = e[n % EDGES];
		y[0] = model(one, bits, is_signed, x[0], x[1], x[2], &carry);
		y[1] = model(two, bits, is_signed, x[3], x[4], x[5], &carry);
		y[2] = i % BLOCK % 2 ? 77 : carry;
		if (!memcmp(&out[i * 4ul], y, sizeof(y)))
			continue;
		bad++;
		cr_expect(false,
			  "%s, %s.cc, %c%u of %llx %llx %llx, %llx %llx %llx: "
			  "%llx %llx %llx, not %llx %llx %llx",
			  first_name[one], next_name[two], t, bits,
			  (unsigned long long)x[0], (unsigned long long)x[1],
			  (unsigned long long)x[2], (unsigned long long)x[3],
			  (unsigned long long)x[4], (unsigned long long)x[5],
			  (unsigned long long)out[i * 4ul],
			  (unsigned long long)out[i * 4ul + 1],
			  (unsigned long long)out[i * 4ul + 2], (unsigned long long)y[0],
			  (unsigned long long)y[1], (unsigned long long)y[2]);
	}
}

Test(ptx, carry_chains, .timeout = 120)
{
	struct gpu g;

	cr_assert(gpu_init(&g) == 0);
	for (enum kind one = ADD; one < NUM_KINDS; one++)
		for (enum kind two = ADD; two < NUM_KINDS; two++)
			for (unsigned k = 0; k < 4; k++)
				check(&g, one, two, k & 1 ? 64 : 32, k & 2);
	gpu_fini(&g);
}
