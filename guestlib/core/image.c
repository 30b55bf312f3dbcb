/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "core/image.h"

struct image_wrapper {
	uint32_t magic;
	uint32_t version; /* 1 or 2 */
	const void *data;
	const void *const *list; /* version 2 only: ends with NULL */
};

struct image_container {
	uint32_t magic;
	uint16_t version;
	uint16_t header_size;
	uint64_t files_size;
};

/* Byte by byte: a short text must not be read past its NUL. */
static bool starts_with(const void *image, size_t max, uint32_t magic)
{
	const unsigned char *p = image;
	unsigned i;

	for (i = 0; i < sizeof(magic); i++) {
		if (i >= max || p[i] != (magic >> 8 * i & 0xff))
			return false;
	}
	return true;
}

/* Skips white space and comments. */
static const char *skip_blank(const char *p, const char *end)
{
	while (p < end) {
		if (*p == ' ' || (*p >= '\t' && *p <= '\r')) {
			p++;
		} else if (end - p >= 2 && p[0] == '/' && p[1] == '/') {
			p = memchr(p, '\n', (size_t)(end - p));
			if (!p)
				return end;
		} else if (end - p >= 2 && p[0] == '/' && p[1] == '*') {
			p = memmem(p + 2, (size_t)(end - p - 2), "*/", 2);
			if (!p)
				return end;
			p += 2;
		} else {
			break;
		}
	}
	return p;
}

static int measure_container(const void *image, size_t max, size_t *ret_size)
{
	struct image_container c;

	if (max < sizeof(c))
		return -EINVAL;
	memcpy(&c, image, sizeof(c));
	if (c.header_size < sizeof(c) || c.files_size > IMAGE_SIZE_MAX ||
	    c.header_size + c.files_size > max)
		return -EINVAL;
	*ret_size = c.header_size + (size_t)c.files_size;
	return 0;
}

/* Extends *end to offset + size if that makes sense. */
static int extend(uint64_t *end, uint64_t offset, uint64_t size)
{
	if (offset > IMAGE_SIZE_MAX || size > IMAGE_SIZE_MAX)
		return -EINVAL;
	*end = MAX(*end, offset + size);
	return 0;
}

static int measure_sections(const char *elf, const Elf64_Ehdr *eh, uint64_t *end)
{
	Elf64_Shdr sh;
	unsigned i;
	int r = 0;

	for (i = 0; i < eh->e_shnum && r == 0; i++) {
		memcpy(&sh, elf + eh->e_shoff + (size_t)i * sizeof(sh), sizeof(sh));
		if (sh.sh_type != SHT_NOBITS && sh.sh_type != SHT_NULL)
			r = extend(end, sh.sh_offset, sh.sh_size);
	}
	return r;
}

static int measure_segments(const char *elf, const Elf64_Ehdr *eh, uint64_t *end)
{
	Elf64_Phdr ph;
	unsigned i;
	int r = 0;

	for (i = 0; i < eh->e_phnum && r == 0; i++) {
		memcpy(&ph, elf + eh->e_phoff + (size_t)i * sizeof(ph), sizeof(ph));
		r = extend(end, ph.p_offset, ph.p_filesz);
	}
	return r;
}

static int measure_elf(const char *elf, size_t max, size_t *ret_size)
{
	Elf64_Ehdr eh;
	uint64_t end = sizeof(eh);
	int r;

	if (max < sizeof(eh))
		return -EINVAL;
	memcpy(&eh, elf, sizeof(eh));
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    (eh.e_shnum && eh.e_shentsize != sizeof(Elf64_Shdr)) ||
	    (eh.e_phnum && eh.e_phentsize != sizeof(Elf64_Phdr)))
		return -EINVAL;
	r = extend(&end, eh.e_shoff, (uint64_t)eh.e_shnum * sizeof(Elf64_Shdr));
	if (r == 0)
		r = extend(&end, eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(Elf64_Phdr));
	if (r < 0 || end > max) /* the tables, before they are read */
		return -EINVAL;
	r = measure_sections(elf, &eh, &end);
	if (r == 0)
		r = measure_segments(elf, &eh, &end);
	if (r < 0 || end > max)
		return -EINVAL;
	*ret_size = (size_t)end;
	return 0;
}

/* PTX begins with a directive. */
static int measure_text(const char *text, size_t max, size_t *ret_size)
{
	size_t room = MIN(max, (size_t)IMAGE_SIZE_MAX), len = strnlen(text, room);
	const char *first = skip_blank(text, text + len);

	if (len == room || first == text + len || *first != '.')
		return -EINVAL;
	*ret_size = len + 1;
	return 0;
}

static int measure_bare(const void *image, size_t max, size_t *ret_size)
{
	if (starts_with(image, max, IMAGE_CONTAINER_MAGIC))
		return measure_container(image, max, ret_size);
	if (starts_with(image, max, IMAGE_ELF_MAGIC))
		return measure_elf(image, max, ret_size);
	return measure_text(image, max, ret_size);
}

static int wrapper_part(const void *image, unsigned index, const void **ret_data)
{
	struct image_wrapper w;

	memcpy(&w, image, sizeof(w));
	if (w.version != 1 && w.version != 2)
		return -EINVAL;
	if (index == 0)
		*ret_data = w.data;
	else if (w.version == 1 || !w.list || !w.list[index - 1])
		return -ENOENT;
	else
		*ret_data = w.list[index - 1];
	return *ret_data ? 0 : -EINVAL;
}

int image_part(const void *image, size_t max, unsigned index, const void **ret_data,
	       size_t *ret_size)
{
	const void *data = image;
	size_t size;
	int r;

	if (!image)
		return -EINVAL;
	if (starts_with(image, max, IMAGE_WRAPPER_MAGIC)) {
		r = wrapper_part(image, index, &data);
		if (r < 0)
			return r;
		max = SIZE_MAX; /* it lies elsewhere, in a section of the program */
	} else if (index) {
		return -ENOENT;
	}
	r = measure_bare(data, max, &size);
	if (r < 0)
		return r;
	*ret_data = data;
	*ret_size = size;
	return 0;
}

/* An entry of a container; hostd/ptx/fatbin.h has all of its fields. */
struct container_entry {
	uint16_t kind; /* CONTAINER_PTX, CONTAINER_ELF */
	uint16_t version;
	uint32_t header_size;
	uint64_t payload_size; /* padded */
	uint32_t packed_size, pad;
	uint16_t minor, major;
	uint32_t sm; /* 90 */
};

#define CONTAINER_PTX 1
#define CONTAINER_ELF 2

bool image_needs_compiler(const void *part, size_t size, unsigned major, unsigned minor)
{
	struct container_entry e;
	struct image_container c;
	bool text = false;
	size_t at;

	if (starts_with(part, size, IMAGE_ELF_MAGIC))
		return false;
	if (!starts_with(part, size, IMAGE_CONTAINER_MAGIC))
		return true;
	memcpy(&c, part, sizeof(c));
	for (at = c.header_size; at < size && size - at >= sizeof(e);) {
		memcpy(&e, (const char *)part + at, sizeof(e));
		if (e.kind == CONTAINER_ELF && e.sm / 10 == major && e.sm % 10 <= minor)
			return false;
		text |= e.kind == CONTAINER_PTX;
		if (e.header_size < sizeof(e) || e.payload_size > size)
			return false;
		at += e.header_size +
		      MAX((size_t)e.payload_size, (size_t)e.packed_size);
	}
	return text;
}
