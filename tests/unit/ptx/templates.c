/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's text of where kernels reach memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ptx/extent/table.h"

#define HEAD "weft-extents 1\ncode *\nkernel k\n"

static const struct ptx_grid grid = {{3, 1, 1}, {64, 1, 1}};
static const struct ptx_code nothing;

static struct {
	uint64_t addr, count;
	uint16_t half;
} params = {.addr = 0x10000, .count = 4, .half = 0xffff};

static char heard[4096];

static void hear(void *arg, uint64_t addr, uint64_t bytes)
{
	size_t n = strlen(heard);

	snprintf(heard + n, sizeof(heard) - n, "%s%llx+%llx", n ? " " : "",
		 (unsigned long long)addr, (unsigned long long)bytes);
}

static struct ptx_templates *read_text(const char *text)
{
	struct ptx_template_error error;
	struct ptx_templates *t = NULL;

	cr_assert_eq(ptx_templates_new(text, strlen(text), &t, &error), 0, "%u: %s",
		     error.line, error.why);
	return t;
}

/* Returns what a launch of k reaches, in parts that are a page apart. */
static const char *reached(const char *text)
{
	struct ptx_templates *t = read_text(text);
	const struct ptx_extent *e = ptx_templates_find(t, &nothing, "k");

	*heard = '\0';
	cr_assert(e);
	ptx_extent_each(e, &params, sizeof(params), &grid, 4096, hear, NULL);
	ptx_templates_free(t);
	return heard;
}

Test(templates, addresses_follow_from_parameters_and_the_launch)
{
	cr_assert_str_eq(reached(HEAD "at u64[0] bytes 16"), "10000+10");
	cr_assert_str_eq(reached(HEAD "at u64[0]+4*(ctaid.x*ntid.x+tid.x) bytes 4"),
			 "10000+300");
	cr_assert_str_eq(reached(HEAD "at u64[0] + each(u32[8], 8192) bytes 512"),
			 "10000+200 12000+200 14000+200 16000+200");
	cr_assert_str_eq(reached(HEAD "at u64[0] + each(u32[8], 64) bytes 64"),
			 "10000+100");
	cr_assert_str_eq(reached(HEAD "at u64[0] + u16[16] - s16[16] bytes 1"),
			 "20000+1");
	cr_assert_str_eq(reached(HEAD "at u64[0] + max(u64[8], 0x20) / 3 % 7 bytes 1\n"
				      "at u64[0] + min(-1, u64[8]) * (2 + 3) bytes 1\n"),
			 "10000+7 fffb+1", "a rest is anything below");
	cr_assert_str_eq(reached(HEAD "somewhere u64[0] # a list"), "10000+0");
	cr_assert_str_eq(reached(HEAD "at u64[999] bytes 1"), "0+1", "is cut short");
	cr_assert_str_eq(reached(HEAD), "");
}

/* One code before any, and that before what PTX says. */
Test(templates, the_code_that_is_meant)
{
	static const char image[] =
		".version 7.0\n.target sm_70\n.address_size 64\n"
		".visible .entry k(.param .u64 p) { .reg .b64 %r<2>;"
		"ld.param.u64 %r1, [p]; st.global.u8 [%r1], 0; ret; }"
		".visible .entry l(.param .u64 p) { .reg .b64 %r<2>;"
		"ld.param.u64 %r1, [p]; st.global.u8 [%r1+4096], 0; ret; }";
	struct ptx_code code = ptx_code_of(image, sizeof(image));
	struct ptx_extents *e = ptx_extents_new(image, sizeof(image), 90);
	struct ptx_extents *machine = NULL;
	struct ptx_templates *t;
	char text[256];

	snprintf(text, sizeof(text),
		 HEAD "at 1 bytes 1\ncode %016llx%016llx\nkernel  k \nat 2 bytes 2\n"
		      "kernel m\nat 3 bytes 3\n",
		 (unsigned long long)code.hash[0], (unsigned long long)code.hash[1]);
	t = read_text(text);
	cr_assert_eq(ptx_extents_say(&e, t, &code), 0);
	cr_assert_eq(ptx_extents_say(&machine, t, &nothing), 0);
	*heard = '\0';
	ptx_extent_each(ptx_extents_find(e, "k"), &params, 8, &grid, 1, hear, NULL);
	ptx_extent_each(ptx_extents_find(e, "l"), &params, 8, &grid, 1, hear, NULL);
	ptx_extent_each(ptx_extents_find(e, "m"), &params, 8, &grid, 1, hear, NULL);
	ptx_extent_each(ptx_extents_find(machine, "k"), &params, 8, &grid, 1, hear, NULL);
	cr_assert_str_eq(heard, "2+2 11000+1 3+3 1+1");
	cr_assert_null(ptx_extents_find(machine, "m"));
	ptx_extents_put(machine);
	ptx_extents_put(e);
	ptx_templates_free(t);
}

