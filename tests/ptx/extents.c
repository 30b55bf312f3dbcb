/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predictions of launches (ptx/extent/extent.h), and what they then reach: memory is out of reach
 * of this process at first, and each page that a kernel of cu/extents.cu comes to is noted.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/macros.h"
#include "gpu.h"
#include "ptx/extent/extent.h"

#define PAGE   4096u
#define PARTS  4
#define ANY    UINT64_MAX /* pages that may be predicted wrongly */
#define PAGES  (64u << 8) /* of all parts: 64 MiB */
#define PART_N (PAGES / PARTS)

static struct gpu g;
static struct ptx_module *m;
static char *part[PARTS]; /* memory that is watched */
static uint8_t touched[PAGES], predicted[PAGES];
static uint64_t
	open_at[PARTS]; /* how often a part was named, and nothing else was known */
static bool follows;    /* addresses that lie in memory */

/* The page of the parts at an address; PAGES: none. */
static unsigned page_of(uint64_t addr)
{
	for (unsigned i = 0; i < PARTS; i++) {
		uint64_t at = addr - (uint64_t)(uintptr_t)part[i];

		if (at < PART_N * (uint64_t)PAGE)
			return i * PART_N + (unsigned)(at / PAGE);
	}
	return PAGES;
}

static void on_fault(int sig, siginfo_t *si, void *context)
{
	uint64_t addr = (uint64_t)(uintptr_t)si->si_addr;
	unsigned page = page_of(addr);

	if (page == PAGES || touched[page])
		_exit(3);
	touched[page] = 1;
	mprotect((void *)(uintptr_t)(addr / PAGE * PAGE), PAGE, PROT_READ | PROT_WRITE);
}

static char *read_file(const char *name)
{
	char path[4096], *text;
	long n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", getenv("PTX_DIR"), name);
	f = fopen(path, "r");
	cr_assert(f, "%s", path);
	fseek(f, 0, SEEK_END);
	n = ftell(f);
	rewind(f);
	text = calloc(1, (size_t)n + 1);
	cr_assert(fread(text, 1, (size_t)n, f) == (size_t)n);
	fclose(f);
	return text;
}

static void load(const char *what, const char *build)
{
	_cleanup_free_ char *text = NULL;
	char name[128];

	snprintf(name, sizeof(name), "%s-%s.ptx", what, build);
	text = read_file(name);
	gpu_reset(&g);
	cr_assert(gpu_load(&g, text) == 0, "%s", g.log);
	ptx_module_free(m);
	cr_assert(ptx_parse(text, strlen(text), NULL, &m) == 0);
	for (unsigned i = 0; i < PARTS; i++)
		part[i] = gpu_alloc(&g, PART_N * (size_t)PAGE);
	cr_assert(part[PARTS - 1]);
}

static void init(void)
{
	struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	cr_assert(gpu_init(&g) == 0);
	g.as_is = true;
	sigaction(SIGSEGV, &sa, NULL);
}

static void fini(void)
{
	ptx_module_free(m);
	gpu_fini(&g);
}

TestSuite(extents, .init = init, .fini = fini, .timeout = 120);

static void note(void *arg, uint64_t addr, uint64_t bytes)
{
	unsigned page = page_of(addr);

	if (!bytes && page < PAGES)
		open_at[page / PART_N]++;
	for (uint64_t at = addr / PAGE * PAGE; at < addr + bytes; at += PAGE) {
		page = page_of(at);
		if (page < PAGES)
			predicted[page] = 1;
	}
}

struct pages {
	unsigned touched, missed, not_needed;
};

static struct pages count(unsigned i)
{
	struct pages c = {0};

	for (unsigned p = i * PART_N; p < (i + 1) * PART_N; p++) {
		c.touched += touched[p];
		c.missed += touched[p] && !predicted[p];
		c.not_needed += predicted[p] && !touched[p];
	}
	return c;
}

