/* SPDX-License-Identifier: Apache-2.0 */
/* Variables in managed memory of machine code: found, placed, and with their first values. The file
 * is made here: what nvcc makes has as many sections, and these relocations. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "device/cubin.h"

#define MANAGED   4
#define COUNTER   0x260000001000ull
#define TABLE     0x260000002000ull
#define INIT      5
#define ZERO      6
#define UNTOUCHED 0x1111111111111111ull

static const char names[] = "\0counter\0table\0plain";

static struct file {
	Elf64_Ehdr head;
	char names[24];
	Elf64_Sym symbols[4];
	uint64_t bank[3];
	Elf64_Rela relocations[3];
	uint32_t init[2];
	Elf64_Shdr sections[7];
} f;

#define SECTION(type, member, ...)                                                       \
	(Elf64_Shdr)                                                                     \
	{                                                                                \
		.sh_type = type, .sh_offset = offsetof(struct file, member),             \
		.sh_size = sizeof(f.member), __VA_ARGS__                                 \
	}

static void setup(void)
{
	f = (struct file){
		.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
			 .e_shoff = offsetof(struct file, sections),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = ARRAY_SIZE(f.sections)},
		.symbols = {{0},
			    {1, STT_OBJECT, MANAGED, INIT, 0, 4},
			    {9, STT_OBJECT, MANAGED, ZERO, 0, 4096},
			    {15, STT_OBJECT, 0, INIT, 4, 4}},
		.bank = {UNTOUCHED, UNTOUCHED, UNTOUCHED},
		.relocations = {{0, ELF64_R_INFO(1, 2), 0},
				{8, ELF64_R_INFO(2, 4), 8},
				{16, ELF64_R_INFO(3, 2), 0}},
		.init = {5, 3},
	};
	memcpy(f.names, names, sizeof(names));
	f.sections[1] = SECTION(SHT_STRTAB, names);
	f.sections[2] = SECTION(SHT_SYMTAB, symbols, .sh_link = 1);
	f.sections[3] = SECTION(SHT_PROGBITS, bank);
	f.sections[4] = SECTION(SHT_RELA, relocations, .sh_link = 2, .sh_info = 3);
	f.sections[INIT] = SECTION(SHT_PROGBITS, init);
	f.sections[ZERO] = (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_size = 4096};
}

TestSuite(cubin, .init = setup);

static struct dev_managed *listed(unsigned n)
{
	struct dev_managed *v;
	unsigned got;

	cr_assert_eq(cubin_managed(&f, sizeof(f), &v, &got), 0);
	cr_assert_eq(got, n);
	return v;
}

static int place(void)
{
	struct dev_managed *v = listed(2);
	int r;

	v[0].addr = COUNTER;
	v[1].addr = TABLE;
	r = cubin_place(&f, sizeof(f), v, 2);
	free(v);
	return r;
}

Test(cubin, variables_are_found_and_placed)
{
	struct dev_managed *v = listed(2);

	cr_assert_str_eq(v[0].name, "counter");
	cr_assert_str_eq(v[1].name, "table");
	cr_assert(v[0].bytes == 4 && v[1].bytes == 4096);
	cr_assert_eq(place(), 0);
	cr_assert_eq(f.bank[0], COUNTER);
	cr_assert_eq(f.bank[1], TABLE + 8, "with its addend");
	cr_assert_eq(f.bank[2], UNTOUCHED, "other variables are the loader's");
	cr_assert_eq(f.sections[4].sh_size, sizeof(Elf64_Rela), "the loader's alone");
	cr_assert_eq(f.relocations[0].r_info, ELF64_R_INFO(3, 2));
	cr_assert_eq(f.relocations[0].r_offset, 16);
	cr_assert_eq(*(const uint32_t *)cubin_value(&f, sizeof(f), &v[0]), 5);
	cr_assert_null(cubin_value(&f, sizeof(f), &v[1]));
	free(v);
	free(listed(0));
}

Test(cubin, forms_that_are_not_known_are_refused)
{
	struct dev_managed *v = listed(2);

	v[0].addr = COUNTER;
	cr_assert_eq(cubin_place(&f, sizeof(f), v, 1), -ENOTSUP, "one has no place");
	free(v);
	setup();
	f.relocations[1].r_info = ELF64_R_INFO(2, 38); /* into an instruction */
	cr_assert_eq(place(), -ENOTSUP);
	setup();
	f.sections[4].sh_type = SHT_REL;
	f.relocations[0].r_info =
		ELF64_R_INFO(1, 56); /* half an address, added to what? */
	cr_assert_eq(place(), -ENOTSUP);
}

