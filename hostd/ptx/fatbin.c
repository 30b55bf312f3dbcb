/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <lz4.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "base/macros.h"
#include "ptx/fatbin.h"

#define ENTRY_MIN 64u /* bytes of the smallest entry header */

/* Bits of an entry's flags. */
#define FLAG_OLD_PACKED    0x1000u
#define FLAG_LZ4           0x2000u
#define FLAG_ZSTD          0x8000u
#define FLAG_ARCH_SPECIFIC 0x100000u
#define FLAG_FAMILY        0x200000u

/* The image may lie at any address. */
static uint16_t get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static bool is_text(const uint8_t *p, size_t len)
{
	size_t n = MIN(len, (size_t)16);

	for (size_t i = 0; i < n && p[i]; i++) {
		if ((p[i] < ' ' && p[i] != '\t' && p[i] != '\n' && p[i] != '\r') ||
		    p[i] > '~')
			return false;
	}
	return n && p[0];
}

int fatbin_format(const void *image, size_t len, enum fatbin_format *ret)
{
	const uint8_t *p = image;

	if (len >= 4 && get32(p) == FATBIN_MAGIC)
		*ret = FATBIN_IS_CONTAINER;
	else if (len >= 4 && !memcmp(p, "\177ELF", 4))
		*ret = FATBIN_IS_ELF;
	else if (is_text(p, len))
		*ret = FATBIN_IS_TEXT;
	else
		return -EBADMSG;
	return 0;
}

static enum fatbin_packing packing(uint64_t flags)
{
	if (flags & FLAG_ZSTD)
		return FATBIN_ZSTD;
	if (flags & FLAG_LZ4)
		return FATBIN_LZ4;
	return flags & FLAG_OLD_PACKED ? FATBIN_UNKNOWN : FATBIN_PLAIN;
}

int fatbin_next(const void *image, size_t len, size_t *pos, struct fatbin_entry *ret)
{
	const uint8_t *p = image;
	uint64_t end, hdr, payload, packed, left, flags;

	if (len < FATBIN_HDR_BYTES || get32(p) != FATBIN_MAGIC || get16(p + 4) != 1)
		return -EBADMSG;
	hdr = get16(p + 6);
	if (hdr < FATBIN_HDR_BYTES || hdr > len || get64(p + 8) > len - hdr)
		return -EBADMSG;
	end = hdr + get64(p + 8);
	if (!*pos)
		*pos = hdr;
	left = end - *pos;
	if (!left)
		return 0;
	p += *pos;
	if (left < ENTRY_MIN)
		return -EBADMSG;
	hdr = get32(p + 4);
	payload = get64(p + 8);
	packed = get32(p + 16);
	flags = get64(p + 40);
	if (hdr < ENTRY_MIN || hdr > left || payload > left - hdr || packed > left - hdr)
		return -EBADMSG;
	*ret = (struct fatbin_entry){
		.kind = get16(p),
		.version = get16(p + 26) * 10u + get16(p + 24),
		.sm = get32(p + 28),
		.arch_specific = flags & (FLAG_ARCH_SPECIFIC | FLAG_FAMILY),
		.packing = packing(flags),
		.payload = p + hdr,
		.payload_bytes = payload,
		.plain_bytes = payload,
	};
	if (ret->packing != FATBIN_PLAIN) {
		ret->payload_bytes = packed ? packed : payload;
		ret->plain_bytes = get64(p + 56);
	}
	*pos += hdr + MAX(payload, packed);
	return 1;
}

static int unpack(const struct fatbin_entry *e, char **ret_text, size_t *ret_len)
{
	_cleanup_free_ char *text = NULL;
	size_t n = e->plain_bytes;

	if (e->packing == FATBIN_UNKNOWN)
		return -ENOTSUP;
	if (e->plain_bytes > FATBIN_MAX_PLAIN)
		return -E2BIG;
	text = malloc(n + 1);
	if (!text)
		return -ENOMEM;
	if (e->packing == FATBIN_ZSTD) {
		size_t got = ZSTD_decompress(text, n, e->payload, e->payload_bytes);

		if (ZSTD_isError(got))
			return -EBADMSG;
		n = got;
	} else if (e->packing == FATBIN_LZ4) {
		int got;

		if (e->payload_bytes > INT32_MAX)
			return -EBADMSG;
		got = LZ4_decompress_safe((const char *)e->payload, text,
					  (int)e->payload_bytes, (int)n);
		if (got < 0)
			return -EBADMSG;
		n = (size_t)got;
	} else {
		memcpy(text, e->payload, n);
	}
	text[n] = 0;
	*ret_text = steal(text);
	*ret_len = n;
	return 0;
}

/* True if a is a better choice than b (whose kind is 0 when there is none yet). */
static bool better(const struct fatbin_entry *a, const struct fatbin_entry *b,
		   unsigned sm)
{
	if (a->kind != FATBIN_PTX || a->sm > sm || (a->arch_specific && a->sm != sm))
		return false;
	if (!b->kind || a->sm != b->sm)
		return !b->kind || a->sm > b->sm;
	return !a->arch_specific && b->arch_specific;
}

static int pick(const void *image, size_t len, unsigned sm, struct fatbin_entry *ret)
{
	struct fatbin_entry best = {0}, e;
	size_t pos = 0;
	int r;

	while ((r = fatbin_next(image, len, &pos, &e)) > 0) {
		if (better(&e, &best, sm))
			best = e;
	}
	if (r < 0)
		return r;
	if (!best.kind)
		return -ENOEXEC;
	*ret = best;
	return 0;
}

