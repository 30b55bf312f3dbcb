/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions. mma.sync: fragments are built here from the tables of the PTX
 * manual and the product is compared with one computed in f64 or s64; inputs are small
 * integers, so that every sum is exact.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "check.h"
#include "gpu.h"

struct mma_case {
	const char *insn; /* modifiers after "mma.sync.aligned." */
	unsigned m, n, k;
	char a, b, c; /* kinds: h f16, b bf16, t tf32, d f64, s s8, u u8, 4 s4, U u4, 1
			 b1, f, i */
	unsigned na, nb, nc; /* registers */
	char op;             /* '*', '^' or '&' */
};

static const struct mma_case cases[] = {
	{"m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 8, 'h', 'h', 'f', 2, 1, 4, '*'},
	{"m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 8, 'h', 'h', 'h', 2, 1, 2, '*'},
	{"m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, 'h', 'h', 'f', 4, 2, 4, '*'},
	{"m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16, 'h', 'h', 'h', 4, 2, 2, '*'},
	{"m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 8, 'b', 'b', 'f', 2, 1, 4, '*'},
	{"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, 'b', 'b', 'f', 4, 2, 4, '*'},
	{"m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, 't', 't', 'f', 2, 1, 4, '*'},
	{"m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, 't', 't', 'f', 4, 2, 4, '*'},
	{"m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, 'd', 'd', 'd', 1, 1, 2, '*'},
	{"m16n8k8.row.col.f64.f64.f64.f64", 16, 8, 8, 'd', 'd', 'd', 4, 2, 4, '*'},
	{"m16n8k16.row.col.f64.f64.f64.f64", 16, 8, 16, 'd', 'd', 'd', 8, 4, 4, '*'},
	{"m8n8k16.row.col.s32.s8.s8.s32", 8, 8, 16, 's', 's', 'i', 1, 1, 2, '*'},
	{"m8n8k16.row.col.s32.u8.s8.s32", 8, 8, 16, 'u', 's', 'i', 1, 1, 2, '*'},
	{"m16n8k16.row.col.s32.s8.s8.s32", 16, 8, 16, 's', 's', 'i', 2, 1, 4, '*'},
	{"m16n8k32.row.col.s32.s8.u8.s32", 16, 8, 32, 's', 'u', 'i', 4, 2, 4, '*'},
	{"m16n8k32.row.col.satfinite.s32.u8.u8.s32", 16, 8, 32, 'u', 'u', 'i', 4, 2, 4,
	 '*'},
	{"m8n8k32.row.col.s32.s4.s4.s32", 8, 8, 32, '4', '4', 'i', 1, 1, 2, '*'},
	{"m16n8k32.row.col.s32.u4.s4.s32", 16, 8, 32, 'U', '4', 'i', 2, 1, 4, '*'},
	{"m16n8k64.row.col.s32.s4.s4.s32", 16, 8, 64, '4', '4', 'i', 4, 2, 4, '*'},
	{"m8n8k128.row.col.s32.b1.b1.s32.xor.popc", 8, 8, 128, '1', '1', 'i', 1, 1, 2,
	 '^'},
	{"m16n8k128.row.col.s32.b1.b1.s32.and.popc", 16, 8, 128, '1', '1', 'i', 2, 1, 4,
	 '&'},
	{"m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 16, 8, 256, '1', '1', 'i', 4, 2, 4,
	 '^'},
};

static unsigned bits_of(char kind)
{
	switch (kind) {
	case 'h':
	case 'b':
		return 16;
	case 'd':
		return 64;
	case 's':
	case 'u':
		return 8;
	case '4':
	case 'U':
		return 4;
	case '1':
		return 1;
	default:
		return 32;
	}
}

/* A small integer as an element of its kind. */
static u64 encode(char kind, int v)
{
	float f = (float)v;
	double d = v;
	u64 b = 0;

	switch (kind) {
	case 'h':
		return to_f16((quad)v, RN);
	case 'b':
		return to_bf16((quad)v, RN);
	case 'd':
		memcpy(&b, &d, 8);
		return b;
	case 't':
	case 'f':
		memcpy(&b, &f, 4);
		return b;
	default:
		return (u64)v &
		       (bits_of(kind) == 64 ? ~0ull : (1ull << bits_of(kind)) - 1);
	}
}

static int random_value(char kind)
{
	switch (kind) {
	case '1':
		return rand() & 1;
	case '4':
		return rand() % 16 - 8;
	case 'U':
		return rand() % 16;
	case 's':
		return rand() % 256 - 128;
	case 'u':
		return rand() % 256;
	default:
		return rand() % 17 - 8;
	}
}

/* Where the manual puts element e of a lane: row and column of A, B, C. */
static void where(const struct mma_case *q, char matrix, unsigned lane, unsigned e,
		  unsigned *row, unsigned *col)
{
	unsigned g = lane >> 2, t = lane % 4, bits = bits_of(matrix == 'A' ? q->a : q->b);
	unsigned u = bits == 64 ? 1 : 32 / bits; /* elements in a register */

	if (matrix == 'C') {
		*row = e < 2 ? g : g + 8;
		*col = t * 2 + (e & 1);
	} else if (matrix == 'B') {
		*row = e / u * 4 * u + t * u + e % u;
		*col = g;
	} else {
		/* registers alternate between the upper and the lower eight rows */
		unsigned reg = e / u;

		*row = q->m == 16 && reg & 1 ? g + 8 : g;
		*col = (q->m == 16 ? reg / 2 : reg) * 4 * u + t * u + e % u;
	}
}

static void fill(const struct mma_case *q, char matrix, unsigned regs, char kind,
		 const int *v, unsigned width, u64 (*out)[32])
{
	unsigned bits = bits_of(kind), u = bits == 64 ? 1 : 32 / bits, row, col;

	memset(out, 0, sizeof(*out) * regs);
	for (unsigned lane = 0; lane < 32; lane++)
		for (unsigned e = 0; e < regs * u; e++) {
			where(q, matrix, lane, e, &row, &col);
			out[e / u][lane] |= encode(kind, v[row * width + col])
					    << e % u * bits;
		}
}

static void list(char *buf, size_t cap, const char *name, unsigned n)
{
	size_t at = (size_t)snprintf(buf, cap, "{");

	for (unsigned i = 0; i < n; i++)
		at += (size_t)snprintf(buf + at, cap - at, "%s%%%s%u", i ? ", " : "",
				       name, i);
	snprintf(buf + at, cap - at, "}");
}

static void loads(char *buf, size_t cap, const char *name, unsigned n, unsigned bits,
		  unsigned *slot)
{
	size_t at = 0;

	for (unsigned i = 0; i < n; i++)
		at += (size_t)snprintf(buf + at, cap - at,
				       "ld.global.b%u %%%s%u, [%%i+%u];\n", bits, name, i,
				       256 * (*slot)++);
}

static void build(const struct mma_case *q, char *text, size_t cap)
{
	char a[128], b[128], c[128], d[128], la[1024], lb[1024], lc[1024], st[1024];
	unsigned ba = bits_of(q->a) == 64 ? 64 : 32, bc = bits_of(q->c) == 64 ? 64 : 32;
	unsigned slot = 0;
	size_t at = 0;

	list(a, sizeof(a), "a", q->na);
	list(b, sizeof(b), "b", q->nb);
	list(c, sizeof(c), "c", q->nc);
	list(d, sizeof(d), "d", q->nc);
	loads(la, sizeof(la), "a", q->na, ba, &slot);
	loads(lb, sizeof(lb), "b", q->nb, ba, &slot);
	loads(lc, sizeof(lc), "c", q->nc, bc, &slot);
	for (unsigned i = 0; i < q->nc; i++)
		at += (size_t)snprintf(st + at, sizeof(st) - at,
				       "st.global.b%u [%%o+%u], %%d%u;\n", bc, 256 * i,
				       i);
	snprintf(
		text, cap,
		".version 8.6\n.target sm_90\n.address_size 64\n"
		".visible .entry k(.param .u64 in, .param .u64 out) {\n"
		".reg .b%u %%a<8>; .reg .b%u %%b<8>; .reg .b%u %%c<8>; .reg .b%u "
		"%%d<8>;\n"
		".reg .b64 %%i, %%o, %%x; .reg .b32 %%t;\n"
		"ld.param.u64 %%i, [in]; ld.param.u64 %%o, [out]; mov.u32 %%t, %%tid.x;\n"
		"mul.wide.u32 %%x, %%t, 8; add.u64 %%i, %%i, %%x; add.u64 %%o, %%o, "
		"%%x;\n"
		"%s%s%s mma.sync.aligned.%s %s, %s, %s, %s;\n%s ret; }\n",
		ba, ba, bc, bc, la, lb, lc, q->insn, d, a, b, c, st);
}

static s64 product(const struct mma_case *q, const int *a, const int *b, const int *c,
		   unsigned i, unsigned j)
{
	s64 v = c[i * q->n + j];

	for (unsigned k = 0; k < q->k; k++) {
		int x = a[i * q->k + k], y = b[k * q->n + j];

		v += q->op == '*' ? x * y : q->op == '^' ? x ^ y : (x & y);
	}
	return v;
}

static void run(struct gpu *g, const struct mma_case *q)
{
	static int a[16 * 256], b[256 * 8], c[16 * 8];
	u64(*in)[32], (*out)[32], want[8][32];
	int d[16 * 8];
	char text[8192];

	build(q, text, sizeof(text));
	gpu_reset(g);
	cr_assert(gpu_load(g, text) == 0, "%s: %s", q->insn, g->log);
	for (unsigned i = 0; i < q->m * q->k; i++)
		a[i] = random_value(q->a);
	for (unsigned i = 0; i < q->k * q->n; i++)
		b[i] = random_value(q->b);
	for (unsigned i = 0; i < q->m * q->n; i++)
		c[i] = rand() % 1000 - 500;
	in = gpu_alloc(g, 32 * sizeof(*in));
	out = gpu_alloc(g, 8 * sizeof(*out));
	fill(q, 'A', q->na, q->a, a, q->k, in);
	fill(q, 'B', q->nb, q->b, b, q->n, in + q->na);
	fill(q, 'C', q->nc, q->c, c, q->n, in + q->na + q->nb);
	cr_assert(gpu_launch(g, "k", 1, 32, &(void *[]){in, out}) == SIMT_DONE, "%s: %s",
		  q->insn, simt_fault_name(g->fault.code));
	for (unsigned i = 0; i < q->m; i++)
		for (unsigned j = 0; j < q->n; j++)
			d[i * q->n + j] = (int)product(q, a, b, c, i, j);
	fill(q, 'C', q->nc, q->c, d, q->n, want);
	for (unsigned i = 0; i < q->nc; i++)
		for (unsigned lane = 0; lane < 32; lane++)
			cr_expect(out[i][lane] == want[i][lane],
				  "%s: register %u of lane %u is 0x%llx, not 0x%llx",
				  q->insn, i, lane, (unsigned long long)out[i][lane],
				  (unsigned long long)want[i][lane]);
}

Test(ptx, every_mma_form_multiplies_as_computed_on_the_host)
{
	struct gpu g;

	cr_assert(gpu_init(&g) == 0);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
		run(&g, &cases[i]);
	gpu_fini(&g);
	fprintf(stderr, "%zu instruction forms\n", ARRAY_SIZE(cases));
}

/* ldmatrix brings 8x8 matrices in the layout of mma's operands; stmatrix puts them back.
 */
static const char ldmatrix_text[] =
	".version 8.6\n.target sm_90\n.address_size 64\n"
	".visible .entry k(.param .u64 in, .param .u64 out) {\n"
	".reg .b64 %i, %o, %x; .reg .b32 %t, %s, %r<8>; .reg .b32 %q;\n"
	".shared .align 16 .b8 m[512]; .shared .align 16 .b8 n[512];\n"
	"ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;\n"
	/* each lane copies one row of 16 bytes */
	"mul.wide.u32 %x, %t, 16; add.u64 %i, %i, %x;\n"
	"ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%i]; mov.u32 %s, m; shl.b32 %q, %t, 4;\n"
	"add.u32 %s, %s, %q; st.shared.v4.b32 [%s], {%r0, %r1, %r2, %r3}; bar.warp.sync "
	"-1;\n"
	"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%s];\n"
	"mul.wide.u32 %x, %t, 4; add.u64 %x, %o, %x;\n"
	"st.global.b32 [%x], %r0; st.global.b32 [%x+128], %r1;\n"
	"st.global.b32 [%x+256], %r2; st.global.b32 [%x+384], %r3;\n"
	"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r4, %r5}, [%s];\n"
	"st.global.b32 [%x+512], %r4; st.global.b32 [%x+640], %r5;\n"
	"movmatrix.sync.aligned.m8n8.trans.b16 %r6, %r0; st.global.b32 [%x+768], %r6;\n"
	"mov.u32 %s, n; add.u32 %s, %s, %q;\n"
	"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%s], {%r0, %r1, %r2, %r3};\n"
	"bar.warp.sync -1; ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%s];\n"
	"mul.wide.u32 %x, %t, 16; add.u64 %x, %o, %x;\n"
	"st.global.v4.b32 [%x+1024], {%r0, %r1, %r2, %r3}; ret; }\n";

Test(ptx, ldmatrix_gives_each_lane_its_row_or_its_column)
{
	struct gpu g;
	u16(*in)[8][8], *out;

	cr_assert(gpu_init(&g) == 0);
	cr_assert(gpu_load(&g, ldmatrix_text) == 0, "%s", g.log);
	in = gpu_alloc(&g, 512);
	out = gpu_alloc(&g, 4096);
	for (unsigned i = 0; i < 256; i++)
		in[i / 64][i / 8 % 8][i % 8] = (u16)(i * 7 + 1);
	cr_assert(gpu_launch(&g, "k", 1, 32, &(void *[]){in, out}) == SIMT_DONE, "%s",
		  simt_fault_name(g.fault.code));
	for (unsigned q = 0; q < 4; q++)
		for (unsigned lane = 0; lane < 32; lane++)
			for (unsigned h = 0; h < 2; h++) {
				unsigned row = lane / 4, col = lane % 4 * 2 + h;
				unsigned at = q * 64 + lane * 2 + h;

				cr_expect(out[at] == in[q][row][col]);
				if (q < 2)
					cr_expect(out[256 + at] == in[q][col][row]);
				if (q == 0)
					cr_expect(out[384 + at] == in[0][col][row]);
			}
	cr_expect_arr_eq(out + 512, in, 512);
	gpu_fini(&g);
}
