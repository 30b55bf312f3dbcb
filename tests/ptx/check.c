/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "check.h"
#include "gpu.h"

#define BLOCK    250          /* so that the last warp of a block is not full */
#define NUM      (16 * BLOCK) /* inputs of a case */
#define REPORTED 3            /* mismatches that are printed */

/* ---- quad ---- */

static quad scale(quad v, int e)
{
	static const quad up = (quad)0x1p1000, down = (quad)0x1p-1000;

	for (; e >= 1000; e -= 1000)
		v *= up;
	for (; e <= -1000; e += 1000)
		v *= down;
	return v * (quad)ldexp(1.0, e);
}

/* The exponent of a number that is neither 0 nor infinite: 1 <= v / 2^e < 2. */
static int exponent(quad v)
{
	unsigned __int128 b;
	int e;

	memcpy(&b, &v, sizeof(b));
	e = (int)(b >> 112 & 0x7fff);
	return e - 16383;
}

u64 round_to(quad f, unsigned ebits, unsigned mbits, enum round mode)
{
	int bias = (1 << (ebits - 1)) - 1, e;
	unsigned __int128 b;
	u64 n, sign, inf = ((1ull << ebits) - 1) << mbits, out;
	bool neg, away;
	quad t, rest;

	memcpy(&b, &f, sizeof(b));
	neg = b >> 127;
	sign = (u64)neg << (ebits + mbits);
	f = neg ? -f : f;
	if (f == 0)
		return sign;
	if (f - f != 0)
		return sign | inf;
	away = (mode == RP && !neg) || (mode == RM && neg);
	e = MAX(exponent(f), 1 - bias);
	t = scale(f, (int)mbits - e);
	n = (u64)t;
	rest = t - (quad)n;
	if (mode == RN)
		n += rest > 0.5 || (rest == 0.5 && n & 1);
	else if (mode == RNA)
		n += rest >= 0.5;
	else
		n += away && rest > 0;
	if (n >> (mbits + 1))
		n >>= 1, e++;
	if (e > bias)
		return sign | (mode == RN || mode == RNA || away ? inf : inf - 1);
	out = n >> mbits ? ((u64)(e + bias - 1) << mbits) + n : n;
	return sign | out;
}

quad add_q(quad a, quad b)
{
	quad s = a + b, t = s - a, err = (a - (s - t)) + (b - t);
	unsigned __int128 bits;

	if (!(s - s == 0) || err == 0)
		return s;
	memcpy(&bits, &s, sizeof(bits));
	if (!(bits & 1))
		bits += (err > 0) == (s > 0) ? 1 : -(unsigned __int128)1;
	memcpy(&s, &bits, sizeof(s));
	return s;
}

quad sqrt_q(quad a)
{
	quad s;

	if (!(a > 0) || a - a != 0)
		return a < 0 ? (quad)NAN : a;
	s = (quad)sqrt((double)a);
	for (int i = 0; i < 3; i++)
		s = (s + a / s) / 2;
	return s;
}

static quad from_bits(u64 v, unsigned ebits, unsigned mbits)
{
	int bias = (1 << (ebits - 1)) - 1;
	u64 e = v >> mbits & ((1ull << ebits) - 1), m = v & ((1ull << mbits) - 1);
	bool neg = v >> (ebits + mbits) & 1;
	quad f;

	if (e == (1ull << ebits) - 1)
		f = m ? (quad)NAN : (quad)INFINITY;
	else if (e == 0)
		f = scale((quad)m, 1 - bias - (int)mbits);
	else
		f = scale((quad)(m | 1ull << mbits), (int)e - bias - (int)mbits);
	return neg ? -f : f;
}

quad from_f16(u64 v)
{
	return from_bits(v, 5, 10);
}

quad from_bf16(u64 v)
{
	return from_bits(v, 8, 7);
}

quad from_f32(u64 v)
{
	return from_bits(v, 8, 23);
}

quad from_f64(u64 v)
{
	return from_bits(v, 11, 52);
}

/* ---- inputs ---- */

static u64 seed = 88172645463325252ull;

static u64 rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static unsigned bits_of(char kind)
{
	switch (kind) {
	case 'w':
	case 'h':
	case 'b':
		return 16;
	case 'l':
	case 'd':
	case 'D':
		return 64;
	default:
		return 32;
	}
}