int fatbin_ptx(const void *image, size_t len, unsigned sm, char **ret_text,
	       size_t *ret_len)
{
	struct fatbin_entry e = {.packing = FATBIN_PLAIN};
	enum fatbin_format format;
	int r = fatbin_format(image, len, &format);

	if (r < 0)
		return r;
	switch (format) {
	case FATBIN_IS_ELF:
		return -ENOEXEC;
	case FATBIN_IS_TEXT:
		e.payload = image;
		e.plain_bytes = e.payload_bytes = strnlen(image, len);
		break;
	case FATBIN_IS_CONTAINER:
		r = pick(image, len, sm, &e);
		if (r < 0)
			return r;
		break;
	}
	return unpack(&e, ret_text, ret_len);
}

/* As better(), of machine code. */
static bool better_code(const struct fatbin_entry *a, const struct fatbin_entry *b,
			unsigned sm)
{
	if (a->kind != FATBIN_ELF || a->sm > sm || a->sm / 10 != sm / 10 ||
	    (a->arch_specific && a->sm != sm))
		return false;
	return !b->kind || a->sm > b->sm || (a->sm == b->sm && a->arch_specific);
}

int fatbin_elf(const void *image, size_t len, unsigned sm, char **ret_elf,
	       size_t *ret_len)
{
	struct fatbin_entry best = {0}, e;
	enum fatbin_format format;
	size_t pos = 0;
	int r = fatbin_format(image, len, &format);

	if (r < 0)
		return r;
	if (format == FATBIN_IS_ELF) {
		best = (struct fatbin_entry){.kind = FATBIN_ELF,
					     .packing = FATBIN_PLAIN,
					     .payload = image,
					     .payload_bytes = len,
					     .plain_bytes = len};
		return unpack(&best, ret_elf, ret_len);
	}
	while (format == FATBIN_IS_CONTAINER &&
	       (r = fatbin_next(image, len, &pos, &e)) > 0) {
		if (better_code(&e, &best, sm))
			best = e;
	}
	if (r < 0)
		return r;
	return best.kind ? unpack(&best, ret_elf, ret_len) : -ENOEXEC;
}

/* ---- what code names ---- */

#define NAMES_MAX_PLAIN (64u << 20) /* unpacked to look for a name */

static bool has(const void *code, size_t len, const char *name)
{
	return memmem(code, len, name, strlen(name));
}

/* True if that GPU could take the entry. */
static bool fits(const struct fatbin_entry *e, unsigned sm)
{
	return e->sm <= sm && (e->kind == FATBIN_PTX ||
			       (e->kind == FATBIN_ELF && e->sm / 10 == sm / 10));
}

static bool entry_may_name(const struct fatbin_entry *e, const char *name, uint64_t *room)
{
	_cleanup_free_ char *code = NULL;
	size_t n;

	if (e->packing == FATBIN_PLAIN)
		return has(e->payload, e->payload_bytes, name);
	if (e->plain_bytes > *room)
		return true;
	*room -= e->plain_bytes;
	return unpack(e, &code, &n) < 0 || has(code, n, name);
}

bool fatbin_may_name(const void *image, size_t len, unsigned sm, const char *name)
{
	uint64_t room = NAMES_MAX_PLAIN;
	enum fatbin_format format;
	struct fatbin_entry e;
	size_t pos = 0;
	int r;

	if (fatbin_format(image, len, &format) < 0)
		return true;
	if (format != FATBIN_IS_CONTAINER)
		return has(image, len, name);
	while ((r = fatbin_next(image, len, &pos, &e)) > 0) {
		if (fits(&e, sm) && entry_may_name(&e, name, &room))
			return true;
	}
	return r < 0;
}

/* ---- for people ---- */

#define ELF_ABI_AT    8
#define ELF_FLAGS_AT  48
#define ELF_HDR_BYTES 64

/* Machine code says in its ELF header for which architecture it is; 0: it does not. */
static unsigned elf_sm(const uint8_t *elf, size_t len)
{
	uint32_t flags;

	if (len < ELF_HDR_BYTES)
		return 0;
	memcpy(&flags, elf + ELF_FLAGS_AT, sizeof(flags));
	return (elf[ELF_ABI_AT] >= 8 ? flags >> 8 : flags) & 255;
}

static void add_target(char *buf, size_t cap, const char *kind, unsigned sm)
{
	static const char more[] = ", ...";
	size_t n = strlen(buf);
	char one[24];

	snprintf(one, sizeof(one), "%s%s_%u", n ? ", " : "", kind, sm);
	if (strstr(buf, one + (n ? 2 : 0)) || strstr(buf, more))
		return;
	if (n + strlen(one) + sizeof(more) <= cap)
		memcpy(buf + n, one, strlen(one) + 1);
	else if (n + sizeof(more) <= cap)
		memcpy(buf + n, more, sizeof(more));
}

void fatbin_targets(const void *image, size_t len, char *buf, size_t cap)
{
	enum fatbin_format format;
	struct fatbin_entry e;
	size_t pos = 0;

	buf[0] = 0;
	if (fatbin_format(image, len, &format) < 0)
		return;
	if (format == FATBIN_IS_ELF && elf_sm(image, len))
		add_target(buf, cap, "sm", elf_sm(image, len));
	while (format == FATBIN_IS_CONTAINER && fatbin_next(image, len, &pos, &e) > 0) {
		if (e.kind == FATBIN_ELF || e.kind == FATBIN_PTX)
			add_target(buf, cap, e.kind == FATBIN_ELF ? "sm" : "compute",
				   e.sm);
	}
}
