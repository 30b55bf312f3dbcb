/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From launches to templates. A launch says what a kernel reached in whole pieces of 2 MiB, as the
 * driver moves memory; what is written has to be what another launch of other sizes reaches.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "profile/compare.h"
#include "profile/fit.h"
#include "profile/record.h"

#define MIB ((uint64_t)1 << 20)
#define A   ((uint64_t)0x7f0000000000)
#define B   ((uint64_t)0x7f1000000000)
#define ALL (1024 * MIB)

struct params {
	uint64_t a, b;
	uint32_t n[6];
};

static struct kernel *kernel_new(struct kernels *k)
{
	const struct ptx_code code = {{1, 2}};

	return kernels_get(k, &code, "k");
}

/* A launch with A and B, each of 1 GiB, and these numbers. */
static struct launch launch_of(const struct params *p)
{
	struct launch l = {.shape = {{1, 1, 1}, {128, 1, 1}}, .size = sizeof(*p)};

	l.params = malloc(sizeof(*p));
	memcpy(l.params, p, sizeof(*p));
	spans_add(&l.memory, A, A + ALL);
	spans_add(&l.memory, B, B + ALL);
	return l;
}

static void reach(struct launch *l, uint64_t from, uint64_t bytes)
{
	spans_add(&l->reached, ALIGN_DOWN(from, PIECE), ALIGN_UP(from + bytes, PIECE));
	spans_join(&l->reached);
}

static void keep(struct kernel *k, struct launch *l)
{
	if (kernel_sees(k, l))
		kernel_keep(k, l);
	launch_free(l);
}

static char *written(struct kernels *k)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	fprintf(f, "weft-extents 1\n");
	for (size_t i = 0; i < k->n; i++)
		fit_write(f, k->v[i]);
	fclose(f);
	return text;
}

/* The lines of the only kernel, behind its name. */
static void expect(struct kernels *k, const char *lines)
{
	char *text = written(k), *at = strstr(text, "kernel k\n");

	cr_assert(at, "%s", text);
	cr_assert_str_eq(at + strlen("kernel k\n"), lines, "%s", text);
	free(text);
}

/* How a launch compares with what is foretold of it. */
static struct compared foretold(struct kernels *k, struct launch *l)
{
	char *text = written(k);
	struct ptx_template_error error = {0};
	const struct ptx_code code = {{1, 2}};
	struct ptx_templates *t = NULL;
	struct compared c = {0};

	cr_assert_eq(ptx_templates_new(text, strlen(text), &t, &error), 0, "%u: %s\n%s",
		     error.line, error.why, text);
	cr_assert_eq(compare_launch(ptx_templates_find(t, &code, "k"), l, &c), 0);
	ptx_templates_free(t);
	launch_free(l);
	free(text);
	return c;
}

static const uint32_t sizes[][2] = {
	{1500, 2100}, {4096, 3000}, {2500, 5000}, {7000, 1024}};

Test(profile, products_of_two_numbers)
{
	struct kernels k = {0};
	struct launch l;
	struct compared c;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint32_t m = sizes[i][0], n = sizes[i][1];

		l = launch_of(&(struct params){A, B, {m, n, m, 7}});
		reach(&l, A, 4ull * m * n);
		reach(&l, B, 8ull * m * m);
		keep(kernel_new(&k), &l);
	}
	expect(&k, "at u64[0] + each(u32[16] * u32[20], 4) bytes 4\n"
		   "at u64[8] + each(u32[16] * u32[16], 8) bytes 8\n");
	l = launch_of(&(struct params){A + 300 * MIB, B, {6000, 6000, 6000, 7}});
	reach(&l, A + 300 * MIB, 4ull * 6000 * 6000);
	reach(&l, B, 8ull * 6000 * 6000);
	c = foretold(&k, &l);
	cr_assert(c.reached > 200 && !c.missed && !c.extra,
		  "%lu reached, %lu missed, %lu extra", c.reached, c.missed, c.extra);
	kernels_free(&k);
}

/* As many numbers as a kernel of cuBLAS has: among products of three of them something always holds
 * for two launches. */
Test(profile, few_launches_say_nothing)
{
	struct kernels k = {0};
	uint32_t random = 1;

	for (size_t i = 0; i < 6; i++) {
		struct {
			uint64_t a;
			uint32_t n[40];
		} p = {A, {0}};
		struct launch l = {.shape = {{1, 1, 1}, {128, 1, 1}}, .size = sizeof(p)};

		for (size_t j = 0; j < ARRAY_SIZE(p.n); j++) {
			random = random * 1664525 + 1013904223;
			p.n[j] = 1000 + (random >> 16) % 3000;
		}
		l.params = malloc(sizeof(p));
		memcpy(l.params, &p, sizeof(p));
		spans_add(&l.memory, A, A + ALL);
		reach(&l, A, 4ull * p.n[17] * p.n[30]);
		keep(kernel_new(&k), &l);
		if (i == 1)
			expect(&k, "somewhere u64[0]\n");
	}
	expect(&k, "at u64[0] + each(u32[76] * u32[128], 4) bytes 4\n");
	kernels_free(&k);
}