static void predict(const char *kernel, const struct ptx_grid *shape, const void *params,
		    size_t size)
{
	const struct ptx_func *f = ptx_find_func(m, kernel);
	struct ptx_extent *e;

	cr_assert(f, "%s", kernel);
	e = ptx_extent_new(m, f);
	memset(predicted, 0, sizeof(predicted));
	memset(open_at, 0, sizeof(open_at));
	cr_assert(e, "%s: nothing is known of it", kernel);
	follows = ptx_extent_follows(e);
	ptx_extent_each(e, params, size, shape, PAGE, note, NULL);
	ptx_extent_free(e);
}

static void run(const char *kernel, const struct ptx_grid *shape, const void *params)
{
	struct simt_launch l = {.func = simt_program_find(g.prog, kernel),
				.mem = &g.mem,
				.params = params,
				.stack_bytes = 1024,
				.num_sms = 2};
	enum simt_status s = SIMT_DONE;

	memcpy(l.grid, shape->blocks, sizeof(l.grid));
	memcpy(l.block, shape->threads, sizeof(l.block));
	cr_assert(l.func && simt_launch_prepare(&l) == 0, "%s", kernel);
	memset(touched, 0, sizeof(touched));
	for (unsigned i = 0; i < PARTS; i++)
		mprotect(part[i], PART_N * (size_t)PAGE, PROT_NONE);
	for (uint32_t z = 0; z < l.grid[2]; z++)
		for (uint32_t y = 0; y < l.grid[1]; y++)
			for (uint32_t x = 0; x < l.grid[0] && s == SIMT_DONE; x++) {
				cr_assert(simt_cta_start(g.cta, &l, (uint32_t[]){x, y, z},
							 0) == 0);
				do {
					s = simt_cta_run(g.cta, UINT64_MAX);
				} while (s != SIMT_DONE && s != SIMT_FAULT);
			}
	for (unsigned i = 0; i < PARTS; i++)
		mprotect(part[i], PART_N * (size_t)PAGE, PROT_READ | PROT_WRITE);
	cr_assert(s == SIMT_DONE, "%s: %s", kernel,
		  simt_fault_name(simt_cta_fault(g.cta)->code));
}

/* Knowledge of a part: all that is reached, or no more than where it begins. */
enum how {
	NONE,
	KNOWN,
	OPEN
};

struct a_launch {
	const char *kernel;
	struct ptx_grid shape;
	uint64_t word[6]; /* parameters; 32-bit ones two to a word */
	unsigned n_parts; /* the first words are parts, and these offsets */
	enum how how[PARTS];
	unsigned not_needed; /* pages that are predicted and not reached, at most */
	bool follows;        /* addresses that lie in memory */
	uint8_t at[PARTS];   /* words that the parts are; 0: that of the same number */
};

#define TWO(a, b) ((uint64_t)(uint32_t)(a) | (uint64_t)(uint32_t)(b) << 32)

