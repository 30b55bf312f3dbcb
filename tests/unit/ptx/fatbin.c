/* SPDX-License-Identifier: Apache-2.0 */
/* Containers put together by hand, cut short and lied about. */
#include <criterion/criterion.h>
#include <errno.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/macros.h"
#include "ptx/fatbin.h"

static uint8_t image[65536];
static size_t len;

static void put(size_t off, uint64_t v, size_t n)
{
	memcpy(image + off, &v, n);
}

static void begin(void)
{
	memset(image, 0, sizeof(image));
	put(0, FATBIN_MAGIC, 4);
	put(4, 1, 2);
	put(6, 16, 2);
	len = 16;
}

static void add(unsigned kind, unsigned sm, uint64_t flags, const void *data, size_t n,
		uint64_t plain)
{
	size_t padded = ALIGN_UP(n, (size_t)8);

	put(len, kind, 2);
	put(len + 2, 0x101, 2);
	put(len + 4, 64, 4);
	put(len + 8, padded, 8);
	put(len + 16, plain ? n : 0, 4);
	put(len + 26, 9, 2);
	put(len + 28, sm, 4);
	put(len + 40, flags | 0x11, 8);
	put(len + 56, plain, 8);
	memcpy(image + len + 64, data, n);
	len += 64 + padded;
	put(8, len - 16, 8);
}

static void add_text(unsigned sm, uint64_t flags, const char *text)
{
	char packed[1024];
	size_t n = strlen(text);

	if (flags & 0x8000)
		n = ZSTD_compress(packed, sizeof(packed), text, n, 3);
	else if (flags & 0x2000)
		n = (size_t)LZ4_compress_default(text, packed, (int)n, sizeof(packed));
	else
		memcpy(packed, text, n);
	add(FATBIN_PTX, sm, flags, packed, n, flags & 0xa000 ? strlen(text) : 0);
}

static void expect(unsigned sm, int want_r, const char *want)
{
	char *text = NULL;
	size_t n = 0;
	int r = fatbin_ptx(image, len, sm, &text, &n);

	cr_assert_eq(r, want_r, "%d", r);
	if (want) {
		cr_assert_eq(strncmp(text, want, strlen(want)), 0, "%s", text);
		cr_assert_eq(text[n], 0);
	}
	free(text);
}

#define A ".version 9.0 // A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A"
#define B ".version 9.0 // B B B B B B B B B B B B B B B B B B B B B B B B B B B B B B"

Test(ptx_fatbin, picks_the_best_target)
{
	begin();
	add(FATBIN_ELF, 90, 0, "\177ELFxxxx", 8, 0);
	add_text(80, 0, A);
	add_text(75, 0x8000, B);
	expect(90, 0, A);
	expect(79, 0, B);
	expect(70, -ENOEXEC, NULL);
	add_text(100, 0x8000, "later");
	expect(90, 0, A);
	add_text(90, 0x2000 | 0x100000, B);
	expect(90, 0, B);
	expect(89, 0, A);
	expect(100, 0, "later");
	add_text(90, 0x2000, A);
	expect(90, 0, A);
	begin();
	add_text(80, 0x100000, A);
	add_text(80, 0x200000, A);
	expect(90, -ENOEXEC, NULL);
}

Test(ptx_fatbin, what_holds_no_ptx_is_told_by_its_error)
{
	enum fatbin_format format;
	char *text;
	size_t n;

	begin();
	expect(90, -ENOEXEC, NULL);
	add(FATBIN_ELF, 90, 0, "\177ELFxxxx", 8, 0);
	expect(90, -ENOEXEC, NULL);
	cr_assert_eq(fatbin_ptx("\177ELF....", 8, 90, &text, &n), -ENOEXEC);
	cr_assert_eq(fatbin_ptx("", 0, 90, &text, &n), -EBADMSG);
	cr_assert_eq(fatbin_ptx("\0\0\0\0", 4, 90, &text, &n), -EBADMSG);
	cr_assert_eq(fatbin_ptx("\x01\x55\xee\x1e", 4, 90, &text, &n), -EBADMSG);
	cr_assert_eq(fatbin_format("\n.version", 9, &format), 0);
	cr_assert_eq(format, FATBIN_IS_TEXT);
	cr_assert_eq(fatbin_ptx(".version 1\0junk", 15, 90, &text, &n), 0);
	cr_assert_eq(n, 10);
	free(text);
}