static u64 edge_int(unsigned bits)
{
	static const u64 e[] = {0,
				1,
				2,
				3,
				7,
				31,
				32,
				63,
				64,
				127,
				128,
				255,
				256,
				0x7fff,
				0x8000,
				0xffff,
				0x10000,
				0x7fffffff,
				0x80000000,
				0xffffffff,
				0x100000000,
				0x7fffffffffffffff,
				0x8000000000000000};
	u64 v = e[rnd() % ARRAY_SIZE(e)];

	if (rnd() & 1)
		v = 0 - v;
	if (rnd() % 4 == 0)
		v = 1ull << rnd() % 64;
	return bits == 64 ? v : v & ((1ull << bits) - 1);
}

static u64 edge_float(unsigned ebits, unsigned mbits)
{
	u64 inf = ((1ull << ebits) - 1) << mbits,
	    one = (((1ull << (ebits - 1)) - 1) << mbits);
	const u64 e[] = {0,
			 1,
			 (1ull << mbits) - 1,
			 1ull << mbits,
			 (1ull << mbits) + 1,
			 one,
			 one + 1,
			 one - 1,
			 one + (1ull << (mbits - 1)),
			 one + (1ull << mbits),
			 inf - 1,
			 inf,
			 inf + (1ull << (mbits - 1)),
			 inf + 1,
			 one + (mbits - 1ull) * (1ull << mbits),
			 one + (31ull << mbits) % inf};
	u64 v = e[rnd() % ARRAY_SIZE(e)];

	return v | (rnd() & 1) << (ebits + mbits);
}

/* Numbers of ordinary size, so that sums and products of them are not all trivial. */
static u64 near_one(unsigned ebits, unsigned mbits)
{
	u64 one = ((1ull << (ebits - 1)) - 1), e = one - 6 + rnd() % 13;

	return (rnd() & 1) << (ebits + mbits) | e << mbits |
	       (rnd() & ((1ull << mbits) - 1));
}

static u64 input(char kind)
{
	unsigned how = rnd() % 4, bits = bits_of(kind);
	u64 r = rnd();

	switch (kind) {
	case 's':
		return how < 2 ? r % 70 : how == 2 ? r % 300 : (u32)r;
	case 'H':
		return input('h') | input('h') << 16;
	case 'B':
		return input('b') | input('b') << 16;
	case 'h':
		return how < 2 ? near_one(5, 10) : how == 2 ? edge_float(5, 10) : (u16)r;
	case 'b':
		return how < 2 ? near_one(8, 7) : how == 2 ? edge_float(8, 7) : (u16)r;
	case 'f':
		return how < 2 ? near_one(8, 23) : how == 2 ? edge_float(8, 23) : (u32)r;
	case 'd':
		return how < 2 ? near_one(11, 52) : how == 2 ? edge_float(11, 52) : r;
	default:
		if (how == 0)
			return edge_int(bits);
		if (how == 1)
			r >>= rnd() % bits;
		return bits == 64 ? r : r & ((1ull << bits) - 1);
	}
}

/* ---- running ---- */

static const char *format =
	".version 8.6\n.target sm_90\n.address_size 64\n"
	".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
	".reg .b%u %%d; .reg .b%u %%a; .reg .b%u %%b; .reg .b%u %%c;\n"
	".reg .b64 %%i, %%o, %%x; .reg .b32 %%t, %%u, %%v;\n"
	".reg .pred %%p, %%q; .reg .b32 %%r<8>; .reg .b16 %%h<8>;\n"
	".reg .b64 %%l<8>; .reg .f32 %%f<8>;\n"
	"ld.param.u64 %%i, [in]; ld.param.u64 %%o, [out];\n"
	"mov.u32 %%t, %%tid.x; mov.u32 %%u, %%ctaid.x; mov.u32 %%v, %%ntid.x;\n"
	"mad.lo.u32 %%t, %%u, %%v, %%t; mul.wide.u32 %%x, %%t, 32;\n"
	"add.u64 %%i, %%i, %%x; mul.wide.u32 %%x, %%t, 8;\n"
	"add.u64 %%o, %%o, %%x; mov.b%u %%d, 0;\n"
	"ld.global.b%u %%a, [%%i]; ld.global.b%u %%b, [%%i+8];\n"
	"ld.global.b%u %%c, [%%i+16];\n"
	"%s\n"
	"st.global.b%u [%%o], %%d;\nret;\n}\n";