static const struct a_launch launches[] = {
	{"add",
	 {{40, 1, 1}, {256, 1, 1}},
	 {0, 0, 4096, 10000},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 0},
	{"grid_stride", {{4, 1, 1}, {128, 1, 1}}, {0, 0, 50000}, 2, {KNOWN, KNOWN}, 0},
	{"stencil",
	 {{10, 20, 1}, {16, 8, 1}},
	 {0, 0, TWO(150, 140)},
	 2,
	 {KNOWN, KNOWN},
	 1},
	{"multiply",
	 {{6, 7, 1}, {16, 8, 1}},
	 {0, 0, 0, TWO(50, 90), 70},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 0},
	{"tiled", {{6, 6, 1}, {16, 16, 1}}, {0, 0, 0, 96}, 3, {KNOWN, KNOWN, KNOWN}, 0},
	{"transpose",
	 {{5, 7, 1}, {32, 8, 1}},
	 {0, 0, TWO(150, 200)},
	 2,
	 {KNOWN, KNOWN},
	 8},
	{"rows",
	 {{30, 1, 1}, {64, 1, 1}},
	 {0, 0, 0, 400, 3000},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 0},
	{"columns",
	 {{12, 1, 1}, {64, 1, 1}},
	 {0, 0, 200000, TWO(1500, 2000)},
	 2,
	 {KNOWN, KNOWN},
	 1},
	{"gather",
	 {{20, 1, 1}, {128, 1, 1}},
	 {0, 0, 0, 2500},
	 3,
	 {KNOWN, KNOWN, OPEN},
	 0},
	{"list", {{1, 1, 1}, {1, 1, 1}}, {0, 0}, 2, {KNOWN, OPEN}, 0, true},
	{"sums", {{8, 1, 1}, {256, 1, 1}}, {0, 0, 100000}, 2, {KNOWN, KNOWN}, 3},
	{"by_struct", {{20, 1, 1}, {128, 1, 1}}, {0, 0, 2500}, 2, {KNOWN, KNOWN}, 0},
	{"unfold",
	 {{60, 1, 1}, {128, 1, 1}},
	 {0, 0, TWO(7000, 60), TWO(50, 3)},
	 2,
	 {KNOWN, KNOWN},
	 10},
	{"backwards", {{1, 1, 1}, {128, 1, 1}}, {0, 0, 30000}, 2, {KNOWN, KNOWN}, 0},
	{"triangle", {{2, 1, 1}, {128, 1, 1}}, {0, 0, 200}, 2, {KNOWN, KNOWN}, 1},
	{"pieces",
	 {{2, 1, 1}, {64, 1, 1}},
	 {0, 0, TWO(300, 38400)},
	 2,
	 {KNOWN, KNOWN},
	 0},
	{"planes",
	 {{4, 8, 1}, {32, 8, 1}},
	 {0, 0, TWO(100, 60), 20},
	 2,
	 {KNOWN, KNOWN},
	 0},
	{"fill", {{40, 1, 1}, {256, 1, 1}}, {8192, 5, 10000}, 1, {KNOWN}, 0},
	{"attend",
	 {{6, 1, 1}, {64, 1, 1}},
	 {0, 0, 0, 0, TWO(300, 64)},
	 4,
	 {KNOWN, KNOWN, KNOWN, KNOWN},
	 0},
	{"histogram", {{4, 1, 1}, {128, 1, 1}}, {0, 0, 50000}, 2, {KNOWN, KNOWN}, 0},
	{"by_call", {{20, 1, 1}, {128, 1, 1}}, {0, 0, 2500}, 2, {OPEN, KNOWN}, 0},
	{"by_pointers", {{4, 1, 1}, {64, 1, 1}}, {0, 0, 256}, 2, {KNOWN, KNOWN}, 0, true},
};

/* Contents that the kernels follow: a list, and pointers, into the last part. */
static void prepare(const struct a_launch *l)
{
	for (unsigned i = 0; i < PARTS; i++)
		memset(part[i], 0, 1 << 20);
	if (!strcmp(l->kernel, "list")) {
		for (unsigned i = 0; i < 20; i++)
			*(char **)(part[1] + (size_t)i * 70000) =
				i < 19 ? part[1] + (size_t)(i + 1) * 70000 : NULL;
	}
	for (unsigned i = 0; !strcmp(l->kernel, "by_pointers") && i < 8; i++)
		((char **)part[0])[i] = part[3] + (size_t)i * 9000;
	for (unsigned i = 0; !strcmp(l->kernel, "gather") && i < 2500; i++)
		((int *)part[1])[i] = (int)(i * 37);
}

static void check(const char *build, const struct a_launch *l, bool strict)
{
	uint64_t word[6];

	memcpy(word, l->word, sizeof(word));
	for (unsigned i = 0; i < l->n_parts; i++)
		word[l->at[i] ? l->at[i] : i] += (uint64_t)(uintptr_t)part[i];
	prepare(l);
	predict(l->kernel, &l->shape, word, sizeof(word));
	cr_expect(follows == l->follows || (follows && !strict), "%s, %s: %d", build,
		  l->kernel, follows);
	run(l->kernel, &l->shape, word);
	for (unsigned i = 0; i < l->n_parts; i++) {
		struct pages c = count(i);
		bool known = c.missed == 0 && c.touched && !open_at[i];

		if (l->how[i] == OPEN) {
			cr_expect(open_at[i], "%s, %s: part %u is not said to be open",
				  build, l->kernel, i);
			continue;
		}
		cr_expect(c.missed == 0 || open_at[i],
			  "%s, %s: part %u: %u of %u pages missed", build, l->kernel, i,
			  c.missed, c.touched);
		if (strict)
			cr_expect(known && c.not_needed <= l->not_needed,
				  "%s, %s: part %u: %u pages, %u missed, %u not needed%s",
				  build, l->kernel, i, c.touched, c.missed, c.not_needed,
				  open_at[i] ? ", open" : "");
	}
}

