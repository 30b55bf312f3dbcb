/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "device/cubin.h"

#define STO_CUDA_MANAGED 4u

/* Relocations: an address of 64 bits, of anything, and of global memory; and half of one in
 * the second word of an instruction, as the driver's own compiler makes them. */
#define R_CUDA_64          2u
#define R_CUDA_G64         4u
#define R_CUDA_ABS32_LO_32 56u
#define R_CUDA_ABS32_HI_32 57u

/* More variables, or longer names, than any program has are left out: names may lie in one another,
 * and would take a multiple of the file. */
#define VARIABLES_MAX 4096u
#define NAME_BYTES    4096u

struct cubin {
	const char *data;
	size_t len;
	Elf64_Ehdr head;
	Elf64_Shdr symbols, names;
};

static bool inside(const struct cubin *c, uint64_t offset, uint64_t size)
{
	return offset <= c->len && size <= c->len - offset;
}

static int section(const struct cubin *c, uint64_t i, Elf64_Shdr *ret)
{
	uint64_t at = c->head.e_shoff + i * sizeof(*ret);

	if (i >= c->head.e_shnum || !inside(c, at, sizeof(*ret)))
		return -EBADMSG;
	memcpy(ret, c->data + at, sizeof(*ret));
	return ret->sh_type == SHT_NOBITS || inside(c, ret->sh_offset, ret->sh_size)
		       ? 0
		       : -EBADMSG;
}

static int open_cubin(struct cubin *c, const void *elf, size_t len)
{
	Elf64_Shdr s;
	int r = -EBADMSG;

	*c = (struct cubin){.data = elf, .len = len};
	if (len < sizeof(c->head) || memcmp(elf, ELFMAG, SELFMAG) != 0)
		return -EBADMSG;
	memcpy(&c->head, elf, sizeof(c->head));
	if (c->head.e_ident[EI_CLASS] != ELFCLASS64 || c->head.e_shentsize != sizeof(s) ||
	    !inside(c, c->head.e_shoff, (uint64_t)c->head.e_shnum * sizeof(s)))
		return -EBADMSG;
	for (unsigned i = 0; i < c->head.e_shnum; i++) {
		r = section(c, i, &s);
		if (r < 0)
			return r;
		if (s.sh_type == SHT_SYMTAB)
			c->symbols = s;
	}
	if (!c->symbols.sh_size) /* then it has no variables */
		return r;
	r = section(c, c->symbols.sh_link, &c->names);
	return r < 0 || c->names.sh_type != SHT_STRTAB ? -EBADMSG : 0;
}

static uint64_t n_symbols(const struct cubin *c)
{
	return c->symbols.sh_size / sizeof(Elf64_Sym);
}

static bool symbol(const struct cubin *c, uint64_t i, Elf64_Sym *ret)
{
	if (i >= n_symbols(c))
		return false;
	memcpy(ret, c->data + c->symbols.sh_offset + i * sizeof(*ret), sizeof(*ret));
	return true;
}

/* NULL: it has none that ends. */
static const char *name_of(const struct cubin *c, const Elf64_Sym *s)
{
	const char *name = c->data + c->names.sh_offset + s->st_name;

	if (s->st_name >= c->names.sh_size ||
	    !memchr(name, 0, MIN(c->names.sh_size - s->st_name, (uint64_t)NAME_BYTES)))
		return NULL;
	return name;
}

static bool is_managed(const Elf64_Sym *s)
{
	return ELF64_ST_TYPE(s->st_info) == STT_OBJECT && s->st_other & STO_CUDA_MANAGED;
}

