/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/size.h"

static int unit_shift(const char *s, unsigned *ret_shift)
{
	static const char units[] = "KMGT";
	const char *u = *s ? strchr(units, toupper((unsigned char)*s)) : NULL;

	*ret_shift = u ? 10 * (unsigned)(u - units + 1) : 0;
	if (u)
		s++;
	if (u && *s == 'i')
		s++;
	if (*s == 'B')
		s++;
	return *s ? -EINVAL : 0;
}

/* Part of a unit in bytes, rounded down; digits that matter to no byte are left out. */
static uint64_t part_of(const char *digits, unsigned shift)
{
	uint64_t n = 0, of = 1;

	for (unsigned i = 0; i < 6 && isdigit((unsigned char)digits[i]); i++) {
		n = n * 10 + (uint64_t)(digits[i] - '0');
		of *= 10;
	}
	return (uint64_t)((__uint128_t)n * (1ull << shift) / of);
}

int size_parse(const char *text, uint64_t *ret_bytes)
{
	unsigned long long n;
	char *end, *point;
	unsigned shift;

	if (!strcmp(text, "max")) {
		*ret_bytes = UINT64_MAX;
		return 0;
	}
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	point = *end == '.' ? end : NULL;
	if (point)
		end += 1 + strspn(end + 1, "0123456789");
	if (unit_shift(end, &shift) < 0 || (point && (!shift || end == point + 1)))
		return -EINVAL;
	if (shift && n >> (64 - shift))
		return -ERANGE;
	*ret_bytes = ((uint64_t)n << shift) + (point ? part_of(point + 1, shift) : 0);
	return 0;
}

char *size_format(uint64_t bytes, char *buf, size_t room)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	unsigned u = 0;
	double v = (double)bytes;

	if (bytes == UINT64_MAX) {
		snprintf(buf, room, "max");
		return buf;
	}
	while (v >= 1024 && u + 1 < sizeof(units) / sizeof(units[0])) {
		v /= 1024;
		u++;
	}
	snprintf(buf, room, v == (double)(uint64_t)v ? "%.0f %s" : "%.1f %s", v,
		 units[u]);
	return buf;
}