Test(extents, of_kernels_as_the_compiler_makes_them)
{
	const char *build[] = {"90", "75"};

	for (unsigned b = 0; b < ARRAY_SIZE(build); b++) {
		load("extents", build[b]);
		for (unsigned i = 0; i < ARRAY_SIZE(launches); i++)
			check(build[b], &launches[i], true);
	}
}

/* Parameters go through memory there, so nothing is known but that they may lead anywhere. */
Test(extents, of_kernels_that_are_not_optimised)
{
	load("extents", "90-G");
	for (unsigned i = 0; i < ARRAY_SIZE(launches); i++)
		check("90-G", &launches[i], false);
}

/* ---- programs of tests/gpu/compute, a launch of each kernel ---- */

static const struct a_launch rodinia[] = {
	{"_Z8dwt_rowsPKfPfii",
	 {{8, 64, 1}, {32, 8, 1}},
	 {0, 0, TWO(512, 512)},
	 2,
	 {KNOWN, KNOWN},
	 1},
	{"_Z11dwt_columnsPKfPfii",
	 {{16, 32, 1}, {32, 8, 1}},
	 {0, 0, TWO(512, 512)},
	 2,
	 {KNOWN, KNOWN},
	 1},
	{"_Z7hotspotPKfS0_Pfi",
	 {{8, 32, 1}, {32, 8, 1}},
	 {0, 0, 0, 256},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 0},
	{"_Z8cfd_meshPiPfm",
	 {{79, 1, 1}, {256, 1, 1}},
	 {0, 0, 20000},
	 2,
	 {KNOWN, KNOWN},
	 0},
	{"_Z7cfd_gasPfm", {{79, 1, 1}, {256, 1, 1}}, {0, 20000}, 1, {KNOWN}, 0},
	{"_Z10cfd_factorPKfS0_Pfm",
	 {{79, 1, 1}, {256, 1, 1}},
	 {0, 0, 0, 20000},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 0},
	{"_Z8cfd_fluxPKiPKfS2_Pfm",
	 {{79, 1, 1}, {256, 1, 1}},
	 {0, 0, 0, 0, 20000},
	 4,
	 {KNOWN, KNOWN, OPEN, KNOWN},
	 0},
	{"_Z8cfd_stepPKfS0_S0_Pfmf",
	 {{79, 1, 1}, {256, 1, 1}},
	 {0, 0, 0, 0, 20000, 0},
	 4,
	 {KNOWN, KNOWN, KNOWN, KNOWN},
	 0},
	{"_Z7nearestPK6float2PfS2_mff",
	 {{200, 1, 1}, {256, 1, 1}},
	 {0, 0, 0, 50000, 0},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 0},
};

static const struct a_launch slices[] = {
	{"_Z5layerPK6float4mmPf",
	 {{8, 1, 1}, {256, 1, 1}},
	 {0, 30000, 16384, 0},
	 2,
	 {KNOWN, KNOWN},
	 0,
	 .at = {0, 3}},
};