int cubin_managed(const void *elf, size_t len, struct dev_managed **ret, unsigned *ret_n)
{
	_cleanup_free_ struct dev_managed *v = NULL;
	struct cubin c;
	unsigned n = 0;
	Elf64_Sym s;
	int r = open_cubin(&c, elf, len);

	if (r < 0)
		return r;
	v = calloc(VARIABLES_MAX, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (uint64_t i = 0; n < VARIABLES_MAX && symbol(&c, i, &s); i++) {
		const char *name = is_managed(&s) ? name_of(&c, &s) : NULL;

		if (name)
			v[n++] = (struct dev_managed){.name = name, .bytes = s.st_size};
	}
	*ret = dev_managed_copy(v, n);
	*ret_n = n;
	return *ret ? 0 : -ENOMEM;
}

/* Where it is to be; 0: nobody has said so. */
static CUdeviceptr place_of(const struct cubin *c, const Elf64_Sym *s,
			    const struct dev_managed *v, unsigned n)
{
	const char *name = name_of(c, s);

	for (unsigned i = 0; name && i < n; i++) {
		if (!strcmp(v[i].name, name) && v[i].bytes >= s->st_size)
			return v[i].addr;
	}
	return 0;
}

/* Writes an address where a relocation of that type says, into data of so many bytes. */
static int put(char *data, uint64_t bytes, uint64_t offset, uint64_t type, uint64_t addr)
{
	uint32_t half = (uint32_t)(type == R_CUDA_ABS32_HI_32 ? addr >> 32 : addr);
	bool is_half = type == R_CUDA_ABS32_LO_32 || type == R_CUDA_ABS32_HI_32;

	if (!is_half && type != R_CUDA_64 && type != R_CUDA_G64)
		return -ENOTSUP;
	if (offset > bytes || bytes - offset < sizeof(addr))
		return -EBADMSG;
	if (is_half)
		memcpy(data + offset + sizeof(half), &half, sizeof(half));
	else
		memcpy(data + offset, &addr, sizeof(addr));
	return 0;
}

/* The number to be added to the address: the entry has it, or the place that it is for. */
static int addend_of(const struct cubin *c, const Elf64_Shdr *table,
		     const Elf64_Shdr *into, const Elf64_Rela *r, uint64_t *ret)
{
	*ret = (uint64_t)r->r_addend;
	if (table->sh_type == SHT_RELA)
		return 0;
	if (ELF64_R_TYPE(r->r_info) != R_CUDA_64 && ELF64_R_TYPE(r->r_info) != R_CUDA_G64)
		return -ENOTSUP;
	if (r->r_offset > into->sh_size || into->sh_size - r->r_offset < sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, c->data + into->sh_offset + r->r_offset, sizeof(*ret));
	return 0;
}

/* Does what the loader would for one relocation into a section. Returns 1 if it did: it is none of
 * the loader's any more; 0 or an error. */
static int relocate(struct cubin *c, const Elf64_Shdr *table, const Elf64_Shdr *into,
		    const Elf64_Rela *r, const struct dev_managed *v, unsigned n)
{
	char *data = (char *)(uintptr_t)c->data;
	uint64_t value, addend;
	Elf64_Sym s;
	int ret;

	if (!symbol(c, ELF64_R_SYM(r->r_info), &s) || !is_managed(&s))
		return 0;
	value = place_of(c, &s, v, n);
	if (!value || into->sh_type == SHT_NOBITS)
		return -ENOTSUP;
	ret = addend_of(c, table, into, r, &addend);
	if (ret == 0)
		ret = put(data + into->sh_offset, into->sh_size, r->r_offset,
			  ELF64_R_TYPE(r->r_info), value + addend);
	return ret < 0 ? ret : 1;
}

/* *table is left with the loader's: drivers refuse entries that say nothing. */
static int relocate_all(struct cubin *c, Elf64_Shdr *table, const struct dev_managed *v,
			unsigned n)
{
	size_t each = table->sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
	char *data = (char *)(uintptr_t)c->data + table->sh_offset;
	uint64_t kept = 0;
	Elf64_Shdr into;
	int r = section(c, table->sh_info, &into);

	for (uint64_t at = 0; r >= 0 && at + each <= table->sh_size; at += each) {
		Elf64_Rela rela = {0};

		memcpy(&rela, data + at, each);
		r = relocate(c, table, &into, &rela, v, n);
		if (r == 0) {
			memmove(data + kept, data + at, each);
			kept += each;
		}
	}
	if (r < 0)
		return r;
	table->sh_size = kept;
	return 0;
}

static void set_section(struct cubin *c, unsigned i, const Elf64_Shdr *s)
{
	char *at = (char *)(uintptr_t)c->data + c->head.e_shoff + i * sizeof(*s);

	memcpy(at, s, sizeof(*s));
}

/* To the loader they are ordinary variables from now on. */
static void unflag(struct cubin *c)
{
	char *data = (char *)(uintptr_t)c->data + c->symbols.sh_offset;
	Elf64_Sym s;

	for (uint64_t i = 0; symbol(c, i, &s); i++) {
		if (!is_managed(&s))
			continue;
		s.st_other &= (unsigned char)~STO_CUDA_MANAGED;
		memcpy(data + i * sizeof(s), &s, sizeof(s));
	}
}

int cubin_place(void *elf, size_t len, const struct dev_managed *v, unsigned n)
{
	struct cubin c;
	Elf64_Shdr s;
	int r = open_cubin(&c, elf, len);

	for (unsigned i = 0; r == 0 && i < c.head.e_shnum; i++) {
		r = section(&c, i, &s);
		if (r == 0 && (s.sh_type == SHT_RELA || s.sh_type == SHT_REL))
			r = relocate_all(&c, &s, v, n);
		else
			continue;
		if (r == 0)
			set_section(&c, i, &s);
	}
	if (r == 0)
		unflag(&c);
	return r;
}

const void *cubin_value(const void *elf, size_t len, const struct dev_managed *v)
{
	struct cubin c;
	Elf64_Shdr in;
	Elf64_Sym s;

	if (open_cubin(&c, elf, len) < 0)
		return NULL;
	for (uint64_t i = 0; symbol(&c, i, &s); i++) {
		const char *name =
			ELF64_ST_TYPE(s.st_info) == STT_OBJECT ? name_of(&c, &s) : NULL;

		if (!name || strcmp(name, v->name) != 0 || s.st_size != v->bytes)
			continue;
		if (section(&c, s.st_shndx, &in) < 0 || in.sh_type == SHT_NOBITS ||
		    s.st_value > in.sh_size || v->bytes > in.sh_size - s.st_value)
			return NULL;
		return c.data + in.sh_offset + s.st_value;
	}
	return NULL;
}

/*
 * Instructions of 16 bytes, from compute capability 7.0 on: what they do in the low 12 bits, and for
 * those that reach memory the scope from bit 77 on. Found by compiling each atomic with each scope
 * for each architecture that ptxas knows (tests/unit/device/atomics.py does so again).
 */
#define INSTRUCTION 16u
#define SCOPE_AT    (77u - 64u)
#define SCOPE_SYS   10u /* of 4 bits */
#define SCOPE_SYS_7 3u  /* of 2 bits, before 8.0 */

static bool is_atomic(uint64_t low)
{
	/* RED, ATOM and ATOMG, with CAS and sums of floating point by themselves */
	static const uint16_t codes[] = {0x98a, 0x38b, 0x98e, 0x9a8,
					 0x3a9, 0x9a2, 0x9a3, 0x9a6};

	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
		if ((low & 0xfff) == codes[i])
			return true;
	}
	return false;
}

static bool section_has_system_atomics(const char *code, uint64_t size, unsigned sm)
{
	for (uint64_t at = 0; at + INSTRUCTION <= size; at += INSTRUCTION) {
		uint64_t w[2];

		memcpy(w, code + at, sizeof(w));
		w[1] >>= SCOPE_AT;
		if (is_atomic(w[0]) &&
		    (sm < 80 ? (w[1] & 3) == SCOPE_SYS_7 : (w[1] & 15) == SCOPE_SYS))
			return true;
	}
	return false;
}

bool cubin_has_system_atomics(const void *elf, size_t len, unsigned sm)
{
	struct cubin c;
	Elf64_Shdr s;

	if (open_cubin(&c, elf, len) < 0)
		return false;
	for (unsigned i = 0; section(&c, i, &s) == 0; i++) {
		if (s.sh_type == SHT_PROGBITS && s.sh_flags & SHF_EXECINSTR &&
		    section_has_system_atomics(c.data + s.sh_offset, s.sh_size, sm))
			return true;
	}
	return false;
}