/* As the driver's compiler makes them: the halves of an address in two instructions. */
Test(cubin, addresses_in_instructions_are_placed)
{
	const uint64_t counter = COUNTER + 4;

	f.relocations[0] = (Elf64_Rela){0, ELF64_R_INFO(1, 56), 4};
	f.relocations[1] = (Elf64_Rela){8, ELF64_R_INFO(1, 57), 4};
	cr_assert_eq(place(), 0);
	cr_assert_eq(f.bank[0], counter << 32 | (uint32_t)UNTOUCHED);
	cr_assert_eq(f.bank[1], counter >> 32 << 32 | (uint32_t)UNTOUCHED);
	cr_assert_eq(f.sections[4].sh_size, sizeof(Elf64_Rela));
}

/* As for GPUs before 9.0: the place has the addend. */
Test(cubin, relocations_without_an_addend_are_placed)
{
	Elf64_Rel rel[2] = {{0, ELF64_R_INFO(1, 2)}, {16, ELF64_R_INFO(3, 2)}}, after;

	memset(f.relocations, 0, sizeof(f.relocations));
	memcpy(f.relocations, rel, sizeof(rel));
	f.sections[4].sh_type = SHT_REL;
	f.sections[4].sh_size = sizeof(rel);
	f.bank[0] = 16;
	cr_assert_eq(place(), 0);
	cr_assert_eq(f.bank[0], COUNTER + 16);
	cr_assert_eq(f.bank[2], UNTOUCHED);
	memcpy(&after, f.relocations, sizeof(after));
	cr_assert_eq(f.sections[4].sh_size, sizeof(after));
	cr_assert(after.r_offset == 16 && after.r_info == rel[1].r_info);
}

/* A file of some megabytes could name the whole of itself in each of many symbols. */
Test(cubin, names_take_no_more_than_the_file)
{
	const unsigned n = 100000;
	size_t len = sizeof(f) + n * sizeof(Elf64_Sym) + 8192;
	char *file = calloc(1, len);
	Elf64_Shdr *sections = (Elf64_Shdr *)(file + offsetof(struct file, sections));
	struct dev_managed *v;
	Elf64_Sym s = f.symbols[1];
	unsigned got;

	cr_assert_not_null(file);
	memcpy(file, &f, sizeof(f));
	sections[2].sh_offset = sizeof(f);
	sections[2].sh_size = n * sizeof(s);
	sections[1].sh_offset = len - 8192;
	sections[1].sh_size = 8192;
	memset(file + len - 8192, 'x', 8191);
	s.st_name = 4096;
	for (unsigned i = 0; i < n; i++)
		memcpy(file + sizeof(f) + i * sizeof(s), &s, sizeof(s));
	cr_assert_eq(cubin_managed(file, len, &v, &got), 0);
	cr_assert_eq(got, 4096);
	free(v);
	s.st_name = 0; /* twice as long */
	for (unsigned i = 0; i < n; i++)
		memcpy(file + sizeof(f) + i * sizeof(s), &s, sizeof(s));
	cr_assert_eq(cubin_managed(file, len, &v, &got), 0);
	cr_assert_eq(got, 0);
	free(v);
	free(file);
}

Test(cubin, offsets_are_checked)
{
	struct dev_managed *v;
	unsigned n;

	for (size_t len = 0; len < sizeof(f); len++)
		cr_assert_eq(cubin_managed(&f, len, &v, &n), -EBADMSG, "%zu", len);
	f.relocations[0].r_offset = sizeof(f.bank) - 7;
	cr_assert_eq(place(), -EBADMSG);
	setup();
	f.sections[4].sh_info = 99;
	cr_assert_eq(place(), -EBADMSG);
	setup();
	f.sections[2].sh_link = 2;
	cr_assert_eq(cubin_managed(&f, sizeof(f), &v, &n), -EBADMSG);
	setup();
	f.symbols[1].st_name = 4000;
	free(listed(1));
	setup();
	f.symbols[1].st_value = 8;
	v = listed(2);
	cr_assert_null(cubin_value(&f, sizeof(f), &v[0]));
	free(v);
}