static const struct a_launch pilot[] = {
	{"_Z13layer_forwardPKfS0_Pf",
	 {{256, 1, 1}, {16, 16, 1}},
	 {0, 0, 0},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 0},
	{"_Z14adjust_weightsPKfS0_PfS1_m",
	 {{16, 1, 1}, {256, 1, 1}},
	 {0, 0, 0, 0, 4096},
	 4,
	 {KNOWN, KNOWN, KNOWN, KNOWN},
	 1},
	{"_Z4heatPKfS0_Pfi",
	 {{14, 56, 1}, {32, 8, 1}},
	 {0, 0, 0, 448},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 196 /* a plane behind the last, which a comparison by != leaves out */},
	{"_Z11distance_toPK6float2Pfmff",
	 {{200, 1, 1}, {256, 1, 1}},
	 {0, 0, 50000, 0},
	 2,
	 {KNOWN, KNOWN},
	 0},
	{"_Z11multipliersPKfPfii",
	 {{1, 1, 1}, {256, 1, 1}},
	 {0, 0, TWO(128, 5)},
	 2,
	 {KNOWN, KNOWN},
	 0},
	{"_Z9eliminatePfPKfS_ii",
	 {{4, 16, 1}, {32, 8, 1}},
	 {0, 0, 0, TWO(128, 5)},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 0},
	{"_Z8diagonalPfi", {{1, 1, 1}, {256, 1, 1}}, {0, 128}, 1, {KNOWN}, 0},
	{"_Z5meansPKfPfi", {{1, 1, 1}, {256, 1, 1}}, {0, 0, 192}, 2, {KNOWN, KNOWN}, 0},
	{"_Z10deviationsPKfS0_Pfi",
	 {{1, 1, 1}, {256, 1, 1}},
	 {0, 0, 0, 192},
	 3,
	 {KNOWN, KNOWN, KNOWN},
	 0},
	{"_Z6centrePfPKfS1_S1_i",
	 {{6, 24, 1}, {32, 8, 1}},
	 {0, 0, 0, 0, 192},
	 4,
	 {KNOWN, KNOWN, KNOWN, KNOWN},
	 0},
	{"_Z9correlatePKfPfi",
	 {{1, 192, 1}, {256, 1, 1}},
	 {0, 0, 192},
	 2,
	 {KNOWN, KNOWN},
	 0},
	{"_Z4rowsPKfS0_S0_Pfi",
	 {{1, 1, 1}, {256, 1, 1}},
	 {0, 0, 0, 0, 192},
	 4,
	 {KNOWN, KNOWN, KNOWN, KNOWN},
	 0},
};

static void check_program(const char *name, const struct a_launch *l, unsigned n)
{
	load(name, "90");
	for (unsigned i = 0; i < n; i++)
		check(name, &l[i], true);
}

Test(extents, of_programs)
{
	check_program("rodinia", rodinia, ARRAY_SIZE(rodinia));
	check_program("slices", slices, ARRAY_SIZE(slices));
	check_program("pilot", pilot, ARRAY_SIZE(pilot));
}

/* ---- texts that no compiler writes ---- */

static void load_text(const char *body)
{
	char text[16384];

	snprintf(text, sizeof(text),
		 ".version 8.0\n.target sm_70\n.address_size 64\n"
		 ".visible .entry k(.param .u64 p, .param .u32 n) {\n"
		 ".reg .b64 %%rd<9>; .reg .b32 %%r<9>; .reg .pred %%p<9>;\n%s\nret; }\n",
		 body);
	ptx_module_free(m);
	m = NULL;
	cr_assert(ptx_parse(text, strlen(text), NULL, &m) == 0, "%s", body);
}

static void told(void *arg, uint64_t addr, uint64_t bytes)
{
	*(uint64_t *)arg += bytes;
}

/* Bytes that are said of a launch of one thread with a pointer and n. */
static uint64_t said(uint64_t n)
{
	const struct ptx_grid one = {{1, 1, 1}, {1, 1, 1}};
	struct ptx_extent *e = ptx_extent_new(m, ptx_find_func(m, "k"));
	/* Allocated by itself, so that a byte before or behind it is seen. */
	uint64_t *params = malloc(12), sum = 0;

	cr_assert(params);
	memcpy(params, (uint64_t[]){1 << 30}, 8);
	memcpy((char *)params + 8, &n, 4);
	if (e)
		ptx_extent_each(e, params, 12, &one, PAGE, told, &sum);
	ptx_extent_free(e);
	free(params);
	return sum;
}