/* Two launches of a kernel with few numbers. */
static void two_sizes(struct kernels *k, uint64_t more)
{
	static const uint32_t n[] = {1024, 6656};

	for (size_t i = 0; i < ARRAY_SIZE(n); i++) {
		struct params p = {A, 0, {n[i], n[i] / 32, n[i] / 8}};
		struct launch l = {.shape = {{1, 1, 1}, {128, 1, 1}}, .size = sizeof(p)};

		l.params = malloc(sizeof(p));
		memcpy(l.params, &p, sizeof(p));
		spans_add(&l.memory, A, A + 4ull * n[i] * n[i] + more);
		spans_add(&l.reached, A, A + 4ull * n[i] * n[i] + more);
		keep(kernel_new(k), &l);
	}
}

/* As many bytes as its allocation has, exactly: not by chance. */
Test(profile, two_allocations_reached_to_the_byte)
{
	struct kernels k = {0};

	two_sizes(&k, 0);
	expect(&k, "at u64[0] + each(u32[16] * u32[16], 4) bytes 4\n");
	kernels_free(&k);
}

Test(profile, two_allocations_of_other_sizes)
{
	struct kernels k = {0};

	two_sizes(&k, MIB);
	expect(&k, "somewhere u64[0]\n");
	kernels_free(&k);
}

/* Both parameters point into one buffer, each to its own part. */
Test(profile, two_pointers_into_one_buffer)
{
	struct kernels k = {0};
	struct launch l;

	for (uint32_t n = 3; n < 40; n += 7) {
		l = launch_of(
			&(struct params){A + 100 * MIB, A + 500 * MIB, {n << 18, n}});
		reach(&l, A + 100 * MIB, (uint64_t)n << 20);
		reach(&l, A + 500 * MIB, (uint64_t)n << 19);
		keep(kernel_new(&k), &l);
	}
	expect(&k, "at u64[0] + each(u32[16], 4) bytes 4\n"
		   "at u64[8] + each(u32[16], 2) bytes 2\n");
	kernels_free(&k);
}

Test(profile, slices_of_a_buffer)
{
	static const uint32_t rows[] = {0, 700, 1500, 90};
	struct kernels k = {0};
	struct launch l;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t n = (uint32_t)(3 + 5 * i) << 20;

		l = launch_of(&(struct params){A, 0, {rows[i], n}});
		reach(&l, A + (uint64_t)rows[i] * 65536, n);
		keep(kernel_new(&k), &l);
	}
	expect(&k, "at u64[0] + u32[16] * 65536 + each(u32[20], 1) bytes 1\n");
	kernels_free(&k);
}

Test(profile, rows_at_equal_distances)
{
	static const uint32_t how[][2] = {{5, 4000}, {9, 2500}, {3, 9000}, {7, 5000}};
	struct kernels k = {0};
	struct launch l;

	for (size_t i = 0; i < ARRAY_SIZE(how); i++) {
		l = launch_of(&(struct params){A, 0, {how[i][0], how[i][1]}});
		for (uint32_t row = 0; row < how[i][0]; row++)
			reach(&l, A + (uint64_t)row * how[i][1] * 4096, 4096);
		keep(kernel_new(&k), &l);
	}
	expect(&k, "at u64[0] + each(u32[16], u32[20] * 4096) bytes 2097152\n");
	kernels_free(&k);
}

/* Rows that begin where no number says are anywhere, and not at the pointer. */
Test(profile, rows_that_begin_somewhere)
{
	static const uint32_t how[][3] = {
		{5, 4000, 31}, {9, 2500, 7}, {3, 9000, 90}, {7, 5000, 55}};
	struct kernels k = {0};
	struct compared c;
	struct launch l;

	for (size_t i = 0; i < ARRAY_SIZE(how); i++) {
		l = launch_of(&(struct params){A, 0, {how[i][0], how[i][1]}});
		for (uint32_t row = 0; row < how[i][0]; row++)
			reach(&l,
			      A + how[i][2] * PIECE + (uint64_t)row * how[i][1] * 4096,
			      4096);
		keep(kernel_new(&k), &l);
	}
	l = launch_of(&(struct params){A, 0, {5, 4000}});
	for (uint32_t row = 0; row < 5; row++)
		reach(&l, A + 31 * PIECE + row * 4000ull * 4096, 4096);
	c = foretold(&k, &l);
	cr_assert(c.reached == 5 && !c.missed, "%lu reached, %lu missed", c.reached,
		  c.missed);
	kernels_free(&k);
}

