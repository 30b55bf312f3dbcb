/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "device/atomics.h"
#include "device/cubin.h"
#include "device/image.h"
#include "ptx/fatbin.h"

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

bool atomics_in_text(const char *text, size_t len)
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

static bool in_part(const struct image_part *part, unsigned sm)
{
	_cleanup_free_ char *code = NULL;
	size_t len;
	int r = fatbin_elf(part->data, part->size, sm, &code, &len);

	if (r == 0)
		return cubin_has_system_atomics(code, len, sm);
	return r == -ENOEXEC &&
	       fatbin_ptx(part->data, part->size, sm, &code, &len) == 0 &&
	       atomics_in_text(code, len);
}

bool atomics_of_system(const void *image, size_t size, unsigned sm)
{
	struct image_part part;
	size_t pos = 0;

	while (image_next(image, size, &pos, &part) > 0) {
		if (in_part(&part, sm))
			return true;
	}
	return false;
}