Test(ptx_fatbin, every_truncation)
{
	static uint8_t whole[4096];
	size_t full;

	begin();
	add(FATBIN_ELF, 75, 0, "\177ELFxxxx", 8, 0);
	add_text(75, 0x8000, A);
	add_text(80, 0x2000, B);
	add_text(86, 0, A);
	full = len;
	memcpy(whole, image, full);
	/* One byte of it is the text "P". */
	for (size_t cut = 2; cut < full; cut++) {
		/* Exactly so many bytes, so that a sanitizer sees one too many. */
		uint8_t *p = malloc(cut ? cut : 1);
		char *text = NULL;
		size_t n;

		memcpy(p, whole, cut);
		cr_assert_eq(fatbin_ptx(p, cut, 90, &text, &n), -EBADMSG, "%zu", cut);
		/* A container may also say by itself that it is so short. */
		if (cut >= 16) {
			uint64_t said = cut - 16;
			int r;

			memcpy(p + 8, &said, 8);
			r = fatbin_ptx(p, cut, 90, &text, &n);
			cr_assert(r == -EBADMSG || r == -ENOEXEC || r == 0);
			free(text);
		}
		free(p);
	}
}

Test(ptx_fatbin, sizes_that_lie)
{
	static const uint64_t lies[] = {1,          63,        65,
					UINT32_MAX, INT64_MAX, UINT64_MAX,
					1ull << 62, 4096,      UINT64_MAX - 63};
	static const struct {
		size_t off, n;
	} fields[] = {{6, 2},      {8, 8},       {16 + 4, 4},
		      {16 + 8, 8}, {16 + 16, 4}, {16 + 56, 8}};

	for (size_t f = 0; f < ARRAY_SIZE(fields); f++) {
		for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
			char *text = NULL;
			size_t n;
			int r;

			begin();
			add_text(80, 0x8000, A);
			put(fields[f].off, lies[i], fields[f].n);
			r = fatbin_ptx(image, len, 90, &text, &n);
			cr_assert(r == 0 || r == -EBADMSG || r == -E2BIG || r == -ENOEXEC,
				  "%d", r);
			free(text);
		}
	}
	begin();
	add_text(80, 0x8000, A);
	put(16 + 56, 10, 8); /* less room than the text needs */
	expect(90, -EBADMSG, NULL);
	put(16 + 56, FATBIN_MAX_PLAIN + 1ull, 8);
	expect(90, -E2BIG, NULL);
	begin();
	add_text(80, 0x2000, A);
	put(16 + 56, 10, 8);
	expect(90, -EBADMSG, NULL);
	begin();
	add_text(80, 0x1000, A);
	expect(90, -ENOTSUP, NULL);
}

Test(ptx_fatbin, every_entry_of_a_container_comes_once)
{
	struct fatbin_entry e;
	size_t pos = 0;

	begin();
	add(FATBIN_ELF, 90, 0, "\177ELFxxxx", 8, 0);
	add_text(80, 0x8000, A);
	cr_assert_eq(fatbin_next(image, len, &pos, &e), 1);
	cr_assert_eq(e.kind, FATBIN_ELF);
	cr_assert_eq(e.sm, 90);
	cr_assert_eq(fatbin_next(image, len, &pos, &e), 1);
	cr_assert_eq(e.kind, FATBIN_PTX);
	cr_assert_eq(e.packing, FATBIN_ZSTD);
	cr_assert_eq(e.plain_bytes, strlen(A));
	cr_assert_eq(e.version, 90);
	cr_assert_eq(fatbin_next(image, len, &pos, &e), 0);
	cr_assert_eq(fatbin_next(image, len, &pos, &e), 0);
}