/* Only a branch says anything of what comes behind it. */
Test(extents, of_a_guard_that_is_no_branch)
{
	load_text("ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"
		  "setp.ge.s32 %p1, %r2, 0; @%p1 mov.u32 %r3, 1;\n"
		  "L: mul.wide.s32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;\n"
		  "st.global.u32 [%rd3], %r1; ret; bra L;");
	cr_expect(said(5) == 4, "a thread that is none");
	load_text("ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0;\n"
		  "H: setp.lt.s32 %p1, %r2, 3; @%p1 mov.u32 %r3, 1;\n"
		  "L: mul.wide.s32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;\n"
		  "st.global.u32 [%rd3], %r1; add.s32 %r2, %r2, 1;\n"
		  "setp.lt.s32 %p2, %r2, %r1; @%p2 bra H; ret; bra L;");
	cr_expect(said(50) == 200, "%lu", said(50));
}

static bool is_followed(const char *body)
{
	struct ptx_extent *e;
	bool is;

	load_text(body);
	e = ptx_extent_new(m, ptx_find_func(m, "k"));
	cr_assert(e, "%s", body);
	is = ptx_extent_follows(e);
	ptx_extent_free(e);
	return is;
}

Test(extents, of_addresses_that_lie_in_memory)
{
	cr_expect(is_followed(".const .u64 kept;\nld.const.u64 %rd1, [kept];\n"
			      "st.global.u32 [%rd1+8], 1;"));
	cr_expect(is_followed(
		"ld.param.u64 %rd1, [p]; ld.global.v2.u64 {%rd2, %rd3}, [%rd1];\n"
		"mov.u32 %r1, %tid.x; cvt.u64.u32 %rd4, %r1;\n"
		"mad.lo.s64 %rd5, %rd4, 24, %rd3; st.global.u32 [%rd5], 1;"));
	cr_expect(is_followed("ld.param.u64 %rd1, [p]; ld.global.u64 %rd2, [%rd1];\n"
			      "wmma.load.a.sync.aligned.row.m16n16k16.global.f16\n"
			      "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd2], 16;"));
	/* As an index, and as a number that is stored. */
	cr_expect(!is_followed("ld.param.u64 %rd1, [p]; ld.global.u64 %rd2, [%rd1];\n"
			       "shl.b64 %rd3, %rd2, 2; add.s64 %rd4, %rd1, %rd3;\n"
			       "st.global.u64 [%rd4], %rd2;"));
	cr_expect(!is_followed("ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1];\n"
			       "cvt.u64.u32 %rd2, %r1; add.s64 %rd3, %rd1, %rd2;\n"
			       "st.global.u32 [%rd3], 1;"));
}

Test(extents, of_numbers_at_their_ends)
{
	char body[12000] = "ld.param.u64 %rd1, [p]; mov.u32 %r2, %tid.x;\n"
			   "setp.eq.s32 %p1, %r2, 0;\n";

	/* Parameters before the first, and behind the last. */
	load_text(
		"ld.param.u64 %rd1, [p+-4]; ld.param.u64 %rd2, [p+9223372036854775804];\n"
		"add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1;");
	(void)said(1);
	load_text("ld.param.u64 %rd1, [p]; and.b64 %rd2, %rd1, 9223372036854775807;\n"
		  "mov.u32 %r1, %tid.x; cvt.u64.u32 %rd3, %r1;\n"
		  "and.b64 %rd4, %rd3, 9223372036854775807; add.s64 %rd2, %rd2, %rd4;\n"
		  "st.global.u32 [%rd2], 1;");
	(void)said(1);
	load_text("ld.param.u64 %rd1, [p]; mov.u64 %rd2, 0;\n"
		  "L: add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1;\n"
		  "add.s64 %rd2, %rd2, 1; setp.le.s64 %p1, %rd2, 9223372036854775806;\n"
		  "@%p1 bra L;");
	(void)said(1);
	load_text("ld.param.u64 %rd1, [p]; add.s64 %rd2, %rd1, 9223372036854775800;\n"
		  "st.global.u32 [%rd2], 1; st.global.u32 [%rd2+4], 1; st.global.u32 "
		  "[%rd1], 1;");
	(void)said(1);
	/* More definitions than are looked at. */
	for (unsigned i = 0; i < 200; i++)
		strcat(body, "@%p1 mov.u64 %rd2, 8;\n");
	strcat(body, "add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1;");
	load_text(body);
	cr_expect(said(1) == 0, "nobody knows");
}
