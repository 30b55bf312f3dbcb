/* SPDX-License-Identifier: Apache-2.0 */
/* How long images are: wrappers, containers, ELF, text; and ones that lie. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/image.h"

struct container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t files_size;
	char data[64];
};

struct wrapper {
	uint32_t magic, version;
	const void *data;
	const void *list;
};

static const void *part;
static size_t size;

static int measure(const void *image, size_t max, unsigned index)
{
	part = NULL;
	size = 0;
	return image_part(image, max, index, &part, &size);
}

Test(guest_image, text_is_ptx_if_a_directive_comes_first)
{
	static const char ptx[] = "\n// comment\n.version 9.0\n";
	static const char garbage[] = "garbage text";
	char *tight = strdup(".x");

	cr_expect_eq(measure(ptx, SIZE_MAX, 0), 0);
	cr_expect_eq(size, sizeof(ptx));
	cr_expect_eq(part, ptx);
	cr_expect_eq(measure(ptx, SIZE_MAX, 1), -ENOENT);
	cr_expect_eq(measure(ptx, 10, 0), -EINVAL, "no NUL within the file");
	cr_expect_eq(measure(tight, SIZE_MAX, 0), 0, "shorter than a magic");
	cr_expect_eq(size, 3);
	cr_expect_eq(measure("", SIZE_MAX, 0), -EINVAL);
	cr_expect_eq(measure(garbage, SIZE_MAX, 0), -EINVAL, "no directive");
	cr_expect_eq(measure(" /* .x */ // .y", SIZE_MAX, 0), -EINVAL, "only comments");
	cr_expect_eq(measure(" /* x */\n//y\n .z", SIZE_MAX, 0), 0);
	cr_expect_eq(measure("/* .x", SIZE_MAX, 0), -EINVAL);
	cr_expect_eq(measure("/", SIZE_MAX, 0), -EINVAL);
	cr_expect_eq(measure("\x01\x02", SIZE_MAX, 0), -EINVAL);
	cr_expect_eq(measure(NULL, SIZE_MAX, 0), -EINVAL);
	cr_expect_eq(measure(ptx, 0, 0), -EINVAL);
	free(tight);
}

Test(guest_image, a_container_is_measured_by_its_header)
{
	struct container c[2] = {{IMAGE_CONTAINER_MAGIC, 1, 16, 64, {0}},
				 {IMAGE_CONTAINER_MAGIC, 1, 16, 64, {0}}};

	cr_expect_eq(measure(&c, SIZE_MAX, 0), 0);
	cr_expect_eq(size, 80, "and not into the next one");
	cr_expect_eq(measure(&c, 80, 0), 0);
	cr_expect_eq(measure(&c, 79, 0), -EINVAL);
	cr_expect_eq(measure(&c, 8, 0), -EINVAL);
	c[0].files_size = 1ull << 63;
	cr_expect_eq(measure(&c, SIZE_MAX, 0), -EINVAL);
	c[0].files_size = 64;
	c[0].header_size = 8;
	cr_expect_eq(measure(&c, SIZE_MAX, 0), -EINVAL);
}

Test(guest_image, a_wrapper_leads_to_one_container_or_a_list)
{
	struct container a = {IMAGE_CONTAINER_MAGIC, 1, 16, 64, {0}};
	struct container b = {IMAGE_CONTAINER_MAGIC, 1, 16, 32, {0}};
	const void *list[] = {&b, NULL};
	struct wrapper w = {IMAGE_WRAPPER_MAGIC, 1, &a, "file.fatbin"};

	cr_expect_eq(measure(&w, SIZE_MAX, 0), 0);
	cr_expect_eq(part, &a);
	cr_expect_eq(size, 80);
	cr_expect_eq(measure(&w, SIZE_MAX, 1), -ENOENT);
	w.version = 2; /* linked: the objects come after */
	w.list = list;
	cr_expect_eq(measure(&w, SIZE_MAX, 0), 0);
	cr_expect_eq(part, &a);
	cr_expect_eq(measure(&w, SIZE_MAX, 1), 0);
	cr_expect_eq(part, &b);
	cr_expect_eq(size, 48);
	cr_expect_eq(measure(&w, SIZE_MAX, 2), -ENOENT);
	w.list = NULL;
	cr_expect_eq(measure(&w, SIZE_MAX, 1), -ENOENT);
	w.version = 3;
	cr_expect_eq(measure(&w, SIZE_MAX, 0), -EINVAL);
	w.version = 1;
	w.data = NULL;
	cr_expect_eq(measure(&w, SIZE_MAX, 0), -EINVAL);
}