static bool is_nan(char kind, u64 v)
{
	switch (kind) {
	case 'h':
		return (v & 0x7fff) > 0x7c00;
	case 'b':
		return (v & 0x7fff) > 0x7f80;
	case 'f':
		return (v & 0x7fffffff) > 0x7f800000;
	case 'd':
		return (v & 0x7fffffffffffffff) > 0x7ff0000000000000;
	default:
		return false;
	}
}

static bool same(char kind, u64 got, u64 want)
{
	switch (kind) {
	case 'H':
		return same('h', got & 0xffff, want & 0xffff) &&
		       same('h', got >> 16 & 0xffff, want >> 16 & 0xffff);
	case 'B':
		return same('b', got & 0xffff, want & 0xffff) &&
		       same('b', got >> 16 & 0xffff, want >> 16 & 0xffff);
	default:
		return (is_nan(kind, got) && is_nan(kind, want)) || got == want;
	}
}

static double value(char kind, u64 v)
{
	switch (kind) {
	case 'h':
		return (double)from_f16(v);
	case 'b':
		return (double)from_bf16(v);
	case 'f':
	case 'F':
		return (double)from_f32(v);
	default:
		return (double)from_f64(v);
	}
}

/* Whether an approximation is within its bound. */
static bool close_to(const struct ptx_case *c, const u64 *in, u64 got)
{
	double a = value(c->spec[1], in[0]),
	       b = c->spec[2] == '-' ? 0 : value(c->spec[2], in[1]);
	double v = value(c->spec[0], got), want = c->exact(a, b);

	if (isnan(want))
		return isnan(v);
	if (isinf(want) || v == want)
		return v == want;
	/* what overflows or underflows the format */
	if (isinf(v))
		return fabs(want) > (c->spec[0] == 'f'   ? 3.4028e38
				     : c->spec[0] == 'h' ? 65504
				     : c->spec[0] == 'b' ? 3.38e38
							 : 1.797e308);
	return fabs(v - want) <= c->bound(want, a);
}

static void run_case(struct gpu *g, const struct ptx_case *c)
{
	static u64 in[NUM][4]; /* the kernel may write over its own */
	u64 *mem, *out, mask;
	unsigned b[4], wrong = 0;
	char text[8192];

	for (unsigned k = 0; k < 4; k++)
		b[k] = bits_of(c->spec[k]);
	snprintf(text, sizeof(text), format, b[0], b[1], b[2], b[3], b[0], b[1], b[2],
		 b[3], c->insn, b[0]);
	gpu_reset(g);
	if (gpu_load(g, text) < 0) {
		cr_expect_fail("%s: %s", c->insn, g->log);
		return;
	}
	mem = gpu_alloc(g, sizeof(in));
	out = gpu_alloc(g, NUM * sizeof(*out));
	for (unsigned i = 0; i < NUM; i++)
		for (unsigned k = 0; k < 3; k++)
			in[i][k] = input(c->spec[k + 1]);
	memcpy(mem, in, sizeof(in));
	if (gpu_launch(g, "k", NUM / BLOCK, BLOCK, &(void *[]){mem, out}) != SIMT_DONE) {
		cr_expect_fail("%s: %s", c->insn, simt_fault_name(g->fault.code));
		return;
	}
	mask = b[0] == 64 ? ~0ull : (1ull << b[0]) - 1;
	for (unsigned i = 0; i < NUM; i++) {
		u64 got = out[i] & mask, want = 0;
		bool ok;

		if (c->exact) {
			ok = close_to(c, in[i], got);
		} else {
			want = c->ref(in[i][0], in[i][1], in[i][2]) & mask;
			ok = same(c->spec[0], got, want);
		}
		if (!ok && wrong++ < REPORTED)
			cr_expect_fail(
				"%s: a 0x%llx b 0x%llx c 0x%llx: got 0x%llx, want 0x%llx",
				c->insn, (unsigned long long)in[i][0],
				(unsigned long long)in[i][1],
				(unsigned long long)in[i][2], (unsigned long long)got,
				(unsigned long long)want);
	}
}

void ptx_check(const struct ptx_case *cases, unsigned num)
{
	struct gpu g;

	cr_assert(gpu_init(&g) == 0);
	for (unsigned i = 0; i < num; i++)
		run_case(&g, &cases[i]);
	gpu_fini(&g);
	fprintf(stderr, "%u instruction forms, %u inputs each\n", num, NUM);
}
