/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "device/atomics.h"
#include "device/cubin.h"
#include "device/image.h"
#include "ptx/fatbin.h"

/* Code that is looked through of an image, unpacked: a guest may pack what is always the same. */
#define LOOKED_THROUGH_MAX ((size_t)64 << 20)

static bool is_part_of_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$' || c == '%';
}

/* Bytes of the word of letters, digits and dots at p. */
static size_t word_at(const char *p, const char *end)
{
	size_t n = 0;

	while (p + n < end && is_part_of_name(p[n]))
		n++;
	return n;
}

static bool begins(const char *p, size_t n, const char *with)
{
	return n >= strlen(with) && !memcmp(p, with, strlen(with));
}

/* Whether an instruction, "atom.acquire.sys.global.add.u32", says so among its modifiers. */
static bool is_of_system(const char *p, size_t n)
{
	static const char scope[] = ".sys";
	const char *at = memmem(p, n, scope, strlen(scope));
	size_t left = at ? n - (size_t)(at - p) - strlen(scope) : 0;

	return at && (!left || at[strlen(scope)] == '.') &&
	       (begins(p, n, "atom.") || begins(p, n, "red."));
}

static bool has_in_text(const char *text, size_t len)
{
	const char *end = text + len;

	for (const char *p = text; p < end; p++) {
		size_t n = word_at(p, end);

		if (n && is_of_system(p, n))
			return true;
		p += n;
	}
	return false;
}

/* Takes from *room what the part's code has. */
static bool has_in_part(const struct image_part *part, unsigned sm, size_t *room)
{
	_cleanup_free_ char *code = NULL;
	size_t len = 0;
	int r = fatbin_elf(part->data, part->size, sm, &code, &len);
	bool text = r == -ENOEXEC, has;

	if (text)
		r = fatbin_ptx(part->data, part->size, sm, &code, &len);
	if (r < 0)
		return false;
	has = text ? has_in_text(code, len) : cubin_has_system_atomics(code, len, sm);
	*room -= MIN(len, *room);
	return has;
}

bool atomics_of_system(const void *image, size_t size, unsigned sm)
{
	size_t pos = 0, room = LOOKED_THROUGH_MAX;
	struct image_part part;

	while (room && image_next(image, size, &pos, &part) > 0) {
		if (has_in_part(&part, sm, &room))
			return true;
	}
	return false;
}