struct elf {
	Elf64_Ehdr eh;
	Elf64_Shdr sh[2];
	char data[100];
};

static struct elf make_elf(void)
{
	struct elf e = {
		.eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
		       .e_shoff = offsetof(struct elf, sh),
		       .e_shnum = 2,
		       .e_shentsize = sizeof(Elf64_Shdr)},
		.sh = {{.sh_type = SHT_PROGBITS,
			.sh_offset = offsetof(struct elf, data),
			.sh_size = 100},
		       {.sh_type = SHT_NOBITS, .sh_offset = 0, .sh_size = 1 << 20}}};

	return e;
}

Test(guest_image, an_elf_file_is_measured_by_its_sections)
{
	struct elf e = make_elf();

	cr_expect_eq(measure(&e, SIZE_MAX, 0), 0);
	cr_expect_eq(size, offsetof(struct elf, data) + 100, "without what has no bits");
	cr_expect_eq(measure(&e, sizeof(Elf64_Ehdr) + 10, 0), -EINVAL,
		     "tables beyond the file");
	e.sh[0].sh_size = 1ull << 62;
	cr_expect_eq(measure(&e, SIZE_MAX, 0), -EINVAL);
	e = make_elf();
	e.eh.e_shoff = ~0ull - 8;
	cr_expect_eq(measure(&e, SIZE_MAX, 0), -EINVAL);
	e = make_elf();
	e.eh.e_shentsize = 1;
	cr_expect_eq(measure(&e, SIZE_MAX, 0), -EINVAL);
	e = make_elf();
	e.eh.e_ident[EI_CLASS] = ELFCLASS32;
	cr_expect_eq(measure(&e, SIZE_MAX, 0), -EINVAL);
}

struct entry {
	uint16_t kind, version;
	uint32_t header_size;
	uint64_t payload_size;
	uint32_t packed_size, pad;
	uint16_t minor, major;
	uint32_t sm;
	uint64_t rest[4];
};

struct entries {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t files_size;
	struct entry e[2];
};

static bool needs(unsigned kind0, unsigned sm0, unsigned kind1, unsigned sm1)
{
	struct entries c = {
		.magic = IMAGE_CONTAINER_MAGIC,
		.version = 1,
		.header_size = offsetof(struct entries, e),
		.files_size = sizeof(c.e),
		.e = {{.kind = kind0, .sm = sm0, .header_size = sizeof(struct entry)},
		      {.kind = kind1, .sm = sm1, .header_size = sizeof(struct entry)}},
	};

	return image_needs_compiler(&c, sizeof(c), 9, 0);
}

Test(guest_image, who_needs_a_compiler)
{
	enum { PTX = 1, ELF = 2 };
	struct entries c = {.magic = IMAGE_CONTAINER_MAGIC,
			    .header_size = offsetof(struct entries, e)};

	cr_expect(image_needs_compiler(".version 9.0", 13, 9, 0));
	cr_expect_not(image_needs_compiler("\177ELF....", 8, 9, 0));
	cr_expect(needs(PTX, 75, ELF, 75), "machine code of another GPU");
	cr_expect(needs(ELF, 86, PTX, 80));
	cr_expect_not(needs(ELF, 90, PTX, 90));
	cr_expect_not(needs(PTX, 90, ELF, 90));
	cr_expect(needs(ELF, 91, PTX, 90), "too new");
	cr_expect_not(needs(ELF, 75, ELF, 80), "nothing to compile");
	/* Sizes that lead nowhere. */
	cr_expect_not(image_needs_compiler(&c, sizeof(c), 9, 0));
	c.e[0] = (struct entry){.kind = PTX, .header_size = sizeof(struct entry),
				.payload_size = ~0ull - 8};
	cr_expect_not(image_needs_compiler(&c, sizeof(c), 9, 0));
}
