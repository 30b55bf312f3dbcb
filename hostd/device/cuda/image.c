/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver takes an image as a pointer and believes the sizes in it, so an image is
 * checked to be as long as it says before the driver sees it.
 */
#include <elf.h>
#include <string.h>

#include "device/cuda/module.h"
#include "device/image.h"
#include "ptx/fatbin.h"

static bool in_image(uint64_t off, uint64_t size, size_t image_size)
{
	return off <= image_size && size <= image_size - off;
}

static bool elf_ok(const unsigned char *image, size_t size)
{
	Elf64_Ehdr eh;
	Elf64_Shdr sh;
	Elf64_Phdr ph;

	if (size < sizeof(eh))
		return false;
	memcpy(&eh, image, sizeof(eh));
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_shentsize != sizeof(sh) ||
	    (eh.e_phnum && eh.e_phentsize != sizeof(ph)) ||
	    !in_image(eh.e_shoff, (uint64_t)eh.e_shnum * sizeof(sh), size) ||
	    !in_image(eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(ph), size) ||
	    eh.e_shstrndx >= eh.e_shnum)
		return false;
	for (unsigned i = 0; i < eh.e_shnum; i++) {
		memcpy(&sh, image + eh.e_shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_type != SHT_NOBITS && !in_image(sh.sh_offset, sh.sh_size, size))
			return false;
	}
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		memcpy(&ph, image + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (!in_image(ph.p_offset, ph.p_filesz, size))
			return false;
	}
	return true;
}

/* The container and each machine code in it. */
static bool fatbin_ok(const void *image, size_t size)
{
	struct fatbin_entry e;
	size_t pos = 0;
	int r;

	while ((r = fatbin_next(image, size, &pos, &e)) == 1) {
		if (e.kind == FATBIN_ELF && e.packing == FATBIN_PLAIN &&
		    !elf_ok(e.payload, e.payload_bytes))
			return false;
	}
	return r == 0;
}

bool cuda_part_ok(const void *image, size_t size)
{
	enum fatbin_format format;

	if (fatbin_format(image, size, &format) < 0)
		return false;
	switch (format) {
	case FATBIN_IS_CONTAINER:
		return fatbin_ok(image, size);
	case FATBIN_IS_ELF:
		return elf_ok(image, size);
	case FATBIN_IS_TEXT:
		return memchr(image, 0, size); /* the driver needs its NUL */
	}
	return false;
}

bool cuda_image_ok(const void *image, size_t size, unsigned *ret_n, bool *ret_linked)
{
	struct image_part part;
	struct fatbin_entry e;
	size_t pos = 0, in_first = 0;
	int r;

	*ret_n = 0;
	while ((r = image_next(image, size, &pos, &part)) == 1) {
		if (!cuda_part_ok(part.data, part.size))
			return false;
		++*ret_n;
	}
	if (r < 0 || !*ret_n)
		return false;
	*ret_linked = *ret_n > 1;
	pos = 0;
	if (image_next(image, size, &pos, &part) == 1 && *ret_n > 1) {
		while (fatbin_next(part.data, part.size, &in_first, &e) == 1)
			*ret_linked &= e.kind != FATBIN_PTX;
	}
	return true;
}