/* One address at first is said to be reached whole; so are others, for it moves. */
Test(profile, always_the_same_bytes)
{
	struct kernels k = {0};
	struct launch l;

	l = launch_of(&(struct params){A, 0, {5}});
	reach(&l, A, 6 * MIB);
	keep(kernel_new(&k), &l);
	expect(&k, "somewhere u64[0]\n");
	for (uint64_t i = 1; i < 9; i++) {
		l = launch_of(&(struct params){A + i * 64 * MIB, 0, {5}});
		reach(&l, A + i * 64 * MIB, 6 * MIB);
		keep(kernel_new(&k), &l);
	}
	cr_assert_eq(kernel_new(&k)->n, 3, "%u are kept", kernel_new(&k)->n);
	cr_assert_eq(kernel_new(&k)->seen, 9);
	expect(&k, "at u64[0] bytes 6291456\n");
	kernels_free(&k);
}

/* A workspace that some launches do without. */
Test(profile, pointer_that_is_null)
{
	struct kernels k = {0};
	struct launch l;

	for (uint32_t n = 2; n < 12; n++) {
		l = launch_of(&(struct params){A, n % 2 ? B : 0, {n}});
		reach(&l, A, n * 2 * MIB);
		if (n % 2)
			reach(&l, B, n * 4 * MIB);
		keep(kernel_new(&k), &l);
	}
	expect(&k, "at u64[0] + each(u32[16], 2097152) bytes 2097152\n"
		   "at u64[8] + each(u32[16], 4194304) bytes 4194304\n");
	kernels_free(&k);
}

Test(profile, nothing_that_numbers_say)
{
	static const uint64_t pieces[] = {7, 90, 31, 200};
	struct kernels k = {0};
	struct launch l;
	char *text;

	for (uint32_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		l = launch_of(&(struct params){A, 0, {1u << i}});
		reach(&l, A, pieces[i] * PIECE);
		keep(kernel_new(&k), &l);
	}
	expect(&k, "somewhere u64[0]\n");
	l = launch_of(&(struct params){A, 0, {77}});
	reach(&l, B, 1);
	keep(kernel_new(&k), &l);
	text = written(&k);
	cr_assert_str_eq(text,
			 "weft-extents 1\n# k reaches what no parameter points to\n");
	free(text);
	kernels_free(&k);
}

static void read_back(const char *text, struct kernels *k, int expected, unsigned at_line)
{
	FILE *f = fmemopen((void *)text, strlen(text), "r");
	unsigned line;
	int r = record_read(f, k, &line);

	fclose(f);
	cr_assert_eq(r, expected, "%d at line %u of\n%s", r, line, text);
	cr_assert(!at_line || line == at_line, "line %u instead of %u", line, at_line);
}

Test(profile, launches_are_kept_in_a_file)
{
	struct kernels k = {0}, again = {0};
	char *text = NULL, *first, *second;
	struct launch l;
	size_t size;
	FILE *f;

	for (uint32_t n = 2; n < 6; n++) {
		l = launch_of(&(struct params){A, 0, {n}});
		reach(&l, A, n * 2 * MIB);
		keep(kernel_new(&k), &l);
	}
	f = open_memstream(&text, &size);
	record_write(f, &k);
	fclose(f);
	read_back(text, &again, 0, 0);
	read_back(text, &again, 0, 0);
	cr_assert_eq(again.n, 1);
	cr_assert_eq(again.v[0]->n, 4, "what is there twice is kept once");
	cr_assert_eq(again.v[0]->seen, 8);
	first = written(&k);
	second = written(&again);
	cr_assert_str_eq(first, second);
	free(first);
	free(second);
	free(text);
	kernels_free(&k);
	kernels_free(&again);
}

#define CODE "0123456789abcdef0123456789abcdef"

Test(profile, files_of_launches_with_mistakes)
{
	static const struct {
		const char *text;
		unsigned line;
	} wrong[] = {
		{"weft-launches 2\n", 1},
		{"weft-launches 1\nnonsense\n", 2},
		{"weft-launches 1\nlaunch 1 1 1 1 1 1 -\n", 2},
		{"weft-launches 1\nkernel 0123 1 k\n", 2},
		{"weft-launches 1\nkernel " CODE " 1 a#b\n", 2},
		{"weft-launches 1\nkernel " CODE " 1 k\nlaunch 1 1 1 1 1 00\n", 3},
		{"weft-launches 1\nkernel " CODE " 1 k\nlaunch 1 1 1 1 1 1 0\n", 3},
		{"weft-launches 1\nkernel " CODE " 1 k\nlaunch 1 1 1 1 1 4294967296 -\n",
		 3},
		{"weft-launches 1\nkernel " CODE " 1 k\nmemory 0 1000\n", 3},
		{"weft-launches 1\nkernel " CODE
		 " 1 k\nlaunch 1 1 1 1 1 1 -\nmemory 20 10\n",
		 4},
		{"weft-launches 1\nkernel " CODE
		 " 1 k\nlaunch 1 1 1 1 1 1 -\nmemory 10 20 15 30\n",
		 4},
		{"weft-launches 1\nkernel " CODE
		 " 1 k\nlaunch 1 1 1 1 1 1 -\nreached 10\n",
		 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct kernels k = {0};

		read_back(wrong[i].text, &k, -EINVAL, wrong[i].line);
		kernels_free(&k);
	}
}