static void wrong(const char *text, size_t size, unsigned line, const char *why)
{
	struct ptx_template_error error;
	struct ptx_templates *t = NULL;

	cr_assert_eq(ptx_templates_new(text, size, &t, &error), -EINVAL, "%s", text);
	cr_expect_eq(error.line, line, "%s: %u", text, error.line);
	cr_expect_str_eq(error.why, why);
	cr_assert_null(t);
}

Test(templates, mistakes_are_told_with_their_line)
{
	static const struct {
		const char *text;
		unsigned line;
		const char *why;
	} all[] = {
		{"", 0, "expected weft-extents 1"},
		{"\n# nothing\n", 2, "expected weft-extents 1"},
		{"weft-extents 2", 1, "expected version 1"},
		{"weft-extents 1\nkernel k", 2, "expected code before this"},
		{"weft-extents 1\ncode *\nat 1 bytes 1", 3,
		 "expected kernel before this"},
		{"weft-extents 1\ncode 12", 2, "expected * or 32 hexadecimal digits"},
		{"weft-extents 1\ncode * *", 2, "expected the end of the line"},
		{"weft-extents 1\ncode *\nkernel ", 3, "expected a kernel's name"},
		{HEAD "at bytes 1", 4, "expected a number"},
		{HEAD "at u64[0 bytes 1", 4, "expected ]"},
		{HEAD "at u64[5000] bytes 1", 4, "a parameter is within 4096 bytes"},
		{HEAD "at (1 bytes 1", 4, "expected )"},
		{HEAD "at 1", 4, "expected bytes"},
		{HEAD "at 1 bytes 0", 4, "bytes are from 1 to 2^40"},
		{HEAD "at 99999999999999999999 bytes 1", 4, "is no number"},
		{HEAD "at 1 bytes 1 2", 4, "expected the end of the line"},
		{HEAD "whatever", 4, "expected code, kernel, at or somewhere"},
	};
	char deep[256] = HEAD "at ";

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		wrong(all[i].text, strlen(all[i].text), all[i].line, all[i].why);
	memset(deep + strlen(deep), '-', 100);
	wrong(deep, strlen(deep), 4, "too much in one another");
	wrong("weft-extents 1\ncode *\nkernel a\0b", 32, 3, "expected a kernel's name");
}

Test(templates, there_is_an_end_to_what_is_read)
{
	static char text[TEMPLATES_TEXT_MAX + 2];
	size_t n = (size_t)sprintf(text, HEAD);
	struct ptx_template_error error;
	struct ptx_templates *t = NULL;

	memset(text + n, '\n', sizeof(text) - n);
	wrong(text, sizeof(text), 0, "is longer than 1 MiB");
	while (n < 100000)
		n += (size_t)sprintf(text + n, "at 1 + u64[0] bytes 1\n");
	cr_assert_eq(ptx_templates_new(text, n, &t, &error), -EINVAL);
	cr_expect_eq(error.line, 132, "%u", error.line);
	n = (size_t)sprintf(text, "weft-extents 1\ncode *\n");
	while (n < 100000)
		n += (size_t)sprintf(text + n, "kernel k\n");
	cr_assert_eq(ptx_templates_new(text, n, &t, &error), -EINVAL);
	cr_expect_str_eq(error.why, "too many kernels");
}