Test(ptx_fatbin, says_what_it_is_for)
{
	static uint8_t elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x33, 8};
	char buf[64], small[12];

	begin();
	add(FATBIN_ELF, 80, 0, "x", 1, 0);
	add(FATBIN_ELF, 90, 0, "x", 1, 0);
	add(FATBIN_ELF, 90, 0, "y", 1, 0);
	add_text(100, 0, ".version 9.0");
	fatbin_targets(image, len, buf, sizeof(buf));
	cr_expect_str_eq(buf, "sm_80, sm_90, compute_100");
	fatbin_targets(image, len, small, sizeof(small));
	cr_expect_str_eq(small, "sm_80, ...");
	for (size_t n = 0; n < len; n++) /* cut short */
		fatbin_targets(image, n, buf, sizeof(buf));
	elf[49] = 75; /* ABI 8 and later, and before */
	fatbin_targets(elf, sizeof(elf), buf, sizeof(buf));
	cr_expect_str_eq(buf, "sm_75");
	elf[8] = 7;
	elf[48] = 86;
	fatbin_targets(elf, sizeof(elf), buf, sizeof(buf));
	cr_expect_str_eq(buf, "sm_86");
	fatbin_targets(elf, 63, buf, sizeof(buf));
	cr_expect_str_eq(buf, "");
	fatbin_targets(".version 8.0", 13, buf, sizeof(buf));
	cr_expect_str_eq(buf, "");
}

Test(ptx_fatbin, sees_whether_code_names_a_function)
{
	static const char *const prints = "call vprintf, (a);", *const none = "ret;";
	static const uint64_t packings[] = {0, 0x2000, 0x8000};

	for (unsigned i = 0; i < ARRAY_SIZE(packings); i++) {
		begin();
		add_text(80, packings[i], none);
		cr_expect_not(fatbin_may_name(image, len, 90, "vprintf"));
		add_text(100, packings[i], prints); /* for others */
		cr_expect_not(fatbin_may_name(image, len, 90, "vprintf"));
		cr_expect(fatbin_may_name(image, len, 100, "vprintf"));
		add_text(75, packings[i], prints);
		cr_expect(fatbin_may_name(image, len, 90, "vprintf"));
		cr_expect_not(fatbin_may_name(image, len, 70, "vprintf"));
	}
	begin();
	add(FATBIN_ELF, 80, 0, "vprintf", 7, 0);
	cr_expect(fatbin_may_name(image, len, 89, "vprintf"));
	cr_expect_not(fatbin_may_name(image, len, 90, "vprintf"),
		      "of another generation");
	cr_expect(fatbin_may_name("\177ELF vprintf", 12, 90, "vprintf"));
	cr_expect_not(fatbin_may_name("\177ELF  printf", 12, 90, "vprintf"));
	cr_expect(fatbin_may_name(prints, strlen(prints) + 1, 90, "vprintf"));
	cr_expect_not(fatbin_may_name(none, strlen(none) + 1, 90, "vprintf"));
}

Test(ptx_fatbin, what_cannot_be_seen_may_name_anything)
{
	begin();
	add_text(80, 0x1000, "x");
	cr_expect(fatbin_may_name(image, len, 90, "vprintf"));
	begin();
	add_text(80, 0x8000, "x");
	put(16 + 56, 65ull << 20, 8);
	cr_expect(fatbin_may_name(image, len, 90, "vprintf"), "too large to look at");
	for (size_t n = 4; n < len; n++)
		cr_expect(fatbin_may_name(image, n, 90, "vprintf"), "cut short");
}
